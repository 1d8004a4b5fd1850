//! What our own guests of the monitor's share: a console, RSI, and how they begin and end.
#![no_std]

pub mod console;
pub mod machine;
pub mod rsi;
