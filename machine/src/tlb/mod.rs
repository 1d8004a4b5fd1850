//! Two views of the TLBs. `may` knows every entry that could be cached: what walkers can reach now (`reach`, computed
//! when asked, never stored) and what they no longer can but may have kept (`stale`, stored).
//! `concrete` holds one seeded choice, and every entry of it must be in the first.

pub(crate) mod beneath;

pub mod entry;
pub mod holders;
pub(crate) mod index;
pub mod may;
pub(crate) mod reach;
pub mod stale;
pub(crate) mod update;
pub(crate) mod visible;
