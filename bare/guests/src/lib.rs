//! What our own guests of the monitor's share: a console, random numbers, RSI, and how they begin and end.
#![no_std]

pub mod console;
pub mod machine;
pub mod random;
pub mod rsi;
