//! Reading a page table, without a lock, beside whoever edits it.

use core::ops::{ControlFlow, Range};

use vmsa::{Address, Descriptor, Geometry, Granule, LeafSize, Level, Meaning, PhysAddr};

use crate::alike::count_alike;
use crate::change::Refusal;
use crate::platform::{Platform, Slot};
use crate::regime::Regime;
use crate::walk::{Next, Table, Visit, descend, walk};

/// A view of a page table. It reads each descriptor once, and believes none of them: tables may lead in a circle or beyond
/// memory. A walk ends at level 3 as hardware's does, so that the range bounds it: one turn for a page at most.
///
/// Where views walk beside changes, [`Platform::wait_for_views`] keeps the tables that they are in from being used again.
#[derive(Debug)]
pub struct View<'p, G: Granule, R: Regime, P: Platform> {
    platform: &'p P,
    geometry: Geometry<G>,
    regime: R,
    root: PhysAddr,
}

impl<G: Granule, R: Regime, P: Platform> Clone for View<'_, G, R, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<G: Granule, R: Regime, P: Platform> Copy for View<'_, G, R, P> {}

/// Where an input address leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Translation {
    /// The output address, to the byte.
    pub output: PhysAddr,
    /// The leaf that holds the translation.
    pub size: LeafSize,
    /// The leaf's descriptor. Of a contiguous group hardware marks any member as accessed or written, and each mark is true of
    /// all of them.
    pub descriptor: Descriptor,
}

/// One step of a walk for one address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lookup {
    /// The level.
    pub level: Level,
    /// Where the descriptor stands.
    pub slot: Slot,
    /// The descriptor.
    pub descriptor: Descriptor,
    /// What it says.
    pub meaning: Meaning,
}

/// A hole of a table of pages that a walk has found, where a page can be mapped later on without another walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hole(pub(crate) Slot);

impl Hole {
    /// The hole that a walk has come to, if it is one.
    #[inline(always)]
    pub(crate) const fn at(level: Level, slot: Slot, descriptor: Descriptor) -> Option<Self> {
        if matches!(level, Level::L3) && descriptor.bits() == 0 { Some(Self(slot)) } else { None }
    }
}

impl Lookup {
    /// The hole that a page can be mapped in, if that is where the way ended.
    #[inline(always)]
    pub const fn hole(&self) -> Option<Hole> {
        Hole::at(self.level, self.slot, self.descriptor)
    }
}

/// One descriptor of a walk over a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<A: Address> {
    /// The first input address that it covers.
    pub input: A,
    /// log2 of the bytes that it covers.
    pub shift: u32,
    /// What the walk met there.
    pub lookup: Lookup,
}

impl<'p, G: Granule, R: Regime, P: Platform> View<'p, G, R, P> {
    /// A view of the page table whose root table is at `root`.
    pub const fn new(platform: &'p P, geometry: Geometry<G>, regime: R, root: PhysAddr) -> Self {
        Self { platform, geometry, regime, root }
    }

    /// The shape.
    pub const fn geometry(&self) -> Geometry<G> {
        self.geometry
    }

    /// The regime.
    pub const fn regime(&self) -> R {
        self.regime
    }

    /// Translates an input address; `None` where hardware would take a translation fault.
    #[inline(always)]
    pub fn translate(&self, input: R::Input) -> Option<Translation> {
        let offset = self.geometry.offset(input.bits())?;
        descend(self.platform, self.geometry, self.root, offset, move |layout, level, _, descriptor| {
            let Meaning::Leaf(to, contiguous) = descriptor.meaning(G::PAGE_SIZE, layout, level) else { return None };
            let contiguous = contiguous && G::PAGE_SIZE.contiguous_shift(level).is_some();
            let output = to + (offset & ((1 << Geometry::<G>::shift(level)) - 1));
            Some(Translation { output, size: LeafSize { level, contiguous }, descriptor })
        })
    }

    /// The last descriptor that a walk for `input` reads: where its way ends. None if the address is not of this half.
    #[inline(always)]
    pub fn find(&self, input: R::Input) -> Option<Lookup> {
        let offset = self.geometry.offset(input.bits())?;
        Some(descend(self.platform, self.geometry, self.root, offset, |layout, level, slot, descriptor| Lookup {
            level,
            slot,
            descriptor,
            meaning: descriptor.meaning(G::PAGE_SIZE, layout, level),
        }))
    }

    /// The hole of a table of pages where a walk for `input` ends, if it ends at one: [`crate::PageTable::map_hole`].
    #[inline(always)]
    pub fn find_hole(&self, input: R::Input) -> Option<Hole> {
        let offset = self.geometry.offset(input.bits())?;
        descend(self.platform, self.geometry, self.root, offset, |_, level, slot, descriptor| {
            Hole::at(level, slot, descriptor)
        })
    }

    /// The descriptors that a walk for `input` reads, from the root down. None if the address is not of this half.
    pub fn path(self, input: R::Input) -> impl Iterator<Item = Lookup> {
        let (mut path, mut length) = ([None; Level::ALL.len()], 0);
        if let Some(at) = self.geometry.offset(input.bits()) {
            let _ = walk::<G, P, ()>(self.platform, self.geometry, self.root_table(), at, at + 1, &mut |visit| {
                path[length] = Some(self.lookup(visit));
                length += 1;
                ControlFlow::Continue(Next::Enter)
            });
        }
        path.into_iter().flatten()
    }

    /// Gives `sink` every descriptor whose span meets the range, tables before what is below them, in order of address.
    /// Stops when `sink` breaks, and gives what it broke with. Refused by [`Refusal::OutOfRange`] and [`Refusal::Backward`]
    /// alone; the range need not be aligned.
    pub fn for_each<B>(
        &self,
        range: Range<R::Input>,
        mut sink: impl FnMut(&Entry<R::Input>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, Refusal> {
        let (from, to) = self.offsets(&range)?;
        Ok(walk(self.platform, self.geometry, self.root_table(), from, to, &mut |visit| {
            let lookup = self.lookup(visit);
            let input = R::Input::from(self.geometry.input(visit.start));
            sink(&Entry { input, shift: Geometry::<G>::shift(visit.level), lookup })?;
            ControlFlow::Continue(Next::Enter)
        }))
    }

    /// Gives `sink` the leaves whose spans meet the range, in order of address, many at a time: those side by side in one table that say the
    /// same of output addresses which lead on from each other are one entry, with their number. Holes and what else is no leaf are passed
    /// over. Stops, and is refused, as [`Self::for_each`] does.
    pub fn for_each_run<B>(
        &self,
        range: Range<R::Input>,
        mut sink: impl FnMut(&Entry<R::Input>, usize) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, Refusal> {
        let (from, to) = self.offsets(&range)?;
        Ok(walk(self.platform, self.geometry, self.root_table(), from, to, &mut |visit| {
            let lookup = self.lookup(visit);
            let (shift, bytes) = (Geometry::<G>::shift(visit.level), visit.end - visit.start);
            match lookup.meaning {
                Meaning::Table(_) => return ControlFlow::Continue(Next::Enter),
                Meaning::Leaf(..) => {}
                _ => return ControlFlow::Continue(Next::Past(visit.end)),
            }
            let last = self.geometry.table_end(visit.level, visit.start).min((to + bytes - 1) & !(bytes - 1));
            let most = ((last - visit.start) >> shift) as usize;
            let (count, _) = count_alike(self.platform, visit.slot, most, visit.descriptor, bytes, 0);
            // Of the first, hardware may have noted something since it was read.
            let count = count.max(1);
            sink(&Entry { input: R::Input::from(self.geometry.input(visit.start)), shift, lookup }, count)?;
            ControlFlow::Continue(Next::Past(visit.start + ((count as u64) << shift)))
        }))
    }

    /// Where a portion of a range ends that has `most` descriptors, or a few more: at the end of a table of pages, or of what stands beside one,
    /// and never within a leaf or a contiguous group. Tables of pages are counted, and not read. Refused as [`Self::for_each`] is.
    pub fn portion(&self, range: Range<R::Input>, most: u64) -> Result<R::Input, Refusal> {
        let (from, to) = self.offsets(&range)?;
        let mut met = 0;
        let flow = walk(self.platform, self.geometry, self.root_table(), from, to, &mut |visit| {
            let group = LeafSize::group(visit.level).size_bytes(G::PAGE_SIZE);
            let (is_group, is_table) = match self.lookup(visit).meaning {
                Meaning::Leaf(_, is_contiguous) => (is_contiguous, false),
                meaning => (false, matches!(meaning, Meaning::Table(_))),
            };
            let is_end = visit.start > from && (!is_group || visit.start.is_multiple_of(group));
            if met >= most && is_end {
                return ControlFlow::Break(visit.start);
            }
            let is_of_pages = is_table && Geometry::<G>::shift(visit.level) == Geometry::<G>::shift(Level::L2);
            if is_table && !is_of_pages {
                return ControlFlow::Continue(Next::Enter);
            }
            met += if is_of_pages { (visit.end - visit.start) >> G::SHIFT } else { 1 };
            ControlFlow::Continue(Next::Past(visit.end))
        });
        Ok(flow.break_value().map_or(range.end, |end| R::Input::from(self.geometry.input(end))))
    }

    /// The whole range that the page table translates; its end is 0 for the upper half.
    pub fn range(&self) -> Range<R::Input> {
        self.geometry.base().into()..self.geometry.input(self.geometry.input_bytes()).into()
    }

    /// Where a range begins and ends in what the page table translates.
    fn offsets(&self, range: &Range<R::Input>) -> Result<(u64, u64), Refusal> {
        let (start, end) = (range.start.bits(), range.end.bits());
        self.geometry.offsets(start, end).ok_or_else(|| Refusal::of_range(self.geometry, start, end))
    }

    const fn root_table(&self) -> Table {
        Table { address: self.root, level: self.geometry.start(), start: 0 }
    }

    fn lookup(&self, visit: &Visit) -> Lookup {
        let Visit { level, slot, descriptor, .. } = *visit;
        Lookup { level, slot, descriptor, meaning: descriptor.meaning(G::PAGE_SIZE, self.geometry.layout(), level) }
    }
}
