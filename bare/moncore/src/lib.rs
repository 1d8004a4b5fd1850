//! What the monitor decides without a machine, so that it tests on a host.
//!
//! ```text
//! command line ──> options ──> identity: what each CPU's ID registers read as
//! SMC, HVC ──────> call: which function of whose interface, and what is answered to the rest
//! SMC ────────────> realm: what RSI answers, and what a realm's host does to a request
//! a TLBI, a resize > conflicts: whether TLB conflict aborts are to come, and where
//! every exit ────> counts ──> the report at the end
//! ```
//!
//! No allocator, no `unsafe`, no statics.
#![no_std]
#![forbid(unsafe_code)]

pub mod call;
pub mod conflicts;
pub mod counts;
pub mod identity;
pub mod options;
pub mod realm;
