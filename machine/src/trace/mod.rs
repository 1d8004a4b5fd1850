//! Traces: what the CPUs of somebody else's machine did, line by line, and the rules' verdict on it.
//!
//! ```text
//! text ──Trace::read──▶ Trace ──Judge::step──▶ Machine ──▶ Finding ──Judge::story──▶ words
//!            (line)               (replay)
//! Act ──Display──▶ text
//! ```
//! `docs/trace-format.md` is the reference of the format. Nothing a trace holds makes this panic: what makes no sense is
//! [`Malformed`], with its line.

mod judge;
mod line;
mod names;
mod story;
mod text;
mod write;

pub use judge::Judge;
pub use line::{Act, HEAD, set_features};
pub use names::REGISTERS;
pub use story::Story;
pub use text::{Line, MOST_CPUS, Malformed, Told, Trace};
