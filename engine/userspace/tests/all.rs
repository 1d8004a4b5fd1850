//! All tests of this crate but `atomics` are one program, so that what they share is compiled once.

#[macro_use]
mod common;

mod areas;
mod asids;
mod calls;
mod copied_folios;
mod faults;
mod fetches;
mod folios;
mod meanwhile;
mod model;
mod once_shared;
mod parts;
mod recorded;
mod room;
mod threads;
mod zeros;
