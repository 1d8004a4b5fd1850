//! A realm's kernel: its linear map, which is the real one, in stage 1 of the machine.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;

use checks::cpu::event_of;
use checks::linear::Guarded;
use kerncore::handing;
use kerncore::range::PhysicalRange;
use linearmap::{Calls, Context, Embedder, Leaves, LinearMap, Map, NotParked, Pages, Refused, State, Wanted};
use machine::barrier::{Accesses, Barrier, Domain};
use machine::event::{Event, Level as At};
use machine::machine::{Machine, Outcome};
use machine::registers::{Features, HCR_VM, Register};
use machine::syndrome::AccessKind;
use machine::tlbi::Opcode;
use pagetable::{Change, El1, HardwareUpdates, Licence, PageTable, Platform, Scope, Slot, TlbFeatures, Tolerance};
use vmsa::{
    AddressHalf, BbmLevel, Descriptor, Geometry, Granule4K, Layout, LeafSize, Maintenance, PhysAddr, Stage1Attributes,
    VirtAddr,
};

use crate::mistake::Mistake;

pub(crate) const CPUS: u8 = 2;
pub(crate) const VMID: u64 = 7;
pub(crate) const GRANULE: u64 = 4096;
/// A block of stage 1, of whose memory the first pages change hands. Virtual and intermediate addresses are the same at first.
pub(crate) const BLOCK: u64 = 2 << 20;
pub(crate) const PAGES: u64 = 16;
/// The top bit of 39.
pub(crate) const UNPROTECTED: u64 = 1 << 38;
/// What the realm has in the block, and what its host has there for it.
pub(crate) const OWN: u64 = 0x8000_0000;
pub(crate) const HOSTS: u64 = 0x9000_0000;
/// Tables of stage 1, at IPAs that lead to themselves, and of stage 2.
pub(crate) const TABLES: u64 = 0x4000_0000;
pub(crate) const ROOT: u64 = 0x5000_0000;
/// A root of stage 1 that maps nothing, by which a CPU walks that is parked.
const EMPTY: u64 = 0x4800_0000;
const VMALLE1: Opcode = Opcode::new(0, 8, 7, 0);
const DSB_NSH: Barrier = Barrier::Dsb { domain: Domain::NonShareable, accesses: Accesses::All, is_nxs: false };
pub(crate) const PROTECTED_L2: u64 = ROOT + 0x2000;
pub(crate) const PROTECTED_L3: u64 = ROOT + 0x3000;
pub(crate) const UNPROTECTED_L2: u64 = ROOT + 0x4000;
pub(crate) const UNPROTECTED_L3: u64 = ROOT + 0x5000;
pub(crate) const TABLE: u64 = 3;
/// A page of stage 2: valid, AF, inner shareable, read-write, Normal write-back.
pub(crate) const PAGE: u64 = 0x7ff;
pub(crate) const DATA: Stage1Attributes =
    Stage1Attributes::AF.union(Stage1Attributes::INNER_SHAREABLE).union(Stage1Attributes::NO_EXECUTE);
pub(crate) const TLB: TlbFeatures = TlbFeatures { range: true, level_hints: true, repeat: false };

/// A realm: the machine, of which CPU 0 makes every change, and the next page for a table of stage 1.
pub(crate) struct Realm {
    pub(crate) machine: RefCell<Machine>,
    next: Cell<u64>,
    pub(crate) levels: [BbmLevel; CPUS as usize],
    /// How many CPUs walk the kernel's map, and its root.
    pub(crate) walking: Cell<u8>,
    root: Cell<u64>,
    /// A mistake of the kernel's: nobody parks.
    pub(crate) parks_nobody: Cell<bool>,
    /// A mistake of the platform's: its TLBIs are forgotten.
    pub(crate) forgets: Cell<bool>,
}

impl Platform for Realm {
    fn load(&self, slot: Slot) -> Descriptor {
        Descriptor::new(self.machine.borrow_mut().load(0, slot.address().bits()))
    }

    fn store(&self, slot: Slot, descriptor: Descriptor) {
        self.machine.borrow_mut().store(0, slot.address().bits(), descriptor.bits());
    }

    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        let (address, found) = (slot.address().bits(), self.load(slot));
        if found != old {
            return Err(found);
        }
        let event = Event::CompareExchange { address, expected: old.bits(), value: new.bits() };
        self.machine.borrow_mut().apply(0, &event);
        Ok(())
    }

    fn maintain(&self, operation: Maintenance) {
        let event = event_of(operation);
        if !(self.forgets.get() && matches!(event, Event::Tlbi { .. })) {
            self.machine.borrow_mut().apply(0, &event);
        }
    }
}

/// The kernel that the linear map is embedded in.
pub(crate) struct Kernel<'r>(&'r Realm);

impl Pages for Kernel<'_> {
    fn allocate(&self) -> Option<PhysAddr> {
        Some(PhysAddr::new(self.0.next.replace(self.0.next.get() + GRANULE)))
    }

    fn free(&self, _: PhysAddr) {}
}

impl Calls for Kernel<'_> {
    fn in_window(&self, change: &mut dyn FnMut(&Licence<'_>)) {
        change(&Licence::break_before_make(self.0));
    }

    /// The other CPU parks, if it walks the map: it is asked only where one of both does not tolerate what changes size.
    fn park(&self, change: &mut dyn FnMut(&Licence<'_>)) -> Result<(), NotParked> {
        let parks = self.0.walking.get() > 1 && !self.0.parks_nobody.get();
        if parks {
            let mut machine = self.0.machine.borrow_mut();
            walk_by(&mut machine, 1, EMPTY);
            machine.tlbi(1, VMALLE1, 0);
            machine.barrier(1, DSB_NSH);
            machine.barrier(1, Barrier::Isb);
        }
        change(&Licence::parked(self.0, Tolerance::new(self.0.levels[0], true)));
        if parks {
            walk_by(&mut self.0.machine.borrow_mut(), 1, self.0.root.get());
        }
        Ok(())
    }
}

/// From the ISB on walks of the lower half begin there.
fn walk_by(machine: &mut Machine, cpu: u8, root: u64) {
    machine.write_register(cpu, Register::Ttbr0El1, root);
    machine.barrier(cpu, Barrier::Isb);
}

impl Embedder for Kernel<'_> {
    type Granule = Granule4K;
    type Platform = Realm;
    type Lock = Guarded<State<Granule4K>>;

    fn platform(&self) -> &Realm {
        self.0
    }
}

/// Memory of stage 1 that the protocol changes, with a mistake or none.
pub(crate) struct Linear<'r> {
    pub(crate) map: LinearMap<Kernel<'r>>,
    pub(crate) mistake: Mistake,
}

impl handing::Map for Linear<'_> {
    type Refused = Refused;

    fn hide(&self, range: PhysicalRange) -> Result<(), Refused> {
        if self.mistake == Mistake::DoesNotHide {
            return Ok(());
        }
        self.map.change(&[linear(range)], Wanted::Hidden, Context::MayWait)
    }

    fn show(&self, range: PhysicalRange, is_shared: bool) -> bool {
        let displacement = if is_shared != (self.mistake == Mistake::ShowsElsewhere) { UNPROTECTED } else { 0 };
        let wanted = Wanted::Leading { displacement, attributes: DATA };
        self.map.change(&[linear(range)], wanted, Context::MayWait).is_ok()
    }
}

pub(crate) fn linear(range: PhysicalRange) -> Range<VirtAddr> {
    VirtAddr::new(range.start.bits())..VirtAddr::new(range.end.bits())
}

/// Where a page may lead, by all that any CPU's TLB could hold: memory, or a fault of one stage.
pub(crate) fn look(realm: &Realm, page: u64) -> BTreeSet<Result<u64, bool>> {
    let mut machine = realm.machine.borrow_mut();
    let address = BLOCK + page * GRANULE + 8;
    let walking = 0..realm.walking.get();
    let all = walking.flat_map(|cpu| machine.access(cpu, address, AccessKind::Write).outcomes);
    all.map(|outcome| match outcome {
        Outcome::Translated(at) => Ok(at - 8),
        Outcome::Fault(fault) => Err(fault.is_stage2),
    })
    .collect()
}

/// CPUs of a realm whose block is RAM, in both stages.
pub(crate) fn realm(levels: [BbmLevel; CPUS as usize]) -> Realm {
    let mut machine = Machine::new(&levels.map(|level| Features::full(level as u8)));
    machine.enter(0, At::El2);
    let links = [
        (ROOT, PROTECTED_L2 | TABLE),
        (ROOT + 8 * (TABLES >> 30), TABLES | PAGE & !2),
        (ROOT + 8 * (UNPROTECTED >> 30), UNPROTECTED_L2 | TABLE),
        (PROTECTED_L2 + 8 * (BLOCK >> 21), PROTECTED_L3 | TABLE),
        (UNPROTECTED_L2 + 8 * (BLOCK >> 21), UNPROTECTED_L3 | TABLE),
    ];
    let pages = (0..512).map(|page| (PROTECTED_L3 + 8 * page, PAGE | (OWN + page * GRANULE)));
    links.into_iter().chain(pages).for_each(|(at, word)| machine.store(0, at, word));
    machine.barrier(0, Barrier::DSB_ISH);
    machine.enter(0, At::El1);
    Realm {
        machine: RefCell::new(machine),
        next: Cell::new(TABLES),
        levels,
        walking: Cell::new(0),
        root: Cell::new(0),
        parks_nobody: Cell::new(false),
        forgets: Cell::new(false),
    }
}

/// The next CPU walks the kernel's map.
pub(crate) fn walk(realm: &Realm) {
    let cpu = realm.walking.get();
    realm.walking.set(cpu + 1);
    let mut machine = realm.machine.borrow_mut();
    let registers = [
        (Register::VtcrEl2, 25 | 1 << 6 | 5 << 16),
        (Register::VttbrEl2, VMID << 48 | ROOT),
        (Register::HcrEl2, HCR_VM),
        (Register::MairEl1, 0xff),
        (Register::TcrEl1, 25 | 1 << 23 | 16 << 16 | 2 << 30 | 5 << 32 | 1 << 36),
        (Register::Ttbr0El1, realm.root.get()),
        (Register::SctlrEl1, 1),
    ];
    for (register, value) in registers {
        machine.write_register(cpu, register, value);
        machine.barrier(cpu, Barrier::Isb);
    }
}

/// What CPU `cpu` is to the map.
fn of(realm: &Realm, cpu: u8) -> linearmap::Cpu {
    linearmap::Cpu { tolerance: Tolerance::new(realm.levels[usize::from(cpu)], true), tlb: TLB }
}

/// CPU 1 comes, which may be late.
pub(crate) fn arrive(realm: &Realm, map: &LinearMap<Kernel<'_>>) {
    map.admit(of(realm, 1));
    walk(realm);
}

/// The kernel's linear map of the block, which CPU 0 walks from now on.
pub(crate) fn start(realm: &Realm) -> LinearMap<Kernel<'_>> {
    let geometry = Geometry::<Granule4K>::new(39, Layout::Bits48, AddressHalf::Lower).expect("a geometry");
    let regime = El1 { scope: Scope::Global, tlb: TLB, hardware_updates: HardwareUpdates::None };
    let mut reserve = pagetable::Reserve::new();
    let kernel = Kernel(realm);
    (0..8).for_each(|_| reserve.add(realm, kernel.allocate().expect("a page")));
    let mut table = PageTable::offline(realm, geometry, regime, &mut reserve).expect("a root");
    let range = VirtAddr::new(BLOCK)..VirtAddr::new(2 * BLOCK);
    let to = PhysAddr::new(BLOCK);
    let map = [Change::Map { from: range, to, attributes: DATA, largest: LeafSize::LARGEST }];
    let mut plan = table.plan(&map, None).expect("a plan");
    let mut gather = plan.gather();
    plan.apply(&mut reserve, &mut gather).expect("enough tables");
    assert_eq!(gather.finish(realm).count(), 0);
    let root = table.publish().root();
    realm.root.set(root.bits());
    walk(realm);
    let map =
        Map { root, geometry, regime, range: 0.into()..(1 << 39).into(), leaves: Leaves::Largest, memory_bytes: BLOCK };
    LinearMap::new(kernel, map, of(realm, 0)).expect("a linear map")
}
