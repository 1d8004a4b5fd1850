//! Mutants of logic: changes what the sources decide, and sees whether a test notices.
//!
//! ```text
//! sources ──finder──▶ sites ──copy──▶ one build ──run──▶ which test passes which site ──hunt──▶ verdicts ──▶ report
//! ```
#![forbid(unsafe_code)]

mod build;
mod changes;
pub mod command;
mod copy;
mod equivalents;
mod finder;
mod hunt;
mod mutants;
mod operators;
mod report;
mod run;
mod sites;
