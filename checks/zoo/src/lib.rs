//! The zoo: bugs that real kernels, hypervisors and firmware had, each beside its repair.
//!
//! ```text
//! animals/*.animal ──read──▶ Animal ──one version, one cell──▶ every order ──▶ traces ──Judge──▶ first finding
//!                              └─ engine: the same fault made in our engine ──▶ checks
//! ```
//! A *cell* is a BBM level and FEAT_ETS. In each the buggy version must be found by the rule and at the step that the file
//! states, and the fixed one must be silent. What is judged are traces, so each animal can be replayed by `vellum judge`.
#![forbid(unsafe_code)]

pub mod animal;
pub mod cell;
pub mod engine;
mod error;
pub mod expression;
pub mod orders;
pub mod page;
mod read;
pub mod verdict;

pub use error::Error;
