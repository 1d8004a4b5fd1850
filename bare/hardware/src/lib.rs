//! Every instruction of the kernel and the monitor that is not Rust, and every register and device: boot, exceptions,
//! translation, caches.
//!
//! All `asm!` of the kernel and the monitor is here. This crate decides nothing: the kernel, which hands its functions
//! over with [`entry_points!`], and the monitor, which does with [`monitor_entry_points!`], say where to map, when to
//! print and when to stop. Each is a feature, with an entry of its own; what stands
//! outside them both use.
#![no_std]

#[cfg(feature = "kernel")]
pub mod access;
mod assembly;
pub mod cache;
pub mod hypercall;
pub mod image;
pub mod interrupts;
pub mod lock;
pub mod maintenance;
pub mod mmio;
pub mod pl011;
pub mod platform;
pub mod psci;
pub mod registers;
pub mod semihosting;
pub mod timer;

#[cfg(feature = "monitor")]
pub mod el2;
#[cfg(any(feature = "kernel", feature = "monitor"))]
mod kind;

#[cfg(feature = "guest")]
pub mod guest;

#[cfg(feature = "kernel")]
pub mod boot;
#[cfg(feature = "kernel")]
pub mod catch;
#[cfg(feature = "kernel")]
mod caught;
#[cfg(feature = "kernel")]
pub mod conflict;
#[cfg(feature = "kernel")]
pub mod exception;
#[cfg(feature = "kernel")]
mod frame;
#[cfg(feature = "kernel")]
pub mod gic;
#[cfg(feature = "kernel")]
pub mod masked;
#[cfg(feature = "kernel")]
pub mod parking;
#[cfg(feature = "kernel")]
pub mod per_cpu;
#[cfg(feature = "kernel")]
pub mod pmu;
#[cfg(feature = "kernel")]
pub mod probe;
#[cfg(feature = "kernel")]
pub mod secondary;
#[cfg(feature = "kernel")]
pub mod stack;
#[cfg(feature = "kernel")]
pub mod thread;
#[cfg(any(feature = "kernel", feature = "guest"))]
pub mod translation;
#[cfg(feature = "kernel")]
pub mod user;
