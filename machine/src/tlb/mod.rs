//! The may-TLB: every entry that could be cached. What walkers can reach now (`reach`, and `beneath` a stage 2) is computed
//! when asked and never stored; what they no longer can but may have kept (`stale`) is stored. The other view of the
//! TLBs, `crate::concrete`, is one seeded choice, and every entry of it must be in this set.

mod answers;
pub(crate) mod beneath;
pub mod entry;
pub mod holders;
pub(crate) mod index;
pub(crate) mod late;
pub mod may;
pub(crate) mod outputs;
pub(crate) mod passed;
mod paths;
pub(crate) mod pieces;
pub(crate) mod question;
pub(crate) mod reach;
mod sizes;
pub mod stale;
pub(crate) mod update;
pub(crate) mod visible;
