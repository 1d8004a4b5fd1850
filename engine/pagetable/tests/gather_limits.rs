//! How much a gather keeps apart: at which TLBI what is scattered is forgotten with everything, and between which ends.

use crate::common;

use common::{MIB, PLAIN_KERNEL, live, map, read_only};
use vellum_pagetable::{Change, El1, Gather, Memory, Reserve};
use vellum_vmsa::{Granule4K, Layout, LeafSize, Stage1Attributes, VirtAddr};

const PAGE: u64 = 0x1000;

type Table<'m> = common::Table<'m, Granule4K>;

fn pages(memory: &Memory) -> Table<'_> {
    live::<Granule4K, _>(memory, (39, Layout::Bits48), PLAIN_KERNEL, &[map(0, 8 * MIB, 1 << 36, LeafSize::PAGE)])
}

fn apply(table: &mut Table<'_>, gather: &mut Gather<Granule4K, El1>, wanted: Change<El1>) {
    table.plan(&[wanted], None).unwrap().apply(&mut Reserve::new(), gather).unwrap();
}

/// A run of pages from 0, and behind it every other page.
fn scatter(table: &mut Table<'_>, gather: &mut Gather<Granule4K, El1>, run: u64, others: u64) {
    apply(table, gather, read_only(0, run * PAGE));
    for number in 0..others {
        apply(table, gather, read_only(3 * MIB + 2 * number * PAGE, PAGE));
    }
}

/// Eight ranges wait; a ninth has them forgotten. From the 512th TLBI on they wait together, for one TLBI of everything.
#[test]
fn what_is_scattered_is_forgotten_at_once_from_the_512th_on() {
    for (run, others, issued) in [
        (504, 7, 511),
        (504, 15, 511 + 8),
        (504, 16, 511 + 8 + 1),
        (505, 15, 512 + 8),
        (505, 16, 512 + 1),
        (505, 80, 512 + 1),
        (503, 24, 510 + 8 + 1),
    ] {
        let memory = Memory::new();
        let mut table = pages(&memory);
        let mut gather = table.gather();
        // The second time it is empty again, and counts anew.
        for round in 1..=2 {
            scatter(&mut table, &mut gather, run, others);
            let _ = gather.finish(&memory);
            assert_eq!(gather.issued(), round * issued, "{run} and {others}");
            let clear = Stage1Attributes::READ_ONLY;
            let from = VirtAddr::new(0)..VirtAddr::new(8 * MIB);
            let none = Stage1Attributes::empty();
            common::change(&mut table, &memory, &[Change::Protect { from, set: none, clear }], None);
        }
    }
}

/// What lies beside all that is scattered waits with it; what lies amid has it forgotten first.
#[test]
fn what_is_scattered_ends_where_its_last_page_does() {
    let (first, last) = (3 * MIB + 14 * PAGE, 3 * MIB + 28 * PAGE);
    for (at, issued) in
        [(first - PAGE, 0), (last + PAGE, 0), (first, 1), (first + PAGE, 1), (last - PAGE, 1), (last, 1)]
    {
        let memory = Memory::new();
        let mut table = pages(&memory);
        let mut gather = table.gather();
        // 512 TLBIs are issued, and of the next ranges eight have given way to one more.
        scatter(&mut table, &mut gather, 505, 16);
        assert_eq!(gather.issued(), 512);
        apply(&mut table, &mut gather, Change::Age { from: VirtAddr::new(at)..VirtAddr::new(at + PAGE) });
        assert_eq!(gather.issued(), 512 + issued, "{at:#x}");
        let _ = gather.finish(&memory);
    }
}
