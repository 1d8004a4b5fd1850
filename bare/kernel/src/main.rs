//! The Vellum reference kernel: boots at the page size it is asked for, maps all memory with the largest leaves, shows
//! it, and proves its protections.
//!
//! ```text
//! entry (assembly) ─> early::build_identity_map ─> early::main ─> high::main ─> checks ─> finish
//!                     MMU off                      identity map   high half
//! ```
//! `early` runs at physical addresses. It leaves a [`handover::Handover`] of plain values, because no address survives
//! the way from there to the high half.
#![no_std]
#![no_main]

mod calls;
mod checks;
mod console;
mod cpus;
mod devices;
mod early;
mod fault;
mod finish;
mod handover;
mod high;
mod kernel_table;
mod layout;
mod memory;
mod report;
mod stacks;
mod tables;
mod times;

hardware::entry_points! {
    build_identity_map: early::build_identity_map,
    identity_main: early::main,
    handle_interrupt: calls::handle_interrupt,
    report_exception: fault::report,
}
