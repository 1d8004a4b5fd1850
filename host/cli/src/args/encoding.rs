//! What `vellum decode` and `vellum encode` must know beside a value, and whose registers are given by hand.

use clap::{Args, ValueEnum};
use vmsa::{Layout, Level, PageSize};

use super::values::{level, mair, page_size};
use crate::permissions::PermissionArguments;

/// What a descriptor does not tell of itself.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct EncodingArguments {
    /// Level of the descriptor
    #[arg(long, default_value = "3", allow_negative_numbers = true, value_parser = level)]
    pub(crate) level: Level,
    /// Granule: 4k, 16k or 64k
    #[arg(long, default_value = "4k", value_parser = page_size)]
    pub(crate) granule: PageSize,
    /// 52-bit output addresses: LPA2 with 4k and 16k, LPA with 64k
    #[arg(long)]
    pub(crate) wide: bool,
    /// Whose descriptor it is; --stage 2 is short for stage2
    #[arg(long, alias = "stage", value_enum, default_value_t = Regime::El1)]
    pub(crate) regime: Regime,
    /// MAIR_EL1, to name memory types (without it, or with `linux`, Linux's order)
    #[arg(long, value_name = "VALUE", value_parser = mair)]
    pub(crate) mair: Option<u64>,
    /// HCR_EL2.FWB is set, which gives MemAttr of stage 2 another meaning
    #[arg(long)]
    pub(crate) fwb: bool,
    #[command(flatten)]
    pub(crate) permissions: PermissionArguments,
}

/// A translation regime: what the fields of its descriptors are called, and for whom they are.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Regime {
    /// EL1&0
    #[default]
    #[value(alias = "1", alias = "el1&0")]
    El1,
    /// EL2 with HCR_EL2.E2H = 0: one privilege
    El2,
    /// EL2&0: a host's, with HCR_EL2.E2H = 1
    #[value(name = "el2&0", alias = "el20")]
    Host,
    /// EL3: one privilege
    El3,
    /// Stage 2 of EL1&0
    #[value(alias = "2")]
    Stage2,
    /// EL1&0 in Secure state
    Secure,
}

impl Regime {
    /// Whether there is one privilege: XN is bit 54, and there is neither EL0 nor an ASID.
    pub(crate) const fn has_one_privilege(self) -> bool {
        matches!(self, Self::El2 | Self::El3)
    }

    /// The regime of a page table of it.
    pub(crate) const fn of_root(self) -> image::Regime {
        match self {
            Self::El1 | Self::Secure => image::Regime::El1Upper,
            Self::El2 => image::Regime::El2Lower,
            Self::Host => image::Regime::El2Upper,
            Self::El3 => image::Regime::El3,
            Self::Stage2 => image::Regime::Stage2,
        }
    }
}

impl EncodingArguments {
    /// How descriptors hold their output address.
    pub(crate) fn layout(&self) -> Layout {
        match (self.wide, self.granule) {
            (false, _) => Layout::Bits48,
            (true, PageSize::Size64K) => Layout::Lpa,
            (true, _) => Layout::Lpa2,
        }
    }
}
