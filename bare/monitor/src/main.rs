//! The Vellum monitor: runs at EL2 beneath a kernel that it did not write, and gives it a machine that does not exist yet.
//!
//! ```text
//! entry (assembly) ─> boot::build_map ─> boot::main ─> guest at EL1 ─> exits::handle ─> guest …
//!                     MMU off            MMU on             │
//!                                                           └─ CPU_ON ─> cpus::secondary ─> guest
//! ```
//! It stays at its physical address. Once the guest runs, its map has nothing of the guest's memory, but for the pages that
//! a realm asks about while it is answered, and a ring while it is read, and the guest's stage 2 has nothing of the monitor's: [`memory`] has the one
//! list that both follow.
#![no_std]
#![no_main]

mod abort;
mod boot;
mod calls;
mod conflicts;
mod console;
mod cpus;
mod exits;
mod finish;
mod guest;
mod map;
mod memory;
mod problem;
mod realm;
mod registers;
mod ring;
mod stage2;
mod tables;

hardware::monitor_entry_points! {
    build_map: boot::build_map,
    main: boot::main,
    secondary: cpus::secondary,
    handle_exit: exits::handle,
    report_own: finish::report_own_exception,
}
