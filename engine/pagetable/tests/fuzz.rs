//! Entry points for what nobody made on purpose: each takes any bytes, must return, and must not panic.
//!
//! `VELLUM_FUZZ_SECONDS=60 cargo test --release -p vellum-pagetable --test all fuzz` gives each a minute, `VELLUM_FUZZ_SEED=N` repeats
//! one turn.

use crate::common;

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};

use common::random::Bytes;
use common::regimes::Drawn;
use seed::Seed;
use vellum_pagetable::{
    Census, Change, El1, El2, El2And0, HardwareUpdates, Licence, PageTable, Platform, Refusal, Reserve, Slot, Stage2,
    Summary, TlbFeatures, Tolerance,
};
use vellum_vmsa::{
    Address, BbmLevel, Descriptor, Geometry, Granule, Granule4K, Granule16K, Granule64K, Layout, LeafSize, Level,
    Maintenance, PhysAddr,
};

/// Turns of a plain run.
const TURNS: u64 = 300;

/// Names the seed of a turn that panics.
struct Turn(&'static str, u64);

impl Drop for Turn {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "repeat with VELLUM_FUZZ_SEED={} cargo test -p vellum-pagetable --test all fuzz {}",
                self.1, self.0
            );
        }
    }
}

/// Calls `target` with bytes made of each seed.
fn feed(name: &'static str, target: impl Fn(&mut Bytes<'_>)) {
    let number = |variable: &str| std::env::var(variable).ok().and_then(|text| text.parse::<u64>().ok());
    let turn = |seed: u64| {
        let _turn = Turn(name, seed);
        let mut random = Seed::new(seed);
        let length = 64 << random.below(5);
        target(&mut Bytes(&random.bytes().take(length).collect::<Vec<u8>>()));
    };
    match (number("VELLUM_FUZZ_SEED"), number("VELLUM_FUZZ_SECONDS")) {
        (Some(seed), _) => turn(seed),
        (None, Some(seconds)) => {
            let end = Instant::now() + Duration::from_secs(seconds);
            let first = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64);
            (first..).take_while(|_| Instant::now() < end).for_each(turn);
        }
        (None, None) => (0..TURNS).for_each(turn),
    }
}

/// A shape; every one that there is can come.
fn geometry<G: Granule, R: Drawn>(bytes: &mut Bytes<'_>) -> Geometry<G> {
    let layout = bytes.pick(&[Layout::Bits48, Layout::Bits48, Layout::Lpa, Layout::Lpa2]);
    let (choice, bits) = (bytes.byte(), 25 + bytes.below(28) as u32);
    let shapes = [(bits, layout), (bits, Layout::Bits48), (36, Layout::Bits48)];
    let mut shapes = shapes.into_iter().filter_map(|(bits, layout)| R::shape(bits, layout, choice));
    shapes.next().expect("36 bits are any regime's")
}

fn regime<R: Drawn>(bytes: &mut Bytes<'_>) -> R {
    let flags = bytes.byte();
    let has = |bit: u8| flags >> bit & 1 != 0;
    let tlb = TlbFeatures { range: has(0), level_hints: has(1), repeat: has(2) };
    let updates = match (has(4), has(5)) {
        (false, _) => HardwareUpdates::None,
        (true, false) => HardwareUpdates::AccessFlag,
        (true, true) => HardwareUpdates::DirtyState,
    };
    R::drawn(tlb, updates, if has(3) { 0 } else { u16::from(bytes.byte()) << 8 | 1 })
}

/// A range of the input space of at most `most` pages, mostly; else anything.
fn range<G: Granule, A: Address>(bytes: &mut Bytes<'_>, geometry: Geometry<G>, most: u64) -> Range<A> {
    if bytes.below(16) == 0 {
        return bytes.word().into()..bytes.word().into();
    }
    let (all, table) = (geometry.input_bytes() >> G::SHIFT, G::ENTRIES as u64);
    let align = bytes.pick(&[1, 16, 128, table, table]).min(all);
    // Changes meet at the beginning of the input space and at its middle, where levels meet.
    let near = bytes.word() % (4 * table).min(all);
    let start = match bytes.below(16) {
        0 => bytes.word() % all,
        1..=4 => all / 2 - (all / 2).min(2 * table) + near.min(all / 2),
        _ => near,
    };
    let start = start.min(all - 1) / align * align;
    let count = match bytes.below(4) {
        0 => 1 + bytes.word() % most,
        1 => align,
        _ => most,
    };
    let at = |page: u64| A::from(geometry.base().wrapping_add(page << G::SHIFT));
    at(start)..at((start + count.min(most)).min(all))
}

fn change<G: Granule, R: Drawn>(bytes: &mut Bytes<'_>, geometry: Geometry<G>, most: u64) -> Change<R> {
    let from: Range<R::Input> = range(bytes, geometry, most);
    let bits = |bytes: &mut Bytes<'_>| match bytes.below(8) {
        0 => bytes.word(),
        1..=3 => bytes.word() & geometry.layout().attribute_mask(G::PAGE_SIZE, Level::L3) & bytes.word(),
        _ => R::PLAYED[2] | R::PLAYED[6],
    };
    let kind = bytes.below(15);
    match kind {
        0..=3 => {
            let to = match bytes.below(8) {
                0 => bytes.word(),
                1 => bytes.word() >> 16 & !(G::SIZE_BYTES - 1),
                _ => from.start.bits() & 0xff_ffff_ffff,
            };
            let attributes = R::attributes(bits(bytes));
            let level = bytes.pick(&Level::ALL);
            let largest = LeafSize { level, contiguous: bytes.below(2) == 0 };
            let to = PhysAddr::new(to);
            if kind < 2 {
                Change::Map { from, to, attributes, largest }
            } else {
                Change::Remap { from, to, attributes, largest }
            }
        }
        4 => Change::Unmap { from },
        5 => Change::UnmapMapped { from },
        6 => Change::MakeInvalid { from },
        7 => Change::MakeValid { from },
        8 => Change::Age { from },
        9 => Change::Clean { from },
        10 => Change::Split { at: from.start },
        11 => Change::SplitToPages { from },
        12 | 13 => Change::Collapse { from },
        _ => Change::Protect { from, set: R::attributes(bits(bytes)), clear: R::attributes(bits(bytes)) },
    }
}

fn with_licence<T>(bytes: &mut Bytes<'_>, turn: impl FnOnce(Option<&Licence<'_>>) -> T) -> T {
    let level = bytes.pick(&[BbmLevel::Level1, BbmLevel::Level2, BbmLevel::Level3]);
    let census = Census::new(Tolerance::new(level, true));
    let licence = match bytes.below(4) {
        0 => None,
        1 => census.tolerated(),
        2 => census.not_cached(),
        _ => Some(Licence::break_before_make(&())),
    };
    turn(licence.as_ref())
}

/// Pages of memory from `BASE` on; what is beyond reads as nothing and takes no store. It counts what is asked of it.
struct Pool {
    words: RefCell<Vec<u64>>,
    stores: Cell<u64>,
    asked: Cell<u64>,
    /// More accesses than this are a walk that does not end.
    most: Cell<u64>,
}

const BASE: u64 = 0x4000_0000;

impl Pool {
    fn new(words: Vec<u64>) -> Self {
        Self { words: RefCell::new(words), stores: Cell::new(0), asked: Cell::new(0), most: Cell::new(u64::MAX) }
    }

    fn word<T>(&self, slot: Slot, turn: impl FnOnce(&mut u64) -> T) -> T {
        self.asked.set(self.asked.get() + 1);
        assert!(self.asked.get() <= self.most.get(), "more than {} accesses", self.most.get());
        let index = slot.address().bits().wrapping_sub(BASE) / 8;
        turn(self.words.borrow_mut().get_mut(index as usize).unwrap_or(&mut 0))
    }

    /// Sets how often memory may be accessed from now on.
    fn allow(&self, most: u64) {
        self.asked.set(0);
        self.most.set(most);
    }

    fn supply<G: Granule>(&self, reserve: &mut Reserve, pages: Range<u64>) {
        pages.for_each(|page| reserve.add(self, PhysAddr::new(BASE + page * G::SIZE_BYTES)));
    }
}

impl Platform for Pool {
    fn load(&self, slot: Slot) -> Descriptor {
        self.word(slot, |word| Descriptor::new(*word))
    }

    fn store(&self, slot: Slot, descriptor: Descriptor) {
        self.stores.set(self.stores.get() + 1);
        self.word(slot, |word| *word = descriptor.bits());
    }

    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        let held = self.load(slot);
        if held != old {
            return Err(held);
        }
        self.store(slot, new);
        Ok(())
    }

    fn maintain(&self, _: Maintenance) {}
}

/// Accesses that a change or a reader of so many pages may make: in proportion to the descriptors that map so much by pages
/// alone, and to what a few tables hold. Measured, it is a fifth of this.
fn bound<G: Granule>(geometry: Geometry<G>, pages: u64) -> u64 {
    let levels = 1 + u64::from(geometry.start().below());
    4 * levels * (pages + 4 * levels * G::ENTRIES as u64)
}

/// Changes nobody would ask for, one list after the other: what is refused has stored nothing, and no table is lost.
fn operations<G: Granule, R: Drawn>(bytes: &mut Bytes<'_>) {
    const TABLES: u64 = 32;
    let (geometry, regime) = (geometry::<G, R>(bytes), regime::<R>(bytes));
    let roots = geometry.root_tables() as u64;
    let memory = Pool::new(vec![0xdead_beef_dead_beef; (TABLES + roots) as usize * G::ENTRIES]);
    let mut reserve = Reserve::new();
    memory.supply::<G>(&mut reserve, roots..TABLES + roots);
    let refused = PageTable::offline(&memory, geometry, regime, &mut Reserve::new()).map(drop);
    let expected = if roots == 1 { Refusal::ReserveShortBy(1) } else { Refusal::Shape { root_tables: roots as usize } };
    assert_eq!(refused, Err(expected));
    let mut table = PageTable::offline_at(&memory, geometry, regime, PhysAddr::new(BASE)).unwrap();
    if bytes.below(4) != 0 {
        table = table.publish();
    }
    while !bytes.is_empty() {
        let count = 1 + bytes.below(3);
        let changes: Vec<_> = (0..count).map(|_| change::<G, R>(bytes, geometry, 3 * G::ENTRIES as u64)).collect();
        let stores = memory.stores.get();
        with_licence(bytes, |licence| {
            let made = table.plan(&changes, licence).and_then(|mut plan| {
                let mut gather = plan.gather();
                plan.apply(&mut reserve, &mut gather)?;
                Ok(gather.finish(&memory))
            });
            match made {
                Err(_) => assert_eq!(memory.stores.get(), stores, "a refusal has stored something"),
                Ok(mut retired) => {
                    while let Some(page) = retired.take(&memory) {
                        reserve.add(&memory, page);
                    }
                }
            }
        });
        let view = table.view();
        let tables = Summary::read(&view, view.range()).unwrap().tables();
        assert_eq!(tables + reserve.count(), 1 + TABLES as usize, "tables are lost or used twice after {changes:?}");
    }
}

/// Tables full of loops, of tables outside memory, of reserved encodings, and of what might be real.
fn hostile_words<G: Granule>(bytes: &mut Bytes<'_>, tables: u64) -> Vec<u64> {
    let count = tables as usize * G::ENTRIES;
    let mut words = Vec::with_capacity(count);
    while words.len() < count {
        let output = bytes.word() & 0x000f_ffff_ffff_f000 & !(G::SIZE_BYTES - 1);
        let attributes = bytes.word() & !0x000f_ffff_ffff_f003;
        let word = match bytes.below(10) {
            0..=2 => (BASE + bytes.word() % tables * G::SIZE_BYTES) | 0b11,
            3 => output | 0b11,
            4 => output | attributes | 0b11,
            5 => output | attributes | 0b01,
            6 => (output & !0xfff_ffff) | attributes | 1 << 52 | bytes.pick(&[0b01, 0b11]),
            7 => output | attributes & !1,
            8 => bytes.word(),
            _ => 0,
        };
        let run = bytes.pick(&[1, 1, 5, 16, 128, G::ENTRIES]).min(count - words.len());
        let step = bytes.pick(&[0, 0, G::SIZE_BYTES, G::SIZE_BYTES << G::INDEX_BITS]);
        words.extend((0..run as u64).map(|number| word.wrapping_add(number * step)));
    }
    words
}

/// Any tables under any operation and any reader: each ends within a bound that only the range sets.
fn hostile<G: Granule, R: Drawn>(bytes: &mut Bytes<'_>) {
    let (geometry, regime) = (geometry::<G, R>(bytes), regime::<R>(bytes));
    let (tables, spare) = (geometry.root_tables() as u64 + bytes.below(6) as u64, 24);
    let known = if bytes.below(4) == 0 { tables + spare } else { tables };
    let mut words = hostile_words::<G>(bytes, known);
    words.resize((tables + spare) as usize * G::ENTRIES, 0xdead_beef_dead_beef);
    let memory = Pool::new(words);
    let mut reserve = Reserve::new();
    memory.supply::<G>(&mut reserve, tables..tables + spare);
    let mut table = PageTable::live(&memory, geometry, regime, PhysAddr::new(BASE)).unwrap();
    let most = 3 * G::ENTRIES as u64;
    for _ in 0..1 + bytes.below(6) {
        let wanted: Vec<_> = (0..1 + bytes.below(2)).map(|_| change::<G, R>(bytes, geometry, most)).collect();
        memory.allow(2 * bound(geometry, most));
        let _ = with_licence(bytes, |licence| {
            let mut plan = table.plan(&wanted, licence)?;
            let mut gather = plan.gather();
            plan.apply(&mut reserve, &mut gather)?;
            let _ = gather.finish(&memory);
            Ok::<(), Refusal>(())
        });
        memory.allow(bound(geometry, most));
        let (view, range) = (table.view(), range::<G, R::Input>(bytes, geometry, most));
        let _ = view.translate(range.start);
        assert!(view.path(range.start).count() <= Level::ALL.len());
        let _ = view.for_each::<Infallible>(range.clone(), |_| ControlFlow::Continue(()));
        if range.end.bits().wrapping_sub(range.start.bits()) >> G::SHIFT <= most {
            let _ = Summary::read(&view, range);
        }
    }
}

/// A target for each regime, EL1 most often.
macro_rules! any_regime {
    ($target:ident, $granule:ty, $bytes:expr) => {{
        let stage1 = $target::<$granule, El1>;
        let targets = [stage1, stage1, stage1, $target::<$granule, Stage2>, $target::<$granule, Stage2>];
        $bytes.pick(&[&targets[..], &[$target::<$granule, El2>, $target::<$granule, El2And0>]].concat())($bytes)
    }};
}

#[test]
fn operations_end_and_lose_no_table() {
    feed("operations_end", |bytes| match bytes.below(7) {
        // Small tables make quick turns.
        0..=4 => any_regime!(operations, Granule4K, bytes),
        5 => any_regime!(operations, Granule16K, bytes),
        _ => any_regime!(operations, Granule64K, bytes),
    });
}

#[test]
fn hostile_tables_are_survived() {
    feed("hostile_tables", |bytes| match bytes.below(4) {
        0 | 1 => any_regime!(hostile, Granule4K, bytes),
        2 => any_regime!(hostile, Granule16K, bytes),
        _ => any_regime!(hostile, Granule64K, bytes),
    });
}
