//! An arm64 kernel's linear map: all memory, mapped once by the largest leaves, protected page by page.
//!
//! ```text
//! set_memory_ro ──▶ Wanted, ranges ──▶ plan: refused, or tables in hand ──▶ licence ──▶ apply ──▶ gather
//!                                           ▲                                  ▲            └─ later: heal
//!                          Reserve, Pages ──┘         Standing, Calls ─────────┘
//! ```
//! [`vellum_pagetable`] decides how a leaf splits, changes and folds; this crate decides what, when, and by which licence. A
//! kernel brings its lock, its pages and its calls to other CPUs ([`Embedder`]). There is no I/O, no static, no `unsafe`.
#![no_std]
#![forbid(unsafe_code)]
extern crate vellum_pagetable as pagetable;
extern crate vellum_vmsa as vmsa;

mod changing;
mod coming;
mod counters;
mod embedder;
mod healing;
mod levels;
mod map;
mod mending;
mod painting;
mod refused;
mod reserve;
mod resized;
mod shape;
mod standing;
mod state;
mod supply;
mod wanted;

pub use counters::{Counters, Operations};
pub use embedder::{Calls, Embedder, Lock, Pages};
pub use levels::Levels;
pub use map::LinearMap;
pub use painting::{Region, paint};
pub use refused::{NotParked, Refused};
pub use reserve::CHANGES_IN_RESERVE;
pub use shape::{Leaves, Map};
pub use standing::{Cpu, Stage, Standing};
pub use state::State;
pub use wanted::{Context, Wanted};

/// The examples of the README are run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
