//! Every instruction of the kernel that is not Rust, and every register and device: boot, exceptions, translation,
//! caches.
//!
//! This is the only crate with `asm!`, and nearly all of the workspace's `unsafe` is here. It decides nothing: what to
//! map, what to print and when to stop is the kernel's, which hands its functions over with [`entry_points!`].
#![no_std]

pub mod assembly;
pub mod boot;
pub mod cache;
pub mod catch;
pub mod exception;
pub mod gic;
pub mod image;
pub mod interrupts;
pub mod maintenance;
pub mod per_cpu;
pub mod pl011;
pub mod platform;
pub mod pmu;
pub mod probe;
pub mod psci;
pub mod registers;
pub mod secondary;
pub mod semihosting;
pub mod stack;
pub mod timer;
pub mod translation;
