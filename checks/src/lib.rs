//! The engine on the simulated machine.
