//! The engine's own work, told by `Traced` and judged: clean as it is, and with one barrier or TLBI left out a violation of
//! the right rule.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::{Display, Write};

use machine::trace::{Judge, Trace};
use pagetable::{
    Change, El1, HardwareUpdates, Licence, PageTable, Platform, Reserve, Retired, Scope, Slot, TlbFeatures, Traced,
    trace::Line,
};
use vmsa::{
    AddressHalf, Descriptor, Geometry, Granule4K, Layout, LeafSize, Level, Maintenance, PhysAddr, Stage1Attributes,
    VirtAddr,
};

const POOL: u64 = 0x4000_0000;
const FRAMES: u64 = 0x8000_0000;
const BLOCK: u64 = 2 << 20;
/// Pages of a table.
const TLBIS: usize = 512;

/// Memory, and nothing that walks it.
#[derive(Default)]
struct Memory {
    words: RefCell<BTreeMap<Slot, Descriptor>>,
}

impl Platform for Memory {
    fn load(&self, slot: Slot) -> Descriptor {
        self.words.borrow().get(&slot).copied().unwrap_or_default()
    }

    fn store(&self, slot: Slot, descriptor: Descriptor) {
        self.words.borrow_mut().insert(slot, descriptor);
    }

    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        let found = self.load(slot);
        if found != old {
            return Err(found);
        }
        self.store(slot, new);
        Ok(())
    }

    fn maintain(&self, _: Maintenance) {}
}

/// A platform that leaves out one call of `maintain`, by its number from 0.
struct Forgetful<P: Platform> {
    platform: P,
    left: Cell<usize>,
    count: Cell<usize>,
}

impl<P: Platform> Platform for Forgetful<P> {
    fn load(&self, slot: Slot) -> Descriptor {
        self.platform.load(slot)
    }

    fn store(&self, slot: Slot, descriptor: Descriptor) {
        self.platform.store(slot, descriptor);
    }

    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        self.platform.exchange(slot, old, new)
    }

    fn maintain(&self, operation: Maintenance) {
        let number = self.count.replace(self.count.get() + 1);
        if self.left.get() != number {
            self.platform.maintain(operation);
        }
    }
}

/// What is done to a live page table of 4 KiB pages, and then stated: so that what was forgotten does harm.
struct Work {
    from: u64,
    bytes: u64,
    change: fn(std::ops::Range<VirtAddr>) -> Change<El1>,
    stated: fn(u64) -> String,
}

const DATA: Stage1Attributes =
    Stage1Attributes::AF.union(Stage1Attributes::INNER_SHAREABLE).union(Stage1Attributes::NO_EXECUTE);

/// A page goes, and its frame with it.
const UNMAP: Work = Work {
    from: 0x1000,
    bytes: 0x1000,
    change: |from| Change::Unmap { from },
    stated: |_| format!("0 free frame {:#x} 0x1000", FRAMES + 0x1000),
};

/// A whole table goes, and the frames of its three pages; `run` frees the table itself.
const UNMAP_TABLE: Work = Work {
    from: 0,
    bytes: BLOCK,
    change: |from| Change::Unmap { from },
    stated: |_| format!("0 free frame {FRAMES:#x} 0x3000"),
};

/// A page of a block becomes read-only, by break-before-make.
const PROTECT_PART: Work = Work {
    from: BLOCK + 0x3000,
    bytes: 0x1000,
    change: |from| Change::Protect { from, set: Stage1Attributes::READ_ONLY, clear: Stage1Attributes::empty() },
    stated: |from| format!("0 access read {from:#x}\n0 revoked {from:#x} {:#x} r--/---", from + 0xfff),
};

/// Does the work with the `forgotten`th call of `maintain` left out. The trace, and how many such calls the work made.
fn run(work: &Work, forgotten: Option<usize>, scope: Scope) -> (String, usize) {
    let text = RefCell::new(String::from("vellum trace 1\ncpu 0 parange=5\ncpu 1 parange=5\n"));
    let memory = Memory::default();
    let log = |line: &dyn Display| writeln!(text.borrow_mut(), "{line}").expect("a string takes everything");
    let traced = Traced::new(&memory, 0, |line: Line| log(&line));
    let platform = Forgetful { platform: traced, left: Cell::new(usize::MAX), count: Cell::new(0) };
    let geometry = Geometry::<Granule4K>::new(48, Layout::Bits48, AddressHalf::Lower).expect("a geometry");
    let tlb = TlbFeatures { range: false, level_hints: false, repeat: false };
    let mut reserve = Reserve::new();
    (0..16).for_each(|page| reserve.add(&platform, PhysAddr::new(POOL + page * 0x1000)));
    let regime = El1 { scope, tlb, hardware_updates: HardwareUpdates::None };
    let mut table = PageTable::offline(&platform, geometry, regime, &mut reserve).expect("a root");
    let attributes = if matches!(scope, Scope::Global) { DATA } else { DATA | Stage1Attributes::NOT_GLOBAL };
    for (from, bytes, largest) in [(0, 0x3000, LeafSize::PAGE), (BLOCK, BLOCK, LeafSize::single(Level::L2))] {
        let to = PhysAddr::new(FRAMES + from);
        let map = Change::Map { from: VirtAddr::new(from)..VirtAddr::new(from + bytes), to, attributes, largest };
        assert_eq!(make(&mut table, map, &platform, &mut reserve).count(), 0);
    }
    let mut table = table.publish();
    let root = table.root().bits();
    for cpu in 0..2 {
        log(&format!(
            "{cpu} msr mair_el1 0xff\n{cpu} msr tcr_el1 0x1500903510\n{cpu} msr ttbr0_el1 {:#x}",
            0x5a << 48 | root
        ));
        log(&format!("{cpu} isb\n{cpu} msr sctlr_el1 1\n{cpu} isb"));
    }
    platform.count.set(0);
    platform.left.set(forgotten.unwrap_or(usize::MAX));
    let range = VirtAddr::new(work.from)..VirtAddr::new(work.from + work.bytes);
    let mut retired = make(&mut table, (work.change)(range), &platform, &mut reserve);
    let count = platform.count.get();
    while let Some(table) = retired.take(&memory) {
        log(&format!("0 free table {:#x} 0x1000", table.bits()));
    }
    log(&(work.stated)(work.from));
    let text = text.borrow().clone();
    (text, count)
}

fn make<P: Platform>(
    table: &mut PageTable<'_, Granule4K, El1, P>,
    change: Change<El1>,
    platform: &P,
    reserve: &mut Reserve,
) -> Retired {
    let guard = ();
    let licence = Licence::break_before_make(&guard);
    let changes = [change];
    let mut plan = table.plan(&changes, Some(&licence)).expect("a plan");
    let mut gather = plan.gather();
    plan.apply(reserve, &mut gather).expect("enough tables");
    gather.finish(platform)
}

/// The rules that are broken, in order, each once.
fn judge(text: &str) -> Vec<&'static str> {
    let trace = Trace::read(text).unwrap_or_else(|error| panic!("line {}: {}\n{text}", error.line, error.what));
    let mut judge = Judge::new(&trace, false);
    while judge.step().unwrap_or_else(|error| panic!("line {}: {}\n{text}", error.line, error.what)) {}
    let mut rules: Vec<_> = judge.findings().iter().map(|it| it.rule.label()).collect();
    rules.dedup();
    rules
}

/// What is found when barriers and TLBIs of some work are left out in turn; `which` chooses, given how many there are.
fn leave_out(work: &Work, scope: Scope, which: impl Fn(usize) -> Vec<usize>) -> Vec<Vec<&'static str>> {
    let (text, count) = run(work, None, scope);
    assert_eq!(judge(&text), [""; 0], "{text}");
    which(count).into_iter().map(|number| judge(&run(work, Some(number), scope).0)).collect()
}

fn leave_out_each(work: &Work, scope: Scope) -> Vec<Vec<&'static str>> {
    leave_out(work, scope, |count| (0..count).collect())
}

/// DSB ISHST, TLBI, DSB ISH, ISB: without any of them a TLB may hold what was given away.
#[test]
fn an_unmapped_page_needs_each_barrier() {
    for scope in [Scope::Global, Scope::Asid(0x5a)] {
        assert_eq!(leave_out_each(&UNMAP, scope), [["V3"]; 4], "{scope:?}");
    }
}

#[test]
fn an_unlinked_table_needs_each_barrier() {
    for scope in [Scope::Global, Scope::Asid(0x5a)] {
        // One TLBI for each page that may have been there: the DSB before, those for the three pages that were, two of
        // those for pages that never were, DSB, ISB.
        let found = leave_out(&UNMAP_TABLE, scope, |count| {
            assert_eq!(count, 3 + TLBIS);
            vec![0, 1, 2, 3, 4, TLBIS, TLBIS + 1, TLBIS + 2]
        });
        let (needed, needless): (&[&str], &[&str]) = (&["V3"], &[]);
        assert_eq!(found, [needed, needed, needed, needed, needless, needless, needed, needed], "{scope:?}");
    }
}

#[test]
fn break_before_make_needs_each_barrier() {
    for scope in [Scope::Global, Scope::Asid(0x5a)] {
        let found = leave_out_each(&PROTECT_PART, scope);
        // The DSB after the table was filled is needed where no break follows; here the break's own DSB orders both.
        // The last ISB is for fetches that were under way, which a trace does not show.
        let expected: [&[&str]; 7] = [&[], &["V1", "V4"], &["V1", "V4"], &["V1", "V4"], &["V1"], &["V9"], &[]];
        assert_eq!(found, expected, "{scope:?}");
    }
}
