//! The areas of an address space, in order of address: none overlap, and neighbours that are alike are one.

use core::ops::Range;

use crate::area::{Area, AreaFlags};
use crate::map::{Map, NoMemory};

/// Areas.
#[derive(Debug)]
pub(crate) struct Areas<F> {
    by_start: Map<u64, Area<F>>,
    bytes: u64,
}

impl<F: Clone + PartialEq> Areas<F> {
    pub(crate) const fn new() -> Self {
        Self { by_start: Map::new(), bytes: 0 }
    }

    /// Has nodes in hand for so many areas more: to change areas takes no memory then. What takes any says how many it adds at most.
    pub(crate) fn reserve(&mut self, more: usize) -> Result<(), NoMemory> {
        self.by_start.reserve(more)
    }

    /// The same areas.
    pub(crate) fn try_clone(&self) -> Result<Self, NoMemory> {
        let by_start = self.by_start.try_clone(|start, area| Some((*start, area.clone())))?;
        Ok(Self { by_start, bytes: self.bytes })
    }

    pub(crate) fn count(&self) -> usize {
        self.by_start.len()
    }

    /// Of all of them.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Area<F>> + Clone {
        self.by_start.values()
    }

    /// The area that holds `address`.
    pub(crate) fn find(&self, address: u64) -> Option<&Area<F>> {
        let (_, area) = self.by_start.up_to(&address)?;
        (address < area.end).then_some(area)
    }

    /// The first area that ends above `address`.
    pub(crate) fn next(&self, address: u64) -> Option<&Area<F>> {
        self.find(address).or_else(|| self.by_start.at_least(&address).next().map(|(_, area)| area))
    }

    /// The last area that begins below `address`.
    pub(crate) fn before(&self, address: u64) -> Option<&Area<F>> {
        self.by_start.below(&address).next().map(|(_, area)| area)
    }

    /// The areas that meet a range.
    pub(crate) fn within(&self, range: &Range<u64>) -> impl Iterator<Item = &Area<F>> + use<'_, F> {
        let start = self.find(range.start).map_or(range.start, |area| area.start);
        let end = range.end.max(start);
        self.by_start.at_least(&start).map(|(_, area)| area).take_while(move |area| area.start < end)
    }

    /// The same, cut to the range.
    pub(crate) fn parts(&self, range: &Range<u64>) -> impl Iterator<Item = Area<F>> + use<'_, F> {
        let Range { start, end } = *range;
        self.within(range).map(move |area| area.part(area.start.max(start), area.end.min(end)))
    }

    pub(crate) fn is_free(&self, range: &Range<u64>) -> bool {
        self.within(range).next().is_none()
    }

    /// Adds an area to a range that is free; it becomes one with neighbours that are alike.
    pub(crate) fn insert(&mut self, area: Area<F>) {
        let (start, end) = (area.start, area.end);
        debug_assert!(start < end, "{start:#x} to {end:#x} is no range");
        self.bytes += area.bytes();
        self.put(start, area);
        self.join(end);
        self.join(start);
    }

    /// There is an area more, for which [`Self::reserve`] has memory.
    fn put(&mut self, start: u64, area: Area<F>) {
        let put = self.by_start.insert(start, area);
        debug_assert!(put.is_ok(), "nodes were reserved for each area that is added");
    }

    /// Keeps those of which this holds, which may change what they are, and joins none.
    pub(crate) fn retain(&mut self, mut stays: impl FnMut(&mut Area<F>) -> bool) {
        self.by_start.retain(|_, area| {
            let is_kept = stays(area);
            self.bytes -= if is_kept { 0 } else { area.bytes() };
            is_kept
        });
    }

    /// Makes `at` a boundary between areas.
    fn cut(&mut self, at: u64) {
        let Some(area) = self.before(at).filter(|area| at < area.end) else { return };
        let (start, upper) = (area.start, area.part(at, area.end));
        if let Some(lower) = self.by_start.get_mut(&start) {
            lower.end = at;
            self.put(at, upper);
        }
    }

    /// Makes one of the areas that meet at `at`, if they are alike.
    fn join(&mut self, at: u64) {
        let Some(below) = self.before(at) else { return };
        let Some(above) = self.by_start.get(&at).filter(|above| below.joins(above)) else { return };
        let (start, end) = (below.start, above.end);
        self.by_start.remove(&at);
        if let Some(below) = self.by_start.get_mut(&start) {
            below.end = end;
        }
    }

    /// Removes what lies in a range.
    pub(crate) fn remove(&mut self, range: &Range<u64>) {
        self.cut(range.start);
        self.cut(range.end);
        loop {
            let first = self.within(range).next().map(|area| area.start);
            let Some(area) = first.and_then(|start| self.by_start.remove(&start)) else { break };
            self.bytes -= area.bytes();
        }
    }

    /// Changes what lies in a range, and joins what is alike then.
    pub(crate) fn update(&mut self, range: &Range<u64>, mut change: impl FnMut(&mut Area<F>)) {
        self.cut(range.start);
        self.cut(range.end);
        let mut at = range.start;
        while let Some(start) = self.by_start.at_least(&at).next().map(|(start, _)| *start).filter(|at| *at < range.end)
        {
            if let Some(area) = self.by_start.get_mut(&start) {
                change(area);
                at = area.end;
            }
        }
        self.join(range.end);
        let mut at = range.end;
        while let Some(start) = self.before(at).map(|area| area.start).filter(|start| *start >= range.start) {
            at = start;
            self.join(at);
        }
    }

    /// How many areas more there are at most if a range is cut out of those that there are.
    pub(crate) fn cuts(&self, range: &Range<u64>) -> usize {
        let is_inside = |at: u64| self.find(at).is_some_and(|area| area.start < at);
        usize::from(is_inside(range.start)) + usize::from(is_inside(range.end))
    }

    /// Where below `highest`, and not below `lowest`, so many bytes are free: as high as possible. A stack keeps `guard` bytes free
    /// below it: where they alone leave too little room, what is found lies below them all.
    pub(crate) fn find_room(&self, lowest: u64, highest: u64, bytes: u64, guard: u64) -> Option<u64> {
        let (mut highest, mut above) = (highest, self.next(highest));
        for below in self.by_start.below(&highest).map(|(_, area)| Some(area)).chain([None]) {
            let start = below.map_or(lowest, |area| area.end.max(lowest));
            let has_room = |end: u64| end.checked_sub(start).is_some_and(|free| free >= bytes);
            if has_room(above.map_or(highest, |area| highest.min(area.start))) {
                highest = above.map_or(highest, |area| highest.min(guarded_start(area, guard)));
                if has_room(highest) {
                    return Some(highest - bytes);
                }
            }
            above = below;
        }
        None
    }

    /// The lowest such place from `lowest` up to `highest`.
    pub(crate) fn find_room_above(&self, lowest: u64, highest: u64, bytes: u64, guard: u64) -> Option<u64> {
        let mut start = lowest;
        for area in self.within(&(lowest..highest)) {
            if guarded_start(area, guard).checked_sub(start).is_some_and(|free| free >= bytes) {
                return Some(start);
            }
            start = start.max(area.end);
        }
        highest.checked_sub(start).is_some_and(|free| free >= bytes).then_some(start)
    }
}

/// Where what is free below an area ends: a stack keeps `guard` bytes.
pub(crate) fn guarded_start<F>(area: &Area<F>, guard: u64) -> u64 {
    if area.flags.contains(AreaFlags::GROWS_DOWN) { area.start.saturating_sub(guard) } else { area.start }
}
