//! Published litmus tests of arm64 virtual memory, run on the simulated machine in every way that it allows.
//!
//! ```text
//! isla (.toml) ─┐
//! herd (.litmus)┼─▶ Test ──explore──▶ which final states are reached ──verdict──▶ as published, or not
//! archsem       ┘   code, tables, registers, condition
//! ```
//!
//! Only walks and TLBs are weak here: explicit accesses of one CPU are in program order. The readers are written by hand: with
//! a parser library (winnow, tried on isla's conditions) they are a fifth shorter, and no longer name what they refuse.
#![forbid(unsafe_code)]

pub mod assembly;
pub mod command;
pub mod condition;
pub mod error;
pub mod explore;
pub mod herd;
pub mod isla;
pub mod judge;
pub mod layout;
pub mod suite;
pub mod tables;
pub mod test;
pub mod verdicts;
mod words;
