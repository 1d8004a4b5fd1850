//! The kernel's algorithms, apart from any machine, so that they test on a host.
//!
//! What boot hears and decides with flows downwards:
//!
//! ```text
//! device tree blob ──> devicetree ──> MachineDescription ──> memory_map ──> early ──> buddy
//!                           └─ bootargs ──> command_line ──> Options ──> choice ──> linear
//!                  every problem on the way is a Finding
//! ```
//!
//! What a kernel that is a `realm` asks of the RMM, and how far it believes the answer; how memory changes hands (`handing`), and the
//! `pool` of pages that it shares; a `ring` is in one of them. How CPUs wait for one of them that changes the tables: `parking`.
//! How many have which page, folios as one: `counts`.
//! The order of locks: `lock_order`.
//! What a program is begun from: `arguments` of the command line, files of a `cpio` archive, one of them a `program` (ELF); how processes stand with `stops`, and the `countdown` of a timer.
//!
//! No allocator, no `unsafe`, no statics. The large values are made in place: see each one's documentation for its size.
//! Built for release, the deepest of all, `devicetree::read` and `Buddy::new`, take 4.5 KiB of stack.
#![no_std]
#![forbid(unsafe_code)]

pub mod arguments;
pub mod buddy;
pub mod choice;
pub mod command_line;
pub mod countdown;
pub mod counts;
pub mod cpio;
pub mod devicetree;
pub mod early;
pub mod finding;
pub mod handing;
pub mod json;
pub mod linear;
pub mod list;
pub mod lock_order;
pub mod memory_map;
pub mod module;
pub mod monitor;
pub mod parking;
pub mod pool;
pub mod program;
pub mod range;
pub mod realm;
pub mod ring;
mod severity;
pub mod stops;
pub mod text;
