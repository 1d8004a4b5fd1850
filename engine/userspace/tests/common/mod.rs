//! A kernel without a machine: frames in a map, files, and a TLB that forgets nothing that it is not told to.

mod file;
mod lock;
mod machine;
mod program;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::Range;
use std::rc::Rc;

use vellum_pagetable::{Census, HardwareUpdates, Licence, Reserve, TlbFeatures, Tolerance};
use vellum_userspace::{AddressSpace, Asids, Embedder, Error, Frames, Limits, Numbers, Rights, Shape};
use vellum_vmsa::{AddressHalf, BbmLevel, Geometry, Granule, Level, PhysAddr, Stage1Attributes};

#[path = "../../../pagetable/tests/common/widths.rs"]
pub(crate) mod widths;

use widths::{asked, shape};

pub(crate) const RW: Rights = Rights::READ.union(Rights::WRITE);
pub(crate) const RX: Rights = Rights::READ.union(Rights::EXECUTE);

/// Below it `mmap` looks for room.
pub(crate) fn ceiling() -> u64 {
    if asked() == Some(36) { 0xf_0000_0000 } else { 0x7f_0000_0000 }
}

/// Levels of tables above level 1.
pub(crate) fn levels_above<G: Granule>() -> usize {
    let (start, level1) = (geometry::<G>().0.start().number(), Level::L1.number());
    usize::try_from(level1 - start).unwrap_or(0)
}

/// The shape of page tables, and the address behind the highest.
pub(crate) fn geometry<G: Granule>() -> (Geometry<G>, u64) {
    let least = if G::SHIFT == 16 { 42 } else { 39 };
    (shape(least, AddressHalf::Lower), 1 << asked().unwrap_or(39))
}

pub(crate) use file::TestFile;
pub(crate) use lock::{Alone, Beside, Held, before_whole, held, holding, run_beside};
pub(crate) use machine::Machine;
pub(crate) use program::{
    access, anonymous, can_be_read, can_be_written, frame_at, leaf_bytes, maps, mark_elsewhere, of_file, read, write,
};

/// A frame, and what is in it: one value all over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) count: usize,
    pub(crate) value: u64,
    /// What fetches find.
    pub(crate) fetched: Option<u64>,
}

pub(crate) struct Inner {
    pub(crate) machine: Machine,
    pub(crate) frames: RefCell<BTreeMap<PhysAddr, Frame>>,
    /// The next frame.
    pub(crate) next: Cell<u64>,
    spare_tables: RefCell<Vec<PhysAddr>>,
    /// Tables that are out.
    pub(crate) tables: Cell<usize>,
    /// How many more frames and tables there are.
    pub(crate) left: Cell<usize>,
    /// The order of the largest folio.
    pub(crate) folio_order: Cell<u32>,
    /// How often a folio was asked for.
    pub(crate) folios_asked: Cell<usize>,
    /// Faults that a program has taken.
    pub(crate) faults: Cell<usize>,
    /// Whether there are zeros as many as a block has.
    pub(crate) has_zeros: Cell<bool>,
    /// Whether every CPU is of level 3, or 2.
    pub(crate) tolerates: Cell<bool>,
    pub(crate) is_at_2: Cell<bool>,
    /// How often leaves were announced that change size.
    pub(crate) announced: Cell<usize>,
    /// How many entries of TLBs let a program write in the range when the last announcement ended.
    pub(crate) writable_behind: Cell<usize>,
    /// How often the heap has room yet, and for how many bytes it was asked last.
    pub(crate) heap_left: Cell<usize>,
    pub(crate) heap_asked: Cell<usize>,
    /// How often long calls may ask whether they go on yet; loads at the last time, and the most between two.
    pub(crate) turns_left: Cell<usize>,
    pub(crate) loads_before: Cell<usize>,
    pub(crate) most_loads: Cell<usize>,
    pub(crate) committed: Cell<u64>,
    pub(crate) most_committed: Cell<u64>,
    pub(crate) asids: Asids<Alone<Numbers>>,
    /// What another CPU does in the next steps of a fault that are made without a lock, and how many of them pass before.
    pub(crate) beside: RefCell<Option<Beside>>,
}

static LEVEL3: Census = Census::new(Tolerance::new(BbmLevel::Level3, false));
static LEVEL2: Census = Census::new(Tolerance::new(BbmLevel::Level2, true));

/// A kernel; a clone is the same one.
pub(crate) struct Kernel<G>(pub(crate) Rc<Inner>, PhantomData<G>);

impl<G> Clone for Kernel<G> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}

pub(crate) type Space<G> = AddressSpace<Kernel<G>>;

const FRAMES: u64 = 0x1_0000_0000;
const ZEROS: PhysAddr = PhysAddr::new(0xf000_0000);
/// Zeros as many as the largest block has.
const MANY_ZEROS: Range<u64> = 0x80_0000_0000..0x80_2000_0000;

/// Whether a frame is nobody's, and of zeros.
pub(crate) fn is_zeros(frame: PhysAddr) -> bool {
    frame == ZEROS || MANY_ZEROS.contains(&frame.bits())
}

impl<G: Granule> Kernel<G> {
    pub(crate) fn new() -> Self {
        let machine = Machine::new(G::SHIFT);
        let inner = Inner {
            machine,
            frames: RefCell::default(),
            next: Cell::new(FRAMES),
            spare_tables: RefCell::default(),
            tables: Cell::new(0),
            left: Cell::new(usize::MAX),
            folio_order: Cell::new(0),
            folios_asked: Cell::new(0),
            faults: Cell::new(0),
            has_zeros: Cell::new(true),
            tolerates: Cell::new(false),
            is_at_2: Cell::new(false),
            announced: Cell::new(0),
            writable_behind: Cell::new(0),
            heap_left: Cell::new(usize::MAX),
            heap_asked: Cell::new(0),
            turns_left: Cell::new(usize::MAX),
            loads_before: Cell::new(0),
            most_loads: Cell::new(0),
            committed: Cell::new(0),
            most_committed: Cell::new(u64::MAX),
            asids: Asids::new(8, 1).unwrap(),
            beside: RefCell::default(),
        };
        Self(Rc::new(inner), PhantomData)
    }

    pub(crate) fn set(&self, frame: PhysAddr, value: u64) {
        self.0.frames.borrow_mut().get_mut(&frame).expect("a frame that is taken").value = value;
    }

    pub(crate) fn get(&self, frame: PhysAddr) -> u64 {
        if is_zeros(frame) { 0 } else { self.0.frames.borrow()[&frame].value }
    }

    /// What fetches find in a frame; nothing that anybody knows, unless it was made fetchable.
    pub(crate) fn fetched(&self, frame: PhysAddr) -> Option<u64> {
        self.0.frames.borrow()[&frame].fetched
    }

    /// Has another CPU do what it does in this step, if no lock is held.
    fn step(&self) {
        if held() == Held::Nothing {
            run_beside(&self.0.beside);
        }
    }

    /// The table that is taken next is here.
    pub(crate) fn give_table(&self, table: PhysAddr) {
        self.0.spare_tables.borrow_mut().push(table);
    }

    /// Frames and tables that are out.
    pub(crate) fn out(&self) -> (usize, usize) {
        (self.0.frames.borrow().len(), self.0.tables.get())
    }

    pub(crate) fn shape(&self, hardware_updates: HardwareUpdates) -> Shape<G> {
        let (geometry, highest) = geometry();
        Shape {
            geometry,
            tlb: TlbFeatures::NONE,
            hardware_updates,
            memory: Stage1Attributes::memory(0),
            has_execute_only: false,
            lowest: 0x1_0000,
            lowest_fixed: 0x8000,
            highest,
            guard_bytes: 256 * G::SIZE_BYTES,
        }
    }

    pub(crate) fn space(&self) -> Space<G> {
        self.try_space(HardwareUpdates::None).unwrap()
    }

    pub(crate) fn try_space(&self, hardware_updates: HardwareUpdates) -> Result<Space<G>, Error> {
        AddressSpace::new(self.clone(), self.shape(hardware_updates), ceiling(), Limits::USUAL)
    }
}

impl<G: Granule> Frames for Kernel<G> {
    fn take(&self) -> Option<PhysAddr> {
        self.0.left.set(self.0.left.get().checked_sub(1)?);
        let frame = PhysAddr::new(self.0.next.get());
        self.0.next.set(frame.bits() + G::SIZE_BYTES);
        self.0.frames.borrow_mut().insert(frame, Frame { count: 1, value: 0xdead, fetched: None });
        Some(frame)
    }

    fn take_folio(&self, order: u32) -> Option<PhysAddr> {
        self.0.folios_asked.set(self.0.folios_asked.get() + 1);
        let (pages, bytes) = (1_usize << order, G::SIZE_BYTES << order);
        self.0.left.set(self.0.left.get().checked_sub(pages)?);
        let first = self.0.next.get().next_multiple_of(bytes);
        self.0.next.set(first + bytes);
        for frame in (first..first + bytes).step_by(G::SIZE_BYTES as usize).map(PhysAddr::new) {
            self.0.frames.borrow_mut().insert(frame, Frame { count: 1, value: 0xdead, fetched: None });
        }
        Some(PhysAddr::new(first))
    }

    fn share(&self, frame: PhysAddr) {
        self.0.frames.borrow_mut().get_mut(&frame).expect("a frame that is taken").count += 1;
    }

    fn release(&self, frame: PhysAddr) {
        let mut frames = self.0.frames.borrow_mut();
        let held = frames.get_mut(&frame).expect("a frame that is taken");
        held.count -= 1;
        if held.count == 0 {
            let is_cached = self.0.machine.tlb.borrow().values().any(|cached| cached.frame == frame);
            assert!(!is_cached, "{frame:?} is free while a TLB leads to it");
            frames.remove(&frame);
            self.0.left.set(self.0.left.get().saturating_add(1));
        }
        drop(frames);
        self.step();
    }

    fn is_sole(&self, frame: PhysAddr) -> bool {
        self.0.frames.borrow()[&frame].count == 1
    }

    fn zero_folio(&self, first: PhysAddr, order: u32) {
        assert!(held() == Held::Nothing, "zeroed under the lock");
        (0..1 << order).for_each(|page| self.set(first + page * G::SIZE_BYTES, 0));
        self.step();
    }

    fn copy(&self, to: PhysAddr, from: PhysAddr) {
        assert!(held() == Held::Nothing, "copied under the lock");
        self.set(to, self.get(from));
        self.step();
    }

    fn make_fetchable(&self, frame: PhysAddr) {
        if let Some(frame) = self.0.frames.borrow_mut().get_mut(&frame) {
            frame.fetched = Some(frame.value);
        }
    }

    fn zero_frame(&self) -> PhysAddr {
        self.step();
        ZEROS
    }

    fn zeros(&self, order: u32) -> Option<PhysAddr> {
        assert!(held() == Held::Nothing, "zeros are made under the lock");
        assert_eq!(order, G::SHIFT - 3, "zeros are a block");
        self.step();
        self.0.has_zeros.get().then_some(PhysAddr::new(MANY_ZEROS.start))
    }

    fn take_table(&self) -> Option<PhysAddr> {
        self.0.left.set(self.0.left.get().checked_sub(1)?);
        self.0.tables.set(self.0.tables.get() + 1);
        let spare = self.0.spare_tables.borrow_mut().pop();
        spare.or_else(|| {
            let mut reserve = Reserve::new();
            self.0.machine.memory.supply::<G>(&mut reserve, 1);
            reserve.take(&self.0.machine)
        })
    }

    fn release_table(&self, table: PhysAddr) {
        self.0.left.set(self.0.left.get().saturating_add(1));
        self.0.tables.set(self.0.tables.get() - 1);
        self.0.machine.judge.forget(table.bits()..table.bits() + G::SIZE_BYTES);
        self.0.spare_tables.borrow_mut().push(table);
    }
}

impl<G: Granule> Embedder for Kernel<G> {
    type Granule = G;
    type Platform = Machine;
    type File = TestFile<G>;
    type Lock<T> = Alone<T>;

    fn platform(&self) -> &Machine {
        &self.0.machine
    }

    fn shared_memory(&self, pages: u64) -> Option<TestFile<G>> {
        Some(TestFile::new(self, 0, pages))
    }

    fn has_heap(&self, bytes: usize) -> bool {
        self.0.heap_asked.set(bytes);
        let left = self.0.heap_left.get();
        self.0.heap_left.set(left.saturating_sub(usize::from(left != usize::MAX)));
        left > 0
    }

    fn folio_orders(&self, _: bool) -> u32 {
        let (most, group) = (self.0.folio_order.get(), G::PAGE_SIZE.contiguous_shift(Level::L3).unwrap_or(0));
        1 << most | if group < most { 1 << group } else { 0 }
    }

    fn licence(&self) -> Licence<'_> {
        let census = if self.0.is_at_2.get() { &LEVEL2 } else { &LEVEL3 };
        let tolerated = census.tolerated().filter(|_| self.0.tolerates.get());
        tolerated.map(Licence::bearing_conflicts).unwrap_or_else(|| Licence::break_before_make(self))
    }

    fn announce(&self, range: Range<u64>, resize: &mut dyn FnMut()) {
        assert!((range.start | range.end).is_multiple_of(G::SIZE_BYTES) && !range.is_empty(), "{range:x?}");
        self.0.announced.set(self.0.announced.get() + 1);
        resize();
        self.0.writable_behind.set(self.0.machine.count_writable(range));
    }

    fn goes_on(&self) -> bool {
        let loads = self.0.machine.loads.get();
        let before = self.0.loads_before.replace(loads);
        self.0.most_loads.set(self.0.most_loads.get().max(loads - before));
        let left = self.0.turns_left.get();
        self.0.turns_left.set(left.saturating_sub(usize::from(left != usize::MAX)));
        left > 0
    }

    fn check(&self, find_stray: &dyn Fn() -> Option<u64>) {
        self.0.machine.is_unseen.set(true);
        let stray = find_stray();
        self.0.machine.is_unseen.set(false);
        assert!(stray.is_none(), "no area explains the leaf at {stray:x?}");
    }

    fn commit(&self, pages: u64) -> bool {
        let committed = self.0.committed.get() + pages;
        if committed <= self.0.most_committed.get() {
            self.0.committed.set(committed);
        }
        committed <= self.0.most_committed.get()
    }

    fn uncommit(&self, pages: u64) {
        self.0.committed.set(self.0.committed.get() - pages);
    }
}
