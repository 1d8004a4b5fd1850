//! A64 instructions on the simulated machine: what they are, what machine code says, what they do.
//!
//! ```text
//! assembly text (litmus) ──┐
//!                          ├──▶ Instruction ──▶ State: cores and the machine
//! machine code ──decode────┘
//! ```
//!
//! What is known here is what page tables, TLBs and the few instructions around their changes need, not all of A64.
#![forbid(unsafe_code)]

pub mod decode;
pub mod instruction;
pub mod interpreter;
pub mod registers;
