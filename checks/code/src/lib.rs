//! The kernel's own machine code on the simulated machine: the very words of its ELF file.
//!
//! ```text
//! ELF ──▶ Kernel ──▶ Lab (image, page tables of the engine) ──▶ Run: fetch ▶ decode ▶ execute ──▶ Finding
//!                                                     ▲
//!                           mutants: one word replaced┘
//! ```
#![forbid(unsafe_code)]

pub mod caches;
pub mod command;
pub mod finding;
pub mod kernel;
pub mod lab;
pub mod mutant;
pub mod pending;
pub mod pieces;
mod promise;
pub mod run;
pub mod shape;
pub mod suite;
pub mod survivors;
