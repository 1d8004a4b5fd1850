//! Reads a machine's memory and registers from outside, and walks its page tables.
//!
//! It decodes with `vmsa`'s tables and a geometry known only at run time, and never asks the kernel that it looks at.
#![forbid(unsafe_code)]

mod error;
mod file;
pub mod interrupt;
mod memory;
mod root;
mod shape;
mod walk;

pub use error::Error;
pub use file::{FileMemory, Piece};
pub use memory::{Memory, ReadError};
pub use root::{Origin, Regime, Root};
pub use shape::{Shape, ShapeError, Stage};
pub use walk::{Obstacle, Span, Table, Visitor, walk};
