//! What the engine did for random changes, run by run, beside what it did when somebody last looked (`recorded/`): every store,
//! barrier and TLBI, every refusal, how many tables a plan takes and in which order they come free, and how often it looked at a
//! descriptor, which is what shortcuts are for. The model (`model.rs`) says
//! what is right; here shows what was changed. Whoever means to do something else reads which lines it changes:
//! `VELLUM_RECORD=1 cargo test -p vellum-pagetable --test all recorded` writes them anew.

use crate::common;

use std::ops::{ControlFlow, Range};

use common::regimes::Drawn;
use common::told::Told;
use seed::Seed;
use vellum_pagetable::{
    Census, Change, CopyEdit, El1, El2, El2And0, Gather, HardwareUpdates, Licence, PageTable, Plan, Refusal, Reserve,
    Retired, Stage2, Summary, TlbFeatures, Tolerance,
};
use vellum_vmsa::{
    Address, BbmLevel, Descriptor, Geometry, Granule, Granule4K, Granule16K, Granule64K, Layout, LeafSize, Level,
    PhysAddr,
};

const ACCESS_FLAG: u64 = 1 << 10;
const DBM: u64 = 1 << 51;
const WRITE: u64 = 1 << 7;

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

    /// Attributes that change in place.
    fn edited(&mut self) -> R::Attributes {
        let bits = [DBM, WRITE, ACCESS_FLAG, 1 << 54];
        R::attributes(bits.into_iter().filter(|_| self.seed.one_in(3)).sum())
    }

    fn change(&mut self) -> Change<R> {
        let kind = self.seed.below(21);
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
            20 => Change::ProtectSparse { from, set: self.edited(), clear: self.edited() },
            _ => Change::Collapse { from },
        }
    }
}

type Table<'m, G, R> = PageTable<'m, G, R, Told>;

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
fn with_licence<T>(number: u64, run: impl FnOnce(Option<&Licence<'_>>) -> T) -> T {
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

/// A page table that maps nothing.
fn empty<'m, G: Granule, R: Drawn>(
    told: &'m Told,
    (geometry, regime): (Geometry<G>, R),
    reserve: &mut Reserve,
) -> Table<'m, G, R> {
    match geometry.root_tables() {
        1 => {
            told.supply::<G>(reserve, 1);
            PageTable::offline(told, geometry, regime, reserve).unwrap()
        }
        _ => PageTable::offline_at(told, geometry, regime, told.more(geometry.root_bytes())).unwrap(),
    }
}

/// A run: a page table, what is drawn for it, and what it has to build with.
struct Run<'m, 'l, G: Granule, R: Drawn> {
    told: &'m Told,
    table: Table<'m, G, R>,
    drawing: Drawing<G, R>,
    licence: Option<&'l Licence<'l>>,
    reserve: Reserve,
    gather: Gather<G, R>,
    refused: usize,
}

impl<G: Granule, R: Drawn> Run<'_, '_, G, R> {
    /// What comes free is used again.
    fn take_back(&mut self, mut retired: Retired) {
        while let Some(table) = retired.take(self.told) {
            self.told.tell(&[3, table.bits()]);
            self.reserve.add(self.told, table);
        }
    }

    fn finish(&mut self) {
        let retired = self.gather.finish(self.told);
        self.take_back(retired);
    }

    fn supply(&mut self, count: usize) {
        let lacking = count.saturating_sub(self.reserve.count());
        self.told.supply::<G>(&mut self.reserve, lacking);
    }

    fn change(&mut self, changes: &[Change<R>]) {
        let Self { told, table, licence, reserve, gather, .. } = self;
        self.refused += usize::from(!carry_out(told, table.plan(changes, *licence), reserve, gather));
    }

    /// What is done without a plan: of one page, from one address upwards, from one page table to another, in a part.
    fn do_without_plan(&mut self) {
        self.finish();
        let (told, seed) = (self.told, &mut self.drawing.seed);
        let (kind, flag) = (seed.below(10), seed.one_in(2));
        let (range, set, clear) = (self.drawing.range(true), self.drawing.edited(), self.drawing.edited());
        let (page, from): (R::Input, Range<R::Input>) = (range.start.into(), range.start.into()..range.end.into());
        let to = PhysAddr::new(range.start & ((1 << 40) - 1));
        told.tell(&[4, kind]);
        match kind {
            0 | 1 => told.tell(&[u64::from(self.table.protect_page(page, set, clear, None))]),
            2 => told.tell(&[u64::from(self.table.make_page_valid(page, flag, None))]),
            3 => told.tell(&[u64::from(self.table.map_page(page, to, set))]),
            4 | 5 => {
                let within = if flag { self.table.view().range() } else { from };
                told.says(&self.table.fold_up(page, &within, self.licence, &mut self.gather).to_string());
            }
            6 | 7 => self.copy(from, (set, clear)),
            8 => self.look(range),
            _ => self.change_in_part(page),
        }
    }

    /// What a range maps is copied into another page table, which is taken down.
    fn copy(&mut self, from: Range<R::Input>, (set, clear): (R::Attributes, R::Attributes)) {
        let (told, shape) = (self.told, (self.table.geometry(), self.table.regime()));
        let mut there = empty(told, shape, &mut self.reserve);
        let needed = self.table.tables_to_copy(from.clone());
        self.supply(needed.unwrap_or(0));
        let each = |to: PhysAddr, leaf: Descriptor, size: LeafSize, count: usize| {
            told.tell(&[to.bits(), leaf.bits(), count as u64]);
            told.says(&size.to_string());
        };
        let edit = CopyEdit { set, clear, licence: self.licence };
        let copied = self.table.copy_to(&mut there, from, edit, &mut self.reserve, &mut self.gather, each);
        told.says(&format!("{needed:?} {copied:?}"));
        self.finish();
        self.take_back(there.take_down());
    }

    /// A change is made in a part, which is claimed and released for it.
    fn change_in_part(&mut self, at: R::Input) {
        self.supply(4);
        let level = *self.drawing.seed.pick(&[Level::L1, Level::L2, Level::L3]);
        let changes = [self.drawing.change()];
        let Self { told, table, licence, reserve, gather, .. } = self;
        match table.claim(at, level, reserve, gather) {
            Err(refusal) => told.says(&refusal.to_string()),
            Ok(mut part) => {
                told.says(&format!("{:?}", part.range()));
                carry_out(told, part.plan(&changes, *licence), reserve, gather);
                table.release(part, gather);
            }
        }
    }

    /// All that a view says of a range whose ends are none of a page.
    fn look(&mut self, range: Range<u64>) {
        let (told, view) = (self.told, self.table.view());
        let from = (range.start + 8).into()..(range.end - 8).into();
        let _ = view.for_each::<()>(from, |entry| {
            told.tell(&[entry.input.bits(), entry.shift.into(), entry.lookup.descriptor.bits()]);
            ControlFlow::Continue(())
        });
        view.path(range.start.into()).for_each(|lookup| told.says(&format!("{lookup:?}")));
        told.says(&format!("{:?}", view.translate((range.start + 8).into())));
    }
}

/// Applies what was planned, if it was not refused; whether it was not.
fn carry_out<G: Granule, R: Drawn>(
    told: &Told,
    planned: Result<Plan<'_, '_, '_, G, R, Told>, Refusal>,
    reserve: &mut Reserve,
    gather: &mut Gather<G, R>,
) -> bool {
    match planned {
        Err(refusal) => {
            told.says(&refusal.to_string());
            false
        }
        Ok(mut plan) => {
            told.tell(&[5, plan.tables_needed() as u64]);
            told.supply::<G>(reserve, plan.tables_needed().saturating_sub(reserve.count()));
            plan.apply(reserve, gather).unwrap();
            told.tell(&[6, reserve.count() as u64, gather.issued() as u64]);
            true
        }
    }
}

fn run<G: Granule, R: Drawn>(geometry: Geometry<G>, number: u64) -> String {
    let mut seed = Seed::new(number);
    let told = Told::new(Seed::new(!number));
    let tlb = TlbFeatures { range: !seed.one_in(3), level_hints: !seed.one_in(3), repeat: seed.one_in(8) };
    let updates = [HardwareUpdates::None, HardwareUpdates::AccessFlag, HardwareUpdates::DirtyState];
    let regime = R::drawn(tlb, *seed.pick(&updates), seed.below(4) as u16);
    let mut reserve = Reserve::new();
    let mut table = empty(&told, (geometry, regime), &mut reserve);
    // Every fourth is of single leaves: contiguous groups are not copied.
    if number % 4 == 3 {
        table = table.with_largest(LeafSize::single(Level::L0));
    }
    let base = geometry.base() + geometry.input_bytes() / 2 - Drawing::<G, R>::bytes(Level::L2);
    let mut drawing = Drawing::<G, R> { geometry, base, seed, freed: None, regime: std::marker::PhantomData };
    let bytes = 3 * Drawing::<G, R>::bytes(if G::ENTRIES == 512 { Level::L1 } else { Level::L2 });
    let setup = [Change::map(base..base + bytes, base % (1 << 40), drawing.attributes())];
    let is_live = !number.is_multiple_of(6);
    let refused = with_licence(number, |licence| {
        let gather = table.gather();
        let mut run = Run { told: &told, table, drawing, licence, reserve, gather, refused: 0 };
        run.change(&setup);
        run.finish();
        if is_live {
            run.table = run.table.publish();
        }
        for _ in 0..[30, 8, 4][G::ENTRIES.ilog2() as usize / 2 - 4] {
            let count = *run.drawing.seed.pick(&[1, 1, 1, 2, 3]);
            let changes: Vec<Change<R>> = (0..count).map(|_| run.drawing.change()).collect();
            if run.drawing.seed.one_in(4) {
                let at = run.drawing.range(true).start;
                disturb(&told, &run.table, &mut run.drawing.seed, at);
            }
            if run.drawing.seed.one_in(3) {
                run.do_without_plan();
            }
            run.change(&changes);
            if run.drawing.seed.one_in(2) {
                run.finish();
            }
        }
        run.finish();
        told.says(&format!("{:?}", Summary::read(&run.table.view(), run.table.view().range())));
        let mut retired = run.table.take_down();
        told.tell(&[7, retired.count() as u64, retired.take(&told).map_or(0, PhysAddr::bits)]);
        run.refused
    });
    let (digest, [loads, stores, exchanges, operations]) = told.into_counts();
    let done = format!("loads={loads} stores={stores} exchanges={exchanges}");
    format!("{number}: {digest:016x} {done} operations={operations} refused={refused}")
}

/// The runs of a regime in shapes of one granule, beside their record.
fn check<G: Granule, R: Drawn>(name: &str, bits: u32, wide: Layout, runs: u64) {
    let told: Vec<String> = (0..runs)
        .map(|number| {
            let (bits, layout) = if number % 5 == 4 { (52, wide) } else { (bits, Layout::Bits48) };
            run::<G, R>(R::shape::<G>(bits, layout, number as u8).unwrap(), number)
        })
        .collect();
    common::recorded::compare(name, &told);
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
