//! The texts of `--help`, and how options are read.

use std::ffi::OsString;

use clap::Parser;

use crate::{
    outcome::{Failure, Status},
    terminal,
};

pub(crate) const OVERVIEW: &str = include_str!("help/overview.txt");
pub(crate) const RUN: &str = include_str!("help/run.txt");
pub(crate) const TEST: &str = include_str!("help/test.txt");
pub(crate) const TIDY: &str = include_str!("help/tidy.txt");
pub(crate) const API: &str = include_str!("help/api.txt");
pub(crate) const FETCH: &str = include_str!("help/fetch.txt");
pub(crate) const AUDIT: &str = include_str!("help/audit.txt");
pub(crate) const COMPARE: &str = include_str!("help/compare.txt");
pub(crate) const BENCH_KERNEL: &str = include_str!("help/bench_kernel.txt");
pub(crate) const BENCH_TLBIS: &str = include_str!("help/bench_tlbis.txt");
pub(crate) const DEMO: &str = include_str!("help/demo.txt");
pub(crate) const DIST: &str = include_str!("help/dist.txt");

/// Prints a help text.
pub(crate) fn show(text: &str) -> Status {
    terminal::print(text);
    Status::Passed
}

/// Of a command that has none.
#[derive(Parser)]
#[command(no_binary_name = true, disable_version_flag = true)]
pub(crate) struct NoOptions {}

/// Reads the arguments that follow `command`; none if help was asked for. What makes no sense is one line: clap's first
/// paragraph.
pub(crate) fn options<O: Parser>(command: &str, arguments: &[OsString]) -> Result<Option<O>, Failure> {
    match O::try_parse_from(arguments) {
        Ok(options) => Ok(Some(options)),
        Err(error) if !error.use_stderr() => Ok(None),
        Err(error) => {
            let text = error.to_string();
            let lines: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
            let line = lines.join(" ").replacen("error: ", "", 1);
            Err(Failure::bad_input(format!("{line} (see cargo xtask {command} --help)")))
        }
    }
}
