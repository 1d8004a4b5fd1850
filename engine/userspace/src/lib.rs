//! User address spaces for an arm64 kernel, as Linux's programs expect them.
//!
//! ```text
//! mmap, mprotect … ──▶ Areas: what was promised ──▶ tables, by the engine ──▶ TLBs forget ──▶ frames are released
//! a fault ──▶ look (its part locked) ──▶ make: zero, copy, read a file (not locked) ──▶ place (its part locked)
//! a CPU runs it ──▶ Asids ──▶ an ASID, and whether the CPU forgets all it knows first
//! ```
//! [`vellum_pagetable`] decides how tables change; this crate decides what, and when. A kernel brings frames, files and a lock
//! ([`Embedder`]). There is no I/O, no static, no `unsafe`.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
extern crate vellum_pagetable as pagetable;
extern crate vellum_vmsa as vmsa;

mod access;
mod advice;
mod area;
mod areas;
mod around;
mod asids;
mod atomic;
mod calls;
mod context;
mod current;
mod embedder;
mod error;
mod fault;
mod first_touch;
mod folding;
mod folio;
mod forking;
mod growing;
mod limits;
mod locking;
mod looking;
mod map;
mod mapping;
mod parts;
mod protecting;
mod remapping;
mod removing;
mod resident;
mod shape;
mod space;
mod state;
mod text;
mod usage;

pub use access::{Access, Kind};
pub use advice::Advice;
pub use area::{Area, AreaFlags, Backing, Rights};
pub use asids::{Asids, Numbers};
pub use atomic::is_atomic;
pub use context::Context;
pub use embedder::{Embedder, File, FileError, Frames, Lock, PARTS};
pub use error::{Error, Fault};
pub use limits::{Limits, Usage};
pub use locking::Locking;
pub use looking::Page;
pub use map::{Down, Iter, Map, NoMemory};
pub use mapping::{Place, Request, Source};
pub use remapping::Move;
pub use shape::Shape;
pub use space::AddressSpace;
pub use state::State;
pub use text::Text;

/// The examples of the README are run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
