//! EL2, EL2&0 and stage 2: what each regime's maintenance is, in full, and what it refuses.

use crate::common;

use common::guest::{FULL, GUEST, map, range, shape, write_protect};
use common::{DATA, GIB, KERNEL, MIB, change, live, live_at};
use expect_test::{Expect, expect};
use vellum_pagetable::{
    Change, El2, El2And0, HardwareUpdates, Licence, Memory, Refusal, Regime, Scope, Stage2, Step, TlbFeatures,
};
use vellum_vmsa::{Granule4K, Layout, LeafSize, PhysAddr, Stage1Attributes, VirtAddr};

const HYPERVISOR: El2 = El2 { tlb: FULL, hardware_updates: HardwareUpdates::None };

/// The barriers and TLBIs of `steps`, a store or exchange as one word.
fn maintenance(steps: &[Step]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for step in steps {
        let line = match step {
            Step::Load(..) => continue,
            Step::Store(..) => "store".to_string(),
            Step::Exchange { .. } => "exchange".to_string(),
            Step::Maintain(operation) => operation.to_string(),
        };
        if lines.last() != Some(&line) || !line.ends_with("e") {
            lines.push(line);
        }
    }
    lines.join("\n")
}

fn stage2(regime: Stage2, setup: &[Change<Stage2>], wanted: &[Change<Stage2>], expected: Expect) {
    let memory = Memory::default();
    let mut table = live_at(&memory, shape(), regime, setup);
    let (steps, _) = change(&mut table, &memory, wanted, Some(&Licence::break_before_make(&())));
    expected.assert_eq(&maintenance(&steps));
}

#[test]
fn a_stage_2_page_is_forgotten_by_address_and_with_all_that_stage_1_combined() {
    stage2(
        GUEST,
        &[map(GIB, 0x1000, 2 * GIB)],
        &[Change::Unmap { from: range(GIB, 0x1000) }],
        expect![[r#"
            store
            dsb ishst
            tlbi ipas2le1is, 0x0000700000040000
            dsb ish
            tlbi vmalle1is
            dsb ish"#]],
    );
}

#[test]
fn many_stage_2_ranges_share_one_invalidation_of_stage_1() {
    stage2(
        GUEST,
        &[map(GIB, 2 * MIB, 2 * GIB), map(GIB + 4 * MIB, 0x8000, 3 * GIB), map(5 * GIB, 0x1000, 0)],
        &[
            write_protect(GIB, 2 * MIB),
            write_protect(GIB + 4 * MIB, 0x8000),
            Change::Unmap { from: range(5 * GIB, 0x1000) },
        ],
        expect![[r#"
            store
            dsb ishst
            tlbi ipas2le1is, 0x0000600000040000
            tlbi ripas2le1is, 0x000041e000040400
            tlbi ipas2le1is, 0x0000700000140000
            dsb ish
            tlbi vmalle1is
            dsb ish"#]],
    );
}

#[test]
fn a_stage_2_table_goes_with_what_walks_kept_of_it() {
    stage2(
        GUEST,
        &[map(GIB, 0x8000, 2 * GIB)],
        &[Change::Unmap { from: range(GIB, GIB) }],
        expect![[r#"
            store
            dsb ishst
            tlbi ripas2e1is, 0x0000718000040000
            dsb ish
            tlbi vmalle1is
            dsb ish
            store"#]],
    );
}

#[test]
fn where_everything_goes_one_tlbi_does_for_both_stages() {
    stage2(
        Stage2 { tlb: TlbFeatures::default(), ..GUEST },
        &[map(GIB, GIB, 2 * GIB), map(2 * GIB, 4 * MIB, 4 * GIB + 0x1000)],
        &[Change::Unmap { from: range(2 * GIB, 4 * MIB) }],
        expect![[r#"
            store
            dsb ishst
            tlbi vmalls12e1is
            dsb ish
            store"#]],
    );
}

#[test]
fn cpus_that_must_repeat_forget_stage_2_for_good_before_what_was_combined_with_it() {
    stage2(
        Stage2 { tlb: TlbFeatures { repeat: true, ..FULL }, ..GUEST },
        &[map(GIB, 0x1000, 2 * GIB)],
        &[Change::Unmap { from: range(GIB, 0x1000) }],
        expect![[r#"
            store
            dsb ishst
            tlbi ipas2le1is, 0x0000700000040000
            dsb ish
            tlbi ipas2le1is, 0x0000700000040000
            dsb ish
            tlbi vmalle1is
            dsb ish
            tlbi vmalle1is
            dsb ish"#]],
    );
}

#[test]
fn a_live_stage_2_block_is_broken_and_forgotten_whole_before_it_is_a_table() {
    stage2(
        GUEST,
        &[map(GIB, 2 * MIB, 2 * GIB)],
        &[write_protect(GIB + 0x5000, 0x1000)],
        expect![[r#"
            store
            dsb ishst
            store
            dsb ishst
            tlbi ipas2le1is, 0x0000600000040000
            dsb ish
            tlbi vmalle1is
            dsb ish
            store
            dsb ishst"#]],
    );
}

/// Leaves that change and go, a table that goes, and more than is forgotten one by one.
fn steps<R: Regime<Input = VirtAddr, Attributes = Stage1Attributes>>(
    regime: R,
    attributes: Stage1Attributes,
) -> String {
    let memory = Memory::default();
    let at = |from, bytes| VirtAddr::new(from)..VirtAddr::new(from + bytes);
    let map = |from, bytes| Change::Map {
        from: at(from, bytes),
        to: PhysAddr::new(GIB),
        attributes,
        largest: LeafSize::LARGEST,
    };
    let mut table = live::<Granule4K, R>(&memory, (39, Layout::Bits48), regime, &[map(0, 0x3000), map(GIB, 0x8000)]);
    let read_only =
        Change::Protect { from: at(0, 0x1000), set: Stage1Attributes::READ_ONLY, clear: Stage1Attributes::empty() };
    let changes = [read_only, Change::Unmap { from: at(0x1000, 0x2000) }, Change::Unmap { from: at(GIB, GIB) }];
    let mut all = maintenance(&change(&mut table, &memory, &changes, None).0);
    let far =
        [Change::Map { from: at(4 * GIB, 8 * MIB), to: PhysAddr::new(0x1000), attributes, largest: LeafSize::LARGEST }];
    change(&mut table, &memory, &far, None);
    let unmap = [Change::Unmap { from: at(4 * GIB, 8 * MIB) }];
    all += "\n----\n";
    all + &maintenance(&change(&mut table, &memory, &unmap, None).0)
}

#[test]
fn el2_has_operations_of_its_own() {
    let attributes = Stage1Attributes::AF | Stage1Attributes::XN | Stage1Attributes::ONE_PRIVILEGE;
    let tlb = TlbFeatures { range: false, level_hints: true, repeat: false };
    expect![[r#"
        store
        dsb ishst
        tlbi vale2is, 0x0000700000000000
        tlbi vale2is, 0x0000700000000001
        tlbi vale2is, 0x0000700000000002
        tlbi alle2is
        dsb ish
        isb
        store
        ----
        store
        dsb ishst
        tlbi alle2is
        dsb ish
        isb
        store"#]]
    .assert_eq(&steps(El2 { tlb, ..HYPERVISOR }, attributes));
    expect![[r#"
        store
        dsb ishst
        tlbi rvale2is, 0x0000406000000000
        tlbi vale2is, 0x0000700000000002
        tlbi rvae2is, 0x0000718000040000
        dsb ish
        isb
        store
        ----
        store
        dsb ishst
        tlbi rvae2is, 0x0000600000100000
        dsb ish
        isb
        store"#]]
    .assert_eq(&steps(HYPERVISOR, attributes));
}

#[test]
fn el2_and_0_has_the_operations_of_el1_and_0() {
    let host = El2And0 { scope: Scope::Asid(3), tlb: FULL, hardware_updates: HardwareUpdates::None };
    expect![[r#"
        store
        dsb ishst
        tlbi rvale1is, 0x0003406000000000
        tlbi vale1is, 0x0003700000000002
        tlbi rvae1is, 0x0003718000040000
        dsb ish
        isb
        store
        ----
        store
        dsb ishst
        tlbi rvae1is, 0x0003600000100000
        dsb ish
        isb
        store"#]]
    .assert_eq(&steps(host, DATA));
    expect![[r#"
        store
        dsb ishst
        tlbi rvaale1is, 0x0000406000000000
        tlbi vaale1is, 0x0000700000000002
        tlbi rvaae1is, 0x0000718000040000
        dsb ish
        isb
        store
        ----
        store
        dsb ishst
        tlbi rvaae1is, 0x0000600000100000
        dsb ish
        isb
        store"#]]
    .assert_eq(&steps(El2And0 { scope: Scope::Global, ..host }, DATA));
    assert_eq!(
        steps(El2And0 { scope: KERNEL.scope, ..host }, DATA),
        steps(KERNEL, DATA),
        "EL2&0 is maintained as EL1&0 is"
    );
}

/// At EL2 there is neither PXN nor nG, and intermediate addresses end where the guest's do.
#[test]
fn what_a_regime_lacks_is_refused() {
    let memory = Memory::default();
    let mut table = live::<Granule4K, El2>(&memory, (39, Layout::Bits48), HYPERVISOR, &[]);
    let from = || VirtAddr::new(0)..VirtAddr::new(0x1000);
    for absent in [Stage1Attributes::PXN, Stage1Attributes::NOT_GLOBAL] {
        let attributes = Stage1Attributes::AF | absent;
        let changes = [
            Change::Map { from: from(), to: PhysAddr::new(0), attributes, largest: LeafSize::PAGE },
            Change::Protect { from: from(), set: attributes, clear: Stage1Attributes::empty() },
        ];
        for change in changes {
            let refusal = table.plan(&[change], None).map(|plan| plan.tables_needed());
            assert_eq!(refusal, Err(Refusal::NotAttributes(absent.bits())));
        }
    }
    let mut guest = live_at(&memory, shape(), GUEST, &[]);
    let end = guest.geometry().input_bytes();
    for (at, first) in [(end, end), (end - 0x1000, end), (1 << 52, 1 << 52), (!0x1fff, !0x1fff)] {
        let refusal = guest.plan(&[map(at, 0x2000, 0)], None).map(|plan| plan.tables_needed());
        assert_eq!(refusal, Err(Refusal::OutOfRange(first)));
    }
}
