//! What the lock of an address space guards, and the page table as a step under it finds it.

use alloc::vec::Vec;
use core::ops::{ControlFlow, Range};
use core::sync::atomic::{AtomicBool, Ordering};

use pagetable::{Change, El1, Licence, Lookup, PageTable, Refusal, Reserve, Root, Tolerance, View};
use vmsa::{Descriptor, Geometry, Granule, LeafSize, Meaning, PhysAddr};

use crate::area::AreaFlags;
use crate::areas::Areas;
use crate::current::Current;
use crate::embedder::Embedder;
use crate::error::{Error, Short};
use crate::limits::Limits;
use crate::parts::{Part, Parts};
use crate::resident::Resident;
use crate::shape::{Leaf, Shape};

/// Runs of frames that wait for the TLBs at once.
const DOOMED: usize = 512;

/// Descriptors of one portion of a step: between two, others have their turn.
const PORTION: u64 = 1 << 16;

/// What a change of the areas may take of the heap: nodes of the map that hold the parts of two that are cut.
pub(crate) const HEAP: usize = 16 << 10;

/// What the lock guards.
pub struct State<E: Embedder> {
    pub(crate) areas: Areas<E::File>,
    pub(crate) root: Root<E::Granule, El1>,
    /// Frames that TLBs have yet to forget, and how many lie there: room for [`DOOMED`], so that to unmap takes no memory. Each list has
    /// room in a page of 4K, so that a space needs no memory in one piece.
    pub(crate) doomed: (Vec<PhysAddr>, Vec<u64>),
    /// From where the heap begins to the break.
    pub(crate) heap: Range<u64>,
    /// Below it `mmap` looks for room.
    pub(crate) ceiling: u64,
    pub(crate) limits: Limits,
    /// What every area gets that is mapped from now on: `mlockall`.
    pub(crate) future: AreaFlags,
    /// What faults have not put into tables, less what was taken out of them: with that of the parts it is what is there.
    pub(crate) resident: Resident,
    /// What faults alter, part by part.
    pub(crate) parts: Parts,
    /// [`State::peaks_now`], when something went last.
    pub(crate) peaks: [u64; 2],
    /// There was a folio, so that there may be contiguous groups.
    has_folios: AtomicBool,
    /// What another walker tolerates that has these tables too, if there is one.
    pub(crate) walker: Option<Tolerance>,
    /// Grows with every change but those that faults make and [`Self::take_lazy`] makes: [`Self::version_at`].
    pub(crate) version: u64,
}

/// What a step under the lock works with.
pub(crate) struct Editing<'a, E: Embedder> {
    pub(crate) embedder: &'a E,
    pub(crate) shape: &'a Shape<E::Granule>,
    pub(crate) platform: Current<'a, E::Platform>,
    /// That of the state.
    pub(crate) walker: Option<Tolerance>,
}

impl<E: Embedder> Editing<'_, E> {
    /// How live leaves change size: as every CPU and every other walker tolerates.
    pub(crate) fn licence(&self) -> Licence<'_> {
        let licence = self.embedder.licence();
        match self.walker {
            Some(walker) => licence.capped(walker, self.embedder),
            None => licence,
        }
    }

    /// Runs `resize`, in which leaves of a range change size by this licence. The kernel hears of what is in place.
    pub(crate) fn resize(&self, licence: &Licence<'_>, range: Range<u64>, resize: &mut dyn FnMut()) {
        if licence.is_in_place() { self.embedder.announce(range, resize) } else { resize() }
    }
}

/// The page table.
pub(crate) type Table<'e, 'a, E> = PageTable<'e, <E as Embedder>::Granule, El1, Current<'a, <E as Embedder>::Platform>>;

impl<E: Embedder> State<E> {
    /// That of a space that has nothing; `None` if there is no heap for it.
    pub(crate) fn new(root: Root<E::Granule, El1>, ceiling: u64, limits: Limits) -> Option<Self> {
        let mut doomed = (Vec::new(), Vec::new());
        doomed.0.try_reserve_exact(DOOMED).ok()?;
        doomed.1.try_reserve_exact(DOOMED).ok()?;
        Some(Self {
            areas: Areas::new(),
            root,
            doomed,
            heap: 0..0,
            ceiling,
            limits,
            future: AreaFlags::empty(),
            resident: Resident::default(),
            parts: Parts::new()?,
            peaks: [0; 2],
            has_folios: AtomicBool::new(false),
            walker: None,
            version: 0,
        })
    }

    /// Grows with every change but those that faults make, and whenever a table of this part comes free: who prepared something for a
    /// fault knows by it that all is as it was, and that a hole that was found is still in a table.
    #[inline(always)]
    pub(crate) fn version_at(&self, part: &Part) -> u64 {
        self.version.wrapping_add(part.version())
    }

    /// Pages in tables.
    pub(crate) fn resident(&self) -> Resident {
        let (own, file) = (self.resident.own, self.resident.file);
        let parts = self.parts.resident();
        Resident { own: own.wrapping_add(parts.own), file: file.wrapping_add(parts.file) }
    }

    /// Who asks about another part's folios has no use for an answer that is newer.
    pub(crate) fn has_folios(&self) -> bool {
        self.has_folios.load(Ordering::Relaxed)
    }

    /// There is a folio.
    pub(crate) fn note_folio(&self) {
        // Once, so that no line of memory goes from CPU to CPU for it.
        if !self.has_folios() {
            self.has_folios.store(true, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    pub(crate) const fn table<'e, 'a>(&self, editing: &'e Editing<'a, E>) -> Table<'e, 'a, E> {
        self.root.on(&editing.platform)
    }

    /// Refuses what would take more heap or more areas than there may be: a range is cut out of those that there are, and
    /// `more` are added.
    pub(crate) fn check_room(
        &mut self,
        editing: &Editing<'_, E>,
        range: &Range<u64>,
        more: usize,
    ) -> Result<(), Error> {
        let cuts = self.areas.cuts(range);
        // What is cut away at one end alone leaves as many as there were.
        let is_inside = cuts == 2 && self.areas.within(range).nth(1).is_none();
        let added = more + usize::from(is_inside);
        if added > 0 && self.areas.count() + added > self.limits.areas {
            return Err(Error::NoMemory);
        }
        if cuts + more > 0 { self.reserve_areas(editing, cuts + more) } else { Ok(()) }
    }

    /// Has memory for so many areas more, so that to change areas cannot fail.
    pub(crate) fn reserve_areas(&mut self, editing: &Editing<'_, E>, more: usize) -> Result<(), Error> {
        if !editing.embedder.has_heap(HEAP) {
            return Err(Error::NoMemory);
        }
        Ok(self.areas.reserve(more)?)
    }

    /// Has leaves end where a range does. No leaf is of two areas: who cuts areas cuts leaves first, here, and where that fails nothing
    /// has changed.
    pub(crate) fn cut_leaves(
        &self,
        editing: &Editing<'_, E>,
        range: &Range<u64>,
        supply: &mut Reserve,
    ) -> Result<(), Short> {
        [range.start, range.end].into_iter().try_for_each(|at| self.cut_leaf(editing, at, supply))
    }

    /// Has a leaf end at `at`, if one goes on there.
    pub(crate) fn cut_leaf(&self, editing: &Editing<'_, E>, at: u64, supply: &mut Reserve) -> Result<(), Short> {
        let mut table = self.table(editing);
        match leaf_at::<E>(&table.view(), at).filter(|(_, whole)| whole.start < at) {
            Some((_, whole)) => shrink::<E>(&mut table, editing, whole, Change::Split { at: at.into() }, supply),
            None => Ok(()),
        }
    }

    /// Where a portion of a range ends: no leaf goes on beyond it, unless one does beyond the range.
    pub(crate) fn portion(&self, editing: &Editing<'_, E>, range: &Range<u64>) -> Result<u64, Refusal> {
        let areas = (self.areas.count() * E::Granule::ENTRIES) as u64;
        let most = (self.areas.bytes() >> E::Granule::SHIFT) + areas;
        // All that there can be is no more, and mostly is not.
        if most <= PORTION { Ok(range.end) } else { portion_of_tables::<E>(&self.table(editing), range) }
    }

    /// Finds an address that is mapped outside every area, or whose leaf goes on beyond its area or has other rights. A leaf that is kept
    /// invalid is none of any area.
    #[cold]
    pub(crate) fn find_stray(&self, editing: &Editing<'_, E>) -> Option<u64> {
        let mut areas = self.areas.iter().peekable();
        let all = 0.into()..editing.shape.geometry.input_bytes().into();
        let found = self.table(editing).view().for_each(all, |entry| {
            let (at, lookup) = (u64::from(entry.input), &entry.lookup);
            let is_explained = match leaf_of::<E>(lookup, at) {
                None => lookup.descriptor == Descriptor::INVALID || matches!(lookup.meaning, Meaning::Table(_)),
                Some((leaf, whole)) => {
                    while areas.next_if(|area| area.end <= at).is_some() {}
                    areas.peek().is_some_and(|area| {
                        let (set, clear) = editing.shape.change(area.rights);
                        let is_within = area.start <= whole.start && whole.end <= area.end;
                        is_within && leaf.has(set) && !leaf.attributes.intersects(clear)
                    })
                }
            };
            if is_explained { ControlFlow::Continue(()) } else { ControlFlow::Break(at) }
        });
        found.ok()?.break_value()
    }

    /// Pages of areas for which `is_counted` holds.
    pub(crate) fn pages(&self, mut is_counted: impl FnMut(&crate::Area<E::File>) -> bool) -> u64 {
        let counted = self.areas.iter().filter(|area| is_counted(area));
        counted.map(|area| area.bytes() >> E::Granule::SHIFT).sum()
    }
}

/// Where a portion of a range ends, by what tables say alone: no leaf goes on beyond it, unless one does beyond the range.
pub(crate) fn portion_of_tables<E: Embedder>(table: &Table<'_, '_, E>, range: &Range<u64>) -> Result<u64, Refusal> {
    if (range.end - range.start) >> E::Granule::SHIFT <= PORTION {
        return Ok(range.end);
    }
    table.view().portion(range.start.into()..range.end.into(), PORTION).map(u64::from)
}

/// Gives `sink` every page of a range that is mapped, in order of address; where it broke off.
pub(crate) fn for_each_leaf<E: Embedder, B>(
    table: &Table<'_, '_, E>,
    range: &Range<u64>,
    sink: impl FnMut(u64, Leaf) -> ControlFlow<B>,
) -> Result<Option<B>, Refusal> {
    for_each_leaf_if::<E, B>(table, range, |_| true, sink)
}

/// Gives `sink` every page of a range whose leaf is wanted; the others are passed over leaf by leaf, however large.
pub(crate) fn for_each_leaf_if<E: Embedder, B>(
    table: &Table<'_, '_, E>,
    range: &Range<u64>,
    is_wanted: impl Fn(&Leaf) -> bool,
    mut sink: impl FnMut(u64, Leaf) -> ControlFlow<B>,
) -> Result<Option<B>, Refusal> {
    let flow = table.view().for_each(range.start.into()..range.end.into(), |entry| {
        let Meaning::Leaf(to, _) = entry.lookup.meaning else { return ControlFlow::Continue(()) };
        let first = u64::from(entry.input);
        if !is_wanted(&Leaf::new(to, entry.lookup.descriptor)) {
            return ControlFlow::Continue(());
        }
        if entry.shift == E::Granule::SHIFT {
            return sink(first, Leaf::new(to, entry.lookup.descriptor));
        }
        let (start, end) = (first.max(range.start), (first + (1 << entry.shift)).min(range.end));
        for page in (start..end).step_by(E::Granule::SIZE_BYTES as usize) {
            sink(page, Leaf::new(to + (page - first), entry.lookup.descriptor))?;
        }
        ControlFlow::Continue(())
    })?;
    Ok(flow.break_value())
}

/// The leaf that maps a page, and all that it maps.
pub(crate) fn leaf_at<E: Embedder>(
    view: &View<'_, E::Granule, El1, Current<'_, E::Platform>>,
    page: u64,
) -> Option<(Leaf, Range<u64>)> {
    leaf_of::<E>(&view.find(page.into())?, page)
}

/// The leaf where the way for a page has ended, if one is there, and all that it maps.
#[inline(always)]
pub(crate) fn leaf_of<E: Embedder>(found: &Lookup, page: u64) -> Option<(Leaf, Range<u64>)> {
    let Meaning::Leaf(to, is_contiguous) = found.meaning else { return None };
    let (level, granule) = (found.level, E::Granule::PAGE_SIZE);
    let contiguous = is_contiguous && granule.contiguous_shift(level).is_some();
    let bytes = LeafSize { level, contiguous }.size_bytes(granule);
    let (within, start) = ((1 << Geometry::<E::Granule>::shift(level)) - 1, page & !(bytes - 1));
    Some((Leaf::new(to + (page & within), found.descriptor), start..start + bytes))
}

/// Has a page be a leaf by itself.
pub(crate) fn make_single<E: Embedder>(
    table: &mut Table<'_, '_, E>,
    editing: &Editing<'_, E>,
    page: u64,
    supply: &mut Reserve,
) -> Result<(), Short> {
    let end = page + E::Granule::SIZE_BYTES;
    match leaf_at::<E>(&table.view(), page) {
        Some((_, whole)) if whole != (page..end) => {
            shrink::<E>(table, editing, whole, Change::SplitToPages { from: page.into()..end.into() }, supply)
        }
        _ => Ok(()),
    }
}

/// Makes the leaf of a range smaller, which holds what it held.
fn shrink<E: Embedder>(
    table: &mut Table<'_, '_, E>,
    editing: &Editing<'_, E>,
    leaf: Range<u64>,
    change: Change<El1>,
    supply: &mut Reserve,
) -> Result<(), Short> {
    let (mut gather, licence) = (table.gather(), editing.licence());
    if licence.is_in_place() {
        // Mostly a contiguous group, whose pages become single by stores alone.
        let (first, mut is_split) = (leaf.start.into(), false);
        editing.resize(&licence, leaf.clone(), &mut || is_split = table.split_group(first, &licence));
        if is_split {
            return Ok(());
        }
    }
    let changes = [change];
    let mut plan = table.plan(&changes, Some(&licence))?;
    let mut made = Ok(());
    editing.resize(&licence, leaf, &mut || {
        made = plan.apply(supply, &mut gather);
        supply.refill(&editing.platform, gather.finish(&editing.platform));
    });
    Ok(made?)
}
