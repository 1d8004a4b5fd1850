//! The arguments of `vellum judge`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Args, Debug)]
pub(crate) struct JudgeArguments {
    /// A file with one line for each event; `-`, or none, is standard input
    pub(crate) trace: Option<String>,
    /// Every finding, not only the first
    #[arg(long)]
    pub(crate) all: bool,
    /// Also barriers and TLBIs that were not needed; they do not change the exit status
    #[arg(long)]
    pub(crate) lint: bool,
    /// Also memory that is freed while a live descriptor still maps it
    #[arg(long)]
    pub(crate) strict: bool,
    /// Read on as the file grows, until a rule is broken, or with --all for ever
    #[arg(long, requires = "trace")]
    pub(crate) follow: bool,
    /// Also write a trace that breaks the same rule at the same line, and of whose other lines none can go
    #[arg(long, value_name = "FILE", requires = "trace", conflicts_with = "follow")]
    pub(crate) smaller: Option<PathBuf>,
    /// One JSON record a line, for each finding
    #[arg(long)]
    pub(crate) json: bool,
    /// What the file holds; by its first line, unless told
    #[arg(long, value_enum)]
    pub(crate) format: Option<TraceFormat>,
    /// What the ID registers of every CPU say, where the log is casemate's: bbm, hafdbs, ets, tlb, ttl, xs, parange, …
    #[arg(long, value_name = "FIELD=VALUE…", help_heading = "Only with logs of casemate")]
    pub(crate) cpu: Option<String>,
    /// What tcr_el2, vtcr_el2, mair_el2, sctlr_el2 or hcr_el2 holds, whatever the log writes; may be repeated
    #[arg(long, value_name = "NAME=VALUE", help_heading = "Only with logs of casemate")]
    pub(crate) register: Vec<String>,
    /// Print the C header that writes traces, and do nothing else
    #[arg(long, exclusive = true)]
    pub(crate) header: bool,
}

/// Whose words a trace is written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum TraceFormat {
    /// docs/trace-format.md
    Vellum,
    /// casemate's S-expressions
    Casemate,
}
