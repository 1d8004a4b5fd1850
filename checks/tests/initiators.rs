//! Two CPUs that change one linear map at once, by the code that a kernel runs: threads, of which one runs at a time, and which are
//! interrupted at every two of their steps. Who waits for the map's lock with interrupts masked parks meanwhile, and both get what they
//! asked for. What each side is obliged to is left out in turn, and missed.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use linearmap::{Calls, Context, Cpu, Embedder, Leaves, LinearMap, Lock, Map, NotParked, Pages, State, Wanted};
use pagetable::{
    Change, El1, HardwareUpdates, Licence, PageTable, Platform, Reserve, Scope, Slot, TlbFeatures, Tolerance,
};
use vmsa::{
    AddressHalf, BbmLevel, Descriptor, Geometry, Granule, Granule4K, Layout, LeafSize, Maintenance, PhysAddr,
    Stage1Attributes, VirtAddr,
};

const CPUS: usize = 2;
const PAGE: u64 = Granule4K::SIZE_BYTES;
const BLOCK: u64 = 2 << 20;
const FRAMES: u64 = 0x4000_0000;
const COUNT: u64 = 6;

/// ID_AA64MMFR2_EL1.BBM of both.
type Levels = [BbmLevel; CPUS];
const BOTH_3: Levels = [BbmLevel::Level3; CPUS];
const BOTH_0: Levels = [BbmLevel::Level0; CPUS];
const FIRST_3: Levels = [BbmLevel::Level3, BbmLevel::Level0];
const FIRST_0: Levels = [BbmLevel::Level0, BbmLevel::Level3];

const REGIME: El1 = El1 { scope: Scope::Global, tlb: TlbFeatures::NONE, hardware_updates: HardwareUpdates::None };

/// What no CPU keeps to, if anything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mutant {
    None,
    LockDoesNotAnswer,
    LockDoesNotExclude,
    DoesNotAwait,
}

/// Whose turn it is, who is asked to park, and who has parked.
struct Board {
    turn: Mutex<Turn>,
    is_changed: Condvar,
    asked: [AtomicBool; CPUS],
    parked: [AtomicBool; CPUS],
    mutant: Mutant,
}

#[derive(Clone, Copy)]
struct Turn {
    cpu: usize,
    /// Steps of both so far, and those of them after which the other one goes on.
    steps: usize,
    switches: [usize; 2],
    /// Steps since one of them did anything but wait.
    waits: usize,
    /// Who has nothing to do any more, and takes every interrupt.
    is_idle: [bool; CPUS],
    has_failed: bool,
}

thread_local! {
    /// Which CPU this thread is, and the board that it shares.
    static CPU: Cell<usize> = const { Cell::new(0) };
    static BOARD: RefCell<Option<Arc<Board>>> = const { RefCell::new(None) };
}

/// Runs `body` with the board and who asks, if there are two CPUs yet.
fn with_board(body: impl FnOnce(&Board, usize)) {
    if let Some(board) = BOARD.with_borrow(Clone::clone) {
        body(&board, CPU.get());
    }
}

impl Board {
    fn new(first: usize, switches: [usize; 2], mutant: Mutant) -> Self {
        let turn = Turn { cpu: first, steps: 0, switches, waits: 0, is_idle: [false; CPUS], has_failed: false };
        let none = || std::array::from_fn(|_| AtomicBool::new(false));
        Self { turn: Mutex::new(turn), is_changed: Condvar::new(), asked: none(), parked: none(), mutant }
    }

    fn with_turn(&self, body: impl FnOnce(&mut Turn)) -> Turn {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        body(&mut turn);
        self.is_changed.notify_all();
        *turn
    }

    fn wait_for_turn(&self, cpu: usize) {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = self.is_changed.wait_while(turn, |turn| turn.cpu != cpu && !turn.has_failed);
        let has_failed = turn.unwrap_or_else(PoisonError::into_inner).has_failed;
        assert!(!has_failed, "the other one failed");
    }

    /// A CPU has made a step, or waits for the other.
    fn step(&self, cpu: usize, waits: bool) {
        let turn = self.with_turn(|turn| {
            turn.steps += 1;
            turn.waits = if waits { turn.waits + 1 } else { 0 };
            if !turn.is_idle[1 - cpu] && (waits || turn.switches.contains(&turn.steps)) {
                turn.cpu = 1 - cpu;
            }
        });
        assert!(turn.waits < 64, "both wait for ever");
        self.wait_for_turn(cpu);
    }

    /// Parks if that is asked.
    fn answer(&self, cpu: usize) {
        while self.asked[cpu].load(SeqCst) {
            self.parked[cpu].store(true, SeqCst);
            self.step(cpu, true);
        }
        self.parked[cpu].store(false, SeqCst);
    }

    fn is_away(&self, cpu: usize) -> bool {
        self.parked[cpu].load(SeqCst) || self.with_turn(|_| {}).is_idle[cpu]
    }
}

/// A spin lock, taken with interrupts masked.
struct Spin<T> {
    is_taken: AtomicBool,
    held: Mutex<T>,
}

impl<T> Lock for Spin<T> {
    type Held = T;

    fn new(held: T) -> Self {
        Self { is_taken: AtomicBool::new(false), held: Mutex::new(held) }
    }

    fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        with_board(|board, cpu| {
            board.step(cpu, false);
            while self.is_taken.swap(true, SeqCst) && board.mutant != Mutant::LockDoesNotExclude {
                if board.mutant != Mutant::LockDoesNotAnswer {
                    board.answer(cpu);
                }
                board.step(cpu, true);
            }
            board.step(cpu, false);
        });
        let result = body(&mut self.held.try_lock().expect("one at a time"));
        with_board(|board, cpu| {
            self.is_taken.store(false, SeqCst);
            board.step(cpu, false);
        });
        result
    }
}

/// A kernel: memory for tables, and the pages of it that are free; the levels of its CPUs.
struct Kernel {
    levels: Levels,
    memory: Vec<AtomicU64>,
    free: Mutex<Vec<PhysAddr>>,
}

impl Kernel {
    fn new(levels: Levels) -> Self {
        let memory = (0..COUNT as usize * Granule4K::ENTRIES).map(|_| AtomicU64::new(u64::MAX)).collect();
        let free = (0..COUNT).rev().map(|frame| PhysAddr::new(FRAMES + frame * PAGE)).collect();
        Self { levels, memory, free: Mutex::new(free) }
    }

    fn at(&self, slot: Slot) -> &AtomicU64 {
        &self.memory[((slot.address().bits() - FRAMES) / 8) as usize]
    }

    fn free(&self) -> std::sync::MutexGuard<'_, Vec<PhysAddr>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Platform for Kernel {
    fn load(&self, slot: Slot) -> Descriptor {
        Descriptor::new(self.at(slot).load(SeqCst))
    }

    fn store(&self, slot: Slot, new: Descriptor) {
        self.at(slot).store(new.bits(), SeqCst);
    }

    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        let actual = self.load(slot);
        if actual != old {
            return Err(actual);
        }
        self.store(slot, new);
        Ok(())
    }

    fn maintain(&self, _: Maintenance) {}
}

impl Pages for Kernel {
    fn allocate(&self) -> Option<PhysAddr> {
        with_board(|board, cpu| board.step(cpu, false));
        self.free().pop()
    }

    fn free(&self, table: PhysAddr) {
        with_board(|board, cpu| board.step(cpu, false));
        self.free().push(table);
    }
}

impl Calls for Kernel {
    fn in_window(&self, _: &mut dyn FnMut(&Licence<'_>)) {
        panic!("another CPU runs");
    }

    fn park(&self, change: &mut dyn FnMut(&Licence<'_>)) -> Result<(), NotParked> {
        with_board(|board, cpu| {
            // The other one is parked, whatever it tolerates: this one's level counts.
            let licence = Licence::parked(self, Tolerance::new(self.levels[cpu], false));
            let other = 1 - cpu;
            board.asked[other].store(true, SeqCst);
            board.step(cpu, false);
            while !board.is_away(other) && board.mutant != Mutant::DoesNotAwait {
                board.step(cpu, true);
            }
            assert!(board.is_away(other), "a CPU walks what changes");
            change(&licence);
            board.step(cpu, false);
            assert!(board.is_away(other), "a CPU walks what has not changed yet");
            board.asked[other].store(false, SeqCst);
            while board.parked[other].load(SeqCst) {
                board.step(cpu, true);
            }
        });
        Ok(())
    }
}

impl Embedder for Kernel {
    type Granule = Granule4K;
    type Platform = Self;
    type Lock = Spin<State<Granule4K>>;

    fn platform(&self) -> &Self {
        self
    }
}

/// One block, mapped writable, in a map that two CPUs of these levels walk.
fn mapped(levels: Levels) -> LinearMap<Kernel> {
    let kernel = Kernel::new(levels);
    let geometry = Geometry::new(30, Layout::Bits48, AddressHalf::Lower).expect("30 bits are two levels");
    let mut reserve = Reserve::new();
    reserve.add(&kernel, kernel.allocate().expect("a page for the root"));
    let mut table = PageTable::offline(&kernel, geometry, REGIME, &mut reserve).expect("a root");
    let attributes = Stage1Attributes::AF | Stage1Attributes::INNER_SHAREABLE;
    let map = Change::Map { from: block(), to: PhysAddr::new(BLOCK), attributes, largest: LeafSize::LARGEST };
    let mut gather = table.gather();
    table.plan(&[map], None).expect("a hole").apply(&mut reserve, &mut gather).expect("no table");
    drop(gather.finish(&kernel));
    let (root, range) = (table.publish().root(), VirtAddr::new(0)..VirtAddr::new(1 << 30));
    let map = Map { root, geometry, regime: REGIME, range, leaves: Leaves::Largest, memory_bytes: BLOCK };
    let [first, second] = levels.map(|level| Cpu { tolerance: Tolerance::new(level, false), tlb: TlbFeatures::NONE });
    let map = LinearMap::new(kernel, map, first).expect("a map");
    map.admit(second);
    map.settle();
    assert!(map.set_reserve(1));
    map
}

fn block() -> Range<VirtAddr> {
    VirtAddr::new(BLOCK)..VirtAddr::new(2 * BLOCK)
}

/// What one of them does: a page of its own in the same block is made what is wanted, and is as it was in the end.
fn change(map: &LinearMap<Kernel>, cpu: usize) {
    let at = block().start + (3 + 2 * cpu as u64) * PAGE;
    let page = [at..at + PAGE];
    // The first one may not wait, so that its table is the reserve's.
    let (context, wanted, as_before) = match cpu {
        0 => (Context::Atomic, Wanted::Hidden, Wanted::Shown),
        _ => (Context::MayWait, Wanted::ReadOnly, Wanted::Writable),
    };
    assert_eq!(map.change(&page, wanted, context), Ok(()));
    let found = map.view().translate(at);
    assert_eq!(found.is_none(), wanted == Wanted::Hidden);
    let is_read_only = found.is_some_and(|leaf| leaf.descriptor.bits() & Stage1Attributes::READ_ONLY.bits() != 0);
    assert_eq!(is_read_only, wanted == Wanted::ReadOnly);
    assert_eq!(map.change(&page, as_before, context), Ok(()));
}

/// A thread's part, which begins when its turn comes.
fn run(map: &LinearMap<Kernel>, board: &Arc<Board>, cpu: usize) {
    CPU.set(cpu);
    BOARD.set(Some(Arc::clone(board)));
    let changed = catch_unwind(AssertUnwindSafe(|| {
        board.wait_for_turn(cpu);
        change(map, cpu);
    }));
    board.with_turn(|turn| {
        turn.is_idle[cpu] = true;
        turn.cpu = 1 - cpu;
        turn.has_failed |= changed.is_err();
    });
    if let Err(why) = changed {
        std::panic::resume_unwind(why);
    }
}

/// Both at once: how many steps they made, or what went wrong.
fn both(levels: Levels, first: usize, switches: [usize; 2], mutant: Mutant) -> Result<usize, String> {
    let (map, board) = (mapped(levels), Arc::new(Board::new(first, switches, mutant)));
    let before = map.view().translate(block().start).map(|leaf| leaf.descriptor);
    let ended = thread::scope(|scope| {
        let threads = [0, 1].map(|cpu| {
            let (map, board) = (&map, &board);
            scope.spawn(move || run(map, board, cpu))
        });
        threads.map(|thread| thread.join().map_err(|why| told(&*why)))
    });
    // What one of them says of the other's failure is not what went wrong.
    let wrong = ended.into_iter().filter_map(Result::err).find(|why| why != "the other one failed");
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    let counters = map.counters();
    assert_eq!((counters.changes, counters.splits, counters.folds), (4, 1, 0), "the block was split once");
    assert_eq!(counters.parked > 0, levels != BOTH_3);
    map.refill();
    // The root, the block's table, the reserve's one and a spare one have a page; all else is free.
    assert_eq!(map.embedder().free().len() as u64, COUNT - 4);
    if levels == BOTH_3 {
        map.heal_all();
        assert_eq!(map.view().translate(block().start).map(|leaf| leaf.descriptor), before, "the block is whole");
    }
    Ok(board.with_turn(|_| {}).steps)
}

fn told(why: &(dyn std::any::Any + Send)) -> String {
    let text = why.downcast_ref::<String>().cloned();
    text.or_else(|| why.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

/// Every order in which the CPUs are interrupted at most twice. How many there are.
fn explore(levels: Levels, mutant: Mutant) -> Result<usize, String> {
    let mut orders = 0;
    for first in 0..CPUS {
        // Who is interrupted waits more, so that there are more steps than without.
        let steps = 2 * both(levels, first, [0, 0], mutant)?;
        for (one, two) in (1..steps).flat_map(|one| (one..steps).map(move |two| (one, two))) {
            both(levels, first, [one, two], mutant)?;
            orders += 1;
        }
    }
    Ok(orders)
}

fn assert_both_are_served(levels: Levels) {
    let orders = explore(levels, Mutant::None).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(orders > 300, "{orders} orders");
}

#[test]
fn both_are_served_where_leaves_change_size_in_place() {
    assert_both_are_served(BOTH_3);
}

#[test]
fn both_are_served_where_each_parks_the_other() {
    assert_both_are_served(BOTH_0);
}

#[test]
fn both_are_served_where_one_breaks_before_it_makes_and_one_changes_leaves_in_place() {
    assert_both_are_served(FIRST_3);
    assert_both_are_served(FIRST_0);
}

#[test]
fn each_obligation_is_missed() {
    for (mutant, expected) in [
        (Mutant::LockDoesNotAnswer, "both wait for ever"),
        (Mutant::LockDoesNotExclude, "one at a time"),
        (Mutant::DoesNotAwait, "a CPU walks what changes"),
    ] {
        for levels in [BOTH_0, FIRST_3, FIRST_0] {
            let wrong = explore(levels, mutant).expect_err("some order shows it");
            assert!(wrong.contains(expected), "{wrong}");
        }
    }
}
