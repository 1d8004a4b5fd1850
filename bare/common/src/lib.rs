//! What the kernel and the monitor do alike, each at its own exception level: find the device tree, supply tables, print, end
//! the machine.
#![no_std]

pub mod console;
pub mod ending;
pub mod supply;
pub mod tree;

/// TLB maintenance that suits CPUs of which nothing is known: no TLBI that one of them might lack, and every one repeated,
/// should one need it.
pub const ANY_CPU: pagetable::TlbFeatures = pagetable::TlbFeatures { range: false, level_hints: false, repeat: true };
