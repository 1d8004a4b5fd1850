//! What each interrupt is for.

use hardware::gic;

use super::{calls, parking};
use crate::console::say;
use crate::facts::facts;
use crate::threads::dispatcher;

/// Called by the vectors, with interrupts masked.
pub(crate) fn handle() {
    while let Some(interrupt) = calls::take_interrupt() {
        match gic::is_call(interrupt) {
            true => {
                parking::note_answer();
                calls::answer();
            }
            false if interrupt == facts().timer_interrupt => dispatcher::tick(),
            false => say!("warning: unexpected interrupt {interrupt}"),
        }
    }
}
