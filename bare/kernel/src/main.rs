//! The Vellum reference kernel: boots at the page size it is asked for, maps all memory with the largest leaves, shows
//! it, and proves its protections.
//!
//! ```text
//! entry (assembly) ─> boot::identity ─> boot::early ─> boot::high ─> checks ─> report::finish
//!                     MMU off           identity map   high half
//! ```
//! `early` runs at physical addresses. It leaves a `Handover` of plain values, because no address survives the way from there
//! to the high half.
#![no_std]
#![no_main]

extern crate alloc;

mod boot;
mod checks;
mod clock;
mod console;
mod cpus;
mod errno;
mod facts;
mod fallible;
mod files;
mod handover;
mod locks;
mod measure;
mod memory;
mod process;
mod procfs;
mod report;
mod stress;
mod threads;

hardware::entry_points! {
    build_identity_map: boot::build_identity_map,
    identity_main: boot::main,
    handle_interrupt: cpus::interrupts::handle,
    report_exception: report::fault::report,
}
