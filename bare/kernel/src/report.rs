//! What the kernel says, and how it ends.

mod areas;
pub(crate) mod conflicts;
pub(crate) mod console;
pub(crate) mod counters;
pub(crate) mod fault;
pub(crate) mod finish;
pub(crate) mod json;
mod meminfo;
pub(crate) mod outcome;
pub(crate) mod proc_text;
pub(crate) mod ring;
pub(crate) mod sections;
pub(crate) mod smaps;
mod stat_of;
pub(crate) mod times;

pub(crate) use areas::line;
