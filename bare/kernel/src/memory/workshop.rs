//! The workshop follows memory that comes and goes. A window holds the lock of the linear map, and so does who changes the workshop:
//! no CPU translates by it meanwhile.

use core::ops::Range;

use common::supply::ChangeError;
use kerncore::range::PhysicalRange;
use pagetable::{Change, El1};
use vmsa::{PhysAddr, Stage1Attributes, VirtAddr};

use crate::facts::facts;
use crate::memory::tables::{self, READ_WRITE};
use crate::memory::{current, kernel_table, ranges};

/// Maps memory that comes.
pub(crate) fn map(range: PhysicalRange) -> Result<(), ChangeError> {
    let at = from(range).start.bits();
    change(tables::map(range.start.bits()..range.end.bits(), at, READ_WRITE.union(Stage1Attributes::NOT_GLOBAL)))
}

/// Memory is about to go: to unmap it, or to show it again, takes no table from now on.
pub(crate) fn hide(range: PhysicalRange) -> Result<(), ChangeError> {
    change(Change::MakeInvalid { from: from(range) })
}

/// The memory stays.
pub(crate) fn show(range: PhysicalRange) {
    change(Change::MakeValid { from: from(range) }).expect("what was hidden whole is shown whole");
    fold();
}

/// The memory has gone.
pub(crate) fn unmap(range: PhysicalRange) {
    change(Change::Unmap { from: from(range) }).expect("it was mapped, or hidden, by itself");
    fold();
}

/// Makes the leaves as large as they can be, and frees tables that hold nothing.
pub(crate) fn fold() {
    for range in ranges::mappable().iter() {
        // Leaves that stay small are as good.
        change(Change::Collapse { from: from(*range) }).ok();
    }
}

fn from(range: PhysicalRange) -> Range<VirtAddr> {
    let address = |physical: PhysAddr| VirtAddr::new(physical.bits().wrapping_add(facts().workshop.offset));
    address(range.start)..address(range.end)
}

fn change(change: Change<El1>) -> Result<(), ChangeError> {
    kernel_table::change_in(current::workshop_with, &[change], true)
}
