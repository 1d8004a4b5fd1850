//! What the kernel says, and how it ends.

pub(crate) mod conflicts;
pub(crate) mod counters;
pub(crate) mod fault;
pub(crate) mod finish;
pub(crate) mod json;
pub(crate) mod outcome;
pub(crate) mod ring;
pub(crate) mod sections;
pub(crate) mod times;
