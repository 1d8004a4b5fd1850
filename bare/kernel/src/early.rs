//! Boot at physical addresses: the first identity map, what the machine is, what to choose, the kernel's own map.

mod identity;
mod kernel_map;
mod start;

pub(crate) use identity::build_identity_map;
pub(crate) use start::{conduit, main};
