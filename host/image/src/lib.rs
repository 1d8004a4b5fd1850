//! Reads a machine's memory and registers from outside, and walks its page tables.
//!
//! It decodes with `vmsa`'s tables and a geometry known only at run time, and never asks the kernel that it looks at.
#![forbid(unsafe_code)]

mod contents;
mod core;
mod elf;
mod endpoint;
mod error;
mod file;
pub mod fuzz;
mod gdb;
pub mod interrupt;
mod kdump;
mod machine;
mod memory;
mod mtree;
mod nested;
mod peer;
mod qmp;
mod registers;
mod root;
mod search;
mod shape;
mod source;
mod translate;
mod vmcoreinfo;
mod walk;

pub use endpoint::Endpoint;
pub use error::Error;
pub use file::FileMemory;
pub use machine::Machine;
pub use memory::{Memory, ReadError};
pub use registers::{NAMES as REGISTER_NAMES, Registers, Roots, shape_of_half, shape_of_one_range, shape_of_stage2};
pub use root::{Origin, Regime, Root, Setting};
pub use shape::{Shape, ShapeError, Stage};
pub use source::{Ram, Source, count, number};
pub use translate::translate;
pub use vmcoreinfo::VmcoreInfo;
pub use walk::{Obstacle, Span, Table, Visitor, walk};
