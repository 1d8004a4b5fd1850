//! Memory that a realm shares with its host and takes back: `set_memory_decrypted` and `set_memory_encrypted`. Elsewhere both have
//! nothing to do. How memory changes hands [`kerncore::handing`] says.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use hardware::hypercall;
use hardware::psci::Conduit;
use kerncore::buddy::PageSet;
use kerncore::handing::{self, Map as _};
use kerncore::range::PhysicalRange;
use kerncore::realm::{Rmm, Wish};
use linearmap::{Context, Refused, Wanted};
use vmsa::{PhysAddr, VirtAddr};

use crate::facts::{facts, page_size};
use crate::memory::tables::READ_WRITE;
use crate::memory::{current, going, linear_map, pages};

/// The RMM, which is called by SMC.
pub(crate) struct Smc;

impl Rmm for Smc {
    fn call(&self, function: u32, arguments: [u64; 4]) -> [u64; 4] {
        hypercall::call(Conduit::Smc, function, arguments)
    }
}

/// Why memory was not handed over, or not all of it.
pub(crate) type NotHanded = handing::NotHanded<Refused>;

/// The linear map, where it leads to memory that changes hands.
struct Map {
    /// How far unprotected addresses are from protected ones.
    unprotected: u64,
}

impl handing::Map for Map {
    type Refused = Refused;

    fn hide(&self, range: PhysicalRange) -> Result<(), Refused> {
        linear_map::get().change(&[linear(range)], Wanted::Hidden, Context::MayWait)
    }

    /// Only tables for what was folded meanwhile may lack.
    fn show(&self, range: PhysicalRange, is_shared: bool) -> bool {
        let away = if is_shared { self.unprotected } else { 0 };
        let displacement = away.wrapping_sub(facts().linear.offset());
        let wanted = Wanted::Leading { displacement, attributes: READ_WRITE };
        going::make(&[(&[linear(range)], wanted)]).is_ok()
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
    hand(&Smc, range, Wish::Empty)
}

/// Takes back what was shared. What was in it is gone.
pub(crate) fn set_memory_encrypted(range: PhysicalRange) -> Result<(), NotHanded> {
    hand(&Smc, range, Wish::Ram)
}

/// The same, by a way to the RMM that may do something else before it calls: no lock is held then.
pub(crate) fn set_memory_decrypted_by(rmm: &impl Rmm, range: PhysicalRange) -> Result<(), NotHanded> {
    hand(rmm, range, Wish::Empty)
}

fn hand(rmm: &impl Rmm, range: PhysicalRange, wish: Wish) -> Result<(), NotHanded> {
    let Some(realm) = facts().realm else { return Ok(()) };
    let (map, bytes) = (Map { unprotected: realm.unprotected() }, page_size().size_bytes());
    let before = shared(range, realm.unprotected());
    let handed = handing::hand(rmm, &map, range, wish, bytes);
    // Whatever came of it, what was shared is no longer, unless nothing has changed.
    let now = match (&handed, wish) {
        (Ok(()), Wish::Empty) => range.size_bytes() / bytes,
        (Err(NotHanded::Refused(_)), _) => before,
        _ => 0,
    };
    SHARED.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
    let lost = handed.as_ref().map_or_else(NotHanded::lost, |()| 0);
    LEAKED.fetch_add(lost, Ordering::Relaxed);
    if lost > 0 {
        note_lost(range);
    }
    handed
}

/// Gives a block back that was not handed over, or not all of it: what is the realm's own is free memory again.
pub(crate) fn free_rest(first: PhysAddr, order: usize) {
    if order > 0 {
        pages::divide(first, order, 0);
    }
    let bytes = page_size().size_bytes();
    let pages = (0..1 << order).map(|number| first + number * bytes);
    pages.filter(|page| !is_lost(*page)).for_each(|page| pages::free(page, 0));
}

fn linear(range: PhysicalRange) -> Range<VirtAddr> {
    facts().linear.address(range.start)..facts().linear.address(range.end)
}

fn is_shown(page: PhysAddr) -> bool {
    linear_map::is_shown(facts().linear.address(page))
}

/// Pages of a range that lead so far away, and so are shared.
fn shared(range: PhysicalRange, unprotected: u64) -> u64 {
    let leads = |page: PhysAddr| current::upper().translate(facts().linear.address(page)).map(|leaf| leaf.output);
    page_starts(range).filter(|page| leads(*page) == Some(*page + unprotected)).count() as u64
}

/// Notes the pages of a range that are hidden.
fn note_lost(range: PhysicalRange) {
    let lost = page_starts(range).filter(|page| !is_shown(*page));
    lost.for_each(|page| _ = pages::lost_to_host().inspect(|set| set.insert(page, 1)));
}

/// Where each page of a range begins.
pub(crate) fn page_starts(range: PhysicalRange) -> impl Iterator<Item = PhysAddr> {
    (range.start.bits()..range.end.bits()).step_by(page_size().size_bytes() as usize).map(PhysAddr::new)
}

/// What `look` sees of the linear map where it leads to all that is hidden for ever as it did before that was lost; nobody reads it there,
/// and it is hidden again when this returns. Nothing where one of those pages was shown before, or their number is not what was counted.
pub(crate) fn with_lost_shown<T>(look: impl FnOnce() -> T) -> Option<T> {
    let lost = || pages::lost_to_host().into_iter().flat_map(PageSet::runs);
    let pages = lost().map(|run| run.size_bytes() / page_size().size_bytes()).sum::<u64>();
    let is_hidden = pages == counts().1 && !lost().flat_map(page_starts).any(is_shown);
    let map = Map { unprotected: facts().realm.map_or(0, |realm| realm.unprotected()) };
    let is_led = lost().all(|run| map.show(run, false));
    let seen = look();
    let is_hidden_again = lost().filter(|run| map.hide(*run).is_err()).count() == 0;
    (is_hidden && is_led && is_hidden_again).then_some(seen)
}

/// Whether a page is hidden for ever.
pub(crate) fn is_lost(address: PhysAddr) -> bool {
    pages::lost_to_host().is_some_and(|set| set.contains(address))
}
