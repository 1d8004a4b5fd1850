//! A page table that can be edited.

use core::ops::ControlFlow;

use vmsa::{Geometry, Granule, LeafSize, Maintenance, PhysAddr};

use crate::change::{Change, Refusal};
use crate::fill::fill_holes;
use crate::gather::Gather;
use crate::platform::{Platform, Slot};
use crate::regime::Regime;
use crate::tables::{Reserve, Retired};
use crate::view::View;
use crate::walk::{Next, Table, Visit, descend, walk};

/// What a root is aligned to at the least, whatever its size, where output addresses have 52 bits: a TTBR keeps the highest
/// four of the root's bits where its lowest would be.
const LEAST_WIDE_ROOT_BYTES: u64 = 64;

/// A page table. Whoever holds it, alone edits it; hardware and any [`View`] read beside.
#[derive(Debug)]
pub struct PageTable<'p, G: Granule, R: Regime, P: Platform> {
    pub(crate) platform: &'p P,
    pub(crate) geometry: Geometry<G>,
    pub(crate) regime: R,
    pub(crate) root: PhysAddr,
    /// Where every change begins: the root, or the table of a [`crate::Part`].
    pub(crate) top: Table,
    pub(crate) is_live: bool,
    /// What bounds every leaf that a change makes.
    pub(crate) largest: LeafSize,
    /// Whether the root came out of a reserve, and is given back with the other tables.
    pub(crate) owns_root: bool,
}

/// A page table that hardware may be walking, without its platform: for who comes back to it again and again. What can be asked of
/// its root's address was asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Root<G: Granule, R: Regime> {
    geometry: Geometry<G>,
    regime: R,
    address: PhysAddr,
}

impl<G: Granule, R: Regime> Root<G, R> {
    /// What [`PageTable::live`] takes, refused as there.
    pub fn new(geometry: Geometry<G>, regime: R, address: PhysAddr) -> Result<Self, Refusal> {
        check_root(geometry, regime, address)?;
        Ok(Self { geometry, regime, address })
    }

    /// The address of the root table.
    pub const fn address(&self) -> PhysAddr {
        self.address
    }

    /// The page table, as [`PageTable::live`] gives it.
    #[inline(always)]
    pub const fn on<'p, P: Platform>(&self, platform: &'p P) -> PageTable<'p, G, R, P> {
        PageTable::new(platform, self.geometry, self.regime, self.address, true)
    }

    /// A view that reads it.
    #[inline(always)]
    pub const fn view<'p, P: Platform>(&self, platform: &'p P) -> View<'p, G, R, P> {
        View::new(platform, self.geometry, self.regime, self.address)
    }
}

impl<'p, G: Granule, R: Regime, P: Platform> PageTable<'p, G, R, P> {
    /// A new page table that maps nothing, with a root from `reserve`; refused by [`Refusal::ReserveShortBy`] if there is
    /// none, by [`Refusal::OutputTooWide`] if no TTBR can hold its address, and by [`Refusal::Shape`] if the regime has no such geometry, or the root is more than one table, which takes
    /// [`Self::offline_at`]. No hardware walks it, so nothing is ordered and nothing need be forgotten, until it is published.
    pub fn offline(platform: &'p P, geometry: Geometry<G>, regime: R, reserve: &mut Reserve) -> Result<Self, Refusal> {
        if !regime.accepts(geometry) || geometry.root_tables() > 1 {
            return Err(Refusal::Shape { root_tables: geometry.root_tables() });
        }
        if let Some(root) = reserve.0.find_wider(platform, 1, geometry.layout().output_bits()) {
            return Err(Refusal::OutputTooWide(root));
        }
        let root = reserve.take(platform).ok_or(Refusal::ReserveShortBy(1))?;
        fill_holes(platform, Slot::new(root, 0), G::ENTRIES);
        Ok(Self { owns_root: true, ..Self::new(platform, geometry, regime, root, false) })
    }

    /// The same, with the [`Geometry::root_bytes`] at `root` as its root: writable through `platform`, and in no other use. It
    /// is the one way to a root of several tables (stage 2). Refused by [`Refusal::Shape`], by [`Refusal::MisalignedRoot`]
    /// unless `root` is aligned to as many bytes, and by [`Refusal::OutputTooWide`] if it has more bits than a TTBR holds.
    pub fn offline_at(platform: &'p P, geometry: Geometry<G>, regime: R, root: PhysAddr) -> Result<Self, Refusal> {
        check_root(geometry, regime, root)?;
        fill_holes(platform, Slot::new(root, 0), geometry.root_entries());
        Ok(Self::new(platform, geometry, regime, root, false))
    }

    /// A page table that hardware may be walking, whose root is at `root`: one that was made before, be it by others. Refused as
    /// [`Self::offline_at`] is; nothing is stored.
    pub fn live(platform: &'p P, geometry: Geometry<G>, regime: R, root: PhysAddr) -> Result<Self, Refusal> {
        Ok(Root::new(geometry, regime, root)?.on(platform))
    }

    const fn new(platform: &'p P, geometry: Geometry<G>, regime: R, root: PhysAddr, is_live: bool) -> Self {
        let top = Table { address: root, level: geometry.start(), start: 0 };
        Self { platform, geometry, regime, root, top, is_live, largest: LeafSize::LARGEST, owns_root: false }
    }

    /// The page table, ready to be walked: its root may be written to a TTBR from now on.
    pub fn publish(self) -> Self {
        // A walker that is given the root must find the tables' content, not what was in memory before.
        self.platform.maintain(Maintenance::DSB_ISHST);
        Self { is_live: true, ..self }
    }

    /// The page table without its platform, published if it is not yet: what made it is not needed any more.
    pub fn detach(self) -> Root<G, R> {
        let Self { geometry, regime, root: address, .. } = if self.is_live { self } else { self.publish() };
        Root { geometry, regime, address }
    }

    /// The same page table, bounded: no change makes a leaf that `largest` does not allow ([`LeafSize::allows`]), be it that the
    /// change maps, or that it splits, edits or folds what was mapped before. `LeafSize::single(Level::L1)` is blocks of every
    /// size, and no contiguous groups; [`LeafSize::PAGE`] is pages alone. Leaves that stand there already stay as they are.
    ///
    /// A new page table is not bounded ([`LeafSize::LARGEST`]): what splits becomes the largest leaves that fit, contiguous
    /// groups among them. What one [`Change::Map`] asks for is not remembered; the bound of the page table is.
    pub fn with_largest(self, largest: LeafSize) -> Self {
        Self { largest, ..self }
    }

    /// Takes the page table down: unmaps everything, makes TLBs forget it, and gives back every table, with the root if it came
    /// out of a reserve ([`Self::offline`]). A root whose memory the caller brought is the caller's, and holds nothing.
    ///
    /// No TTBR of any CPU holds the root by now. Other gathers of the page table are finished before.
    pub fn take_down(mut self) -> Retired {
        let (platform, root, mut gather) = (self.platform, self.root, self.gather());
        let everything = [Change::Unmap { from: self.view().range() }];
        // To unmap everything takes no table, no licence, and nothing stands in its way.
        if let Ok(mut plan) = self.plan(&everything, None) {
            let _ = plan.apply(&mut Reserve::new(), &mut gather);
        }
        let mut retired = gather.finish(platform);
        if self.owns_root {
            retired.0.push(platform, root);
        }
        retired
    }

    /// The address of the root table.
    pub const fn root(&self) -> PhysAddr {
        self.root
    }

    /// The shape.
    pub const fn geometry(&self) -> Geometry<G> {
        self.geometry
    }

    /// The regime.
    pub const fn regime(&self) -> R {
        self.regime
    }

    /// A view that reads it.
    pub const fn view(&self) -> View<'p, G, R, P> {
        View::new(self.platform, self.geometry, self.regime, self.root)
    }

    /// A gather for its changes. One page table's gather is of no use to another: it knows its geometry and its regime.
    #[inline(always)]
    pub fn gather(&self) -> Gather<G, R> {
        Gather::new(self.geometry, self.regime)
    }

    /// The same page table on another platform: a `Rehearsal`, a recorder.
    pub const fn over<'q, Q: Platform>(&self, platform: &'q Q) -> PageTable<'q, G, R, Q> {
        let Self { geometry, regime, root, top, is_live, largest, owns_root, .. } = *self;
        PageTable { platform, geometry, regime, root, top, is_live, largest, owns_root }
    }

    /// The descriptor where the way for `from` ends, and the part of `from..to` that it covers.
    #[inline(always)]
    pub(crate) fn find_end(&self, from: u64, to: u64) -> Visit {
        descend(self.platform, self.geometry, self.root, from, |_, level, slot, descriptor| {
            Visit::new::<G>(slot, level, descriptor, from, to)
        })
    }

    /// [`walk`] of its tables.
    pub(crate) fn walk<B>(
        &self,
        table: Table,
        from: u64,
        to: u64,
        visit: &mut impl FnMut(&Visit) -> ControlFlow<B, Next>,
    ) -> ControlFlow<B> {
        walk(self.platform, self.geometry, table, from, to, visit)
    }

    /// [`walk`] of all that is below `table`.
    pub(crate) fn walk_all<B>(
        &self,
        table: Table,
        visit: &mut impl FnMut(&Visit) -> ControlFlow<B, Next>,
    ) -> ControlFlow<B> {
        self.walk(table, table.start, table.end(self.geometry), visit)
    }
}

/// Whether a TTBR can hold a root at `root`, and the regime has such page tables.
fn check_root<G: Granule, R: Regime>(geometry: Geometry<G>, regime: R, root: PhysAddr) -> Result<(), Refusal> {
    if !regime.accepts(geometry) {
        return Err(Refusal::Shape { root_tables: geometry.root_tables() });
    }
    let output_bits = geometry.layout().output_bits();
    let least = if output_bits > 48 { LEAST_WIDE_ROOT_BYTES } else { 1 };
    let align = geometry.root_bytes().max(least);
    if !root.is_aligned(align) {
        return Err(Refusal::MisalignedRoot { root, align });
    }
    if root.bits() >> output_bits != 0 {
        return Err(Refusal::OutputTooWide(root));
    }
    Ok(())
}
