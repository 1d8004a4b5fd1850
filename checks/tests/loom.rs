//! A reader without a lock beside an editor that splits leaves and frees tables, in every order that loom knows of weak
//! memory: what each barrier is for where no TLB is involved, and why `Retired` waits for software walkers.
//!
//! Of all slots those that the reader's walks may load are loom's; the others no thread shares.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64 as Plain, Ordering::Relaxed};

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Release, fence};
use loom::thread;
use pagetable::{
    Census, Change, El1, HardwareUpdates, PageTable, Platform, Reserve, Retired, Scope, Slot, TlbFeatures, Tolerance,
    View,
};
use vmsa::{
    AddressHalf, BbmLevel, Descriptor, Geometry, Granule, Granule4K, Layout, LeafSize, Maintenance, PhysAddr,
    Stage1Attributes, VirtAddr,
};

const FRAMES: u64 = 0x4000_0000;
const COUNT: usize = 3;
const PAGE: u64 = Granule4K::SIZE_BYTES;
const BLOCK: u64 = 2 << 20;
/// What is mapped: one block. The reader looks up this page of it, whose output address is this: the first, whose descriptor
/// stands where a table on a list keeps its link.
const AT: VirtAddr = VirtAddr::new(BLOCK);
const TO: PhysAddr = PhysAddr::new(0x8000_0000);
/// What whoever uses a freed table next writes into it: as a page, it would lead elsewhere.
const REUSED: Descriptor = Descriptor::new(0xdead_b003);

const REGIME: El1 = El1 {
    scope: Scope::Global,
    tlb: TlbFeatures { range: true, level_hints: true, repeat: false },
    hardware_updates: HardwareUpdates::None,
};

fn geometry() -> Geometry<Granule4K> {
    Geometry::new(30, Layout::Bits48, AddressHalf::Lower).expect("30 bits are two levels")
}

/// Memory: a root and the tables below it.
struct Memory {
    shared: [AtomicU64; COUNT + 1],
    plain: Vec<Plain>,
    /// Whether barriers do anything: without them some order must show a wrong translation.
    has_barriers: bool,
    /// Whether tables that come free wait for readers: without that some order must show a wrong translation.
    waits_for_views: bool,
    handshake: Handshake,
}

impl Memory {
    fn new(has_barriers: bool, waits_for_views: bool) -> Self {
        let plain = (0..COUNT * Granule4K::ENTRIES).map(|_| Plain::new(REUSED.bits())).collect();
        let shared = std::array::from_fn(|_| AtomicU64::new(REUSED.bits()));
        Self { shared, plain, has_barriers, waits_for_views, handshake: Handshake::default() }
    }

    /// The place of a slot that walks for [`AT`] load: in the root one, in each table the page's.
    fn shared(&self, slot: Slot) -> Result<&AtomicU64, &Plain> {
        let number = ((slot.address().bits() - FRAMES) / 8) as usize;
        let (frame, index) = (number / Granule4K::ENTRIES, number % Granule4K::ENTRIES);
        match (frame, index) {
            (1.., 0) => Ok(&self.shared[frame]),
            (0, 1) => Ok(&self.shared[COUNT]),
            _ => Err(&self.plain[number]),
        }
    }
}

impl Platform for Memory {
    fn load(&self, slot: Slot) -> Descriptor {
        // What a walk loads next depends on the address that it loaded here, which Arm's memory model orders, and C11's
        // does for loads that acquire.
        Descriptor::new(self.shared(slot).map_or_else(|plain| plain.load(Relaxed), |shared| shared.load(Acquire)))
    }

    fn store(&self, slot: Slot, new: Descriptor) {
        match self.shared(slot) {
            Ok(shared) => shared.store(new.bits(), Relaxed),
            Err(plain) => plain.store(new.bits(), Relaxed),
        }
    }

    fn exchange(&self, _: Slot, _: Descriptor, actual: Descriptor) -> Result<(), Descriptor> {
        Err(actual)
    }

    fn maintain(&self, operation: Maintenance) {
        if self.has_barriers && matches!(operation, Maintenance::DSB_ISHST | Maintenance::DSB_ISH) {
            fence(Release);
        }
    }

    fn wait_for_views(&self) {
        if self.waits_for_views {
            self.handshake.wait();
        }
    }
}

/// How an editor learns that no walk is under way which began before it unlinked a table: it asks, and the reader answers
/// between two walks, as a CPU answers an interrupt that it masks while it walks.
#[derive(Default)]
struct Handshake {
    asked: AtomicBool,
    answered: AtomicBool,
}

impl Handshake {
    fn answer(&self) {
        if self.asked.load(Acquire) {
            self.answered.store(true, Release);
        }
    }

    /// The last walk has ended.
    fn leave(&self) {
        self.answered.store(true, Release);
    }

    fn wait(&self) {
        self.asked.store(true, Release);
        while !self.answered.load(Acquire) {
            thread::yield_now();
        }
    }
}

/// One block mapped, and live.
fn mapped<'m>(memory: &'m Memory, reserve: &mut Reserve) -> PageTable<'m, Granule4K, El1, Memory> {
    for frame in (0..COUNT as u64).rev() {
        reserve.add(memory, PhysAddr::new(FRAMES + frame * PAGE));
    }
    let mut table = PageTable::offline(memory, geometry(), REGIME, reserve).expect("a root");
    let attributes = Stage1Attributes::AF | Stage1Attributes::INNER_SHAREABLE;
    let (from, to) = (VirtAddr::new(BLOCK)..VirtAddr::new(2 * BLOCK), PhysAddr::new(0x8000_0000));
    let _ = change(memory, &mut table, reserve, Change::Map { from, to, attributes, largest: LeafSize::LARGEST });
    table.publish()
}

/// Makes a change, under the licence of CPUs that tolerate leaves of every size.
fn change(
    memory: &Memory,
    table: &mut PageTable<'_, Granule4K, El1, Memory>,
    reserve: &mut Reserve,
    change: Change<El1>,
) -> Retired {
    let census = Census::new(Tolerance::new(BbmLevel::Level3, false));
    let (mut gather, changes) = (table.gather(), [change]);
    let licence = census.tolerated();
    let mut plan = table.plan(&changes, licence.as_ref()).expect("a change that is allowed");
    plan.apply(reserve, &mut gather).expect("tables enough");
    gather.finish(memory)
}

/// The page becomes read-only, or writable.
fn protect(is_read_only: bool) -> Change<El1> {
    let (bit, none) = (Stage1Attributes::READ_ONLY, Stage1Attributes::empty());
    let (set, clear) = if is_read_only { (bit, none) } else { (none, bit) };
    Change::Protect { from: AT..VirtAddr::new(AT.bits() + PAGE), set, clear }
}

/// Translates the page twice. It has been mapped all the time, and must be found where it is.
fn read(memory: &Memory, root: PhysAddr) {
    let view = View::new(memory, geometry(), REGIME, root);
    for _ in 0..2 {
        let found = view.translate(AT).map(|found| found.output);
        READ_WRONG.set(found != Some(TO));
        assert_eq!(found, Some(TO));
        memory.handshake.answer();
    }
    memory.handshake.leave();
}

/// The reader beside an editor that splits the block, in every order.
fn explore_split(has_barriers: bool) {
    loom::model(move || {
        let memory = Arc::new(Memory::new(has_barriers, true));
        let mut reserve = Reserve::new();
        let mut table = mapped(&memory, &mut reserve);
        let (reader, root) = (Arc::clone(&memory), table.root());
        let reader = thread::spawn(move || read(&reader, root));
        let retired = change(&memory, &mut table, &mut reserve, protect(true));
        assert_eq!((retired.count(), reserve.count()), (0, COUNT - 2), "the block was split");
        reader.join().expect("the reader reads right");
    });
}

/// The reader beside an editor that folds a split block again and gives its table to somebody else, in every order.
fn explore_fold(waits_for_views: bool) {
    loom::model(move || {
        let memory = Arc::new(Memory::new(true, waits_for_views));
        let mut reserve = Reserve::new();
        let mut table = mapped(&memory, &mut reserve);
        for is_read_only in [true, false] {
            assert_eq!(change(&memory, &mut table, &mut reserve, protect(is_read_only)).count(), 0);
        }
        let (reader, root) = (Arc::clone(&memory), table.root());
        let reader = thread::spawn(move || read(&reader, root));
        let from = VirtAddr::new(BLOCK)..VirtAddr::new(2 * BLOCK);
        let mut retired = change(&memory, &mut table, &mut reserve, Change::Collapse { from });
        let freed = retired.take(&*memory).expect("the table of pages comes free");
        memory.store(Slot::new(freed, 0), REUSED);
        reader.join().expect("the reader reads right");
    });
}

thread_local! {
    /// What the reader found last was not what is mapped. Loom runs all of a model on one thread.
    static READ_WRONG: Cell<bool> = const { Cell::new(false) };
}

/// Whether some order makes a reader read wrong. A panic for any other reason is none.
fn some_order_fails(explore: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(explore)).is_err() && READ_WRONG.get()
}

#[test]
fn a_reader_beside_a_split_reads_right() {
    explore_split(true);
}

#[test]
fn without_the_barrier_before_a_table_is_linked_it_reads_what_was_in_the_memory() {
    assert!(some_order_fails(|| explore_split(false)));
}

#[test]
fn a_reader_beside_a_fold_reads_right() {
    explore_fold(true);
}

#[test]
fn a_retired_table_that_is_reused_before_walkers_have_left_is_read() {
    assert!(some_order_fails(|| explore_fold(false)));
}
