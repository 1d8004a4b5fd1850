//! Memory is exhausted at every step of what lives on the linear map: each is asked for while nothing is free, then while one page is, then
//! two, until it is given. What is refused leaves the map as it was, leaf for leaf, and free memory, to the page; so does what was given
//! and goes.

use kerncore::buddy::MAX_ORDER;
use kerncore::memory_map::COMING_BYTES;
use kerncore::range::PhysicalRange;
use vmsa::PhysAddr;

use super::detail::{Detail, tell};
use crate::facts::page_size;
use crate::memory::executable::Text;
use crate::memory::pages::{self, Taken};
use crate::memory::settled::Settled;
use crate::memory::shared::Shared;
use crate::memory::vmalloc::Area;
use crate::memory::{coming, handed, ranges, secret};
use crate::stress::sample::Sample;

/// Pages that are enough for any of them.
const MOST_PAGES: usize = 256;
/// Pages of an area: blocks of several sizes.
const AREA_PAGES: u64 = 7;
/// log2 of the pages that change hands.
const ORDER: usize = 2;

pub(super) fn at_every_step(detail: &mut Detail) -> bool {
    // Its object is in memory before there is none.
    let sample = Sample::find();
    let load = || sample.as_ref().is_some_and(Sample::is_loaded);
    let asks: [(&str, &dyn Fn() -> bool); 5] = [
        ("secret", &|| secret::take([1, 0, 0]).is_some()),
        ("area", &area),
        ("text", &|| Text::take(4096).is_some_and(|text| text.write(1024, |index| index as u32))),
        ("shared", &share),
        ("module", &load),
    ];
    let before = Settled::now();
    let count = asks.len() - usize::from(sample.is_none());
    let mut is_right = asks[..count].iter().all(|(name, ask)| is_passed(name, true, &mut || ask(), detail));
    is_right = is_right && go_and_come(detail);
    let after = Settled::now();
    let is_same = after.is_memory_of(&before) && after.is_map_of(&before);
    if is_same {
        tell!(detail, "all as before");
    } else {
        tell!(detail, "{} bytes are free, NOT {}", after.free, before.free);
    }
    is_right && is_same
}

/// An area of which a page is protected and another freed.
fn area() -> bool {
    let page = page_size().size_bytes();
    let Some(mut area) = Area::take(AREA_PAGES * page) else { return false };
    area.protect(page..2 * page, true).is_ok() && area.free(2 * page..3 * page).is_ok()
}

/// Pages that a realm shares and takes back, and one of its pool.
fn share() -> bool {
    let Some(first) = pages::allocate(ORDER) else { return false };
    let range = PhysicalRange::from_size(first, page_size().size_bytes() << ORDER);
    let went = handed::set_memory_decrypted(range).and_then(|()| handed::set_memory_encrypted(range));
    match went {
        Ok(()) | Err(handed::NotHanded::Refused(_)) => pages::free(first, ORDER),
        Err(_) => handed::free_rest(first, ORDER),
    }
    went.is_ok() && Shared::take().is_some()
}

/// A unit of free memory goes and comes back.
fn go_and_come(detail: &mut Detail) -> bool {
    let order = (COMING_BYTES / page_size().size_bytes()).ilog2() as usize;
    let Some(first) = unit(order).filter(|_| ranges::has_room()) else { return true };
    let range = PhysicalRange::from_size(first, COMING_BYTES);
    let mut is_kept = true;
    let mut remove = || {
        // All that is free, but for the pages that it may take.
        pages::free(first, order);
        let is_gone = coming::remove(range).is_ok();
        is_kept &= is_gone || pages::allocate(order) == Some(first);
        is_gone
    };
    is_passed("removed", false, &mut remove, detail)
        && is_kept
        && is_passed("added", false, &mut || coming::add(range).is_ok(), detail)
}

/// A block amid the largest that is free: in a leaf that it is a part of, if any free one is.
fn unit(order: usize) -> Option<PhysAddr> {
    let (largest, first) = (order..=MAX_ORDER).rev().find_map(|order| Some((order, pages::allocate(order)?)))?;
    if largest == order {
        return Some(first);
    }
    pages::divide(first, largest, order);
    let units = 1 << (largest - order);
    let unit = |number: u64| first + number * (page_size().size_bytes() << order);
    (0..units).filter(|number| *number != units / 2).for_each(|number| pages::free(unit(number), order));
    Some(unit(units / 2))
}

/// Whether something is refused until so many pages are free, one at least if it `needs_pages`, leaves all as it was until then, and is given in the end.
fn is_passed(name: &str, needs_pages: bool, ask: &mut dyn FnMut() -> bool, detail: &mut Detail) -> bool {
    // What heals leaves tables, which are taken too.
    Settled::now();
    let mut all = Taken::all();
    let mut before = Settled::now();
    for pages in 0..MOST_PAGES {
        if ask() {
            tell!(detail, "{name} by {pages} pages, ");
            // Who needs no page has not been refused.
            return pages > 0 || !needs_pages;
        }
        let after = Settled::now();
        let (is_map, is_memory) = (after.is_map_of(&before), after.is_memory_of(&before));
        if !is_map || !is_memory {
            tell!(detail, "{name}, {pages} pages: map {is_map}, {} bytes free, before {}", after.free, before.free);
            return false;
        }
        if !all.free_page() {
            break;
        }
        before = after;
        before.free += page_size().size_bytes();
    }
    tell!(detail, "{name} is never given");
    false
}
