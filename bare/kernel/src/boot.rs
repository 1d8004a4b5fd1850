//! Boot: from the entry code to the verdict.

mod early;
mod high;
mod identity;
mod kernel_map;
mod realm;

pub(crate) use early::main;
pub(crate) use identity::build_identity_map;
