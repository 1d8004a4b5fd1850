//! Memory: where everything is, who has which page, and the page tables that say so.

pub(crate) mod devices;
pub(crate) mod kernel_table;
pub(crate) mod layout;
pub(crate) mod pages;
pub(crate) mod tables;
