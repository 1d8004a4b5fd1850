//! What the engine does for each change of each thing that it may meet, beside what it did when somebody last looked
//! (`recorded/each_change.txt`), as `recorded.rs` has it of random changes: a line for each thing and each change, of every range,
//! licence and hardware.

use crate::common;

use std::collections::BTreeMap;
use std::hash::Hasher;
use std::ops::Range;

use common::told::Told;
use common::{DATA, GIB, MIB, each_licence, shape};
use seed::{Digest, Seed};
use vellum_pagetable::{
    Change, CopyEdit, El1, HardwareUpdates, Licence, PageTable, Reserve, Scope, Summary, TlbFeatures,
};
use vellum_vmsa::{AddressHalf, Descriptor, Granule4K, LeafSize, Level, PhysAddr, Stage1Attributes, VirtAddr};

const PAGE: u64 = 0x1000;
/// Groups of blocks of 1 GiB begin here.
const BASE: u64 = 16 * GIB;
const NONE: Stage1Attributes = Stage1Attributes::empty();

type Table<'m> = PageTable<'m, Granule4K, El1, Told>;

fn range(from: u64, bytes: u64) -> Range<VirtAddr> {
    VirtAddr::new(from)..VirtAddr::new(from + bytes)
}

/// A page's number, and what others make of its leaf.
type Poke = (u64, fn(u64) -> u64);

/// It was not accessed yet; it may not be executed.
const NEW: fn(u64) -> u64 = |leaf| leaf & !(1 << 10);
const NEVER: fn(u64) -> u64 = |leaf| leaf | 1 << 54;

/// What is met: its name, its size, how it is made by changes, and what others then make of the leaf of a page.
struct Thing {
    name: &'static str,
    bytes: u64,
    made: Vec<Change<El1>>,
    poked: Vec<Poke>,
    /// What limits others give the table of its pages.
    limits: u64,
}

/// A group of blocks of which one is a table: others have made it.
fn torn_group(attributes: Stage1Attributes) -> Thing {
    let block = LeafSize::single(Level::L2);
    let map = |(start, bytes, largest): (u64, u64, LeafSize)| Change::Map {
        from: range(BASE + start, bytes),
        to: PhysAddr::new(start),
        attributes,
        largest,
    };
    let made = [(0, 2 * MIB, block), (2 * MIB, 2 * MIB, LeafSize::PAGE), (4 * MIB, 28 * MIB, block)].map(map).into();
    let grouped: fn(u64) -> u64 = |leaf| leaf | 1 << 52;
    let poked = (0..16).filter(|block| *block != 1).map(|block| (512 * block, grouped)).collect();
    Thing { name: "group of blocks and a table", bytes: 32 * MIB, made, poked, limits: 0 }
}

fn things(attributes: Stage1Attributes) -> Vec<Thing> {
    let mapped = |bytes, largest| {
        let to = PhysAddr::new(0);
        vec![Change::Map { from: range(BASE, bytes), to, attributes, largest }]
    };
    let thing = |name, bytes, made| Thing { name, bytes, made, poked: vec![], limits: 0 };
    let kept = |name, bytes, largest| {
        let mut made = mapped(bytes, largest);
        made.push(Change::MakeInvalid { from: range(BASE, bytes) });
        thing(name, bytes, made)
    };
    let [block, huge] = [Level::L2, Level::L1].map(LeafSize::single);
    let [group, blocks, huges] = [Level::L3, Level::L2, Level::L1].map(LeafSize::group);
    let pages = || thing("pages", 16 * PAGE, mapped(32 * PAGE, LeafSize::PAGE));
    let groups = || thing("groups", 16 * PAGE, mapped(32 * PAGE, group));
    let table = || thing("table", 2 * MIB, mapped(4 * MIB, LeafSize::PAGE));
    let last_page = || {
        let mut made = mapped(4 * MIB, LeafSize::PAGE);
        made.push(Change::Unmap { from: range(BASE, 2 * MIB - PAGE) });
        made
    };
    vec![
        thing("nothing", 16 * PAGE, vec![]),
        pages(),
        kept("kept pages", 16 * PAGE, LeafSize::PAGE),
        Thing { name: "pages and holes", poked: vec![(3, |_| 0), (15, |_| 0)], ..pages() },
        Thing { name: "pages not accessed", poked: vec![(3, NEW), (4, NEW)], ..pages() },
        Thing { name: "pages of two kinds", poked: vec![(5, NEVER), (6, |leaf| leaf ^ 1 << 7)], ..pages() },
        Thing { name: "pages and a kept one", poked: vec![(5, |leaf| leaf & !1)], ..pages() },
        Thing {
            name: "pages and what is none",
            poked: vec![(3, |_| 0x1230), (5, |_| 0x1001), (6, |_| 0x2002)],
            ..pages()
        },
        groups(),
        kept("kept groups", 16 * PAGE, group),
        Thing { name: "group and a hole", poked: vec![(3, |_| 0)], ..groups() },
        Thing { name: "group and a page", poked: vec![(5, |leaf| leaf & !(1 << 52))], ..groups() },
        Thing { name: "group and a kept one", poked: vec![(6, |leaf| leaf & !1)], ..groups() },
        Thing { name: "marked group", poked: vec![(0, NEW), (6, |leaf| leaf & !(1 << 7))], ..groups() },
        table(),
        Thing { name: "limited table", limits: 1 << 60, ..table() },
        Thing { name: "table with bit 52", limits: 1 << 52, ..table() },
        torn_group(attributes),
        Thing { name: "table of two kinds", poked: vec![(5, NEVER), (511, NEW)], ..table() },
        thing("almost empty table", 2 * MIB, last_page()),
        Thing { name: "empty table", poked: vec![(511, |_| 0)], ..thing("", 2 * MIB, last_page()) },
        thing("blocks", 2 * MIB, mapped(4 * MIB, block)),
        kept("kept block", 2 * MIB, block),
        Thing {
            name: "block with nT",
            poked: vec![(0, |leaf| leaf | 1 << 16)],
            ..thing("", 2 * MIB, mapped(2 * MIB, block))
        },
        thing("group of blocks", 32 * MIB, mapped(32 * MIB, blocks)),
        kept("kept group of blocks", 32 * MIB, blocks),
        thing("block of 1 GiB", GIB, mapped(GIB, huge)),
        thing("group of 1 GiB", 16 * GIB, mapped(16 * GIB, huges)),
    ]
}

/// Every change of a thing of so many bytes at [`BASE`], by the name of its kind: of all of it, of its ends, of what lies amid it and
/// of what reaches beyond it.
fn changes(bytes: u64, attributes: Stage1Attributes) -> Vec<(&'static str, Vec<Change<El1>>)> {
    let (to, read_only) =
        (|from: &Range<VirtAddr>| PhysAddr::new(from.start.bits() - BASE), Stage1Attributes::READ_ONLY);
    let remap = |from: Range<VirtAddr>, off, attributes| Change::Remap {
        to: to(&from) + off,
        from,
        attributes,
        largest: LeafSize::LARGEST,
    };
    let mut all = Vec::new();
    for (start, bytes) in [
        (0, bytes),
        (0, 2 * bytes),
        (0, PAGE),
        (3 * PAGE, PAGE),
        (5 * PAGE, 2 * PAGE),
        (bytes / 2, bytes / 2),
        (bytes / 2, bytes),
        (bytes - PAGE, 2 * PAGE),
        (bytes / 32, bytes / 16),
        (bytes / 32, bytes / 8),
    ] {
        let from = || range(BASE + start, bytes);
        let mut add = |kind, change| all.push((kind, vec![change]));
        add("map", Change::Map { from: from(), to: to(&from()), attributes, largest: LeafSize::LARGEST });
        add("remap", remap(from(), 0, attributes));
        add("remap otherwise", remap(from(), 0, attributes ^ read_only ^ Stage1Attributes::UXN));
        add("remap elsewhere", remap(from(), 32 * GIB + if bytes <= 2 * MIB { PAGE } else { 2 * MIB }, attributes));
        add("protect", Change::Protect { from: from(), set: Stage1Attributes::PXN, clear: Stage1Attributes::UXN });
        add("protect", Change::ProtectSparse { from: from(), set: read_only, clear: Stage1Attributes::DBM });
        add("give type", Change::ProtectSparse { from: from(), set: Stage1Attributes::memory(1), clear: NONE });
        add("note", Change::ProtectSparse { from: from(), set: Stage1Attributes::SOFTWARE, clear: NONE });
        add(
            "clear all",
            Change::ProtectSparse { from: from(), set: NONE, clear: Stage1Attributes::all() & attributes },
        );
        add("unmap", Change::Unmap { from: from() });
        add("unmap", Change::UnmapMapped { from: from() });
        add("hide", Change::MakeInvalid { from: from() });
        add("show", Change::MakeValid { from: from() });
        add("age", Change::Age { from: from() });
        add("clean", Change::Clean { from: from() });
        add("split", Change::Split { at: from().start });
        if bytes <= 2 * MIB {
            add("to pages", Change::SplitToPages { from: from() });
            add("map", Change::Map { from: from(), to: to(&from()), attributes, largest: LeafSize::PAGE });
        }
        add("collapse", Change::Collapse { from: from() });
        let list = [range(BASE + start, PAGE), range(BASE + start + 2 * PAGE, PAGE), range(BASE + start + PAGE, PAGE)];
        all.push(("list", list.map(|from| Change::Protect { from, set: read_only, clear: NONE }).into()));
    }
    all
}

/// What is done without a plan, by number.
fn do_without_plan(told: &Told, table: &mut Table<'_>, (number, bytes): (u64, u64), licence: Option<&Licence<'_>>) {
    let (reserve, gather) = (&mut Reserve::new(), &mut table.gather());
    let places = [0, PAGE, 3 * PAGE, 5 * PAGE, bytes - PAGE, bytes];
    let start = BASE + places[(number % 6) as usize];
    let page = VirtAddr::new(start);
    let all = table.view().range();
    match number / 6 {
        0 => told.tell(&[table.protect_page(page, Stage1Attributes::PXN, Stage1Attributes::UXN, None).into()]),
        1 => told.tell(&[
            table.protect_page(page, NONE, NONE, None).into(),
            table.protect_page(page, NONE, DATA, None).into(),
        ]),
        2 => told
            .tell(&[table.make_page_valid(page, false, None).into(), table.make_page_valid(page, true, None).into()]),
        3 => told.tell(&[table.map_page(page, PhysAddr::new(GIB), DATA).into()]),
        4 => told.says(&table.fold_up(page, &all, licence, gather).to_string()),
        5 => told.says(&table.fold_up(page, &range(BASE, bytes), licence, gather).to_string()),
        6 | 7 => {
            let from = if number / 6 == 6 { range(BASE, 2 * bytes) } else { range(start, 2 * PAGE) };
            let needed = table.tables_to_copy(from.clone());
            let mut root = Reserve::new();
            told.supply::<Granule4K>(&mut root, 1);
            told.supply::<Granule4K>(reserve, 3);
            let mut there = PageTable::offline(told, table.geometry(), table.regime(), &mut root).unwrap();
            let edit = CopyEdit { set: Stage1Attributes::READ_ONLY, clear: NONE, licence };
            let each = |to: PhysAddr, leaf: Descriptor, size: LeafSize, count: usize| {
                told.tell(&[to.bits(), leaf.bits(), count as u64]);
                told.says(&size.to_string());
            };
            let copied = table.copy_to(&mut there, from, edit, reserve, gather, each);
            told.says(&format!("{needed:?} {copied:?} {:?}", Summary::read(&there.view(), all).unwrap()));
        }
        _ => {
            told.supply::<Granule4K>(reserve, 2);
            let level = if number / 6 == 8 { Level::L3 } else { Level::L2 };
            match table.claim(page, level, reserve, gather) {
                Err(refusal) => told.says(&refusal.to_string()),
                Ok(part) => {
                    told.says(&format!("{:?}", part.range()));
                    table.release(part, gather);
                }
            }
        }
    }
    told.tell(&[reserve.count() as u64, gather.issued() as u64, gather.finish(told).count() as u64]);
}

/// What was made of a thing, by each way: where nobody walks, and live with each licence.
struct Tried {
    digest: Digest,
    counts: [u32; 4],
}

/// Makes a thing where nobody walks.
fn with_thing(thing: &Thing, regime: El1, turn: impl FnOnce(&Told, &Table<'_>)) {
    let (told, mut reserve) = (Told::new(Seed::new(1)), Reserve::new());
    let geometry = shape(39, AddressHalf::Lower);
    told.supply::<Granule4K>(&mut reserve, 1);
    let mut table = PageTable::offline(&told, geometry, regime, &mut reserve).unwrap();
    for change in &thing.made {
        let mut plan = table.plan(std::slice::from_ref(change), None).unwrap();
        told.supply::<Granule4K>(&mut reserve, plan.tables_needed());
        let mut gather = plan.gather();
        plan.apply(&mut reserve, &mut gather).unwrap();
        reserve.refill(&told, gather.finish(&told));
    }
    for (page, poke) in &thing.poked {
        let leaf = table.view().path(VirtAddr::new(BASE + page * PAGE)).last().unwrap();
        told.put(leaf.slot, poke(leaf.descriptor.bits()));
    }
    if let Some(above) = table.view().path(VirtAddr::new(BASE)).find(|it| it.level == Level::L2) {
        told.put(above.slot, above.descriptor.bits() | thing.limits);
    }
    turn(&told, &table);
}

impl Tried {
    /// Does something to a thing in each way.
    fn each_way(&mut self, made: (&Told, &Table<'_>), act: &dyn Fn(&Told, &mut Table<'_>, Option<&Licence<'_>>)) {
        let mut way = |is_live: bool, licence: Option<&Licence<'_>>| {
            let told = made.0.again();
            let table = made.1.over(&told);
            let mut table = if is_live { table.publish() } else { table };
            act(&told, &mut table, licence);
            let (digest, counts) = told.into_counts();
            self.digest.write_u64(digest);
            self.counts.iter_mut().zip(counts).for_each(|(all, one)| *all += one);
        };
        way(false, None);
        way(true, None);
        each_licence(|licence| way(true, Some(licence)));
    }
}

/// Plans and applies, if that is not refused.
fn change(told: &Told, table: &mut Table<'_>, changes: &[Change<El1>], licence: Option<&Licence<'_>>) {
    let (mut reserve, mut gather) = (Reserve::new(), table.gather());
    match table.plan(changes, licence) {
        Err(refusal) => told.says(&refusal.to_string()),
        Ok(mut plan) => {
            told.tell(&[plan.tables_needed() as u64]);
            told.supply::<Granule4K>(&mut reserve, plan.tables_needed());
            plan.apply(&mut reserve, &mut gather).unwrap();
            told.tell(&[reserve.count() as u64, gather.issued() as u64, gather.finish(told).count() as u64]);
        }
    }
}

/// All that is done to all things, by thing and kind of change, beside the record.
fn check(name: &str, hardware_updates: HardwareUpdates, attributes: Stage1Attributes) {
    let tlb = TlbFeatures { range: true, level_hints: true, repeat: false };
    let regime = El1 { scope: Scope::Global, tlb, hardware_updates };
    let mut lines: BTreeMap<(&str, &str), Tried> = BTreeMap::new();
    for thing in things(attributes) {
        let mut try_one =
            |made: (&Told, &Table<'_>), kind, act: &dyn Fn(&Told, &mut Table<'_>, Option<&Licence<'_>>)| {
                let tried = lines.entry((thing.name, kind)).or_insert(Tried { digest: Digest::new(), counts: [0; 4] });
                tried.each_way(made, act);
            };
        with_thing(&thing, regime, |told, table| {
            for (kind, changes) in changes(thing.bytes, attributes) {
                try_one((told, table), kind, &|told, table, licence| change(told, table, &changes, licence));
            }
            for number in 0..60 {
                try_one((told, table), "without a plan", &|told, table, licence| {
                    do_without_plan(told, table, (number, thing.bytes), licence);
                });
            }
        });
    }
    let line = |((thing, kind), tried): (&(&str, &str), &Tried)| {
        let [loads, stores, exchanges, operations] = tried.counts;
        let counts = format!("loads={loads} stores={stores} exchanges={exchanges} operations={operations}");
        format!("{thing}: {kind}: {:016x} {counts}", tried.digest.finish())
    };
    common::recorded::compare(name, &lines.iter().map(line).collect::<Vec<_>>());
}

#[test]
fn each_change_where_hardware_writes_nothing() {
    check("each_change", HardwareUpdates::None, DATA);
}

#[test]
fn each_change_where_hardware_notes_accesses() {
    check("each_change_accessed", HardwareUpdates::AccessFlag, DATA);
}

#[test]
fn each_change_where_hardware_notes_writes() {
    check(
        "each_change_written",
        HardwareUpdates::DirtyState,
        DATA | Stage1Attributes::DBM | Stage1Attributes::READ_ONLY,
    );
}
