//! Random changes while hardware marks leaves: after each gather no TLB may hold what leads elsewhere or allows more.

mod common;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use pagetable::{
    Census, Change, El1, Licence, Memory, PageTable, Platform, Reserve, Scope, Slot, TlbFeatures, Tolerance,
};
use vmsa::{
    AddressHalf, BbmLevel, Descriptor, Geometry, Granule4K, Layout, LeafSize, Level, Maintenance, Meaning, PageSize,
    PhysAddr, Stage1Attributes, VirtAddr,
};

const AT: u64 = 0x4000_0000;
const BYTES: u64 = 4 << 20;
const PAGE: u64 = 0x1000;
const RO: u64 = Stage1Attributes::READ_ONLY.bits();
const AF: u64 = Stage1Attributes::AF.bits();
const DBM: u64 = Stage1Attributes::DBM.bits();

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Entry {
    va: u64,
    level: i8,
    /// Output and all attributes but the contiguous bit.
    bits: u64,
    is_group: bool,
}

impl Entry {
    fn bytes(&self) -> u64 {
        1 << PageSize::Size4K.level_shift(Level::new(self.level).unwrap())
    }
    fn out(&self) -> u64 {
        Layout::Bits48.output(Descriptor::new(self.bits), self.bytes().ilog2()).bits()
    }
}

struct Random(common::random::Random);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.next() % bound
    }
}

struct Machine {
    memory: Memory,
    /// Table address -> (level, va).
    tables: RefCell<BTreeMap<u64, (Level, u64)>>,
    may: RefCell<BTreeSet<Entry>>,
    random: RefCell<Random>,
    marks: Cell<bool>,
    walks: RefCell<BTreeSet<(u64, Level, u64)>>,
    wrong: RefCell<Option<String>>,
    /// The level of BBM that is relied on.
    sizes: Cell<u8>,
    log: RefCell<Vec<String>>,
}

impl Machine {
    fn note(&self, slot: Slot, new: Descriptor) {
        let address = slot.address().bits();
        let table = address & !(PAGE - 1);
        let Some((level, va)) = self.tables.borrow().get(&table).copied() else { return };
        let at = va + ((address - table) / 8 << PageSize::Size4K.level_shift(level));
        self.see(level, at, new);
    }
    fn see(&self, level: Level, at: u64, new: Descriptor) {
        match new.meaning(PageSize::Size4K, Layout::Bits48, level) {
            // nT: not cached.
            Meaning::Leaf(..) if level < Level::L3 && new.bits() & Descriptor::NT != 0 => {}
            Meaning::Leaf(_, is_group) if new.bits() & AF != 0 => {
                let bits = new.bits() & !Descriptor::CONTIGUOUS;
                let size = 1u64 << PageSize::Size4K.level_shift(level);
                if !is_group {
                    return self.add(Entry { va: at, level: level.number(), bits, is_group });
                }
                let first = at & !(16 * size - 1);
                for member in 0..16 {
                    let va = first + member * size;
                    self.add(Entry {
                        va,
                        level: level.number(),
                        bits: bits.wrapping_add(va.wrapping_sub(at)),
                        is_group,
                    });
                }
            }
            Meaning::Table(next) => {
                let old = self
                    .walks
                    .borrow()
                    .iter()
                    .find(|(va, of, to)| *va == at && *of == level && *to != next.bits())
                    .copied();
                if let Some(old) = old {
                    self.wrong(format!("table {next} at {at:#x} while {old:x?} may be held"));
                }
                self.walks.borrow_mut().insert((at, level, next.bits()));
                self.tables.borrow_mut().insert(next.bits(), (level.next().unwrap(), at));
                for index in 0..512 {
                    let slot = Slot::new(next, index);
                    self.note(slot, self.memory.load(slot));
                }
            }
            _ => {}
        }
    }
    fn wrong(&self, what: String) {
        if self.wrong.borrow().is_none() {
            self.log.borrow_mut().push(format!("WRONG {what}"));
            *self.wrong.borrow_mut() = Some(what);
        }
    }
    fn add(&self, entry: Entry) {
        if self.may.borrow().contains(&entry) {
            return;
        }
        let at = |va: u64| Entry { va, level: -1, bits: 0, is_group: false };
        let same = at(entry.va)..at(entry.va + entry.bytes());
        let block = entry.va & !0x1f_ffff;
        let found = {
            let may = self.may.borrow();
            let around = may.range(at(block)..at(block + 1)).filter(|other| other.level == 2);
            let clash = |other: &&Entry| {
                let delta = |entry: &Entry| entry.out().wrapping_sub(entry.va);
                let soft = AF | RO | DBM | Stage1Attributes::USER.bits() | Stage1Attributes::NO_EXECUTE.bits();
                let attributes = |entry: &Entry| entry.bits & !0x0000_ffff_ffff_f003 & !soft;
                delta(other) != delta(&entry)
                    || attributes(other) != attributes(&entry)
                    || self.sizes.get() < 2 && other.level != entry.level
                    || self.sizes.get() < 1 && other.is_group != entry.is_group
            };
            may.range(same).chain(around).find(clash).copied()
        };
        if let Some(other) = found {
            self.wrong(format!("{entry:x?} while {other:x?} may be held, level {}", self.sizes.get()));
        }
        self.may.borrow_mut().insert(entry);
    }
    fn walk(&self, va: u64) -> Option<(Slot, Level, Descriptor)> {
        let (root, (level, _)) =
            self.tables.borrow().iter().find(|(_, (level, _))| *level == Level::L1).map(|(a, b)| (*a, *b))?;
        let (mut table, mut level) = (PhysAddr::new(root), level);
        loop {
            let slot = Slot::new(table, (va >> PageSize::Size4K.level_shift(level)) as usize & 511);
            let descriptor = self.memory.load(slot);
            match descriptor.meaning(PageSize::Size4K, Layout::Bits48, level) {
                Meaning::Table(next) => (table, level) = (next, level.next()?),
                Meaning::Leaf(..) => return Some((slot, level, descriptor)),
                _ => return None,
            }
        }
    }
    fn hardware(&self) {
        if !self.marks.get() || self.random.borrow_mut().below(3) != 0 {
            return;
        }
        let most = if self.random.borrow_mut().below(2) == 0 { 4 } else { BYTES / PAGE };
        let page = self.random.borrow_mut().below(most);
        let Some((slot, level, leaf)) = self.walk(AT + page * PAGE) else { return };
        let mut bits = leaf.bits() | AF;
        let writes = self.random.borrow_mut().below(2) == 0;
        if writes && bits & DBM != 0 {
            bits &= !RO;
        }
        if bits != leaf.bits() {
            self.log.borrow_mut().push(format!("mark page {page} L{} {bits:#x}", level.number()));
            self.memory.store(slot, Descriptor::new(bits));
            self.note(slot, Descriptor::new(bits));
        }
    }
    /// Adds what walkers can reach now.
    fn refill(&self) {
        let root = self.tables.borrow().iter().find(|(_, (level, _))| *level == Level::L1).map(|(at, _)| *at);
        if let Some(root) = root {
            self.refill_walks(root, Level::L1, 0);
        }
        let mut va = AT;
        while va < AT + BYTES {
            va += match self.walk(va) {
                Some((_, level, leaf)) => {
                    let size = 1 << PageSize::Size4K.level_shift(level);
                    self.see(level, va & !(size - 1), leaf);
                    size
                }
                None => PAGE,
            };
        }
    }
    fn refill_walks(&self, table: u64, level: Level, va: u64) {
        let size = 1u64 << PageSize::Size4K.level_shift(level);
        let count = if level == Level::L1 { 2 } else { 512 };
        for index in 0..count {
            let leaf = self.memory.load(Slot::new(PhysAddr::new(table), index as usize));
            if let Meaning::Table(next) = leaf.meaning(PageSize::Size4K, Layout::Bits48, level) {
                self.walks.borrow_mut().insert((va + index * size, level, next.bits()));
                if level < Level::L2 {
                    self.refill_walks(next.bits(), level.next().unwrap(), va + index * size);
                }
            }
        }
    }
    fn kill(&self, from: u64, to: u64, hint: u64, is_last: bool) {
        if !is_last {
            self.walks.borrow_mut().retain(|(va, level, _)| {
                let bytes = 1u64 << PageSize::Size4K.level_shift(*level);
                !(*va < to && from < *va + bytes)
            });
        }
        let mut may = self.may.borrow_mut();
        may.retain(|entry| {
            let meets = entry.va < to && from < entry.va + entry.bytes();
            !(meets && (hint == 0 || hint & 3 == entry.level as u64))
        });
    }
}

impl Platform for Machine {
    fn load(&self, slot: Slot) -> Descriptor {
        self.memory.load(slot)
    }
    fn store(&self, slot: Slot, descriptor: Descriptor) {
        self.memory.store(slot, descriptor);
        self.note(slot, descriptor);
        self.hardware();
    }
    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        if self.marks.get() {
            self.hardware();
        }
        self.memory.exchange(slot, old, new)?;
        self.note(slot, new);
        self.hardware();
        Ok(())
    }
    fn maintain(&self, operation: Maintenance) {
        if let Maintenance::Invalidate(op, operand) = operation {
            self.log.borrow_mut().push(operation.to_string());
            let name = op.name().unwrap();
            if name.starts_with("VMALL") {
                self.may.borrow_mut().clear();
                self.walks.borrow_mut().clear();
            } else if name.starts_with('R') {
                let (scale, num, ttl) = (operand >> 44 & 3, operand >> 39 & 31, operand >> 37 & 3);
                let from = (operand & ((1 << 37) - 1)) << 12;
                self.kill(from, from + ((num + 1) << (5 * scale + 1) << 12), ttl, name.contains('L'));
            } else {
                let at = (operand & ((1 << 44) - 1)) << 12;
                self.kill(at, at + 1, operand >> 44 & 15, name.contains('L'));
            }
            self.refill();
        }
        self.hardware();
    }
}

fn turn(seed: u64) -> Result<(), String> {
    let machine = Machine {
        memory: Memory::default(),
        tables: RefCell::default(),
        may: RefCell::default(),
        random: RefCell::new(Random(common::random::Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1))),
        marks: Cell::new(false),
        walks: RefCell::default(),
        wrong: RefCell::default(),
        sizes: Cell::new(3),
        log: RefCell::default(),
    };
    let below = |most: u64| machine.random.borrow_mut().below(most);
    let mut reserve = Reserve::new();
    machine.memory.supply::<Granule4K>(&mut reserve, 64);
    let geometry = Geometry::new(39, Layout::Bits48, AddressHalf::Lower).unwrap();
    let tlb = TlbFeatures { range: below(2) == 0, level_hints: true, repeat: false };
    let regime = El1 { scope: Scope::Global, tlb, hardware_updates: true };
    let mut table = PageTable::<Granule4K, _, _>::offline(&machine, geometry, regime, &mut reserve).unwrap();
    machine.tables.borrow_mut().insert(table.root().bits(), (Level::L1, 0));
    table = table.publish();
    machine.marks.set(true);
    let level = [BbmLevel::Level3, BbmLevel::Level2, BbmLevel::Level1, BbmLevel::Level0][below(4) as usize];
    machine.sizes.set(level as u8);
    let census = Census::new(Tolerance::new(level, true));
    let guard = ();
    for _ in 0..24 {
        let licence = match below(4) {
            0 => Some(Licence::break_before_make(&guard)),
            _ => census.tolerated().or(census.not_cached()),
        };
        let pages = BYTES / PAGE;
        let unit = [1, 1, 16, 512, 1024][below(5) as usize];
        let start = below(4).min(pages / unit - 1) * unit;
        let count = (unit * (1 + below(2))).min(pages - start);
        let from = VirtAddr::new(AT + start * PAGE)..VirtAddr::new(AT + (start + count) * PAGE);
        let attributes = Stage1Attributes::from_bits_retain(
            Stage1Attributes::INNER_SHAREABLE.bits() | [AF, 0, AF | RO | DBM, DBM | RO, AF | DBM][below(5) as usize],
        );
        let largest = [LeafSize::LARGEST, LeafSize::PAGE][below(2) as usize];
        let to = PhysAddr::new(0x8000_0000 + start * PAGE + [0, 0, 0x1000_0000, 0x1000][below(4) as usize]);
        let mask = Stage1Attributes::from_bits_retain([RO, RO, AF, DBM, RO | AF][below(5) as usize]);
        let none = Stage1Attributes::empty();
        let change: Change<El1> = match below(17) {
            0 | 1 => Change::Map { from, to, attributes, largest },
            2 | 3 => Change::Remap { from, to, attributes, largest },
            4 => Change::Protect { from, set: mask, clear: none },
            5 | 6 => Change::Protect { from, set: none, clear: mask },
            7 => Change::Unmap { from },
            8 => Change::Hide { from },
            9 => Change::Show { from },
            10 => Change::Age { from },
            11 => Change::Clean { from },
            12 => Change::SplitToPages { from },
            13 => Change::Split { at: from.start },
            14 => Change::UnmapMapped { from },
            _ => Change::Collapse { from },
        };
        machine.log.borrow_mut().push(format!("{change:x?} licence {licence:?}"));
        let changes = [change];
        let Ok(plan) = table.plan(&changes, licence.as_ref()) else { continue };
        let mut gather = plan.gather();
        let Ok(ready) = plan.with(&mut reserve) else { continue };
        ready.apply(&mut gather);
        let mut retired = gather.finish(&machine);
        machine.marks.set(false);
        while let Some(page) = retired.take(&machine) {
            machine.tables.borrow_mut().remove(&page.bits());
            if machine.walks.borrow().iter().any(|walk| walk.2 == page.bits()) {
                machine.wrong(format!("table {page} came free and may be walked"));
            }
            reserve.add(&machine, page);
        }
        machine.marks.set(true);
        if let Some(what) = machine.wrong.take() {
            LOG.with(|log| *log.borrow_mut() = machine.log.borrow().clone());
            return Err(what);
        }
        for entry in machine.may.borrow().iter() {
            for offset in (0..entry.bytes()).step_by(PAGE as usize) {
                let va = entry.va + offset;
                if !(AT..AT + BYTES).contains(&va) {
                    continue;
                }
                let Some((_, level, leaf)) = machine.walk(va) else {
                    LOG.with(|log| *log.borrow_mut() = machine.log.borrow().clone());
                    return Err(format!("{entry:x?} may be held, nothing is at {va:#x}"));
                };
                let size = 1u64 << PageSize::Size4K.level_shift(level);
                let out = Layout::Bits48.output(leaf, size.ilog2()).bits() + (va & (size - 1));
                let grants = |bits: u64| bits & RO == 0;
                // What one member of a group says of writes, all of them say.
                let members = if leaf.is_contiguous() { 16 } else { 1 };
                let first = va & !(members * size - 1);
                let is_granted = (0..members)
                    .any(|member| machine.walk(first + member * size).is_some_and(|(_, _, leaf)| grants(leaf.bits())));
                // A clean leaf with DBM may be written, too: hardware looks at the table first.
                let allows_more = grants(entry.bits) && !is_granted;
                if entry.out() + offset != out || allows_more {
                    LOG.with(|log| *log.borrow_mut() = machine.log.borrow().clone());
                    return Err(format!("{entry:x?} may be held, {leaf:x?} L{} is at {va:#x}", level.number()));
                }
            }
        }
        // What leads to the same place with the same or less may stay; so that later changes are held against it too.
    }
    Ok(())
}

thread_local! { static LOG: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) }; }

#[test]
fn no_stale_entry_survives_a_gather() {
    let seeds: u64 = std::env::var("SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(100);
    let first: u64 = std::env::var("FIRST").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut failed = Vec::new();
    for seed in first..first + seeds {
        let result = std::panic::catch_unwind(|| turn(seed)).unwrap_or(Err("panic".into()));
        if let Err(what) = result {
            eprintln!("seed {seed}: {what}");
            if std::env::var("LOG").is_ok() {
                LOG.with(|log| log.borrow().iter().for_each(|line| eprintln!("    {line}")));
            }
            failed.push((seed, what));
        }
    }
    assert!(failed.is_empty(), "{} of {seeds}", failed.len());
}
