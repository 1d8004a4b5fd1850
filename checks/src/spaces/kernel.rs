//! A kernel with address spaces on the simulated machine: its frames and tables are pages of the pool, its platform is the CPU that
//! has the turn.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use machine::event::{Event, Owned};
use pagetable::{Census, Licence, Platform, Slot};
use userspace::{Embedder, File, FileError, Frames};
use vmsa::{Descriptor, Granule, Maintenance, PhysAddr};

use super::board::{Board, Gate};
use crate::cpu::event_of;
use crate::peek::Peek;

/// The frame of zeros.
pub(super) const ZEROS: u64 = 0x7_0000_0000;
/// Zeros as many as a block has.
const MANY_ZEROS: Range<u64> = 0x7_0200_0000..0x7_0400_0000;

/// Whether an address is among zeros, which are nobody's.
pub(super) fn is_zeros(address: u64) -> bool {
    address == ZEROS || MANY_ZEROS.contains(&address)
}

/// A kernel; a clone is the same.
pub(super) struct Kernel<G> {
    pub(super) bus: Bus,
    folio_order: u32,
    /// What its CPUs tolerate.
    census: Arc<Census>,
    granule: PhantomData<G>,
}

impl<G> Kernel<G> {
    pub(super) fn new(board: &Arc<Board>, folio_order: u32, census: Census, omits: Omits) -> Self {
        Self { bus: Bus(Arc::clone(board), omits), folio_order, census: Arc::new(census), granule: PhantomData }
    }
}

impl<G> Clone for Kernel<G> {
    fn clone(&self) -> Self {
        Self { bus: Bus(Arc::clone(&self.bus.0), self.bus.1), census: Arc::clone(&self.census), ..*self }
    }
}

/// The barriers and TLBIs of an address space that a mutant does not make, in a fork or elsewhere.
pub(super) type Omits = fn(&Maintenance, bool) -> bool;

/// The way to memory.
pub(super) struct Bus(pub(super) Arc<Board>, Omits);

impl Platform for Bus {
    fn load(&self, slot: Slot) -> Descriptor {
        if Board::is_checking() {
            return Peek(&self.0.now().machine).load(slot);
        }
        self.0.step(|turn, cpu| Descriptor::new(turn.machine.load(cpu, slot.address().bits())))
    }

    fn store(&self, slot: Slot, descriptor: Descriptor) {
        let (address, value) = (slot.address().bits(), descriptor.bits());
        self.0.event(Event::Store { address, value, is_release: false });
    }

    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        let (address, expected, value) = (slot.address().bits(), old.bits(), new.bits());
        let exchanged = self.0.step(|turn, cpu| turn.machine.compare_exchange(cpu, address, expected, value));
        exchanged.map(|_| ()).map_err(Descriptor::new)
    }

    fn maintain(&self, operation: Maintenance) {
        if !(self.1)(&operation, Board::is_forking()) {
            self.0.event(event_of(operation));
        }
    }
}

/// There are no files.
#[derive(Clone, PartialEq)]
pub(super) struct NoFile;

impl File for NoFile {
    fn frame(&self, _: u64) -> Result<PhysAddr, FileError> {
        Err(FileError::Beyond)
    }
}

impl<G> Frames for Kernel<G> {
    fn take(&self) -> Option<PhysAddr> {
        self.bus.0.step(|turn, _| {
            let frame = turn.take()?;
            turn.frames.insert(frame, 1);
            Some(PhysAddr::new(frame))
        })
    }

    fn take_folio(&self, order: u32) -> Option<PhysAddr> {
        self.bus.0.step(|turn, _| {
            let (pages, bytes) = (1 << order, turn.page_bytes());
            let first = turn.take_run(pages)?;
            turn.frames.extend((0..pages).map(|page| (first + page * bytes, 1)));
            turn.folios += 1;
            Some(PhysAddr::new(first))
        })
    }

    fn share(&self, frame: PhysAddr) {
        self.bus.0.step(|turn, _| match turn.frames.get_mut(&frame.bits()) {
            Some(count) => *count += 1,
            None => turn.fail(format!("{frame:?} is shared, which is free")),
        });
    }

    fn release(&self, frame: PhysAddr) {
        self.bus.0.step(|turn, cpu| match turn.frames.remove(&frame.bits()) {
            None => turn.fail(format!("{frame:?} is released, which is free")),
            Some(1) => turn.free(cpu, frame.bits(), Owned::Frame),
            Some(count) => {
                turn.frames.insert(frame.bits(), count - 1);
            }
        });
    }

    fn is_sole(&self, frame: PhysAddr) -> bool {
        self.bus.0.step(|turn, _| turn.frames.get(&frame.bits()) == Some(&1))
    }

    fn zero_folio(&self, _: PhysAddr, _: u32) {
        self.bus.0.step(|_, _| ());
    }

    fn copy(&self, _: PhysAddr, _: PhysAddr) {
        self.bus.0.step(|_, _| ());
    }

    // The machine here has no caches.
    fn make_fetchable(&self, _: PhysAddr) {}

    fn zero_frame(&self) -> PhysAddr {
        PhysAddr::new(ZEROS)
    }

    fn zeros(&self, _: u32) -> Option<PhysAddr> {
        self.bus.0.step(|turn, _| turn.zeros += 1);
        Some(PhysAddr::new(MANY_ZEROS.start))
    }

    fn take_table(&self) -> Option<PhysAddr> {
        self.bus.0.step(|turn, _| turn.take().map(PhysAddr::new))
    }

    fn release_table(&self, table: PhysAddr) {
        self.bus.0.step(|turn, cpu| turn.free(cpu, table.bits(), Owned::Table));
    }
}

impl<G: Granule> Embedder for Kernel<G> {
    type Granule = G;
    type Platform = Bus;
    type File = NoFile;
    type Lock<T> = Gate<T>;

    fn platform(&self) -> &Bus {
        &self.bus
    }

    fn folio_orders(&self, _: bool) -> u32 {
        // A block is more than the pool has: reads alone find one, of zeros.
        1 << self.folio_order | if self.folio_order > 0 { 1 << (G::SHIFT - 3) } else { 0 }
    }

    fn licence(&self) -> Licence<'_> {
        let tolerated = self.census.tolerated().map(Licence::bearing_conflicts);
        tolerated.unwrap_or_else(|| Licence::break_before_make(self))
    }

    fn check(&self, find_stray: &dyn Fn() -> Option<u64>) {
        if let Some(stray) = Board::checking(find_stray) {
            self.bus.0.step(|turn, _| turn.fail(format!("no area explains the leaf at {stray:#x}")));
        }
    }

    fn shared_memory(&self, _: u64) -> Option<NoFile> {
        None
    }
}
