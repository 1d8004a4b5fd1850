//! The one walker, and its shortcut for one address.
//!
//! ```text
//!   root ─▶ ┌───┬───┬───┬───┐      walk      visits every descriptor of a range, in order of address;
//!           └───┴─┬─┴───┴───┘                whoever is visited says `Enter` or `Past`
//!                 ▼
//!           ┌───┬───┬───┬───┐      descend   goes down for one address, as far as there are tables,
//!           └───┴───┴─┬─┴───┘                and gives the descriptor where the way ends
//! ```
//! All addresses are offsets into the input space.
//!
//! Tables may be what others wrote: they may lead in a circle or share subtrees. A walk ends all the same, because it goes down one
//! level with each table, and visits at each level no more than the range has pages. The walker is a recursion of at most five levels, and its
//! visits hold what was read once: whoever decides by a visit and stores by it decides and stores about the same descriptor.

use core::ops::ControlFlow;

use vmsa::{Descriptor, Geometry, Granule, Layout, Level, Meaning, PageSize, PhysAddr};

use crate::platform::{Platform, Slot};

/// The bit by which a valid descriptor above level 3 is a table, not a block.
const NOT_BLOCK: u64 = Descriptor::TYPE & !Descriptor::VALID;

/// A table, and where in the input space it begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    pub(crate) address: PhysAddr,
    pub(crate) level: Level,
    /// The offset of its first descriptor's span.
    pub(crate) start: u64,
}

/// What the walker has come to: one descriptor, or a whole contiguous group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visit {
    /// The place of the descriptor: of a group's first member.
    pub(crate) slot: Slot,
    pub(crate) level: Level,
    /// What was read there, once: of a group, what the walker met of it first.
    pub(crate) descriptor: Descriptor,
    /// Descriptors side by side that are met as one: 1 but for a group.
    pub(crate) members: usize,
    /// What they cover.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The part of it that is asked for.
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl Table {
    /// The offset where it ends.
    pub(crate) const fn end<G: Granule>(&self, geometry: Geometry<G>) -> u64 {
        self.start + ((geometry.entries(self.level) as u64) << Geometry::<G>::shift(self.level))
    }

    /// The slot of `at`, which lies in its span: of a concatenated root, in all of it.
    #[inline(always)]
    pub(crate) const fn slot<G: Granule>(&self, at: u64) -> Slot {
        Slot::new(self.address, ((at - self.start) >> Geometry::<G>::shift(self.level)) as usize)
    }
}

impl Visit {
    /// The descriptor at `slot`, whose span holds `from`.
    #[inline(always)]
    pub(crate) fn new<G: Granule>(slot: Slot, level: Level, descriptor: Descriptor, from: u64, to: u64) -> Self {
        let span = 1 << Geometry::<G>::shift(level);
        let start = from & !(span - 1);
        let end = start + span;
        Self { slot, level, descriptor, members: 1, start, end, from, to: to.min(end) }
    }

    /// The same, with another descriptor.
    #[inline(always)]
    pub(crate) const fn with(&self, descriptor: Descriptor) -> Self {
        Self { descriptor, ..*self }
    }

    /// Whether all that it covers is asked for.
    #[inline(always)]
    pub(crate) const fn is_whole(&self) -> bool {
        self.from == self.start && self.to == self.end
    }

    /// The table that its descriptor leads to.
    #[inline(always)]
    pub(crate) fn table<G: Granule>(&self, geometry: Geometry<G>) -> Option<Table> {
        table_below(geometry, self.level, self.start, self.descriptor)
    }
}

/// Where the walker goes on.
pub(crate) enum Next {
    /// Into the table that the descriptor leads to.
    Enter,
    /// Into this table, to which the descriptor leads by now.
    Into(Table),
    /// At this offset, in the same table or beyond it.
    Past(u64),
}

/// Visits every descriptor of `table` and of the tables below it that `visit` enters, in order of address, whose span
/// meets `from..to`. What `visit` breaks with ends the walk.
pub(crate) fn walk<G: Granule, P: Platform, B>(
    platform: &P,
    geometry: Geometry<G>,
    table: Table,
    from: u64,
    to: u64,
    visit: &mut impl FnMut(&Visit) -> ControlFlow<B, Next>,
) -> ControlFlow<B> {
    let mut at = from;
    while at < to {
        let slot = table.slot::<G>(at);
        let part = Visit::new::<G>(slot, table.level, platform.load(slot), at, to);
        let below = match visit(&part)? {
            Next::Past(offset) => {
                at = offset;
                continue;
            }
            Next::Enter => part.table(geometry),
            Next::Into(table) => Some(table),
        };
        if let Some(below) = below {
            walk(platform, geometry, below, part.from, part.to, visit)?;
        }
        at = part.end;
    }
    ControlFlow::Continue(())
}

/// Descends from `root` towards `offset`, which lies in its span, for as long as there are tables, and gives `end` the
/// descriptor that leads to none.
#[inline(always)]
pub(crate) fn descend<G: Granule, P: Platform, T>(
    platform: &P,
    geometry: Geometry<G>,
    root: PhysAddr,
    offset: u64,
    end: impl Fn(Layout, Level, Slot, Descriptor) -> T,
) -> T {
    if geometry.is_usual() {
        return descend_usual::<G, P, T>(platform, root, offset, end);
    }
    if geometry.is_usual_below() {
        return descend_usual_below::<G, P, T>(platform, root, offset, end);
    }
    descend_unusual(platform, geometry, root, offset, end)
}

/// The same in a page table of the usual shape: the root's level and where descriptors keep their address are constants.
#[inline(always)]
pub(crate) fn descend_usual<G: Granule, P: Platform, T>(
    platform: &P,
    root: PhysAddr,
    offset: u64,
    end: impl Fn(Layout, Level, Slot, Descriptor) -> T,
) -> T {
    let start = G::PAGE_SIZE.highest_root(Layout::Bits48);
    descend_from::<G, P, T>(start, Layout::Bits48, platform, root, offset, end)
}

/// The same where the root stands one level further down.
#[inline(always)]
pub(crate) fn descend_usual_below<G: Granule, P: Platform, T>(
    platform: &P,
    root: PhysAddr,
    offset: u64,
    end: impl Fn(Layout, Level, Slot, Descriptor) -> T,
) -> T {
    let start = if let PageSize::Size64K = G::PAGE_SIZE { Level::L2 } else { Level::L1 };
    descend_from::<G, P, T>(start, Layout::Bits48, platform, root, offset, end)
}

#[inline(never)]
fn descend_unusual<G: Granule, P: Platform, T>(
    platform: &P,
    geometry: Geometry<G>,
    root: PhysAddr,
    offset: u64,
    end: impl Fn(Layout, Level, Slot, Descriptor) -> T,
) -> T {
    match geometry.layout() {
        // A constant, as it is asked for at each level.
        Layout::Lpa2 => descend_from::<G, P, T>(geometry.start(), Layout::Lpa2, platform, root, offset, end),
        layout => descend_from::<G, P, T>(geometry.start(), layout, platform, root, offset, end),
    }
}

/// A loop over the levels, laid out turn by turn so that each has its numbers as constants: a third of the instructions.
#[inline(always)]
pub(crate) fn descend_from<G: Granule, P: Platform, T>(
    start: Level,
    layout: Layout,
    platform: &P,
    root: PhysAddr,
    offset: u64,
    end: impl Fn(Layout, Level, Slot, Descriptor) -> T,
) -> T {
    let (highest, run) = (G::PAGE_SIZE.highest_root(layout), platform.for_run());
    // In the root, be it several tables side by side (D8.2.10), nothing of an offset is above its place.
    let (mut table, mut index) = (root, (offset >> Geometry::<G>::shift(start)) as usize);
    macro_rules! turn {
        ($level:expr, $next:expr) => {
            if highest <= $level && start <= $level {
                let slot = Slot::new(table, index);
                let descriptor = run.load(slot);
                // Bit by bit: whoever gets the end then knows which it was, and asks no more.
                if !descriptor.is_valid() {
                    return end(layout, $level, slot, descriptor);
                }
                if descriptor.bits() & NOT_BLOCK == 0 {
                    return end(layout, $level, slot, descriptor);
                }
                table = layout.output(descriptor, G::SHIFT);
                index = Geometry::<G>::index_in_table($next, offset);
            }
        };
    }
    turn!(Level::MINUS_1, Level::L0);
    turn!(Level::L0, Level::L1);
    turn!(Level::L1, Level::L2);
    turn!(Level::L2, Level::L3);
    let slot = Slot::new(table, index);
    end(layout, Level::L3, slot, run.load(slot))
}

/// The table that a descriptor of `above`, whose span begins at `start`, leads to.
#[inline(always)]
pub(crate) fn table_below<G: Granule>(
    geometry: Geometry<G>,
    above: Level,
    start: u64,
    descriptor: Descriptor,
) -> Option<Table> {
    match (descriptor.meaning(G::PAGE_SIZE, geometry.layout(), above), above.next()) {
        (Meaning::Table(address), Some(level)) => Some(Table { address, level, start }),
        _ => None,
    }
}
