//! One change of every kind at each moment of boot: the boot CPU alone, others being started, all settled, one come late.

use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering};

use hardware::interrupts;
use hardware::translation::read_translation;
use linearmap::{Context, Wanted};
use vmsa::VirtAddr;

use super::detail::{Detail, tell};
use super::handed;
use crate::facts::{facts, page_size};
use crate::memory::{linear_map, pages};

/// log2 of the pages of the block whose one page is changed.
const ORDER: usize = 4;

/// A bit for each moment that was tried.
static MOMENTS: AtomicU32 = AtomicU32::new(0);
static MADE: AtomicU32 = AtomicU32::new(0);
/// Refused, or not as it was wanted.
static WRONG: AtomicU32 = AtomicU32::new(0);

/// A moment of boot.
#[derive(Clone, Copy)]
pub(crate) enum Moment {
    Alone,
    Starting,
    Settled,
    Late,
}

/// Makes a change of every kind, in and out of atomic context.
pub(crate) fn pass(moment: Moment) {
    let Some(block) = pages::allocate(ORDER) else { return };
    let bytes = page_size().size_bytes();
    let start = facts().linear.address(block) + bytes;
    MOMENTS.fetch_or(1 << moment as u32, Ordering::Relaxed);
    for wanted in Wanted::ALL {
        for context in [Context::MayWait, Context::Atomic] {
            try_one(start..start + bytes, wanted, context);
        }
    }
    // As it was, whatever came before.
    for wanted in [Wanted::NotExecutable, Wanted::Default] {
        try_one(start..start + bytes, wanted, Context::MayWait);
    }
    pages::free(block, ORDER);
    handed::pass();
    linear_map::get().heal_all();
}

fn try_one(page: Range<VirtAddr>, wanted: Wanted, context: Context) {
    let start = page.start;
    let masks = (context == Context::Atomic).then(interrupts::mask);
    let changed = linear_map::get().change(&[page], wanted, context);
    if let Some(masks) = masks {
        interrupts::restore(masks);
    }
    let is_hidden = read_translation(start).is_err();
    let says = matches!(wanted, Wanted::Hidden | Wanted::Shown | Wanted::Default);
    let is_right = changed.is_ok() && (!says || is_hidden == (wanted == Wanted::Hidden));
    let counter = if is_right { &MADE } else { &WRONG };
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Whether every one was made.
pub(super) fn passed(detail: &mut Detail) -> bool {
    let value = |counter: &AtomicU32| counter.load(Ordering::Relaxed);
    let (moments, made, wrong) = (value(&MOMENTS).count_ones(), value(&MADE), value(&WRONG));
    tell!(detail, "{made} changes at {moments} moments");
    if wrong > 0 {
        tell!(detail, "; {wrong} are refused or wrong");
    }
    made > 0 && wrong == 0
}
