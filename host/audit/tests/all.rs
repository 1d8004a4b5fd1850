//! All tests of this crate are one program, so that what they share is compiled once.

mod auditor;
mod frames;
mod instructions;
mod locks;
mod visible;
