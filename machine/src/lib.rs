//! A simulated arm64 machine that does whatever the architecture allows, and the rules that catch who relied on less.
//!
//! Its two views of the TLBs must agree: `tlb::may` is the set of everything that could be cached, `concrete` one
//! seeded choice from it. `rules` compares what a store makes reachable with what may still be cached.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod attributes;
pub mod barrier;
pub mod concrete;
pub mod context;
mod descriptor;
pub mod event;
pub mod finding;
pub mod geometry;
pub mod machine;
pub mod memory;
pub mod registers;
pub mod rules;
pub mod syndrome;
pub mod tlb;
pub mod tlbi;
pub mod trace;
pub mod walker;

pub use ::seed;
pub use descriptor::Hierarchy;
