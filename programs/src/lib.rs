//! What the programs share: calls by their numbers, memory by addresses, children, and lines that tell what came of each.
//!
//! ```text
//! a program ──call──▶ the kernel ──▶ a value or an error ──tell──▶ one line
//! ```
//! A program's lines must be the same on every kernel that keeps Linux's rules: no addresses, no numbers of processes, no times.

pub mod bounds;
pub mod child;
pub mod errno;
pub mod halves;
pub mod hostile;
pub mod machine;
pub mod memory;
pub mod model;
pub mod proc;
pub mod race;
pub mod timers;
pub mod vectors;

pub use child::{child, faults, in_child};
pub use errno::{Answer, Errno};
pub use machine::{call, page, peek, poke, touch};
pub use memory::{map, tell, tell_at};
pub use race::{race, rounds, tell_race};
