//! A thousand pages of the pool of what a realm shares: few blocks are split for them, each is the host's and the kernel's, and nothing is
//! left.

use alloc::vec::Vec;

use hardware::probe;
use hardware::translation::read_translation;
use kerncore::range::PhysicalRange;
use kerncore::realm::{self, State};
use vmsa::PhysAddr;

use super::detail::{Detail, tell};
use crate::facts::{facts, page_size};
use crate::fallible::List;
use crate::memory::handed::Smc;
use crate::memory::linear_map;
use crate::memory::settled::Settled;
use crate::memory::shared::{self, Shared};

/// Pages that are taken, where a quarter of free memory is as much.
const PAGES: u64 = 1000;
/// Blocks that may be split for them.
const MOST_SPLITS: u64 = 4;
/// How often a host may stop before that is no longer tried.
const MOST_STOPS: usize = 64;

pub(super) fn take(detail: &mut Detail) -> bool {
    let before = Settled::now();
    let count = PAGES.min(before.free / page_size().size_bytes() / 4) as usize;
    let mut all = Vec::new();
    if all.try_reserve_exact(count).is_err() {
        tell!(detail, "no memory to note {count} pages");
        return false;
    }
    let (splits, mut stops) = (|| linear_map::get().counters().splits, 0);
    let splits_before = splits();
    while all.len() < count && stops < MOST_STOPS {
        match Shared::take() {
            Some(page) => {
                if all.try_push(page).is_err() {
                    return false;
                }
            }
            None => stops += 1,
        }
    }
    let (split, taken, pieces) = (splits() - splits_before, all.len(), shared::counts());
    let wrong = all.iter().filter(|page| !is_right(page)).count();
    drop(all);
    let (after, left) = (Settled::now(), shared::counts());
    let (is_same, is_kept, lost) = (after.is_map_of(&before), after.is_memory_of(&before), after.lost - before.lost);
    tell!(detail, "{taken} pages of {} pieces, {split} blocks split", pieces.0);
    for (is_told, what, number) in [
        (stops > 0, "times the host stopped", stops as u64),
        (lost > 0, "pages lost", lost),
        (wrong > 0, "WRONG", wrong as u64),
        (!is_kept, "bytes free, NOT as before", after.free),
    ] {
        if is_told {
            tell!(detail, "; {number} {what}");
        }
    }
    if !is_same {
        tell!(detail, "; the map is NOT as before");
    }
    let is_whole = stops > 0 || split <= MOST_SPLITS;
    taken == count && wrong == 0 && is_whole && is_same && is_kept && left == (0, 0)
}

/// Whether a page leads to what the host sees, keeps what is written to it, and is shared.
fn is_right(shared: &Shared) -> bool {
    let (at, output) = (shared.address(), shared.output());
    // SAFETY: a page of this check's.
    let is_written = unsafe { probe::write(at, output.bits()) }.is_ok();
    // SAFETY: as above.
    let is_read = unsafe { probe::read(at) } == Ok(output.bits());
    let is_empty = facts().realm.is_none_or(|realm| {
        let own = PhysAddr::new(output.bits() & !realm.unprotected());
        realm::is_all(&Smc, PhysicalRange::from_size(own, page_size().size_bytes()), State::Empty)
    });
    is_written && is_read && is_empty && read_translation(at) == Ok(output)
}
