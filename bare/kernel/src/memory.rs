//! Memory: where everything is, who has which page, and the page tables that say so.

pub(crate) mod current;
pub(crate) mod devices;
pub(crate) mod embedding;
pub(crate) mod exchange;
pub(crate) mod executable;
pub(crate) mod folios;
pub(crate) mod frames;
pub(crate) mod handed;
pub(crate) mod heap;
pub(crate) mod hidden_pages;
pub(crate) mod kernel_table;
pub(crate) mod layout;
pub(crate) mod linear_map;
pub(crate) mod mapped;
pub(crate) mod modules;
pub(crate) mod pages;
pub(crate) mod poke;
pub(crate) mod programs;
pub(crate) mod reach;
pub(crate) mod readers;
mod record;
pub(crate) mod secret;
pub(crate) mod tables;
pub(crate) mod told;
pub(crate) mod vmalloc;
pub(crate) mod window;
