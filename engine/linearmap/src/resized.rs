//! Which leaves change size in place, for a kernel that announces that ([`crate::Calls::announce`]).

use core::convert::Infallible;
use core::ops::{ControlFlow, Range};

use pagetable::{El1, Platform, View};
use vmsa::{Granule, Meaning, VirtAddr};

use crate::wanted::Wanted;

/// Leaves that are told apart.
const MOST: usize = 8;

/// Leaves that change size.
pub(crate) struct Resized {
    leaves: [Range<VirtAddr>; MOST],
    count: usize,
}

impl Resized {
    pub(crate) const NONE: Self = Self { leaves: [const { VirtAddr::new(0)..VirtAddr::new(0) }; MOST], count: 0 };

    /// The leaves that lie in some range with a part of them alone: to change that part splits them.
    pub(crate) fn split_by<'r, G: Granule, P: Platform>(
        view: &View<'_, G, El1, P>,
        ranges: impl Iterator<Item = (&'r Range<VirtAddr>, Wanted)>,
    ) -> Self {
        let mut resized = Self::NONE;
        for (range, _) in ranges {
            for at in [range.start, VirtAddr::new(range.end.bits().wrapping_sub(G::SIZE_BYTES))] {
                if let Some(leaf) = leaf(view, at).filter(|leaf| leaf.start < range.start || range.end < leaf.end) {
                    resized.add(leaf);
                }
            }
        }
        resized
    }

    /// One more. If there are too many, the last becomes all that lies between.
    pub(crate) fn add(&mut self, leaf: Range<VirtAddr>) {
        if self.leaves[..self.count].contains(&leaf) {
            return;
        }
        if self.count < MOST {
            self.leaves[self.count] = leaf;
            self.count += 1;
        } else {
            let last = &mut self.leaves[MOST - 1];
            *last = last.start.min(leaf.start)..last.end.max(leaf.end);
        }
    }

    pub(crate) fn leaves(&self) -> &[Range<VirtAddr>] {
        &self.leaves[..self.count]
    }
}

/// What a slot of level 2 is made of, as far as folding it would show.
#[derive(PartialEq, Eq)]
pub(crate) struct Made {
    /// The leaf at its start.
    leaf: Option<Range<VirtAddr>>,
    /// Leaves of contiguous groups.
    grouped: usize,
}

impl Made {
    pub(crate) fn read<G: Granule, P: Platform>(view: &View<'_, G, El1, P>, slot: &Range<VirtAddr>) -> Self {
        let mut grouped = 0;
        let _ = view.for_each::<Infallible>(slot.clone(), |entry| {
            grouped += usize::from(matches!(entry.lookup.meaning, Meaning::Leaf(_, true)));
            ControlFlow::Continue(())
        });
        Self { leaf: leaf(view, slot.start), grouped }
    }

    /// What has changed size since, if anything has: the slot, or the leaf that it is in by now.
    pub(crate) fn changed<G: Granule, P: Platform>(
        &self,
        view: &View<'_, G, El1, P>,
        slot: Range<VirtAddr>,
    ) -> Option<Range<VirtAddr>> {
        let now = Self::read(view, &slot);
        let larger = now.leaf.clone().filter(|leaf| slot.end <= leaf.end);
        (*self != now).then(|| larger.unwrap_or(slot))
    }
}

/// The valid leaf that holds an address.
fn leaf<G: Granule, P: Platform>(view: &View<'_, G, El1, P>, at: VirtAddr) -> Option<Range<VirtAddr>> {
    let bytes = view.translate(at)?.size.size_bytes(G::PAGE_SIZE);
    let start = VirtAddr::new(at.bits() & !(bytes - 1));
    Some(start..start + bytes)
}
