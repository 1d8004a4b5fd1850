//! What a stretch of input space is to hold, and the descriptors that say so.
//!
//! Every new table is described by the same picture: what is inside a range, and what is outside it.
//!
//! ```text
//!   |------- outside -------|===== inside =====|--- outside ---|      mapping a hole: outside is nothing
//!                          from                to                     splitting a leaf: outside is the old leaf
//! ```

use vmsa::{Bits, Descriptor, Geometry, Granule, Layout, LeafSize, Level, PhysAddr};

/// A mapping of consecutive input to consecutive output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Content {
    /// Output address minus offset, modulo 2^64.
    pub(crate) delta: u64,
    /// Attribute bits, as of a page.
    pub(crate) attributes: Bits,
    /// Its leaves are kept: invalid, but for bit 0 what they would be.
    pub(crate) is_kept: bool,
    /// What bounds its leaves: the page table, and the change that made them.
    pub(crate) largest: LeafSize,
}

/// What a stretch of input space is to hold: `inside` within `from..to`, `outside` around it. `None` is nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pieces {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) inside: Option<Content>,
    pub(crate) outside: Option<Content>,
}

/// Neighbouring slots of one table that are written in the same way.
pub(crate) struct Segment<'p> {
    pub(crate) end: u64,
    pub(crate) kind: Kind<'p>,
}

/// What is written into the slots of a segment.
pub(crate) enum Kind<'p> {
    /// Invalid descriptors.
    Holes,
    /// Leaves of this level.
    Leaves(&'p Content),
    /// A table for each slot.
    Tables,
}

impl Content {
    /// The descriptor of the leaf at `offset`, which may stand at `level`.
    #[inline(always)]
    pub(crate) fn leaf(&self, layout: Layout, level: Level, offset: u64) -> Descriptor {
        let leaf = Descriptor::leaf(layout, level, PhysAddr::new(offset.wrapping_add(self.delta)), self.attributes);
        if self.is_kept { Descriptor::new(leaf.bits() & !Descriptor::VALID) } else { leaf }
    }

    /// Whether single leaves of `level` may hold it.
    pub(crate) fn fits<G: Granule>(&self, geometry: Geometry<G>, level: Level) -> bool {
        G::PAGE_SIZE.has_leaf(level, geometry.layout())
            && self.largest.allows(LeafSize::single(level))
            && self.is_aligned(Geometry::<G>::shift(level))
    }

    /// Bytes of a contiguous group of `level`, if such groups may hold it.
    pub(crate) fn group_bytes<G: Granule>(&self, level: Level) -> Option<u64> {
        let size = LeafSize::group(level);
        let has_groups = self.largest.allows(size) && G::PAGE_SIZE.contiguous_shift(level).is_some();
        let shift = size.shift(G::PAGE_SIZE);
        (has_groups && self.is_aligned(shift)).then_some(1 << shift)
    }

    /// From where to where the leaves of `level` from `start` to `end` are contiguous groups. Where there is none, both
    /// are `end`.
    #[inline(always)]
    pub(crate) fn groups<G: Granule>(&self, level: Level, start: u64, end: u64) -> (u64, u64) {
        let Some(bytes) = self.group_bytes::<G>(level) else { return (end, end) };
        let from = start.next_multiple_of(bytes).min(end);
        (from, (end & !(bytes - 1)).max(from))
    }

    /// Whether the descriptors of leaves from `first` to `last` differ by no more than what lies between.
    #[inline(always)]
    fn is_linear(&self, layout: Layout, first: u64, last: u64) -> bool {
        if let Layout::Bits48 = layout {
            return true;
        }
        let output = |offset: u64| layout.encode_output(PhysAddr::new(offset.wrapping_add(self.delta)));
        output(last).wrapping_sub(output(first)) == last - first
    }

    /// Gives `write` every leaf of a table of `level` that begins at `start`, two at a time, by number: contiguous groups all through, where
    /// they fit. How many bytes belong together then: of a group, or of a leaf. All of the table was one leaf: aligned as that
    /// was, it goes nowhere beyond the bits of an address that stand together.
    #[inline(always)]
    pub(crate) fn write_table<G: Granule>(
        &self,
        geometry: Geometry<G>,
        level: Level,
        start: u64,
        write: impl Fn(usize, [Descriptor; 2]),
    ) -> u64 {
        let (layout, shift) = (geometry.layout(), Geometry::<G>::shift(level));
        let group = self.group_bytes::<G>(level);
        let contiguous = if group.is_some() { Descriptor::CONTIGUOUS } else { 0 };
        let (mut leaf, step) = (self.leaf(layout, level, start).bits() | contiguous, 1 << shift);
        for_each::<32>(G::ENTRIES / 2, |pair| {
            write(2 * pair, [Descriptor::new(leaf), Descriptor::new(leaf.wrapping_add(step))]);
            leaf = leaf.wrapping_add(2 * step);
        });
        group.unwrap_or(1 << shift)
    }

    /// Gives `write` the leaves of `level` from `start` to `end`, by number: contiguous groups wherever a whole one fits.
    ///
    /// ```text
    ///   start    from                                  to   end
    ///     │·│·│·│[│·│·│·│·│·│·│·│][│·│·│·│·│·│·│·│]│·│·│      [ ] are groups, aligned as their size
    ///      single           Contiguous bit set           single
    /// ```
    /// From slot to slot a descriptor grows by the bytes of a leaf, so that each of the three runs is one addition a leaf.
    #[inline(always)]
    pub(crate) fn write_leaves<G: Granule>(
        &self,
        geometry: Geometry<G>,
        level: Level,
        (start, end): (u64, u64),
        write: impl Fn(usize, Descriptor),
    ) {
        let (layout, shift) = (geometry.layout(), Geometry::<G>::shift(level));
        let first = self.leaf(layout, level, start);
        if end - start == 1 << shift {
            return write(0, first);
        }
        let (from, to) = self.groups::<G>(level, start, end);
        if !self.is_linear(layout, start, end) {
            return self.write_one_by_one::<G>(layout, level, (start, end), (from, to), write);
        }
        // By value, so that nothing but the descriptors is written to memory.
        let run = move |at: u64, end: u64, contiguous: Bits| {
            let number = ((at - start) >> shift) as usize;
            let leaf = first.bits().wrapping_add(at - start) | contiguous;
            write_run(leaf, 1 << shift, ((end - at) >> shift) as usize, |index, leaf| write(number + index, leaf));
        };
        run(start, from, 0);
        run(from, to, Descriptor::CONTIGUOUS);
        run(to, end, 0);
    }

    /// The same where bits that stand elsewhere change on the way (LPA, LPA2). What `groups` covers becomes groups.
    #[cold]
    fn write_one_by_one<G: Granule>(
        &self,
        layout: Layout,
        level: Level,
        (start, end): (u64, u64),
        groups: (u64, u64),
        write: impl Fn(usize, Descriptor),
    ) {
        let shift = Geometry::<G>::shift(level);
        for index in 0..((end - start) >> shift) as usize {
            let at = start + ((index as u64) << shift);
            let contiguous = if (groups.0..groups.1).contains(&at) { Descriptor::CONTIGUOUS } else { 0 };
            write(index, Descriptor::new(self.leaf(layout, level, at).bits() | contiguous));
        }
    }

    /// Whether input and output addresses agree in their low `shift` bits.
    const fn is_aligned(&self, shift: u32) -> bool {
        self.delta & ((1 << shift) - 1) == 0
    }
}

impl Pieces {
    /// The segment of a table of `level` that begins at `at`, the start of a slot, and ends at or before `end`.
    #[inline(always)]
    pub(crate) fn segment<G: Granule>(&self, geometry: Geometry<G>, level: Level, at: u64, end: u64) -> Segment<'_> {
        let slot_bytes = 1 << Geometry::<G>::shift(level);
        let (content, limit) = match at {
            _ if at < self.from => (&self.outside, self.from),
            _ if at < self.to => (&self.inside, self.to),
            _ => (&self.outside, end),
        };
        let whole = limit.min(end) & !(slot_bytes - 1);
        match content {
            _ if whole <= at => Segment { end: at + slot_bytes, kind: Kind::Tables },
            None => Segment { end: whole, kind: Kind::Holes },
            Some(content) if content.fits(geometry, level) => Segment { end: whole, kind: Kind::Leaves(content) },
            Some(_) => Segment { end: whole, kind: Kind::Tables },
        }
    }

    /// How many tables it takes to hold all this beneath one slot of the level above `level`, which starts at `start`.
    pub(crate) fn tables<G: Granule>(&self, geometry: Geometry<G>, level: Level, start: u64) -> usize {
        // A table of pages is one, whatever they hold.
        let Some(next) = level.next() else { return 1 };
        // Nor has a table others below it whose slots are leaves and holes all through.
        let fits = |content: &Option<Content>| content.as_ref().is_none_or(|content| content.fits(geometry, level));
        let is_whole = (self.from | self.to) & ((1 << Geometry::<G>::shift(level)) - 1) == 0;
        if is_whole && fits(&self.inside) && fits(&self.outside) {
            return 1;
        }
        let end = start + ((G::ENTRIES as u64) << Geometry::<G>::shift(level));
        let mut count = 1;
        let mut at = start;
        while at < end {
            let segment = self.segment(geometry, level, at, end);
            if matches!(segment.kind, Kind::Tables) {
                // Slots of one segment are alike, so that one stands for all.
                let slots = (segment.end - at) >> Geometry::<G>::shift(level);
                count += slots as usize * self.tables(geometry, next, at);
            }
            at = segment.end;
        }
        count
    }
}

/// Gives `write` `count` descriptors, each `step` above the one before.
#[inline(always)]
fn write_run(mut leaf: Bits, step: u64, count: usize, write: impl Fn(usize, Descriptor)) {
    for_each::<32>(count, |index| {
        write(index, Descriptor::new(leaf));
        leaf = leaf.wrapping_add(step);
    });
}

/// A loop laid out `TURNS` turns at a time: half the instructions for each descriptor. Of more than these the compiler lays out none.
#[inline(always)]
pub(crate) fn for_each<const TURNS: usize>(count: usize, mut turn: impl FnMut(usize)) {
    let rounds = count / TURNS;
    for round in 0..rounds {
        for index in 0..TURNS {
            turn(round * TURNS + index);
        }
    }
    for index in rounds * TURNS..count {
        turn(index);
    }
}
