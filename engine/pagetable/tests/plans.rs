// data: plans as text, one test a plan
//! Plans as text: before, the change, its steps, after.

use crate::common;

use std::convert::Infallible;
use std::fmt::{self, Write};
use std::ops::ControlFlow;

use common::{GIB, KERNEL, MIB, PLAIN_KERNEL, map, read_only, unmap};
use expect_test::{Expect, expect};
use vellum_pagetable::{Census, Change, El1, Licence, Memory, PageTable, Rehearsal, Reserve, Slot, Step, Tolerance};
use vellum_vmsa::ptdump::{Naming, Ptdump};
use vellum_vmsa::registers::MemoryTypes;
use vellum_vmsa::{
    AddressHalf, BbmLevel, Descriptor, Geometry, Granule4K, Layout, LeafSize, Meaning, PageSize, Stage1Attributes,
    VirtAddr,
};

type Table<'m> = PageTable<'m, Granule4K, El1, Memory>;

/// The licence that a test has.
#[derive(Clone, Copy)]
enum Right {
    Break,
    First,
    Second,
    Third,
}

/// Stores into neighbouring slots of one table, of values that differ by the same from one to the next.
struct Stores {
    first: Slot,
    value: Descriptor,
    count: u64,
    by: u64,
}

impl Stores {
    /// Whether a store continues these.
    fn take_in(&mut self, slot: Slot, new: Descriptor) -> bool {
        let (first, at) = (self.first.address().bits(), slot.address().bits());
        let by = new.bits().wrapping_sub(self.value.bits());
        let is_next = at == first + 8 * self.count && at >> 12 == first >> 12;
        // The same, or neighbours: pages or blocks.
        if self.count == 1 && [0, 0x1000, 2 * MIB, GIB].contains(&by) {
            self.by = by;
        }
        let is_taken = is_next && by == self.by.wrapping_mul(self.count);
        self.count += u64::from(is_taken);
        is_taken
    }
}

impl fmt::Display for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self { value, count, by, .. }, at) = (self, self.first.address().bits());
        let (table, index) = (at & !0xfff, (at & 0xfff) / 8);
        match (count, by) {
            (1, _) => write!(f, "store {table:#x}[{index}] <- {value:?}"),
            (_, 0) => write!(f, "store {table:#x}[{index}..{}] <- {value:?}", index + count),
            _ => write!(f, "store {table:#x}[{index}..{}] <- {value:?} by {by:#x}", index + count),
        }
    }
}

fn change(
    table: &mut Table<'_>,
    memory: &Memory,
    reserve: &mut Reserve,
    changes: &[Change<El1>],
    right: Right,
) -> String {
    let census = |level| Census::new(Tolerance::new(level, true));
    let (first, second, third) = (census(BbmLevel::Level1), census(BbmLevel::Level2), census(BbmLevel::Level3));
    let licence = match right {
        Right::Break => Licence::break_before_make(&first),
        Right::First => first.not_cached().unwrap(),
        Right::Second => second.tolerated().unwrap(),
        Right::Third => third.tolerated().unwrap(),
    };
    let mut text = String::new();
    let needed = match table.plan(changes, Some(&licence)) {
        Ok(plan) => plan.tables_needed(),
        Err(refusal) => return format!("refused: {refusal}\n"),
    };
    let _ = writeln!(text, "{needed} tables");
    memory.supply::<Granule4K>(reserve, needed);
    let rehearsal = Rehearsal::new(memory);
    {
        let mut rehearsed = table.over(&rehearsal);
        let mut gather = rehearsed.gather();
        let mut aliases = rehearsal.reserve(reserve);
        rehearsed.plan(changes, Some(&licence)).unwrap().apply(&mut aliases, &mut gather).unwrap();
        let _ = writeln!(text, "{} retired", gather.finish(&rehearsal).count());
    }
    let steps = rehearsal.into_steps();
    let mut stores: Option<Stores> = None;
    for step in &steps {
        match step {
            Step::Store(slot, new) if stores.as_mut().is_some_and(|stores| stores.take_in(*slot, *new)) => {}
            step => {
                let _ = stores.take().map_or(Ok(()), |stores| writeln!(text, "  {stores}"));
                match step {
                    Step::Store(slot, new) => stores = Some(Stores { first: *slot, value: *new, count: 1, by: 0 }),
                    step => drop(writeln!(text, "  {step}")),
                }
            }
        }
    }
    let _ = stores.map_or(Ok(()), |stores| writeln!(text, "  {stores}"));
    let mut gather = table.gather();
    table.plan(changes, Some(&licence)).unwrap().apply(reserve, &mut gather).unwrap();
    let mut retired = gather.finish(memory);
    while let Some(page) = retired.take(memory) {
        reserve.add(memory, page);
    }
    text
}

fn dump(table: &Table<'_>) -> String {
    let geometry = table.geometry();
    let naming = Naming {
        page_size: PageSize::Size4K,
        start: geometry.start(),
        layout: geometry.layout(),
        memory: MemoryTypes::COMMON,
        shareability: 3,
        has_one_privilege: false,
    };
    let mut dump = Ptdump::new(String::new(), naming, &[]);
    let view = table.view();
    let _ = view.for_each::<Infallible>(VirtAddr::new(0)..VirtAddr::new(4 * GIB), |entry| {
        if !matches!(entry.lookup.meaning, Meaning::Table(_)) {
            dump.entry(entry.input.bits(), entry.lookup.level, entry.lookup.descriptor).unwrap();
        }
        ControlFlow::Continue(())
    });
    dump.finish(4 * GIB).unwrap()
}

/// Maps `setup`, makes `wanted` by break-before-make, and compares what happened with `expected`.
fn check(regime: El1, setup: &[Change<El1>], wanted: &[Change<El1>], expected: Expect) {
    check_all(regime, setup, &[(wanted, Right::Break)], expected);
}

/// The same with another licence.
fn check_with(right: Right, setup: &[Change<El1>], wanted: &[Change<El1>], expected: Expect) {
    check_all(KERNEL, setup, &[(wanted, right)], expected);
}

fn check_all(regime: El1, setup: &[Change<El1>], lists: &[(&[Change<El1>], Right)], expected: Expect) {
    let memory = Memory::default();
    let mut reserve = Reserve::new();
    memory.supply::<Granule4K>(&mut reserve, 1);
    let geometry = Geometry::new(39, Layout::Bits48, AddressHalf::Lower).unwrap();
    let mut table = PageTable::offline(&memory, geometry, regime, &mut reserve).unwrap();
    change(&mut table, &memory, &mut reserve, setup, Right::Break);
    let mut table = table.publish();
    let mut text = dump(&table);
    for (wanted, right) in lists {
        let steps = change(&mut table, &memory, &mut reserve, wanted, *right);
        let _ = write!(text, "----\n{steps}----\n{}", dump(&table));
    }
    expected.assert_eq(&text);
}

fn collapse(from: u64, bytes: u64) -> Change<El1> {
    Change::Collapse { from: VirtAddr::new(from)..VirtAddr::new(from + bytes) }
}

#[test]
fn a_live_map_uses_every_size_and_forgets_nothing() {
    check(
        KERNEL,
        &[],
        &[map(GIB - 36 * MIB - 0x1_2000, GIB + 40 * MIB, 3 * GIB - 36 * MIB - 0x1_2000, LeafSize::LARGEST)],
        expect![[r#"
            0x0000000000000000-0x0000000100000000           4G PGD
            ----
            4 tables
            0 retired
              store 0x80004000[0..493] <- 0x0
              store 0x80003000[0..494] <- 0x0
              store 0x80003000[494..496] <- 0x600000bdbee703 by 0x1000
              store 0x80003000[496..512] <- 0x700000bdbf0703 by 0x1000
              store 0x80004000[493] <- 0x80003003
              store 0x80004000[494..496] <- 0x600000bdc00701 by 0x200000
              store 0x80004000[496..512] <- 0x700000be000701 by 0x200000
              dsb ishst
              store 0x80000000[0] <- 0x80004003
              store 0x80000000[1] <- 0x600000c0000701
              store 0x80002000[0] <- 0x60000100000701
              store 0x80001000[0..480] <- 0x70000100200703 by 0x1000
              store 0x80001000[480..494] <- 0x600001003e0703 by 0x1000
              store 0x80001000[494..512] <- 0x0
              store 0x80002000[1] <- 0x80001003
              store 0x80002000[2..512] <- 0x0
              dsb ishst
              store 0x80000000[2] <- 0x80002003
              dsb ishst
              isb
            ----
            0x0000000000000000-0x000000003da00000         986M PMD
            0x000000003da00000-0x000000003dbee000        1976K PTE
            0x000000003dbee000-0x000000003dbf0000           8K PTE       RW NX SHD AF            UXN    MEM/NORMAL
            0x000000003dbf0000-0x000000003dc00000          64K PTE       RW NX SHD AF    CON     UXN    MEM/NORMAL
            0x000000003dc00000-0x000000003e000000           4M PMD       RW NX SHD AF        BLK UXN    MEM/NORMAL
            0x000000003e000000-0x0000000040000000          32M PMD       RW NX SHD AF    CON BLK UXN    MEM/NORMAL
            0x0000000040000000-0x0000000080000000           1G PGD       RW NX SHD AF        BLK UXN    MEM/NORMAL
            0x0000000080000000-0x0000000080200000           2M PMD       RW NX SHD AF        BLK UXN    MEM/NORMAL
            0x0000000080200000-0x00000000803e0000        1920K PTE       RW NX SHD AF    CON     UXN    MEM/NORMAL
            0x00000000803e0000-0x00000000803ee000          56K PTE       RW NX SHD AF            UXN    MEM/NORMAL
            0x00000000803ee000-0x0000000080400000          72K PTE
            0x0000000080400000-0x00000000c0000000        1020M PMD
            0x00000000c0000000-0x0000000100000000           1G PGD
        "#]],
    );
}

#[test]
fn one_page_of_a_block_becomes_read_only() {
    check(
        KERNEL,
        &[map(0, 2 * MIB, GIB, LeafSize::LARGEST)],
        &[read_only(0x5000, 0x1000)],
        expect![[r#"
            0x0000000000000000-0x0000000000200000           2M PMD       RW NX SHD AF        BLK UXN    MEM/NORMAL
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
            ----
            1 tables
            0 retired
              store 0x80002000[0..512] <- 0x70000040000703 by 0x1000
              store 0x80002000[0..5] <- 0x60000040000703 by 0x1000
              store 0x80002000[5] <- 0x60000040005783
              store 0x80002000[6..16] <- 0x60000040006703 by 0x1000
              dsb ishst
              store 0x80001000[0] <- 0x60000040000700
              dsb ishst
              tlbi vaale1is, 0x0000600000000000
              dsb ish
              isb
              store 0x80001000[0] <- 0x80002003
              dsb ishst
              isb
            ----
            0x0000000000000000-0x0000000000005000          20K PTE       RW NX SHD AF            UXN    MEM/NORMAL
            0x0000000000005000-0x0000000000006000           4K PTE       ro NX SHD AF            UXN    MEM/NORMAL
            0x0000000000006000-0x0000000000010000          40K PTE       RW NX SHD AF            UXN    MEM/NORMAL
            0x0000000000010000-0x0000000000200000        1984K PTE       RW NX SHD AF    CON     UXN    MEM/NORMAL
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
        "#]],
    );
}

#[test]
fn one_page_of_a_gibibyte_becomes_read_only_in_one_window() {
    check(
        PLAIN_KERNEL,
        &[map(GIB, GIB, GIB, LeafSize::LARGEST)],
        &[read_only(GIB + 0x5000, 0x1000)],
        expect![[r#"
            0x0000000000000000-0x0000000040000000           1G PGD
            0x0000000040000000-0x0000000080000000           1G PGD       RW NX SHD AF        BLK UXN    MEM/NORMAL
            0x0000000080000000-0x0000000100000000           2G PGD
            ----
            2 tables
            0 retired
              store 0x80002000[0..512] <- 0x70000040000701 by 0x200000
              store 0x80001000[0..512] <- 0x70000040000703 by 0x1000
              store 0x80001000[0..5] <- 0x60000040000703 by 0x1000
              store 0x80001000[5] <- 0x60000040005783
              store 0x80001000[6..16] <- 0x60000040006703 by 0x1000
              store 0x80002000[0] <- 0x80001003
              store 0x80002000[1..16] <- 0x60000040200701 by 0x200000
              dsb ishst
              store 0x80000000[1] <- 0x60000040000700
              dsb ishst
              tlbi vaale1is, 0x0000000000040000
              dsb ish
              isb
              store 0x80000000[1] <- 0x80002003
              dsb ishst
              isb
            ----
            0x0000000000000000-0x0000000040000000           1G PGD
            0x0000000040000000-0x0000000040005000          20K PTE       RW NX SHD AF            UXN    MEM/NORMAL
            0x0000000040005000-0x0000000040006000           4K PTE       ro NX SHD AF            UXN    MEM/NORMAL
            0x0000000040006000-0x0000000040010000          40K PTE       RW NX SHD AF            UXN    MEM/NORMAL
            0x0000000040010000-0x0000000040200000        1984K PTE       RW NX SHD AF    CON     UXN    MEM/NORMAL
            0x0000000040200000-0x0000000042000000          30M PMD       RW NX SHD AF        BLK UXN    MEM/NORMAL
            0x0000000042000000-0x0000000080000000         992M PMD       RW NX SHD AF    CON BLK UXN    MEM/NORMAL
            0x0000000080000000-0x0000000100000000           2G PGD
        "#]],
    );
}

#[test]
fn one_page_of_a_contiguous_group_breaks_the_group_whole() {
    check(
        PLAIN_KERNEL,
        &[map(0, 0x1_0000, GIB, LeafSize::LARGEST)],
        &[read_only(0x5000, 0x1000)],
        expect![[r#"
            0x0000000000000000-0x0000000000010000          64K PTE       RW NX SHD AF    CON     UXN    MEM/NORMAL
            0x0000000000010000-0x0000000000200000        1984K PTE
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
            ----
            0 tables
            0 retired
              store 0x80001000[0..16] <- 0x70000040000702 by 0x1000
              dsb ishst
              tlbi vaale1is, 0x0000000000000000
              tlbi vaale1is, 0x0000000000000001
              tlbi vaale1is, 0x0000000000000002
              tlbi vaale1is, 0x0000000000000003
              tlbi vaale1is, 0x0000000000000004
              tlbi vaale1is, 0x0000000000000005
              tlbi vaale1is, 0x0000000000000006
              tlbi vaale1is, 0x0000000000000007
              tlbi vaale1is, 0x0000000000000008
              tlbi vaale1is, 0x0000000000000009
              tlbi vaale1is, 0x000000000000000a
              tlbi vaale1is, 0x000000000000000b
              tlbi vaale1is, 0x000000000000000c
              tlbi vaale1is, 0x000000000000000d
              tlbi vaale1is, 0x000000000000000e
              tlbi vaale1is, 0x000000000000000f
              dsb ish
              isb
              store 0x80001000[0..5] <- 0x60000040000703 by 0x1000
              store 0x80001000[5] <- 0x60000040005783
              store 0x80001000[6..16] <- 0x60000040006703 by 0x1000
              dsb ishst
              isb
            ----
            0x0000000000000000-0x0000000000005000          20K PTE       RW NX SHD AF            UXN    MEM/NORMAL
            0x0000000000005000-0x0000000000006000           4K PTE       ro NX SHD AF            UXN    MEM/NORMAL
            0x0000000000006000-0x0000000000010000          40K PTE       RW NX SHD AF            UXN    MEM/NORMAL
            0x0000000000010000-0x0000000000200000        1984K PTE
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
        "#]],
    );
}

#[test]
fn a_whole_contiguous_group_stays_one() {
    check(
        KERNEL,
        &[map(0, 0x2_0000, GIB, LeafSize::LARGEST)],
        &[read_only(0x1_0000, 0x1_0000)],
        expect![[r#"
            0x0000000000000000-0x0000000000020000         128K PTE       RW NX SHD AF    CON     UXN    MEM/NORMAL
            0x0000000000020000-0x0000000000200000        1920K PTE
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
            ----
            0 tables
            0 retired
              store 0x80001000[16..32] <- 0x70000040010702 by 0x1000
              dsb ishst
              tlbi rvaale1is, 0x000043e000000010
              dsb ish
              isb
              store 0x80001000[16..32] <- 0x70000040010783 by 0x1000
              dsb ishst
              isb
            ----
            0x0000000000000000-0x0000000000010000          64K PTE       RW NX SHD AF    CON     UXN    MEM/NORMAL
            0x0000000000010000-0x0000000000020000          64K PTE       ro NX SHD AF    CON     UXN    MEM/NORMAL
            0x0000000000020000-0x0000000000200000        1920K PTE
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
        "#]],
    );
}

#[test]
fn pages_change_in_place() {
    check(
        PLAIN_KERNEL,
        &[map(0, 0x4000, GIB + 0x1000, LeafSize::PAGE)],
        &[read_only(0x1000, 0x2000)],
        expect![[r#"
            0x0000000000000000-0x0000000000004000          16K PTE       RW NX SHD AF            UXN    MEM/NORMAL
            0x0000000000004000-0x0000000000200000        2032K PTE
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
            ----
            0 tables
            0 retired
              store 0x80001000[1..3] <- 0x60000040002783 by 0x1000
              dsb ishst
              tlbi vaale1is, 0x0000000000000001
              tlbi vaale1is, 0x0000000000000002
              dsb ish
              isb
            ----
            0x0000000000000000-0x0000000000001000           4K PTE       RW NX SHD AF            UXN    MEM/NORMAL
            0x0000000000001000-0x0000000000003000           8K PTE       ro NX SHD AF            UXN    MEM/NORMAL
            0x0000000000003000-0x0000000000004000           4K PTE       RW NX SHD AF            UXN    MEM/NORMAL
            0x0000000000004000-0x0000000000200000        2032K PTE
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
        "#]],
    );
}

#[test]
fn a_change_that_changes_nothing_resizes_nothing() {
    check(
        KERNEL,
        &[map(0, 2 * MIB, GIB, LeafSize::LARGEST)],
        &[Change::Protect {
            from: VirtAddr::new(0x5000)..VirtAddr::new(0x6000),
            set: Stage1Attributes::AF,
            clear: Stage1Attributes::READ_ONLY,
        }],
        expect![[r#"
            0x0000000000000000-0x0000000000200000           2M PMD       RW NX SHD AF        BLK UXN    MEM/NORMAL
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
            ----
            0 tables
            0 retired
            ----
            0x0000000000000000-0x0000000000200000           2M PMD       RW NX SHD AF        BLK UXN    MEM/NORMAL
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
        "#]],
    );
}

#[test]
fn unmapping_a_whole_table_unlinks_it() {
    check(
        KERNEL,
        &[map(0, 4 * MIB, GIB, LeafSize::PAGE)],
        &[unmap(0, 2 * MIB)],
        expect![[r#"
            0x0000000000000000-0x0000000000400000           4M PTE       RW NX SHD AF            UXN    MEM/NORMAL
            0x0000000000400000-0x0000000040000000        1020M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
            ----
            0 tables
            1 retired
              store 0x80003000[0] <- 0x0
              dsb ishst
              tlbi rvaae1is, 0x0000538000000000
              dsb ish
              isb
              store 0x80002000[0] <- 0x0
            ----
            0x0000000000000000-0x0000000000200000           2M PMD
            0x0000000000200000-0x0000000000400000           2M PTE       RW NX SHD AF            UXN    MEM/NORMAL
            0x0000000000400000-0x0000000040000000        1020M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
        "#]],
    );
}

#[test]
fn unmapping_part_of_a_block_keeps_the_rest() {
    check(
        KERNEL,
        &[map(0, 2 * MIB, GIB, LeafSize::LARGEST)],
        &[unmap(0x10_0000, 0x10_0000)],
        expect![[r#"
            0x0000000000000000-0x0000000000200000           2M PMD       RW NX SHD AF        BLK UXN    MEM/NORMAL
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
            ----
            1 tables
            0 retired
              store 0x80002000[0..256] <- 0x70000040000703 by 0x1000
              store 0x80002000[256..512] <- 0x0
              dsb ishst
              store 0x80001000[0] <- 0x60000040000700
              dsb ishst
              tlbi vaale1is, 0x0000600000000000
              dsb ish
              isb
              store 0x80001000[0] <- 0x80002003
              dsb ishst
              isb
            ----
            0x0000000000000000-0x0000000000100000           1M PTE       RW NX SHD AF    CON     UXN    MEM/NORMAL
            0x0000000000100000-0x0000000000200000           1M PTE
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
        "#]],
    );
}

#[test]
fn a_split_makes_the_largest_leaves_that_meet_there() {
    check(
        KERNEL,
        &[map(0, GIB, GIB, LeafSize::LARGEST)],
        &[Change::Split { at: VirtAddr::new(512 * MIB + 0x1_0000) }],
        expect![[r#"
            0x0000000000000000-0x0000000040000000           1G PGD       RW NX SHD AF        BLK UXN    MEM/NORMAL
            0x0000000040000000-0x0000000100000000           3G PGD
            ----
            2 tables
            0 retired
              store 0x80002000[0..512] <- 0x70000040000701 by 0x200000
              store 0x80001000[0..512] <- 0x70000060000703 by 0x1000
              store 0x80002000[256] <- 0x80001003
              store 0x80002000[257..272] <- 0x60000060200701 by 0x200000
              store 0x80002000[272..512] <- 0x70000062000701 by 0x200000
              dsb ishst
              store 0x80000000[0] <- 0x60000040000700
              dsb ishst
              tlbi vaale1is, 0x0000500000000000
              dsb ish
              isb
              store 0x80000000[0] <- 0x80002003
              dsb ishst
              isb
            ----
            0x0000000000000000-0x0000000020000000         512M PMD       RW NX SHD AF    CON BLK UXN    MEM/NORMAL
            0x0000000020000000-0x0000000020200000           2M PTE       RW NX SHD AF    CON     UXN    MEM/NORMAL
            0x0000000020200000-0x0000000022000000          30M PMD       RW NX SHD AF        BLK UXN    MEM/NORMAL
            0x0000000022000000-0x0000000040000000         480M PMD       RW NX SHD AF    CON BLK UXN    MEM/NORMAL
            0x0000000040000000-0x0000000100000000           3G PGD
        "#]],
    );
}

#[test]
fn a_range_and_its_alias_change_together() {
    let setup = [map(0, 2 * MIB, GIB, LeafSize::LARGEST), map(2 * GIB, 0x1000, GIB + 0x3000, LeafSize::PAGE)];
    check(
        PLAIN_KERNEL,
        &setup,
        &[read_only(2 * GIB, 0x1000), read_only(0x3000, 0x1000)],
        expect![[r#"
            0x0000000000000000-0x0000000000200000           2M PMD       RW NX SHD AF        BLK UXN    MEM/NORMAL
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000080000000           1G PGD
            0x0000000080000000-0x0000000080001000           4K PTE       RW NX SHD AF            UXN    MEM/NORMAL
            0x0000000080001000-0x0000000080200000        2044K PTE
            0x0000000080200000-0x00000000c0000000        1022M PMD
            0x00000000c0000000-0x0000000100000000           1G PGD
            ----
            1 tables
            0 retired
              store 0x80001000[0] <- 0x60000040003783
              store 0x80004000[0..512] <- 0x70000040000703 by 0x1000
              store 0x80004000[0..3] <- 0x60000040000703 by 0x1000
              store 0x80004000[3] <- 0x60000040003783
              store 0x80004000[4..16] <- 0x60000040004703 by 0x1000
              dsb ishst
              store 0x80003000[0] <- 0x60000040000700
              dsb ishst
              tlbi vaale1is, 0x0000000000000000
              dsb ish
              isb
              store 0x80003000[0] <- 0x80004003
              dsb ishst
              isb
              dsb ishst
              tlbi vaale1is, 0x0000000000080000
              dsb ish
              isb
            ----
            0x0000000000000000-0x0000000000003000          12K PTE       RW NX SHD AF            UXN    MEM/NORMAL
            0x0000000000003000-0x0000000000004000           4K PTE       ro NX SHD AF            UXN    MEM/NORMAL
            0x0000000000004000-0x0000000000010000          48K PTE       RW NX SHD AF            UXN    MEM/NORMAL
            0x0000000000010000-0x0000000000200000        1984K PTE       RW NX SHD AF    CON     UXN    MEM/NORMAL
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000080000000           1G PGD
            0x0000000080000000-0x0000000080001000           4K PTE       ro NX SHD AF            UXN    MEM/NORMAL
            0x0000000080001000-0x0000000080200000        2044K PTE
            0x0000000080200000-0x00000000c0000000        1022M PMD
            0x00000000c0000000-0x0000000100000000           1G PGD
        "#]],
    );
}

#[test]
fn where_resizing_is_tolerated_a_block_splits_in_place() {
    check_with(
        Right::Third,
        &[map(0, 2 * MIB, GIB, LeafSize::LARGEST)],
        &[read_only(0x5000, 0x1000)],
        expect![[r#"
            0x0000000000000000-0x0000000000200000           2M PMD       RW NX SHD AF        BLK UXN    MEM/NORMAL
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
            ----
            1 tables
            0 retired
              store 0x80002000[0..512] <- 0x70000040000703 by 0x1000
              store 0x80002000[0..16] <- 0x60000040000703 by 0x1000
              dsb ishst
              store 0x80001000[0] <- 0x80002003
              store 0x80002000[5] <- 0x60000040005783
              dsb ishst
              tlbi vaale1is, 0x0000000000000005
              dsb ish
              isb
            ----
            0x0000000000000000-0x0000000000005000          20K PTE       RW NX SHD AF            UXN    MEM/NORMAL
            0x0000000000005000-0x0000000000006000           4K PTE       ro NX SHD AF            UXN    MEM/NORMAL
            0x0000000000006000-0x0000000000010000          40K PTE       RW NX SHD AF            UXN    MEM/NORMAL
            0x0000000000010000-0x0000000000200000        1984K PTE       RW NX SHD AF    CON     UXN    MEM/NORMAL
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
        "#]],
    );
}

#[test]
fn where_conflicts_may_come_the_old_leaf_is_forgotten_too() {
    check_with(
        Right::Second,
        &[map(0, 2 * MIB, GIB, LeafSize::LARGEST)],
        &[read_only(0x5000, 0x1000)],
        expect![[r#"
            0x0000000000000000-0x0000000000200000           2M PMD       RW NX SHD AF        BLK UXN    MEM/NORMAL
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
            ----
            1 tables
            0 retired
              store 0x80002000[0..512] <- 0x70000040000703 by 0x1000
              store 0x80002000[0..16] <- 0x60000040000703 by 0x1000
              dsb ishst
              store 0x80001000[0] <- 0x80002003
              store 0x80002000[5] <- 0x60000040005783
              dsb ishst
              tlbi vaale1is, 0x0000000000000005
              dsb ish
              isb
            ----
            0x0000000000000000-0x0000000000005000          20K PTE       RW NX SHD AF            UXN    MEM/NORMAL
            0x0000000000005000-0x0000000000006000           4K PTE       ro NX SHD AF            UXN    MEM/NORMAL
            0x0000000000006000-0x0000000000010000          40K PTE       RW NX SHD AF            UXN    MEM/NORMAL
            0x0000000000010000-0x0000000000200000        1984K PTE       RW NX SHD AF    CON     UXN    MEM/NORMAL
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
        "#]],
    );
}

#[test]
fn at_level_1_a_block_is_made_uncacheable_before_it_splits() {
    check_with(
        Right::First,
        &[map(0, 2 * MIB, GIB, LeafSize::LARGEST)],
        &[read_only(0x5000, 0x1000)],
        expect![[r#"
            0x0000000000000000-0x0000000000200000           2M PMD       RW NX SHD AF        BLK UXN    MEM/NORMAL
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
            ----
            1 tables
            0 retired
              store 0x80002000[0..512] <- 0x70000040000703 by 0x1000
              store 0x80002000[0..16] <- 0x60000040000703 by 0x1000
              dsb ishst
              store 0x80001000[0] <- 0x60000040010701
              dsb ishst
              tlbi vaale1is, 0x0000600000000000
              dsb ish
              isb
              store 0x80001000[0] <- 0x80002003
              store 0x80002000[5] <- 0x60000040005783
              dsb ishst
              tlbi vaale1is, 0x0000000000000005
              dsb ish
              isb
            ----
            0x0000000000000000-0x0000000000005000          20K PTE       RW NX SHD AF            UXN    MEM/NORMAL
            0x0000000000005000-0x0000000000006000           4K PTE       ro NX SHD AF            UXN    MEM/NORMAL
            0x0000000000006000-0x0000000000010000          40K PTE       RW NX SHD AF            UXN    MEM/NORMAL
            0x0000000000010000-0x0000000000200000        1984K PTE       RW NX SHD AF    CON     UXN    MEM/NORMAL
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
        "#]],
    );
}

#[test]
fn a_group_loses_its_hint_in_place_before_a_page_of_it_changes() {
    check_with(
        Right::Third,
        &[map(0, 0x1_0000, GIB, LeafSize::LARGEST)],
        &[read_only(0x5000, 0x1000)],
        expect![[r#"
            0x0000000000000000-0x0000000000010000          64K PTE       RW NX SHD AF    CON     UXN    MEM/NORMAL
            0x0000000000010000-0x0000000000200000        1984K PTE
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
            ----
            0 tables
            0 retired
              store 0x80001000[0..16] <- 0x60000040000703 by 0x1000
              store 0x80001000[5] <- 0x60000040005783
              dsb ishst
              tlbi vaale1is, 0x0000700000000005
              dsb ish
              isb
            ----
            0x0000000000000000-0x0000000000005000          20K PTE       RW NX SHD AF            UXN    MEM/NORMAL
            0x0000000000005000-0x0000000000006000           4K PTE       ro NX SHD AF            UXN    MEM/NORMAL
            0x0000000000006000-0x0000000000010000          40K PTE       RW NX SHD AF            UXN    MEM/NORMAL
            0x0000000000010000-0x0000000000200000        1984K PTE
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
        "#]],
    );
}

#[test]
fn pages_fold_into_a_block_in_place() {
    check_with(
        Right::Third,
        &[map(0, 2 * MIB, GIB, LeafSize::PAGE)],
        &[collapse(0, 2 * MIB)],
        expect![[r#"
            0x0000000000000000-0x0000000000200000           2M PTE       RW NX SHD AF            UXN    MEM/NORMAL
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
            ----
            0 tables
            1 retired
              store 0x80002000[0] <- 0x60000040000701
              dsb ishst
              tlbi rvaae1is, 0x0000538000000000
              dsb ish
              isb
              store 0x80001000[0] <- 0x0
            ----
            0x0000000000000000-0x0000000000200000           2M PMD       RW NX SHD AF        BLK UXN    MEM/NORMAL
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
        "#]],
    );
}

#[test]
fn pages_fold_into_a_block_by_nt() {
    check_with(
        Right::First,
        &[map(0, 2 * MIB, GIB, LeafSize::PAGE)],
        &[collapse(0, 2 * MIB)],
        expect![[r#"
            0x0000000000000000-0x0000000000200000           2M PTE       RW NX SHD AF            UXN    MEM/NORMAL
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
            ----
            0 tables
            1 retired
              store 0x80002000[0] <- 0x60000040010701
              dsb ishst
              tlbi rvaae1is, 0x0000538000000000
              dsb ish
              isb
              store 0x80002000[0] <- 0x60000040000701
              store 0x80001000[0] <- 0x0
              dsb ishst
              tlbi vaale1is, 0x0000600000000000
              dsb ish
              isb
            ----
            0x0000000000000000-0x0000000000200000           2M PMD       RW NX SHD AF        BLK UXN    MEM/NORMAL
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
        "#]],
    );
}

#[test]
fn pages_fold_into_a_block_by_break_before_make() {
    check(
        KERNEL,
        &[map(0, 2 * MIB, GIB, LeafSize::PAGE)],
        &[collapse(0, 2 * MIB)],
        expect![[r#"
            0x0000000000000000-0x0000000000200000           2M PTE       RW NX SHD AF            UXN    MEM/NORMAL
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
            ----
            0 tables
            1 retired
              store 0x80002000[0] <- 0x80001002
              dsb ishst
              tlbi rvaae1is, 0x0000538000000000
              dsb ish
              isb
              store 0x80002000[0] <- 0x60000040000701
              dsb ishst
              isb
              store 0x80001000[0] <- 0x0
            ----
            0x0000000000000000-0x0000000000200000           2M PMD       RW NX SHD AF        BLK UXN    MEM/NORMAL
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
        "#]],
    );
}

#[test]
fn pages_fold_into_a_group_in_place_and_nothing_is_forgotten() {
    check_with(
        Right::Third,
        &[map(0, 0x1_1000, GIB, LeafSize::PAGE)],
        &[collapse(0, 2 * MIB)],
        expect![[r#"
            0x0000000000000000-0x0000000000011000          68K PTE       RW NX SHD AF            UXN    MEM/NORMAL
            0x0000000000011000-0x0000000000200000        1980K PTE
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
            ----
            0 tables
            0 retired
              store 0x80001000[0..16] <- 0x70000040000703 by 0x1000
              dsb ishst
              isb
            ----
            0x0000000000000000-0x0000000000010000          64K PTE       RW NX SHD AF    CON     UXN    MEM/NORMAL
            0x0000000000010000-0x0000000000011000           4K PTE       RW NX SHD AF            UXN    MEM/NORMAL
            0x0000000000011000-0x0000000000200000        1980K PTE
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
        "#]],
    );
}

#[test]
fn a_block_is_hidden_and_splits_without_a_licence() {
    let hide = Change::MakeInvalid { from: VirtAddr::new(0)..VirtAddr::new(2 * MIB) };
    let show = Change::MakeValid { from: VirtAddr::new(0x5000)..VirtAddr::new(0x6000) };
    let setup = [map(0, 2 * MIB, GIB, LeafSize::LARGEST)];
    check_all(
        KERNEL,
        &setup,
        &[(&[hide], Right::Break), (&[show], Right::Break)],
        expect![[r#"
            0x0000000000000000-0x0000000000200000           2M PMD       RW NX SHD AF        BLK UXN    MEM/NORMAL
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
            ----
            0 tables
            0 retired
              store 0x80001000[0] <- 0x60000040000700
              dsb ishst
              tlbi vaale1is, 0x0000600000000000
              dsb ish
              isb
            ----
            0x0000000000000000-0x0000000000200000           2M PMD F held 0x0060000000000700
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
            ----
            1 tables
            0 retired
              store 0x80002000[0..512] <- 0x70000040000702 by 0x1000
              store 0x80002000[0..5] <- 0x60000040000702 by 0x1000
              store 0x80002000[5] <- 0x60000040005703
              store 0x80002000[6..16] <- 0x60000040006702 by 0x1000
              dsb ishst
              store 0x80001000[0] <- 0x80002003
              dsb ishst
              isb
            ----
            0x0000000000000000-0x0000000000005000          20K PTE F held 0x0060000000000702
            0x0000000000005000-0x0000000000006000           4K PTE       RW NX SHD AF            UXN    MEM/NORMAL
            0x0000000000006000-0x0000000000010000          40K PTE F held 0x0060000000000702
            0x0000000000010000-0x0000000000200000        1984K PTE F held 0x0070000000000702
            0x0000000000200000-0x0000000040000000        1022M PMD
            0x0000000040000000-0x0000000100000000           3G PGD
        "#]],
    );
}
