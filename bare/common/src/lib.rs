//! What the kernel and the monitor do alike, each at its own exception level: find the device tree, supply tables, print, end
//! the machine.
#![no_std]

pub mod console;
pub mod ending;
pub mod supply;
pub mod tree;
