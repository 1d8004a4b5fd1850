//! Memory of a realm changes hands on the simulated machine, whose two stages the kernel and the RMM change in turn: the kernel's protocol
//! (`kerncore::handing`) over the linear map's real code, above hosts that do a part of what they are asked, nothing, refuse, and lie.
//!
//! ```text
//! VA ─ stage 1: the kernel's ─▶ IPA ─ stage 2: the RMM's ─▶ memory
//!                               protected    ▶ the realm's own, where it is RAM
//!                               unprotected  ▶ the host's, where it is EMPTY
//! ```
//! Whenever the RMM is asked, and when all is over, each CPU looks at each page: every answer that a TLB could give counts.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;

use checks::cpu::event_of;
use kerncore::handing::{self, NotHanded, hand};
use kerncore::range::PhysicalRange;
use kerncore::realm::{Rmm, Wish};
use linearmap::{Calls, Context, Embedder, Leaves, LinearMap, Lock, Map, Pages, Refused, State, Wanted};
use machine::barrier::Barrier;
use machine::event::{Event, Level as At};
use machine::machine::{Machine, Outcome};
use machine::registers::{Features, HCR_VM, Register};
use machine::seed::Seed;
use machine::syndrome::AccessKind;
use machine::tlbi::Opcode;
use pagetable::{Change, El1, HardwareUpdates, Licence, PageTable, Platform, Scope, Slot, TlbFeatures, Tolerance};
use vmsa::{
    AddressHalf, BbmLevel, Descriptor, Geometry, Granule4K, Layout, LeafSize, Maintenance, PhysAddr, Stage1Attributes,
    VirtAddr,
};

const CPUS: u8 = 2;
const VMID: u64 = 7;
const GRANULE: u64 = 4096;
/// A block of stage 1, of whose memory the first pages change hands. Virtual and intermediate addresses are the same at first.
const BLOCK: u64 = 2 << 20;
const PAGES: u64 = 16;
/// The top bit of 39.
const UNPROTECTED: u64 = 1 << 38;
/// What the realm has in the block, and what its host has there for it.
const OWN: u64 = 0x8000_0000;
const HOSTS: u64 = 0x9000_0000;
/// Tables of stage 1, at IPAs that lead to themselves, and of stage 2.
const TABLES: u64 = 0x4000_0000;
const ROOT: u64 = 0x5000_0000;
const PROTECTED_L2: u64 = ROOT + 0x2000;
const PROTECTED_L3: u64 = ROOT + 0x3000;
const UNPROTECTED_L2: u64 = ROOT + 0x4000;
const UNPROTECTED_L3: u64 = ROOT + 0x5000;
const TABLE: u64 = 3;
/// A page of stage 2: valid, AF, inner shareable, read-write, Normal write-back.
const PAGE: u64 = 0x7ff;
const IPAS2E1IS: Opcode = Opcode::new(4, 8, 0, 1);
const VMALLE1IS: Opcode = Opcode::new(0, 8, 3, 0);
const DATA: Stage1Attributes =
    Stage1Attributes::AF.union(Stage1Attributes::INNER_SHAREABLE).union(Stage1Attributes::NO_EXECUTE);
const TLB: TlbFeatures = TlbFeatures { range: true, level_hints: true, repeat: false };

/// A realm: the machine, of which CPU 0 makes every change, and the next page for a table of stage 1.
struct Realm {
    machine: RefCell<Machine>,
    next: Cell<u64>,
    /// A mistake of the platform's: its TLBIs are forgotten.
    forgets: Cell<bool>,
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
struct Kernel<'r>(&'r Realm);

struct Own<T>(RefCell<T>);

impl<T> Lock for Own<T> {
    type Held = T;

    fn new(held: T) -> Self {
        Self(RefCell::new(held))
    }

    fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        body(&mut self.0.borrow_mut())
    }
}

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
}

impl Embedder for Kernel<'_> {
    type Granule = Granule4K;
    type Platform = Realm;
    type Lock = Own<State<Granule4K>>;

    fn platform(&self) -> &Realm {
        self.0
    }
}

/// Memory of stage 1 that the protocol changes, with a mistake or none.
struct Linear<'r> {
    map: LinearMap<Kernel<'r>>,
    mistake: Mistake,
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

fn linear(range: PhysicalRange) -> Range<VirtAddr> {
    VirtAddr::new(range.start.bits())..VirtAddr::new(range.end.bits())
}

/// An obligation of the kernel's that it does not keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mistake {
    None,
    /// Pages are not hidden before the host is told.
    DoesNotHide,
    /// TLBs are left as they are.
    ForgetsTlbs,
    /// What is shared is shown at its own address, and what is not at the other.
    ShowsElsewhere,
    /// A host that has stopped is taken to have done all.
    BelievesTheHost,
    /// After a stop every page is taken to be RAM.
    AsksNoState,
}

const MISTAKES: [Mistake; 5] = [
    Mistake::DoesNotHide,
    Mistake::ForgetsTlbs,
    Mistake::ShowsElsewhere,
    Mistake::BelievesTheHost,
    Mistake::AsksNoState,
];

/// What the host does to one request: granules that it gets on by, of which the answer tells so many, and how that ends.
#[derive(Clone, Copy, Debug)]
enum Does {
    All,
    Some(u64),
    Rejects(u64),
    /// The RMM answers with an error once so many granules are done.
    Error(u64),
    /// An answer that cannot be one.
    Nonsense(u64),
}

/// The RMM and a host.
struct Host<'r> {
    realm: &'r Realm,
    /// A bit for each page of the block's that is RAM.
    ram: Cell<u64>,
    script: RefCell<Vec<Does>>,
    mistake: Mistake,
    /// What is wrong while memory was in nobody's hands.
    wrong: RefCell<Vec<String>>,
}

fn number(address: u64) -> u64 {
    (address - BLOCK) / GRANULE
}

impl Host<'_> {
    fn is_ram(&self, page: u64) -> bool {
        self.ram.get() >> page & 1 == 1
    }

    /// The state of a page changes, as an RMM has it: nothing that was known of it is left before it is somebody else's.
    fn turn(&self, page: u64, is_ram: bool) {
        if self.is_ram(page) == is_ram {
            return;
        }
        self.ram.set(self.ram.get() ^ 1 << page);
        let (own, hosts) = (PROTECTED_L3 + 8 * page, UNPROTECTED_L3 + 8 * page);
        let (gone, new, memory) = if is_ram { (hosts, own, OWN) } else { (own, hosts, HOSTS) };
        let ipa = BLOCK + page * GRANULE + if is_ram { UNPROTECTED } else { 0 };
        let mut machine = self.realm.machine.borrow_mut();
        machine.enter(0, At::El2);
        machine.store(0, gone, 0);
        machine.barrier(0, Barrier::DSB_ISHST);
        for (opcode, operand) in [(IPAS2E1IS, ipa >> 12), (VMALLE1IS, 0)] {
            machine.tlbi(0, opcode, operand);
            machine.barrier(0, Barrier::DSB_ISH);
        }
        machine.store(0, new, PAGE | (memory + page * GRANULE));
        machine.barrier(0, Barrier::DSB_ISH);
        machine.barrier(0, Barrier::Isb);
        machine.enter(0, At::El1);
    }

    fn set_state(&self, base: u64, top: u64, is_ram: bool) -> [u64; 4] {
        for page in number(base)..number(top) {
            let reached = look(self.realm, page);
            if reached.iter().any(Result::is_ok) {
                self.wrong.borrow_mut().push(format!("page {page} is asked for, and not hidden: {reached:x?}"));
            }
        }
        let turn = |count: u64| {
            let end = top.min(base + count * GRANULE);
            (number(base)..number(end)).for_each(|page| self.turn(page, is_ram));
            end
        };
        let answer = match self.script.borrow_mut().pop().unwrap_or(Does::All) {
            Does::All => [0, turn(PAGES), 0, 0],
            Does::Some(count) => [0, turn(count), 0, 0],
            Does::Rejects(count) => [0, turn(count), 1, 0],
            Does::Error(count) => {
                turn(count);
                [4, 0, 0, 0]
            }
            Does::Nonsense(address) => [0, address, 0, 0],
        };
        if self.mistake == Mistake::BelievesTheHost { [0, top, 0, 0] } else { answer }
    }
}

impl Rmm for Host<'_> {
    fn call(&self, function: u32, [base, top, state, _]: [u64; 4]) -> [u64; 4] {
        match function {
            0xc400_0197 => self.set_state(base, top, state == 1),
            0xc400_0198 if self.mistake == Mistake::AsksNoState => [0, top, 1, 0],
            0xc400_0198 => {
                let first = self.is_ram(number(base));
                let end = (number(base)..number(top)).find(|page| self.is_ram(*page) != first);
                [0, end.map_or(top, |page| BLOCK + page * GRANULE), first.into(), 0]
            }
            _ => panic!("{function:#x} is not asked"),
        }
    }
}

/// Where a page may lead, by all that any CPU's TLB could hold: memory, or a fault of one stage.
fn look(realm: &Realm, page: u64) -> BTreeSet<Result<u64, bool>> {
    let mut machine = realm.machine.borrow_mut();
    let address = BLOCK + page * GRANULE + 8;
    let all = (0..CPUS).flat_map(|cpu| machine.access(cpu, address, AccessKind::Write).outcomes);
    all.map(|outcome| match outcome {
        Outcome::Translated(at) => Ok(at - 8),
        Outcome::Fault(fault) => Err(fault.is_stage2),
    })
    .collect()
}

/// CPUs of a realm whose block is RAM, in both stages.
fn realm(level: BbmLevel) -> Realm {
    let mut machine = Machine::new(&[Features::full(level as u8); CPUS as usize]);
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
    Realm { machine: RefCell::new(machine), next: Cell::new(TABLES), forgets: Cell::new(false) }
}

/// The kernel's linear map of the block, which every CPU walks from now on.
fn start(realm: &Realm, level: BbmLevel) -> LinearMap<Kernel<'_>> {
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
    for cpu in 0..CPUS {
        let mut machine = realm.machine.borrow_mut();
        let registers = [
            (Register::VtcrEl2, 25 | 1 << 6 | 5 << 16),
            (Register::VttbrEl2, VMID << 48 | ROOT),
            (Register::HcrEl2, HCR_VM),
            (Register::MairEl1, 0xff),
            (Register::TcrEl1, 25 | 1 << 23 | 16 << 16 | 2 << 30 | 5 << 32 | 1 << 36),
            (Register::Ttbr0El1, root.bits()),
            (Register::SctlrEl1, 1),
        ];
        for (register, value) in registers {
            machine.write_register(cpu, register, value);
            machine.barrier(cpu, Barrier::Isb);
        }
    }
    let map =
        Map { root, geometry, regime, range: 0.into()..(1 << 39).into(), leaves: Leaves::Largest, memory_bytes: BLOCK };
    let cpu = linearmap::Cpu { tolerance: Tolerance::new(level, true), tlb: TLB };
    let map = LinearMap::new(kernel, map, cpu).expect("a linear map");
    (1..CPUS).for_each(|_| map.admit(cpu));
    map.settle();
    map
}

/// How often each came of what was asked.
#[derive(Default, Debug)]
struct Seen {
    done: usize,
    stopped: usize,
    lost: u64,
}

/// Shares some of the pages and takes them back, above hosts that do what a seed says; what is wrong, if anything is.
fn run(seed: u64, mistake: Mistake, seen: &mut Seen) -> Result<(), String> {
    let mut seed = Seed::new(seed);
    let level = *seed.pick(&[BbmLevel::Level2, BbmLevel::Level3]);
    let realm = realm(level);
    let linear = Linear { map: start(&realm, level), mistake };
    realm.forgets.set(mistake == Mistake::ForgetsTlbs);
    let host =
        Host { realm: &realm, ram: Cell::new(!0), script: RefCell::default(), mistake, wrong: RefCell::default() };
    // 64 KiB, or less; pages of one granule or of four.
    let page_granules = *seed.pick(&[1, 4]);
    let first = seed.below(PAGES / page_granules) * page_granules;
    let count = page_granules * (1 + seed.below((PAGES - first) / page_granules));
    let range = PhysicalRange::from_size(PhysAddr::new(BLOCK + first * GRANULE), count * GRANULE);
    let mut lost = BTreeSet::new();
    for wish in [Wish::Empty, Wish::Ram] {
        *host.script.borrow_mut() = (0..seed.below(6)).map(|_| draw(&mut seed, range)).collect();
        let handed = hand(&host, &linear, range, wish, page_granules * GRANULE);
        let is_shared = handed.is_ok() && wish == Wish::Empty;
        if let Err(NotHanded::Stopped(..)) = handed {
            let asked = (first..first + count).step_by(page_granules as usize);
            lost = asked.filter(|page| (*page..page + page_granules).any(|page| !host.is_ram(page))).collect();
        }
        let said = handed.as_ref().err().map_or(0, NotHanded::lost);
        if said != lost.len() as u64 {
            return Err(format!("{said} pages are said to be lost, and {lost:?} are"));
        }
        for page in 0..2 * PAGES {
            let is_its = (first..first + count).contains(&page);
            let memory = if is_its && is_shared { HOSTS } else { OWN } + page * GRANULE;
            let is_lost = is_its && lost.contains(&((page - first) / page_granules * page_granules + first));
            let expected = if is_lost { Err(false) } else { Ok(memory) };
            let found = look(&realm, page);
            if found != BTreeSet::from([expected]) {
                return Err(format!("{wish:?}, {handed:?}: page {page} is {found:x?}, expected {expected:x?}"));
            }
        }
        if handed.is_err() {
            seen.stopped += 1;
            seen.lost += said;
            break;
        }
        seen.done += 1;
    }
    if let Some(wrong) = host.wrong.borrow().first() {
        return Err(wrong.clone());
    }
    match realm.machine.borrow().findings().iter().find(|finding| !finding.is_lint()) {
        Some(finding) => Err(finding.to_string()),
        None => Ok(()),
    }
}

fn draw(seed: &mut Seed, range: PhysicalRange) -> Does {
    let count = seed.below(PAGES);
    match seed.below(8) {
        0..3 => Does::Some(count),
        3 => Does::Some(0),
        4 | 5 => Does::Rejects(count),
        6 => Does::Error(count),
        _ => Does::Nonsense(*seed.pick(&[0, range.end.bits() + GRANULE, range.start.bits() + 8, u64::MAX])),
    }
}

const SEEDS: u64 = 60;

#[test]
fn memory_is_in_the_right_hands_whatever_the_host_does() {
    let mut seen = Seen::default();
    for seed in 0..SEEDS {
        run(seed, Mistake::None, &mut seen).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
    assert!(seen.done > 20 && seen.stopped > 20 && seen.lost > 20, "{seen:?}");
}

#[test]
fn each_mistake_is_found() {
    for mistake in MISTAKES {
        let found = (0..SEEDS).find_map(|seed| run(seed, mistake, &mut Seen::default()).err());
        assert!(found.is_some(), "{mistake:?} is not noticed");
    }
}
