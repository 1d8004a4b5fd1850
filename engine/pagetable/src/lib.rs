//! An arm64 page-table engine: plan, then apply.
//!
//! A [`PageTable`] edits the tables of one regime through a [`Platform`] of four operations. A list of [`Change`]s is
//! checked whole before the first store ([`PageTable::plan`]), and is then applied with tables from a [`Reserve`]
//! ([`Plan::apply`]): nothing but too few tables can be in its way, and then nothing has changed either. What TLBs must
//! forget goes into a [`Gather`], which alone yields the tables that came free. The regimes are EL1&0 ([`El1`]), EL2 ([`El2`]),
//! EL2&0 ([`El2And0`]) and stage 2 ([`Stage2`]). Many CPUs edit one page table by [`Part`]s. A [`View`] reads beside all this,
//! without a lock.
//!
//! The engine does no I/O, has no statics, no assembly and no `unsafe`. The feature `alloc` adds what needs an allocator:
//! `Rehearsal` and `Memory`.
#![cfg_attr(feature = "alloc", doc = include_str!("../docs/tour.md"))]
#![no_std]
#![forbid(unsafe_code)]
#[cfg(feature = "alloc")]
extern crate alloc;
/// The words of the architecture that the signatures here use.
pub extern crate vellum_vmsa as vmsa;

mod alike;
mod backlog;
mod change;
mod changes;
mod copier;
mod copying;
mod counted;
mod fill;
mod gather;
mod invalidation;
mod licence;
#[cfg(feature = "alloc")]
mod memory;
mod moving;
mod one_group;
mod one_page;
mod part;
mod pieces;
mod plan;
mod platform;
mod regime;
#[cfg(feature = "alloc")]
mod rehearsal;
mod step;
mod summary;
mod table;
mod tables;
pub mod trace;
mod view;
mod walk;

pub use change::{Change, Refusal};
pub use copying::{CopyEdit, CopyPlan};
pub use gather::Gather;
pub use invalidation::TlbFeatures;
pub use licence::{Census, Licence, Tolerance};
#[cfg(feature = "alloc")]
pub use memory::Memory;
pub use part::Part;
pub use plan::Plan;
pub use platform::{Platform, Slot};
pub use regime::{Attributes, El1, El2, El2And0, HardwareUpdates, Regime, Scope, Stage2};
#[cfg(feature = "alloc")]
pub use rehearsal::Rehearsal;
pub use step::Step;
pub use summary::Summary;
pub use table::{PageTable, Root};
pub use tables::{Reserve, Retired};
pub use trace::Traced;
pub use view::{Entry, Hole, Lookup, Translation, View};

/// The examples of the README are run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
