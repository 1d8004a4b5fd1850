//! `cargo xtask compare`: another kernel and ours, beside each other.

pub(crate) mod count;
mod linux;
pub(crate) mod watched;

use std::ffi::OsString;

use crate::outcome::{Failure, Status};

/// Entry of `cargo xtask compare`.
pub(crate) fn main(arguments: &[OsString]) -> Result<Status, Failure> {
    linux::main(arguments)
}
