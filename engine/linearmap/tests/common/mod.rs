//! A kernel without a machine: its lock, its pages, its calls, each of which is counted, and can be made to fail.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::marker::PhantomData;
use std::ops::{ControlFlow, Range};

use vellum_linearmap::{
    Calls, Context, Cpu, Embedder, Leaves, LinearMap, Lock, Map, NotParked, Pages, Refused, Region, State, Wanted,
    paint,
};
use vellum_pagetable::{
    El1, HardwareUpdates, Licence, Memory, PageTable, Platform, Reserve, Scope, Slot, Step, TlbFeatures, Tolerance,
};
use vellum_vmsa::{
    AddressHalf, BbmLevel, Descriptor, Geometry, Granule, Maintenance, Meaning, PhysAddr, Stage1Attributes, VirtAddr,
};

#[path = "../../../pagetable/tests/common/widths.rs"]
pub(crate) mod widths;

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;

pub(crate) const DATA: Stage1Attributes = Stage1Attributes::INNER_SHAREABLE.union(Stage1Attributes::NO_EXECUTE);

/// What a CPU can do that lacks nothing but, maybe, tolerance.
pub(crate) const fn cpu(level: BbmLevel) -> Cpu {
    let tlb = TlbFeatures { range: true, level_hints: true, repeat: false };
    Cpu { tolerance: Tolerance::new(level, false), tlb }
}

/// Memory whose loads are counted.
pub(crate) struct Machine {
    pub(crate) memory: Memory,
    pub(crate) loads: Cell<usize>,
    /// How often it was waited for those who walk beside.
    pub(crate) waits: Cell<usize>,
}

impl Platform for Machine {
    fn load(&self, slot: Slot) -> Descriptor {
        self.loads.set(self.loads.get() + 1);
        self.memory.load(slot)
    }

    fn store(&self, slot: Slot, descriptor: Descriptor) {
        self.memory.store(slot, descriptor);
    }

    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        self.memory.exchange(slot, old, new)
    }

    fn maintain(&self, operation: Maintenance) {
        self.memory.maintain(operation);
    }

    fn wait_for_views(&self) {
        self.waits.set(self.waits.get() + 1);
    }
}

/// Of each announcement its leaves.
pub(crate) type Announced = Vec<Vec<Range<VirtAddr>>>;

pub(crate) struct Kernel<G> {
    pub(crate) machine: Machine,
    /// Pages that came back.
    spare: RefCell<Vec<PhysAddr>>,
    /// Pages that are out.
    pub(crate) out: Cell<usize>,
    /// How many more there are.
    pub(crate) left: Cell<usize>,
    /// Whether others park when they are called.
    pub(crate) parks: Cell<bool>,
    /// What the CPU tolerates that changes the map while others are parked.
    pub(crate) changer: Cell<BbmLevel>,
    /// Whether it never runs what it is given to run.
    pub(crate) forgets: Cell<bool>,
    pub(crate) windows: Cell<usize>,
    pub(crate) parked: Cell<usize>,
    /// Whether the pages that there are lie above what a descriptor can name.
    pub(crate) is_wide: Cell<bool>,
    /// What happens while the next page is allocated.
    pub(crate) meanwhile: RefCell<Option<Box<dyn Fn()>>>,
    /// What happens whenever a page came back.
    pub(crate) when_freed: RefCell<Option<Box<dyn Fn()>>>,
    /// The leaves that it was announced would change size, where that is wanted.
    pub(crate) announced: RefCell<Option<Announced>>,
    granule: PhantomData<G>,
}

impl<G: Granule> Kernel<G> {
    pub(crate) fn new() -> Self {
        Self {
            machine: Machine { memory: Memory::new(), loads: Cell::new(0), waits: Cell::new(0) },
            spare: RefCell::default(),
            out: Cell::new(0),
            left: Cell::new(usize::MAX),
            parks: Cell::new(false),
            changer: Cell::new(BbmLevel::Level0),
            forgets: Cell::new(false),
            windows: Cell::new(0),
            parked: Cell::new(0),
            is_wide: Cell::new(false),
            meanwhile: RefCell::new(None),
            when_freed: RefCell::new(None),
            announced: RefCell::new(None),
            granule: PhantomData,
        }
    }
}

/// Only one body at a time runs with what it holds, or it panics.
pub(crate) struct Alone<T>(RefCell<T>);

impl<T> Lock for Alone<T> {
    type Held = T;

    fn new(held: T) -> Self {
        Self(RefCell::new(held))
    }

    fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        LOCKED.set(true);
        LOCKS.set(LOCKS.get() + 1);
        let result = body(&mut self.0.borrow_mut());
        LOCKED.set(false);
        result
    }
}

thread_local! {
    /// Whether this thread holds the lock of a map.
    static LOCKED: Cell<bool> = const { Cell::new(false) };
    /// How often this thread took the lock of a map.
    pub(crate) static LOCKS: Cell<usize> = const { Cell::new(0) };
}

impl<G: Granule> Pages for Kernel<G> {
    fn allocate(&self) -> Option<PhysAddr> {
        assert!(!LOCKED.get(), "allocated under the lock");
        if let Some(meanwhile) = self.meanwhile.take() {
            meanwhile();
        }
        self.left.set(self.left.get().checked_sub(1)?);
        self.out.set(self.out.get() + 1);
        if self.is_wide.get() {
            return Some(PhysAddr::new(1 << 48));
        }
        let spare = self.spare.borrow_mut().pop();
        spare.or_else(|| {
            let mut reserve = Reserve::new();
            self.machine.memory.supply::<G>(&mut reserve, 1);
            reserve.take(&self.machine)
        })
    }

    fn free(&self, table: PhysAddr) {
        assert!(!LOCKED.get(), "freed under the lock");
        self.left.set(self.left.get().saturating_add(1));
        self.out.set(self.out.get() - 1);
        if table < PhysAddr::new(1 << 48) {
            self.spare.borrow_mut().push(table);
        }
        // Not in what it does itself.
        let when_freed = self.when_freed.take();
        if let Some(act) = when_freed {
            act();
            *self.when_freed.borrow_mut() = Some(act);
        }
    }
}

impl<G: Granule> Calls for Kernel<G> {
    fn in_window(&self, change: &mut dyn FnMut(&Licence<'_>)) {
        self.windows.set(self.windows.get() + 1);
        if !self.forgets.get() {
            change(&Licence::break_before_make(&()));
        }
    }

    fn park(&self, change: &mut dyn FnMut(&Licence<'_>)) -> Result<(), NotParked> {
        if !self.parks.get() {
            return Err(NotParked(Some(1)));
        }
        self.parked.set(self.parked.get() + 1);
        if !self.forgets.get() {
            change(&Licence::parked(&(), Tolerance::new(self.changer.get(), false)));
        }
        Ok(())
    }

    fn announces(&self) -> bool {
        self.announced.borrow().is_some()
    }

    fn announce(&self, leaves: &[Range<VirtAddr>], resize: &mut dyn FnMut()) {
        self.announced.borrow_mut().as_mut().expect("who asked to be told").push(leaves.to_vec());
        resize();
    }
}

impl<G: Granule> Embedder for Kernel<G> {
    type Granule = G;
    type Platform = Machine;
    type Lock = Alone<State<G>>;

    fn platform(&self) -> &Machine {
        &self.machine
    }
}

/// Where memory is, and what is not writable of it.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) regions: Vec<Region>,
    pub(crate) leaves: Leaves,
    pub(crate) input_bits: u32,
    /// What is linear map of the page table; `None` is all.
    pub(crate) range: Option<Range<VirtAddr>>,
}

pub(crate) fn region(from: u64, to: u64, attributes: Stage1Attributes) -> Region {
    Region { physical: PhysAddr::new(from)..PhysAddr::new(to), attributes }
}

impl Plan {
    /// One bank, all of it writable.
    pub(crate) fn one(from: u64, to: u64) -> Self {
        Self {
            regions: vec![region(from, to, DATA)],
            leaves: Leaves::Largest,
            input_bits: widths::asked().unwrap_or(39),
            range: None,
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.regions.iter().map(|region| region.physical.end - region.physical.start).sum()
    }
}

/// The linear map begins where the upper half does.
pub(crate) fn geometry<G: Granule>(plan: &Plan) -> Geometry<G> {
    let bits = plan.input_bits.max(if G::SHIFT == 16 && plan.input_bits == 39 { 42 } else { 0 });
    Geometry::new(bits, widths::layout::<G>(bits), AddressHalf::Upper).unwrap()
}

pub(crate) fn painted<G: Granule>(plan: &Plan, first: Cpu) -> LinearMap<Kernel<G>> {
    paint_and_make(plan, first).unwrap()
}

pub(crate) fn paint_and_make<G: Granule>(plan: &Plan, first: Cpu) -> Result<LinearMap<Kernel<G>>, Refused> {
    let kernel = Kernel::<G>::new();
    let geometry = geometry::<G>(plan);
    let regime = El1 { scope: Scope::Global, tlb: TlbFeatures::NONE, hardware_updates: HardwareUpdates::None };
    let mut reserve = Reserve::new();
    reserve.add(&kernel.machine, kernel.allocate().unwrap());
    let mut table = PageTable::offline(&kernel.machine, geometry, regime, &mut reserve).unwrap();
    paint(&mut table, &kernel.machine, &kernel, geometry.base(), &plan.regions, plan.leaves).unwrap();
    let table = table.publish();
    let (root, range) = (table.root(), plan.range.clone().unwrap_or(table.view().range()));
    let map = Map { root, geometry, regime, range, leaves: plan.leaves, memory_bytes: plan.bytes() };
    let _ = kernel.machine.memory.take_steps();
    LinearMap::new(kernel, map, first)
}

pub(crate) type Live<G> = LinearMap<Kernel<G>>;

/// Where physical memory is in the map.
pub(crate) fn at<G: Granule>(map: &Live<G>, from: u64, bytes: u64) -> Range<VirtAddr> {
    let from = VirtAddr::new(map.view().geometry().base() + from);
    from..from + bytes
}

/// Address, bytes and descriptor of every leaf, valid or kept.
pub(crate) fn leaves<G: Granule>(map: &Live<G>) -> Vec<(u64, u64, Descriptor)> {
    let view = map.view();
    let mut leaves = Vec::new();
    let _ = view
        .for_each::<Infallible>(view.range(), |entry| {
            let descriptor = entry.lookup.descriptor;
            if !matches!(entry.lookup.meaning, Meaning::Table(_)) && descriptor != Descriptor::INVALID {
                leaves.push((entry.input.bits() - view.geometry().base(), 1 << entry.shift, descriptor));
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    leaves
}

pub(crate) fn tables<G: Granule>(map: &Live<G>) -> usize {
    map.summary().unwrap().tables()
}

/// What `change` did, step by step, and what came of it.
pub(crate) fn steps<G: Granule>(
    map: &Live<G>,
    ranges: &[Range<VirtAddr>],
    wanted: Wanted,
    context: Context,
) -> (Result<(), Refused>, Vec<Step>) {
    let _ = map.embedder().machine.memory.take_steps();
    let result = map.change(ranges, wanted, context);
    (result, map.embedder().machine.memory.take_steps())
}
