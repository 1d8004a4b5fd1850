//! The rules V1 to V12 and the lint. Each asks the may-TLB one question at the event that could break it.
//!
//!  `overlap`      V1, V2, V6, V11: what a store or a new context makes reachable, against what may still be cached
//!  `combined`     the same for what stage 1 made of a stage 2 that was changed
//!  `live`         V5, V8, V9: stores to live descriptors
//!  `maintenance`  V7, V10 and the lint: TLBIs and barriers
//!  `explain`      which step is missing; V12
//! V3 and V4 are asked by the program, in `machine::ownership`.

mod combined;
mod explain;
mod live;
mod maintenance;
mod overlap;

pub use overlap::compatible;
