//! Memory that comes and goes: what is added is painted by the largest leaves, and heals with what is beside it; what is removed leaves
//! neither a leaf nor a table that holds nothing.
//!
//! ```text
//! before   │======= block =======│======= block =======│        remove: the leaf around it splits
//! gone     │= group =│·│·│ hole                        │        the table of the second block is empty: it is retired
//! back     │= group =│·│·│== group ==│ = = = = = = = = │        add, then heal ──▶ as before, leaf for leaf
//! ```

use core::ops::Range;

use pagetable::{El1, Gather, PageTable, Platform, Refusal};
use vmsa::{Granule, Stage1Attributes, VirtAddr};

use crate::changing::Asked;
use crate::embedder::Embedder;
use crate::map::LinearMap;
use crate::refused::Refused;
use crate::wanted::{Context, Wanted};

impl<E: Embedder> LinearMap<E> {
    /// [`Wanted::Present`]: memory arrives, which begins `displacement` from its address in the map. It may be given out when this
    /// returns.
    pub fn add(
        &self,
        ranges: &[Range<VirtAddr>],
        displacement: u64,
        attributes: Stage1Attributes,
    ) -> Result<(), Refused> {
        self.change(ranges, Wanted::Present { displacement, attributes }, Context::MayWait)
    }

    /// [`Wanted::Absent`]: memory goes, of which nobody uses anything and no cache holds a dirty line any more. No TLB leads there when
    /// this returns.
    pub fn remove(&self, ranges: &[Range<VirtAddr>]) -> Result<(), Refused> {
        self.change(ranges, Wanted::Absent, Context::MayWait)
    }
}

impl Asked<'_> {
    /// What cannot be made of a page twice is asked for of each page once, and of the map alone, which counts its tables. Nor is one
    /// page wanted to be two things: the second was not planned on what the first makes.
    #[inline(always)]
    pub(crate) fn check_once(&self) -> Result<(), Refusal> {
        if self.wanted.is_once() || !self.others.is_empty() { self.check_each_once() } else { Ok(()) }
    }

    fn check_each_once(&self) -> Result<(), Refusal> {
        let offset = |at: VirtAddr| at.bits().wrapping_sub(self.within.start.bits());
        // The last address, as a range may end with the last of all.
        let ends = |range: &Range<VirtAddr>| (range.start.bits(), range.end.bits().wrapping_sub(1));
        for (number, (range, wanted)) in self.each().enumerate() {
            let (start, end) = (offset(range.start), offset(range.end));
            if wanted.is_once() && (start > end || end > offset(self.within.end)) {
                return Err(Refusal::OutOfRange(range.start.bits()));
            }
            let mut before = self.each().take(number).filter(|(other, as_wanted)| {
                other.start != other.end && range.start != range.end && (wanted.is_once() || wanted != *as_wanted)
            });
            let (first, last) = ends(range);
            if before.any(|(other, _)| first <= ends(other).1 && ends(other).0 <= last) {
                return Err(Refusal::Overlap(range.start.bits()));
            }
        }
        Ok(())
    }

    /// Tables that the ends of a range that goes lie in go if they hold nothing any more. That needs no licence, and nothing else is done without
    /// one.
    pub(crate) fn leave_no_empty_table<G: Granule, P: Platform>(
        &self,
        table: &mut PageTable<'_, G, El1, P>,
        range: &Range<VirtAddr>,
        gather: &mut Gather<G, El1>,
    ) {
        // A range may end with the last address.
        for at in [range.start, VirtAddr::new(range.end.bits().wrapping_sub(G::SIZE_BYTES))] {
            table.fold_up(at, self.within, None, gather);
        }
    }
}
