//! The zoo: bugs that real kernels, hypervisors and firmware had, each beside its repair.
//!
//! ```text
//! cases/*.case ──read──▶ Case ──one version, one configuration──▶ every order ──▶ traces ──Judge──▶ first finding
//!                              └─ engine: the same fault made in our engine ──▶ checks
//! ```
//! A *configuration* is a BBM level and FEAT_ETS. In each the buggy version must be found by the rule and at the step that
//! the file states, and the fixed one must be silent. What is judged are traces: `vellum judge` can repeat each case.
#![forbid(unsafe_code)]

pub mod case;
pub mod command;
pub mod configuration;
pub mod engine;
mod error;
pub mod expected;
pub mod expression;
pub mod folder;
pub mod misses;
pub mod orders;
pub mod page;
mod read;
pub mod verdict;

pub use error::Error;
