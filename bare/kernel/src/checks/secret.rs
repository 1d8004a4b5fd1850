//! Secret pages: a read by the linear map faults and the report says why; by a mapping of one's own they can be used; and what was in
//! them is gone with them.

use core::fmt::Write;

use hardware::probe;
use vmsa::{FaultStatus, VirtAddr};

use super::detail::{Detail, tell};
use super::range;
use crate::facts::page_size;
use crate::memory::place::Place;
use crate::memory::secret::{self, Secret};
use crate::memory::tables::{READ_WRITE, map};
use crate::memory::{hidden_pages, kernel_table, layout, linear_map};

/// A run of pages and two by themselves.
const ORDERS: [usize; 3] = [2, 0, 0];
const VALUE: u64 = 0x5ec2_e75e_c2e7_5ec2;

pub(super) fn hold(detail: &mut Detail) -> bool {
    linear_map::get().heal_all();
    let before = linear_map::digest();
    let Some(secrets) = secret::take(ORDERS) else {
        tell!(detail, "no memory for them");
        return false;
    };
    let is_held = secrets.iter().all(|secret| is_hidden(secret, detail)) && is_usable(&secrets[0], detail);
    let (pages, places) = (secret::counts(), secrets.each_ref().map(|secret| secret.hidden().start));
    drop(secrets);
    linear_map::get().heal_all();
    // Free pages are hidden again where that is asked for.
    let is_wiped = hidden_pages::is_on() || places.into_iter().all(|page| read(page) == Some(0));
    let is_as_before = before == linear_map::digest();
    let (left, lost) = secret::counts();
    tell!(detail, "{} pages held, {left} left", pages.0);
    for (is_right, what) in [(is_wiped, "not wiped"), (is_as_before, "the map is not as before"), (lost == 0, "lost")] {
        if !is_right {
            tell!(detail, "; {what}");
        }
    }
    is_held && is_wiped && is_as_before && (left, lost) == (0, 0)
}

fn read(page: VirtAddr) -> Option<u64> {
    // SAFETY: memory, or, hidden, nothing.
    unsafe { probe::read(page) }.ok()
}

/// Whether no word of it can be read by the linear map, and the report of such a fault would say why.
fn is_hidden(secret: &Secret, detail: &mut Detail) -> bool {
    let range = secret.hidden();
    let pages = (range.start.bits()..range.end.bits()).step_by(page_size().size_bytes() as usize).map(VirtAddr::new);
    for page in pages {
        // SAFETY: as above.
        let fault = unsafe { probe::read(page) }.err();
        let is_translation = |fault: &hardware::catch::Fault| {
            matches!(fault.syndrome.fault(), Some(FaultStatus::Translation(_))) && fault.address == page
        };
        let mut place = Detail::EMPTY;
        let _ = write!(place, "{}", Place(page));
        let mut expected = Detail::EMPTY;
        let physical = secret.first() + (page - range.start);
        let _ = write!(expected, "linear map of physical address {:#x}, hidden: secret memory", physical.bits());
        if !fault.as_ref().is_some_and(is_translation) || place.text() != expected.text() {
            tell!(detail, "{page}: {place}: {:?}; ", fault.map(|fault| fault.syndrome.fault()));
            return false;
        }
    }
    true
}

/// Whether its holder can write and read it by another mapping.
fn is_usable(secret: &Secret, detail: &mut Detail) -> bool {
    let (at, first) = (VirtAddr::new(layout::CHECKS.start), secret.first().bits());
    let bytes = secret.hidden().end - secret.hidden().start;
    let is_mapped = kernel_table::change(&[map(first..first + bytes, at.bits(), READ_WRITE)], false).is_ok();
    // SAFETY: mapped just now, and memory of this check.
    let is_written = is_mapped && unsafe { probe::write(at, VALUE) }.is_ok();
    let is_right = is_written && read(at) == Some(VALUE);
    range::clear(detail) && is_right
}
