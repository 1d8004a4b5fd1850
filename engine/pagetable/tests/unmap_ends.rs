//! An unmap is planned by its two ends: what lies whole between them goes, whatever it is.

use crate::common;

use common::{MIB, live_4k, map, unmap};
use vellum_pagetable::{Licence, Memory, Refusal};
use vellum_vmsa::{LeafSize, Level};

/// What lies whole between the ends of a range that is unmapped takes nothing and needs no licence; a leaf that an end cuts does.
#[test]
fn an_unmap_costs_what_its_ends_cut() {
    let block = LeafSize::single(Level::L2);
    for (from, to, tables) in [
        (0, 6 * MIB, 0),
        (0x1000, 6 * MIB, 1),
        (0, 6 * MIB - 0x1000, 1),
        (0x1000, 6 * MIB - 0x1000, 2),
        (2 * MIB, 5 * MIB, 1),
        (MIB, 4 * MIB, 1),
        (MIB, 2 * MIB - 0x1000, 1),
        // Holes on both sides.
        (0, 1 << 30, 0),
    ] {
        let memory = Memory::new();
        let mut table = live_4k(&memory, &[map(0, 6 * MIB, 0, block)]);
        let unmap = [unmap(from, to - from)];
        let licence = Licence::break_before_make(&());
        assert_eq!(table.plan(&unmap, Some(&licence)).unwrap().tables_needed(), tables, "{from:#x}..{to:#x}");
        let cut = if from % (2 * MIB) != 0 { from } else { to & !(2 * MIB - 1) };
        let unlicensed = table.plan(&unmap, None).map(|plan| plan.tables_needed());
        let expected = if tables == 0 { Ok(0) } else { Err(Refusal::NeedsLicence(cut)) };
        assert_eq!(unlicensed, expected, "{from:#x}..{to:#x}");
    }
}
