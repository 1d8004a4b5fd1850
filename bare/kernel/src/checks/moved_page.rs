//! A page that moves: every CPU has read it where it was, and must find it where it is.

use core::sync::atomic::{AtomicU32, Ordering};

use pagetable::Change;
use vmsa::{LeafSize, PhysAddr, VirtAddr};

use super::detail::{Detail, tell};
use super::range;
use crate::cpus::{calls, walkers};
use crate::facts::{facts, page_size};
use crate::memory::tables::{READ_WRITE, map};
use crate::memory::{kernel_table, layout, pages};

const PAGE: VirtAddr = VirtAddr::new(layout::CHECKS.start);
/// What the two pages hold.
const VALUES: [u64; 2] = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];

pub(super) fn follow(detail: &mut Detail) -> bool {
    let (Some(one), Some(other)) = (pages::allocate(0), pages::allocate(0)) else {
        tell!(detail, "no memory for two pages");
        return false;
    };
    for (page, value) in [one, other].into_iter().zip(VALUES) {
        // SAFETY: just allocated, and mapped by the linear map.
        unsafe { (facts().linear.address(page).bits() as *mut u64).write_volatile(value) };
    }
    let bytes = page_size().size_bytes();
    let mapped = map(one.bits()..one.bits() + bytes, PAGE.bits(), READ_WRITE);
    let moved = Change::Remap { from: PAGE..PAGE + bytes, to: other, attributes: READ_WRITE, largest: LeafSize::PAGE };
    let is_ok = [mapped, moved].into_iter().zip([one, other]).zip(VALUES).all(|((change, page), value)| {
        let is_changed = kernel_table::change(&[change], true).inspect_err(|error| tell!(detail, "{error}")).is_ok();
        is_changed && is_read_by_all(page, value, detail)
    });
    if is_ok {
        tell!(detail, "{} CPUs read {PAGE} at {one}, and then at {other}", walkers::running().count_ones());
    }
    let is_undone = range::clear(detail);
    if is_undone {
        pages::free(one, 0);
        pages::free(other, 0);
    }
    is_ok && is_undone
}

fn is_read_by_all(page: PhysAddr, value: u64, detail: &mut Detail) -> bool {
    let found = AtomicU32::new(0);
    calls::on_every_cpu(&|cpu| {
        // SAFETY: mapped, and memory of this check.
        let read = unsafe { (PAGE.bits() as *const u64).read_volatile() };
        found.fetch_or(u32::from(read == value) << cpu, Ordering::Relaxed);
    });
    let missing = walkers::running() & !found.load(Ordering::Relaxed);
    if missing != 0 {
        tell!(detail, "CPUs {missing:#b} do not read {page} at {PAGE}");
    }
    missing == 0
}
