//! `cargo xtask compare`: another kernel and ours, beside each other.

pub(crate) mod count;
mod linux;
pub(crate) mod programs;
pub(crate) mod selftests;
pub(crate) mod watched;

use std::ffi::OsString;

use crate::outcome::{Failure, Status};

/// Entry of `cargo xtask compare`: programs or Linux's selftests on two kernels, or the maps of another kernel.
pub(crate) fn main(arguments: &[OsString]) -> Result<Status, Failure> {
    match arguments.split_first() {
        Some((what, rest)) if what == "programs" => programs::main(rest),
        Some((what, rest)) if what == "selftests" => selftests::main(rest),
        _ => linux::main(arguments),
    }
}
