//! The may-TLB: every entry that could be cached. What walkers can reach now (`reach`, and `beneath` a stage 2) is computed
//! when asked; what they no longer can but may have kept (`stale`) is stored. What was computed is `remembered` while it
//! holds. The other view of the TLBs, `crate::concrete`, is one seeded choice, and every entry of it must be in this set.

pub(crate) mod beneath;
pub(crate) mod effort;
pub mod entry;
mod forget;
pub(crate) mod found;
pub(crate) mod freed;
pub mod holders;
mod index;
pub(crate) mod late;
mod leading;
pub mod may;
pub(crate) mod passed;
pub(crate) mod pieces;
pub(crate) mod places;
pub(crate) mod question;
pub(crate) mod reach;
pub(crate) mod remembered;
mod sizes;
pub mod space;
pub(crate) mod spans;
mod stage2;
pub mod stale;
mod sweeps;
pub(crate) mod update;
pub(crate) mod visible;
