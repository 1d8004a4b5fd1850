//! x
use crate::outcome::*;
use std::ffi::OsString;
pub(crate) fn main(_: &[OsString]) -> Result<Status, Failure> {
    Ok(Status::Passed)
}
