//! Memory that goes and comes back: what is in use stays, what has gone is in no CPU's map, and afterwards everything is as before.

use core::sync::atomic::{AtomicU32, Ordering};

use hardware::translation::read_translation;
use hardware::{image, probe};
use kerncore::memory_map::{COMING_BYTES, Kind};
use kerncore::range::{Bytes, PhysicalRange};
use vmsa::{PhysAddr, VirtAddr};

use super::detail::{Detail, tell};
use crate::cpus::calls;
use crate::facts::{facts, page_size};
use crate::memory::coming::{self, NotMoved};
use crate::memory::holder::{self, Holder};
use crate::memory::settled::Settled;
use crate::memory::vmalloc::Area;
use crate::memory::{current, hidden_pages, pages, ranges, secret};

pub(super) fn go_and_come(detail: &mut Detail) -> bool {
    if !ranges::has_room() {
        tell!(detail, "the memory map is full, so that no memory goes");
        return true;
    }
    let before = Settled::now();
    let own = unit(facts().load_address.align_down(COMING_BYTES));
    let mut is_right = coming::remove(own).is_err() && are_named();
    if !is_right {
        tell!(detail, "{own}, which is the kernel's, was removed, or users are not named; ");
    }
    match free_unit() {
        Some((range, is_kept)) => {
            is_right &= is_kept;
            is_right &= is_done(coming::remove(range), detail) && is_gone(range) && is_there_no_more(range, detail);
            is_right &= is_done(coming::add(range), detail) && is_usable(range);
            tell!(detail, "{range} went and came");
        }
        None => tell!(detail, "no {} of free memory lie together; what is in use stays", Bytes(COMING_BYTES)),
    }
    if let Some(range) = withheld_unit() {
        is_right &= is_done(coming::add(range), detail) && is_usable(range);
        is_right &= is_done(coming::remove(range), detail) && is_gone(range);
        tell!(detail, "; {range} came and went");
    }
    let after = Settled::now();
    let is_same = after.is_memory_of(&before) && after.is_map_of(&before);
    if !is_same {
        tell!(detail, "; NOT as before: {} free, before {}", Bytes(after.free), Bytes(before.free));
    }
    is_right && is_same
}

/// Whether it is known who has memory that does not go.
fn are_named() -> bool {
    let (Some([secret]), Some(area), Some(page)) = (secret::take([0]), Area::take(1), pages::allocate(0)) else {
        return false;
    };
    let at = area.range().start;
    let memory = current::upper().translate(at).map_or(PhysAddr::new(0), |leaf| leaf.output);
    let text = image::text().start;
    let is_right = [
        (secret.first(), Holder::Secret),
        (memory, Holder::Mapped(at)),
        (current::upper().root(), Holder::Table),
        (facts().load_address + (text - image::whole().start), Holder::Mapped(VirtAddr::new(text))),
        (page, Holder::Unknown),
    ];
    pages::free(page, 0);
    is_right.into_iter().all(|(page, expected)| holder::of(page) == expected)
}

fn unit(start: PhysAddr) -> PhysicalRange {
    PhysicalRange::from_size(start, COMING_BYTES)
}

/// Memory that is free, and whether it could not be removed while it was not.
fn free_unit() -> Option<(PhysicalRange, bool)> {
    let order = (COMING_BYTES / page_size().size_bytes()).ilog2() as usize;
    let first = pages::allocate(order)?;
    let is_kept = coming::remove(unit(first)) == Err(NotMoved::Given(first));
    pages::free(first, order);
    Some((unit(first), is_kept))
}

/// One that lies amid others, so that nothing beside it keeps a table.
fn withheld_unit() -> Option<PhysicalRange> {
    let map = ranges::map();
    let piece = map.pieces().iter().find(|piece| piece.kind == Kind::Withheld)?;
    Some(unit((piece.range.start + piece.range.size_bytes() / 2).align_down(COMING_BYTES)))
}

fn is_done(moved: Result<(), NotMoved>, detail: &mut Detail) -> bool {
    moved.inspect_err(|why| tell!(detail, "{why}; ")).is_ok()
}

/// Whether it cannot be removed twice, and counts as memory no more.
fn is_there_no_more(range: PhysicalRange, detail: &mut Detail) -> bool {
    let is_counted = ranges::mapped().iter().any(|mapped| mapped.overlaps(&range));
    let is_refused = coming::remove(range) == Err(NotMoved::NoSuch(range));
    if is_counted || !is_refused {
        tell!(detail, "{range} has gone, and counts as memory; ");
    }
    !is_counted && is_refused
}

fn ends(range: PhysicalRange) -> [VirtAddr; 2] {
    [range.start, PhysAddr::new(range.end.bits() - 8)].map(|word| facts().linear.address(word))
}

/// Whether no CPU finds it.
fn is_gone(range: PhysicalRange) -> bool {
    let finding = AtomicU32::new(0);
    calls::on_every_cpu(&|cpu| {
        if ends(range).into_iter().any(|word| read_translation(word).is_ok()) {
            finding.fetch_or(1 << cpu, Ordering::Relaxed);
        }
    });
    // SAFETY: memory that nobody has, or nothing.
    let is_read = ends(range).into_iter().any(|word| unsafe { probe::read(word) }.is_ok());
    finding.into_inner() == 0 && !is_read
}

/// Whether it can be written, once it is given out, and holds what is written.
fn is_usable(range: PhysicalRange) -> bool {
    // SAFETY: free memory, which nobody else takes while this check runs.
    let write = |word: VirtAddr| unsafe { probe::write(word, word.bits()) };
    // SAFETY: as above.
    let is_right = |word| write(word).is_ok() && unsafe { probe::read(word) } == Ok(word.bits());
    // What is free is hidden there.
    ends(range)
        .into_iter()
        .all(|word| if hidden_pages::is_on() { read_translation(word).is_err() } else { is_right(word) })
}
