//! TLB maintenance, received as hardware receives it: the opcode of a SYS instruction and a 64-bit operand.
//! `opcode` says which instruction it is, `operand` what the 64 bits select. (DDI 0487, D8.17 and C5.5)

pub mod opcode;
pub mod operand;
pub mod select;

pub use opcode::{Opcode, Operation, Scope, What};
pub use operand::{Flaw, Invalidation};
pub use select::{Miss, Selector};
