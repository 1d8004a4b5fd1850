//! All tests of this crate but `scale` are one program, so that what they share is compiled once.

#[macro_use]
mod common;

mod announced;
mod boot;
mod coming;
mod costs;
mod elsewhere;
mod extremes;
mod healing;
mod meanwhile;
mod model;
mod patience;
mod refusals;
mod widths;
mod wishes;
