//! Executes instructions on the simulated machine. What concerns registers alone is done at once; what the machine takes
//! part in is a step, and a step may end in several ways.

mod core;
mod memory;
mod order;
mod step;

pub use core::{Cause, Core, OnFault, Taken};
pub use memory::Access;
pub use step::{Next, State, par};
