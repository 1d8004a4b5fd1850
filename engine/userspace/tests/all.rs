//! All tests of this crate but `atomics` are one program, so that what they share is compiled once.

#[macro_use]
mod common;

mod areas;
mod around;
mod asids;
mod bounds;
mod calls;
mod copied_folios;
mod extremes;
mod faults;
mod fetches;
mod folding;
mod folios;
mod growing;
mod lazy;
mod least;
mod locking;
mod looking;
mod map;
mod meanwhile;
mod model;
mod moving;
mod once_shared;
mod orders;
mod parts;
mod recorded;
mod recorded_folds;
mod rights;
mod room;
mod strays;
mod tables;
mod threads;
mod turns;
mod usage;
mod widths;
mod zeros;
