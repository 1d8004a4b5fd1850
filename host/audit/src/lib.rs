//! A plugin of QEMU's that shows a guest's stores, barriers and TLBIs to the simulated machine, whose rules judge them.
//!
//! ```text
//! QEMU ──interface──▶ plugin ──instruction──▶ Auditor ──▶ Machine ──▶ findings ──report──▶ vellum audit
//!                        ├─ frames: is a table there? (every store)
//!                        ├─ fresh: may a walk miss what maps it? (every access)
//!                        └─ locks: who has seen what who took away or mapped? (every exchange, store-release and load-acquire)
//! ```

pub mod auditor;
mod cpu;
pub mod frames;
pub mod frees;
pub mod fresh;
mod halt;
pub mod instruction;
mod interface;
pub mod locks;
mod options;
mod plugin;
pub mod record;
pub mod registers;
pub mod report;
mod state;
