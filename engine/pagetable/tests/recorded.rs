//! What the engine did for random changes, run by run, beside what it did when somebody last looked (`recorded/`): every store,
//! barrier and TLBI, every refusal, how many tables a plan takes and in which order they come free. The model (`model.rs`) says
//! what is right; here shows what was changed. Whoever means to do something else reads which lines it changes:
//! `VELLUM_RECORD=1 cargo test -p vellum-pagetable --test recorded` writes them anew.

mod common;

use std::cell::{Cell, RefCell};
use std::hash::Hasher;
use std::ops::Range;

use common::regimes::Drawn;
use seed::{Digest, Seed};
use vellum_pagetable::{
    Census, Change, El1, El2, El2And0, Gather, HardwareUpdates, Licence, PageTable, Platform, Reserve, Slot, Stage2,
    Summary, TlbFeatures, Tolerance,
};
use vellum_vmsa::{
    BbmLevel, Descriptor, Geometry, Granule, Granule4K, Granule16K, Granule64K, Layout, LeafSize, Level, Maintenance,
    PhysAddr,
};

/// Where tables lie.
const TABLES: u64 = 0x8000_0000;
const ACCESS_FLAG: u64 = 1 << 10;
const DBM: u64 = 1 << 51;
const WRITE: u64 = 1 << 7;

/// Memory that tells what is done to it, and whose hardware marks a leaf now and then just before that is exchanged.
struct Told {
    words: RefCell<Vec<u64>>,
    seed: Cell<Seed>,
    digest: RefCell<Digest>,
    stores: Cell<u32>,
    exchanges: Cell<u32>,
    operations: Cell<u32>,
}

impl Told {
    fn new(seed: Seed) -> Self {
        let (words, digest) = (RefCell::default(), RefCell::new(Digest::new()));
        let [stores, exchanges, operations] = [0, 0, 0].map(Cell::new);
        Self { words, seed: Cell::new(seed), digest, stores, exchanges, operations }
    }

    /// The address of so many more bytes, aligned to them, which hold no zeros.
    fn more(&self, bytes: u64) -> PhysAddr {
        let mut words = self.words.borrow_mut();
        let start = (words.len() * 8).next_multiple_of(bytes as usize);
        words.resize((start + bytes as usize) / 8, 0xdead_beef);
        PhysAddr::new(TABLES + start as u64)
    }

    fn supply<G: Granule>(&self, reserve: &mut Reserve, count: usize) {
        (0..count).for_each(|_| reserve.add(self, self.more(G::SIZE_BYTES)));
    }

    fn put(&self, slot: Slot, value: u64) {
        self.words.borrow_mut()[(slot.address().bits() - TABLES) as usize / 8] = value;
    }

    fn tell(&self, numbers: &[u64]) {
        numbers.iter().for_each(|number| self.digest.borrow_mut().write_u64(*number));
    }

    fn says(&self, what: &str) {
        self.digest.borrow_mut().write(what.as_bytes());
    }

    fn one_in(&self, n: u64) -> bool {
        let mut seed = self.seed.get();
        let is_drawn = seed.one_in(n);
        self.seed.set(seed);
        is_drawn
    }
}

impl Platform for Told {
    fn load(&self, slot: Slot) -> Descriptor {
        Descriptor::new(self.words.borrow()[(slot.address().bits() - TABLES) as usize / 8])
    }

    fn store(&self, slot: Slot, descriptor: Descriptor) {
        self.stores.set(self.stores.get() + 1);
        self.tell(&[1, slot.address().bits(), descriptor.bits()]);
        self.put(slot, descriptor.bits());
    }

    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        if self.one_in(8) {
            let held = self.load(slot).bits();
            self.put(slot, if held & 1 != 0 { held | ACCESS_FLAG } else { held });
        }
        self.exchanges.set(self.exchanges.get() + 1);
        let found = self.load(slot);
        self.tell(&[2, slot.address().bits(), old.bits(), new.bits(), found.bits()]);
        if found != old {
            return Err(found);
        }
        self.put(slot, new.bits());
        Ok(())
    }

    fn maintain(&self, operation: Maintenance) {
        self.operations.set(self.operations.get() + 1);
        self.says(&operation.to_string());
    }
}

/// Where changes are drawn: around a boundary of the highest level that a granule has.
struct Drawing<G: Granule, R: Drawn> {
    geometry: Geometry<G>,
    base: u64,
    seed: Seed,
    /// What was unmapped last.
    freed: Option<Range<u64>>,
    regime: std::marker::PhantomData<R>,
}

impl<G: Granule, R: Drawn> Drawing<G, R> {
    fn bytes(level: Level) -> u64 {
        (G::ENTRIES as u64).pow(3 - u32::from(level.number() as u8)) * G::SIZE_BYTES
    }

    /// A range of up to about two blocks of level 1, if it may be `large`: whole leaves of some size, or some pages off that.
    fn range(&mut self, is_large: bool) -> Range<u64> {
        let page = G::SIZE_BYTES;
        let group = LeafSize::group(Level::L3).size_bytes(G::PAGE_SIZE);
        let block = Self::bytes(Level::L2);
        let large = [LeafSize::group(Level::L2).size_bytes(G::PAGE_SIZE), Self::bytes(Level::L1)];
        let units = [page, page, group, block, block, large[0], large[1]];
        let unit = units[self.seed.index(if is_large { units.len() } else { 4 })];
        let edge = if self.seed.one_in(3) { self.seed.below(40) * page } else { 0 };
        let start = self.base + self.seed.below(4) * unit + edge;
        let more = if self.seed.one_in(4) { self.seed.below(20) * page } else { 0 };
        start..start + (1 + self.seed.below(3)) * unit + more
    }

    fn attributes(&mut self) -> R::Attributes {
        let bits = R::PLAYED.iter().filter(|_| self.seed.one_in(3)).sum();
        R::attributes(bits)
    }

    fn change(&mut self) -> Change<R> {
        let kind = self.seed.below(20);
        let drawn = self.range(kind != 12 && G::ENTRIES == 512);
        let range = if kind < 5 { self.freed.take().unwrap_or(drawn) } else { drawn };
        let from: Range<R::Input> = range.start.into()..range.end.into();
        let sizes: Vec<_> = LeafSize::all(G::PAGE_SIZE, self.geometry.layout()).collect();
        let largest = if self.seed.one_in(2) { LeafSize::LARGEST } else { *self.seed.pick(&sizes) };
        let skew = if self.seed.one_in(4) { self.seed.below(20) * G::SIZE_BYTES } else { 0 };
        let to = PhysAddr::new((range.start & ((1 << 40) - 1)) + skew);
        match kind {
            0..=4 => Change::Map { from, to, attributes: self.attributes(), largest },
            5 | 6 => Change::Remap { from, to, attributes: self.attributes(), largest },
            7 | 8 => Change::Protect { from, set: self.attributes(), clear: self.attributes() },
            9 | 18 | 19 => {
                self.freed = Some(range);
                Change::Unmap { from }
            }
            10 => Change::UnmapMapped { from },
            11 => Change::MakeInvalid { from },
            12 => Change::SplitToPages { from },
            13 => Change::MakeValid { from },
            14 => Change::Age { from },
            15 => Change::Clean { from },
            16 => Change::Split { at: from.start },
            _ => Change::Collapse { from },
        }
    }
}

type Table<'m, G, R> = PageTable<'m, G, R, Told>;

/// What comes free is used again.
fn finish<G: Granule, R: Drawn>(told: &Told, gather: &mut Gather<G, R>, reserve: &mut Reserve) {
    let mut retired = gather.finish(told);
    while let Some(table) = retired.take(told) {
        told.tell(&[3, table.bits()]);
        reserve.add(told, table);
    }
}

/// Something that the engine does not make stands where the way for an address ends, or hardware has marked the leaf there.
fn disturb<G: Granule, R: Drawn>(told: &Told, table: &Table<'_, G, R>, seed: &mut Seed, at: u64) {
    let Some(end) = table.view().path(at.into()).last() else { return };
    let bits = end.descriptor.bits();
    let value = match seed.below(6) {
        0 | 1 if bits & 1 != 0 => bits | ACCESS_FLAG,
        2 if bits & 1 != 0 && bits & DBM != 0 => bits ^ WRITE,
        3 if bits == 0 => 0x1230,
        4 if bits == 0 => 0x1001 | u64::from(end.level != Level::L3) << 1,
        5 if bits == 0 => 0x2001,
        _ => return,
    };
    // A table that nobody made would lead anywhere.
    if value & 3 != 3 || end.level == Level::L3 || bits & 3 == 3 {
        told.put(end.slot, value);
    }
}

/// What licence a run has. Those whose number 6 divides are offline.
fn with_licence(number: u64, run: impl FnOnce(Option<&Licence<'_>>)) {
    let census = |level| Census::new(Tolerance::new(level, true));
    let [first, second, third] = [BbmLevel::Level1, BbmLevel::Level2, BbmLevel::Level3].map(census);
    match number % 6 {
        0 | 1 => run(None),
        2 => run(Some(&Licence::break_before_make(&()))),
        3 => run(first.not_cached().as_ref()),
        4 => run(second.tolerated().as_ref()),
        _ => run(third.tolerated().as_ref()),
    }
}

fn run<G: Granule, R: Drawn>(geometry: Geometry<G>, number: u64) -> String {
    let mut seed = Seed::new(number);
    let told = Told::new(Seed::new(!number));
    let tlb = TlbFeatures { range: !seed.one_in(3), level_hints: !seed.one_in(3), repeat: seed.one_in(8) };
    let updates = [HardwareUpdates::None, HardwareUpdates::AccessFlag, HardwareUpdates::DirtyState];
    let regime = R::drawn(tlb, *seed.pick(&updates), seed.below(4) as u16);
    let mut reserve = Reserve::new();
    told.supply::<G>(&mut reserve, 1);
    let mut table = match geometry.root_tables() {
        1 => PageTable::offline(&told, geometry, regime, &mut reserve).unwrap(),
        _ => PageTable::offline_at(&told, geometry, regime, told.more(geometry.root_bytes())).unwrap(),
    };
    let base = geometry.base() + geometry.input_bytes() / 2 - Drawing::<G, R>::bytes(Level::L2);
    let mut drawing = Drawing::<G, R> { geometry, base, seed, freed: None, regime: std::marker::PhantomData };
    let mut refused = 0;
    let bytes = 3 * Drawing::<G, R>::bytes(if G::ENTRIES == 512 { Level::L1 } else { Level::L2 });
    let setup = [Change::map(base..base + bytes, base % (1 << 40), drawing.attributes())];
    let mut plan = table.plan(&setup, None).unwrap();
    told.supply::<G>(&mut reserve, plan.tables_needed());
    let mut gather = plan.gather();
    plan.apply(&mut reserve, &mut gather).unwrap();
    finish(&told, &mut gather, &mut reserve);
    if !number.is_multiple_of(6) {
        table = table.publish();
    }
    with_licence(number, |licence| {
        let mut gather = table.gather();
        for _ in 0..[30, 8, 4][G::ENTRIES.ilog2() as usize / 2 - 4] {
            let count = *drawing.seed.pick(&[1, 1, 1, 2, 3]);
            let changes: Vec<Change<R>> = (0..count).map(|_| drawing.change()).collect();
            if drawing.seed.one_in(4) {
                let at = drawing.range(true).start;
                disturb(&told, &table, &mut drawing.seed, at);
            }
            if drawing.seed.one_in(6) {
                let (page, set, clear) = (drawing.range(true).start, drawing.attributes(), drawing.attributes());
                finish(&told, &mut gather, &mut reserve);
                let is_done = table.protect_page(page.into(), set, clear);
                told.tell(&[4, u64::from(is_done)]);
            }
            match table.plan(&changes, licence) {
                Err(refusal) => {
                    refused += 1;
                    told.says(&refusal.to_string());
                }
                Ok(mut plan) => {
                    told.tell(&[5, plan.tables_needed() as u64]);
                    let lacking = plan.tables_needed().saturating_sub(reserve.count());
                    told.supply::<G>(&mut reserve, lacking);
                    plan.apply(&mut reserve, &mut gather).unwrap();
                    told.tell(&[6, reserve.count() as u64, gather.issued() as u64]);
                }
            }
            if drawing.seed.one_in(2) {
                finish(&told, &mut gather, &mut reserve);
            }
        }
        finish(&told, &mut gather, &mut reserve);
    });
    told.says(&format!("{:?}", Summary::read(&table.view(), table.view().range())));
    let mut retired = table.take_down();
    told.tell(&[7, retired.count() as u64, retired.take(&told).map_or(0, PhysAddr::bits)]);
    let Told { digest, stores, exchanges, operations, .. } = told;
    let [stores, exchanges, operations] = [stores, exchanges, operations].map(Cell::into_inner);
    let digest = digest.into_inner().finish();
    format!("{number}: {digest:016x} stores={stores} exchanges={exchanges} operations={operations} refused={refused}")
}

/// The runs of a regime in shapes of one granule, beside their record.
fn check<G: Granule, R: Drawn>(name: &str, bits: u32, wide: Layout, runs: u64) {
    let told: Vec<String> = (0..runs)
        .map(|number| {
            let (bits, layout) = if number % 5 == 4 { (52, wide) } else { (bits, Layout::Bits48) };
            run::<G, R>(R::shape::<G>(bits, layout, number as u8).unwrap(), number)
        })
        .collect();
    let path = format!("{}/tests/recorded/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("VELLUM_RECORD").is_some() {
        std::fs::write(path, told.join("\n") + "\n").expect("the record can be written");
        return;
    }
    let record = std::fs::read_to_string(path).expect("the record");
    let recorded: Vec<&str> = record.lines().collect();
    assert_eq!(told.len(), recorded.len(), "runs");
    for (told, recorded) in told.iter().zip(recorded) {
        assert_eq!(told, recorded, "{name}");
    }
}

/// A test for each regime and granule: so that none takes long.
macro_rules! recorded {
    ($($name:ident: $regime:ty, $granule:ty, $bits:expr, $wide:ident, $runs:expr;)*) => {
        $(
            #[test]
            fn $name() {
                check::<$granule, $regime>(stringify!($name), $bits, Layout::$wide, $runs);
            }
        )*
    };
}

recorded! {
    el1_4k: El1, Granule4K, 48, Lpa2, 36;
    el1_16k: El1, Granule16K, 47, Lpa2, 12;
    el1_64k: El1, Granule64K, 48, Lpa, 6;
    el2_4k: El2, Granule4K, 39, Lpa2, 24;
    el2_16k: El2, Granule16K, 36, Lpa2, 12;
    el2_64k: El2, Granule64K, 42, Lpa, 6;
    el2_and_0_4k: El2And0, Granule4K, 48, Lpa2, 24;
    el2_and_0_16k: El2And0, Granule16K, 47, Lpa2, 12;
    stage2_4k: Stage2, Granule4K, 40, Lpa2, 36;
    stage2_16k: Stage2, Granule16K, 48, Lpa2, 12;
    stage2_64k: Stage2, Granule64K, 43, Lpa, 6;
}
