//! The monitor's half of this crate: EL2's entry, its vectors, its translation, and what of EL1 it sets.
//!
//! ```text
//! entry (assembly) ─> build_monitor_map ─> monitor_main ─> guest::enter ─> EL1 ─exit─> handle_exit ─> EL1 …
//!                     MMU off              MMU on          never returns   vectors
//! ```

pub mod boot;
pub mod exit;
pub mod guest;
pub mod identification;
pub mod probe;
pub mod secondary;
pub mod stack;
