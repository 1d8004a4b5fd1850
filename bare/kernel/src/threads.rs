//! Threads of the kernel: each has a stack of its own, runs on any CPU, and gives it up of its own accord or, at EL0, when its time is
//! over.
//!
//! ```text
//! dispatcher (each CPU's own stack) ── switch ──▶ thread ── yields, parks, ends ── switch ──▶ dispatcher: what becomes of it, who is next
//! ```
//! What becomes of a thread is decided when it has left its stack, so that no other CPU goes on with one that still runs.

pub(crate) mod dispatcher;
pub(crate) mod mutex;
pub(crate) mod parted;
pub(crate) mod queue;
mod ready;
pub(crate) mod thread;
mod turn;
pub(crate) mod waiters;
