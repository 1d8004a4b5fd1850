//! Changes that change nothing: no store, no barrier, no TLBI.

use crate::common;

use common::{DATA, GIB, MIB, change, each_licence, leaves, live_4k, map};
use vellum_pagetable::{Change, Memory, Refusal};
use vellum_vmsa::{LeafSize, PhysAddr, Stage1Attributes, VirtAddr};

/// A change that changes nothing on part of a live block must not resize it.
#[test]
fn a_change_of_nothing_leaves_a_live_block_whole() {
    let part = VirtAddr::new(GIB + 5 * 0x1000)..VirtAddr::new(GIB + 7 * 0x1000);
    let none = Stage1Attributes::empty();
    let largest = LeafSize::LARGEST;
    let nothings = [
        Change::Protect { from: part.clone(), set: DATA, clear: none },
        Change::Protect { from: part.clone(), set: none, clear: Stage1Attributes::READ_ONLY },
        Change::MakeValid { from: part.clone() },
        Change::Clean { from: part.clone() },
        Change::Split { at: VirtAddr::new(GIB) },
        Change::Collapse { from: part.clone() },
        Change::Remap { from: part.clone(), to: PhysAddr::new(GIB + 5 * 0x1000), attributes: DATA, largest },
    ];
    // A page of a block, of a group of pages, of a group of blocks.
    for bytes in [GIB, 2 * MIB, 0x1_0000, 32 * MIB] {
        for nothing in &nothings {
            let memory = Memory::new();
            let mut table = live_4k(&memory, &[map(GIB, bytes, GIB, largest)]);
            let before = leaves(&table);
            assert_eq!(change(&mut table, &memory, std::slice::from_ref(nothing), None), (vec![], 0), "{nothing:?}");
            each_licence(|licence| {
                let done = change(&mut table, &memory, std::slice::from_ref(nothing), Some(licence));
                assert_eq!(done, (vec![], 0), "{nothing:?} with {licence:?}");
            });
            assert_eq!(leaves(&table), before);
        }
    }
}

/// A live table whose pages are remapped to where they lead already is not made anew.
#[test]
fn a_remap_of_a_table_to_what_it_holds_needs_nothing() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(0, 4 * MIB, GIB, LeafSize::PAGE)]);
    let remap = |to| {
        let from = VirtAddr::new(0)..VirtAddr::new(4 * MIB);
        [Change::Remap { from, to: PhysAddr::new(to), attributes: DATA, largest: LeafSize::PAGE }]
    };
    assert_eq!(change(&mut table, &memory, &remap(GIB), None), (vec![], 0));
    let refusal = table.plan(&remap(GIB + 4 * MIB), None).map(|plan| plan.tables_needed()).unwrap_err();
    assert_eq!(refusal, Refusal::NeedsLicence(0));
}
