//! Memory that a realm shares with its host and takes back: `set_memory_decrypted` and `set_memory_encrypted`. Elsewhere both have
//! nothing to do.
//!
//! ```text
//! hidden, all or nothing ──▶ the host is told, no lock held ──▶ shown at the other address
//!                                └─ it stops half-way ──▶ asked back ──▶ what is RAM for certain is shown, the rest stays hidden for ever
//! ```

use core::fmt;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use hardware::hypercall;
use hardware::psci::Conduit;
use kerncore::range::PhysicalRange;
use kerncore::realm::{self, Rmm, Why, Wish};
use linearmap::{Context, Refused, Wanted};
use vmsa::{PhysAddr, VirtAddr};

use crate::facts::{facts, page_size};
use crate::memory::tables::READ_WRITE;
use crate::memory::{linear_map, pages};

/// The RMM, which is called by SMC.
pub(crate) struct Smc;

impl Rmm for Smc {
    fn call(&self, function: u32, arguments: [u64; 4]) -> [u64; 4] {
        hypercall::call(Conduit::Smc, function, arguments)
    }
}

/// Why memory was not handed over, or not all of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotHanded {
    /// Nothing has changed, and the host has not been asked.
    Refused(Refused),
    /// The host has stopped. What was in the range is lost; so many of its pages are hidden for ever, the others are private.
    Stopped(Why, u64),
}

impl fmt::Display for NotHanded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refused) => refused.fmt(f),
            Self::Stopped(why, pages) => write!(f, "{why}; {pages} pages are lost"),
        }
    }
}

static SHARED: AtomicU64 = AtomicU64::new(0);
static LEAKED: AtomicU64 = AtomicU64::new(0);

/// Pages that are shared now, and pages that are hidden for ever.
pub(crate) fn counts() -> (u64, u64) {
    (SHARED.load(Ordering::Relaxed), LEAKED.load(Ordering::Relaxed))
}

/// Shares whole pages of memory with the host, at the same virtual addresses. What was in them is gone.
pub(crate) fn set_memory_decrypted(range: PhysicalRange) -> Result<(), NotHanded> {
    hand(range, Wish::Empty)
}

/// Takes back what was shared. What was in it is gone.
pub(crate) fn set_memory_encrypted(range: PhysicalRange) -> Result<(), NotHanded> {
    hand(range, Wish::Ram)
}

fn hand(range: PhysicalRange, wish: Wish) -> Result<(), NotHanded> {
    let Some(realm) = facts().realm else { return Ok(()) };
    let map = linear_map::get();
    map.change(&[linear(range)], Wanted::Hidden, Context::MayWait).map_err(NotHanded::Refused)?;
    let pages = range.size_bytes() / page_size().size_bytes();
    let away = if wish == Wish::Empty { realm.unprotected() } else { 0 };
    let (lost, why) = match realm::hand_over(&Smc, range, wish) {
        Ok(()) => {
            let shown = show(range, away);
            if shown && wish == Wish::Empty {
                SHARED.fetch_add(pages, Ordering::Relaxed);
            } else if shown {
                SHARED.fetch_sub(pages, Ordering::Relaxed);
            }
            (if shown { 0 } else { pages }, None)
        }
        Err(stopped) => {
            let mut shown = 0;
            let bytes = page_size().size_bytes();
            realm::take_back(&Smc, range, bytes, |page| {
                shown += u64::from(show(PhysicalRange::from_size(page, bytes), 0));
            });
            if wish != Wish::Empty {
                SHARED.fetch_sub(pages, Ordering::Relaxed);
            }
            (pages - shown, Some(stopped.why))
        }
    };
    LEAKED.fetch_add(lost, Ordering::Relaxed);
    if lost > 0 {
        note_lost(range);
    }
    match (why, lost) {
        (None, 0) => Ok(()),
        (why, lost) => Err(NotHanded::Stopped(why.unwrap_or(Why::NoProgress), lost)),
    }
}

fn linear(range: PhysicalRange) -> Range<VirtAddr> {
    facts().linear.address(range.start)..facts().linear.address(range.end)
}

/// Shows what is hidden, so far away from its own address. Whether that was possible: only tables for what was folded meanwhile may lack.
fn show(range: PhysicalRange, away: u64) -> bool {
    let displacement = away.wrapping_sub(facts().linear.offset());
    let wanted = Wanted::Leading { displacement, attributes: READ_WRITE };
    linear_map::get().change(&[linear(range)], wanted, Context::MayWait).is_ok()
}

/// Notes the pages of a range that are hidden.
fn note_lost(range: PhysicalRange) {
    let bytes = page_size().size_bytes();
    for start in (range.start.bits()..range.end.bits()).step_by(bytes as usize).map(PhysAddr::new) {
        if !linear_map::is_shown(facts().linear.address(start)) {
            pages::lost_to_host().inspect(|set| set.insert(start, 1));
        }
    }
}

/// Whether a page is hidden for ever.
pub(crate) fn is_lost(address: PhysAddr) -> bool {
    pages::lost_to_host().is_some_and(|set| set.contains(address))
}
