//! The engine on the simulated machine: workloads, the explorer of their interleavings, mutants.
//!
//! ```text
//! workloads ─▶ Scenario ─▶ Prepared ─▶ Run ◀── explore: exhaustive, random, replay ──▶ Failure ─▶ shrink ─▶ story
//!               (data)                  │
//!                       engine on cpu.rs (Platform) ─▶ machine
//! ```
//! `cpu.rs` is the only place here where the engine and the machine meet; `linear.rs` is a kernel that has a linear map there.
#![forbid(unsafe_code)]

pub mod asking;
pub mod calling;
pub mod check;
pub mod command;
pub mod content;
pub mod cpu;
mod edited;
pub mod equivalents;
pub mod explore;
pub mod failure;
mod hardware;
pub mod host;
pub mod ledger;
pub mod levels;
pub mod linear;
pub mod mutants;
pub mod mutation;
pub mod omission;
pub mod parallel;
pub mod parameters;
mod parked;
mod peek;
pub mod prepare;
pub mod program;
mod registers;
pub mod request;
pub mod run;
pub mod scenario;
pub mod schedule;
pub mod setting;
pub mod sharing;
pub mod shrink;
pub mod spaces;
mod stock;
pub mod story;
pub mod suite;
mod text;
mod thread;
pub mod workloads;

/// Refuses a build in which a panic ends the program: mutated code is abandoned half-way, by unwinding.
///
/// # Errors
/// What to build instead.
pub const fn require_unwinding() -> Result<(), &'static str> {
    unwinding(cfg!(panic = "unwind"))
}

const fn unwinding(is_there: bool) -> Result<(), &'static str> {
    if is_there {
        return Ok(());
    }
    Err(
        "this build ends at the first panic, and mutated code panics: run `cargo xtask check`, which builds with --profile checks",
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_build_that_cannot_unwind_says_so() {
        assert_eq!(super::unwinding(true), Ok(()));
        let refusal = super::unwinding(false).expect_err("refused");
        assert!(
            refusal.contains("ends at the first panic") && refusal.contains("run `cargo xtask check`"),
            "{refusal}"
        );
    }
}
