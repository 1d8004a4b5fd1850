//! The peers: other crates that edit page tables, each behind the same few operations.

pub(crate) mod aarch64_paging;
pub(crate) mod page_table_generic;
pub(crate) mod page_table_multiarch;
pub(crate) mod x86_64;
