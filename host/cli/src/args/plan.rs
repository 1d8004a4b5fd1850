//! The arguments of `vellum plan`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use linearmap::Leaves;
use vmsa::PageSize;

use super::AccessArguments;
use super::values::page_size;

#[derive(Args, Debug)]
pub(crate) struct PlanArguments {
    /// A size (256G), banks (START-END,…; with :ro what cannot be written), dtb:FILE, or a source as of dump
    #[arg(long, value_name = "MEMORY")]
    pub(crate) memory: String,
    #[command(flatten)]
    pub(crate) access: AccessArguments,
    /// Page sizes to compare
    #[arg(long, value_delimiter = ',', default_value = "4k,16k,64k", value_parser = page_size)]
    pub(crate) page_size: Vec<PageSize>,
    /// How large leaves may be
    #[arg(long, value_enum, value_delimiter = ',', default_value = "pages,blocks,largest")]
    pub(crate) policy: Vec<Policy>,
    /// Make so many pages read-only, wherever chance has them
    #[arg(long, value_name = "PAGES", default_value_t = 0)]
    pub(crate) protect: u64,
    /// So many of them side by side
    #[arg(long, value_name = "PAGES", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub(crate) cluster: u64,
    /// Then release them, and fold what is whole again
    #[arg(long)]
    pub(crate) heal: bool,
    /// Bits of virtual address of the kernel's half; those of the kernel where a source is read, else 48
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u32).range(36..=52))]
    pub(crate) va_bits: Option<u32>,
    /// Which pages chance takes
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// One JSON record a line, for each page size and policy
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page with plots instead
    #[arg(short, long, value_name = "FILE.html", conflicts_with = "json")]
    pub(crate) output: Option<PathBuf>,
}

impl PlanArguments {
    /// Of this memory, with nothing else asked for.
    pub(crate) fn of(memory: &str, bits: Option<u32>) -> Self {
        Self {
            memory: memory.to_owned(),
            access: AccessArguments::default(),
            page_size: Vec::new(),
            policy: Vec::new(),
            protect: 0,
            cluster: 1,
            heal: false,
            va_bits: bits,
            seed: 1,
            json: false,
            output: None,
        }
    }
}

/// How large the leaves of a linear map may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Policy {
    /// Pages
    Pages,
    /// Blocks, and no contiguous groups
    Blocks,
    /// The largest that there are, contiguous groups among them
    Largest,
}

impl Policy {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Pages => "pages",
            Self::Blocks => "blocks",
            Self::Largest => "largest",
        }
    }

    /// The same in the words of the linear map.
    pub(crate) const fn leaves(self) -> Leaves {
        match self {
            Self::Pages => Leaves::Pages,
            Self::Blocks => Leaves::Blocks,
            Self::Largest => Leaves::Largest,
        }
    }
}
