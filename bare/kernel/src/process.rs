//! Programs: unmodified static Linux programs at EL0, one kernel thread for each of theirs.
//!
//! ```text
//! exec ──▶ run ──EL0──▶ exception ──┬─ SVC    ──▶ calls: one file for each family
//!           ▲                       ├─ abort  ──▶ the address space, or a signal
//!           │                       └─ IRQ    ──▶ taken as soon as it is open; perhaps another's turn
//!           └── signals, end, the others' turn ◀──────┘
//! ```

mod alarm;
pub(crate) mod alarms;
mod atomics;
pub(crate) mod calls;
pub(crate) mod copies;
pub(crate) mod end;
pub(crate) mod exec;
pub(crate) mod family;
pub(crate) mod first;
pub(crate) mod futex;
pub(crate) mod image;
mod last;
mod life;
mod members;
pub(crate) mod numbers;
mod owner;
pub(crate) mod ownership;
mod pressure;
pub(crate) mod queued;
pub(crate) mod resources;
pub(crate) mod rseq;
pub(crate) mod run;
pub(crate) mod sending;
mod sequences;
pub(crate) mod signal_frame;
mod signal_records;
pub(crate) mod signals;
pub(crate) mod space;
pub(crate) mod stacks;
pub(crate) mod table;
pub(crate) mod task;
pub(crate) mod users;
pub(crate) mod wishes;
