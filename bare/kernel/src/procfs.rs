//! `/proc` and a part of `/sys`: texts about processes and the machine, made when they are opened.

mod areas;
mod meminfo;
mod proc;
mod proc_text;
mod settings;
mod smaps;
mod stat_of;
mod sys;
mod who;

use crate::files::unpack::Mounts;

/// The folders that the tree has besides its own.
pub(crate) const MOUNTS: Mounts = &[("/proc", proc::root), ("/sys", sys::root)];
