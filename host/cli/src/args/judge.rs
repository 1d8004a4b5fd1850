//! The arguments of `vellum judge`.

use std::path::PathBuf;

use clap::Args;

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
    /// Print the C header that writes traces, and do nothing else
    #[arg(long, exclusive = true)]
    pub(crate) header: bool,
}
