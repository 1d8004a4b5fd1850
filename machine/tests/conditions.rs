//! What each rule depends on, one condition at a time: beside what breaks it, the same with that one thing as it may be.

use crate::common;
use common::*;
use machine::context::Tag;
use machine::finding::{Missing, Reason, Rule};
use machine::machine::Machine;
use machine::registers::{Features, HCR_VM, Register};

const PA: u64 = 0x8000_0000;
const OTHER: u64 = PA + 0x1000;
const ASID: u64 = 1 << 48;
const SHAREABLE: u64 = 3 << 8;
/// MAIR: index 3 is write-back outside and not cacheable inside.
const HALF_CACHED: u64 = 3 << 2;
const NOT_CACHED: u64 = 2 << 2;
const DBM: u64 = 1 << 51;

/// The reason why `new` must not come straight over `old`.
fn change(bbm: u8, word: u64, old: u64, new: u64) -> Option<(Rule, Option<Reason>)> {
    let mut machine = Machine::new(&[Features::full(bbm)]);
    tables(&mut machine);
    machine.store(0, PA, 1);
    machine.store(0, OTHER, 1);
    machine.store(0, PA + 0x2000, 2);
    let writes = [
        (Register::MairEl1, MAIR | 0xf4 << 24),
        (Register::TcrEl1, TCR_48 | 1 << 23),
        (Register::Ttbr0El1, ASID | ROOT),
        (Register::SctlrEl1, 1),
    ];
    machine.barrier(0, ISH);
    msr(&mut machine, 0, &writes);
    map(&mut machine, word, old);
    machine.take_findings();
    machine.store(0, word, new);
    machine.findings().first().map(|it| (it.rule, it.reason))
}

#[test]
fn another_output_address_matters_where_it_is_written_or_differs() {
    let differs = Some((Rule::BreakExpected, Some(Reason::OutputAddress)));
    assert_eq!(change(3, L3, PAGE | PA | RO, PAGE | OTHER | RO), None);
    assert_eq!(change(3, L3, PAGE | PA | RO, PAGE | (PA + 0x2000) | RO), differs);
    assert_eq!(change(3, L3, PAGE | PA, PAGE | OTHER | RO), differs);
    assert_eq!(change(3, L3, PAGE | PA | RO, PAGE | OTHER), differs);
}

#[test]
fn shareability_matters_where_something_is_cached() {
    let differs = Some((Rule::BreakExpected, Some(Reason::MemoryType)));
    for (memory, expected) in [(0, differs), (HALF_CACHED, differs), (NOT_CACHED, None), (DEVICE, None)] {
        let page = (PAGE | PA | memory) & !if memory == DEVICE { 0 } else { 4 } | memory;
        assert_eq!(change(3, L3, page, page & !SHAREABLE), expected, "{memory:#x}");
    }
}

/// An empty table that a block replaces: nothing but the size is other.
#[test]
fn a_table_and_a_block_differ_in_size() {
    let empty = 0x4000_4000 | TABLE;
    for (old, new) in [(empty, BLOCK | PA), (BLOCK | PA, empty)] {
        let found = |bbm| change(bbm, L2 + 8, old, new).map(|it| (it.0 == Rule::NoTranslation, it.1));
        let size = Some(Reason::Size);
        assert_eq!((found(0), found(1), found(2)), (Some((false, size)), Some((true, size)), None), "{old:#x}");
    }
}

/// A second page table with other contents of address 0.
const SECOND: u64 = 0x4100_0000;

fn with_second(cpus: usize) -> Machine {
    let mut machine = el1(cpus, Features::full(3));
    for (word, value) in [(SECOND, 0x4100_1000 | TABLE), (0x4100_1000, 0x4100_2000 | TABLE)] {
        machine.store(0, word, value);
    }
    machine.store(0, 0x4100_2000, 0x4100_3000 | TABLE);
    machine.store(0, 0x4100_3000, PAGE | OTHER | NON_GLOBAL);
    machine.barrier(0, ISH);
    machine
}

fn switch(machine: &mut Machine, asid: u64, root: u64) {
    msr(machine, 0, &[(Register::Ttbr0El1, asid << 48 | root)]);
}

#[test]
fn what_was_kept_meets_the_next_table_of_the_asid() {
    let run = |global: u64, is_unmapped: bool, next: u64, tlbi: bool| {
        let mut machine = with_second(1);
        map(&mut machine, L3, PAGE | PA | global);
        if is_unmapped {
            machine.store(0, L3, 0);
            machine.barrier(0, ISH);
        }
        // Nobody walks either table for a while.
        switch(&mut machine, 5, 0x4200_0000);
        if tlbi {
            machine.tlbi(0, VMALLE1IS, 0);
            machine.barrier(0, ISH);
            machine.barrier(0, ISB);
        }
        switch(&mut machine, next, SECOND);
        rules(&machine)
    };
    for is_unmapped in [false, true] {
        assert_eq!(run(NON_GLOBAL, is_unmapped, 1, false), [Rule::Overlap], "{is_unmapped}");
        assert_eq!(run(NON_GLOBAL, is_unmapped, 1, true), [], "{is_unmapped}");
        assert_eq!(run(NON_GLOBAL, is_unmapped, 2, false), [], "{is_unmapped}");
        assert_eq!(run(0, is_unmapped, 2, false), [Rule::Overlap], "{is_unmapped}");
        assert_eq!(run(0, is_unmapped, 2, true), [], "{is_unmapped}");
    }
    // A TLBI of the ASID leaves what is global.
    let forget_asid = |global: u64, next: u64| {
        let mut machine = with_second(1);
        map(&mut machine, L3, PAGE | PA | global);
        switch(&mut machine, 5, 0x4200_0000);
        machine.tlbi(0, ASIDE1IS, ASID);
        machine.barrier(0, ISH);
        machine.barrier(0, ISB);
        switch(&mut machine, next, SECOND);
        rules(&machine)
    };
    assert_eq!((forget_asid(NON_GLOBAL, 1), forget_asid(0, 2)), (vec![], vec![Rule::Overlap]));
}

/// What comes into the table while a CPU is away meets, when that is back, what it had kept.
#[test]
fn who_comes_back_has_what_was_stale() {
    for global in [0, NON_GLOBAL] {
        for (tlbi, expected) in [(false, vec![Rule::Overlap]), (true, vec![])] {
            let mut machine = with_second(1);
            map(&mut machine, L3, PAGE | PA | global);
            machine.store(0, L3, 0);
            machine.barrier(0, ISH);
            switch(&mut machine, 5, 0x4200_0000);
            map(&mut machine, L3, PAGE | OTHER | NON_GLOBAL);
            if tlbi {
                machine.tlbi(0, VMALLE1IS, 0);
                machine.barrier(0, ISH);
                machine.barrier(0, ISB);
            }
            silent(&machine);
            switch(&mut machine, 1, ROOT);
            assert_eq!(rules(&machine), expected, "{global:#x}");
        }
    }
}

/// Left, forgotten by the CPU itself, and not sure of it before it synchronizes.
#[test]
fn a_context_is_forgotten_with_the_synchronization() {
    let run = |is_synchronized: bool| {
        let mut machine = with_second(1);
        map(&mut machine, L3, PAGE | PA | NON_GLOBAL);
        switch(&mut machine, 5, 0x4200_0000);
        machine.tlbi(0, VMALLE1IS, 0);
        machine.barrier(0, ISH);
        if is_synchronized {
            machine.barrier(0, ISB);
        }
        machine.reuse_asid(0, Tag::el10(0), 1);
        rules(&machine)
    };
    assert_eq!((run(true), run(false)), (vec![], vec![Rule::Reuse]));
}

/// Of two pages that were taken, the second gets another place.
#[test]
fn each_combined_entry_is_compared() {
    let run = |second: u64| {
        let mut machine = stage2(1, Features::full(3));
        machine.store(0, S2_L3, S2_PAGE | PA);
        map(&mut machine, S2_L3 + 8, S2_PAGE | OTHER);
        machine.store(0, S2_L3, 0);
        machine.store(0, S2_L3 + 8, 0);
        machine.barrier(0, ISH);
        for page in 0..2 {
            machine.tlbi(0, IPAS2E1IS, page);
        }
        machine.barrier(0, ISH);
        machine.barrier(0, ISB);
        map(&mut machine, S2_L3, S2_PAGE | PA);
        machine.store(0, S2_L3 + 8, S2_PAGE | second);
        rules(&machine)
    };
    assert_eq!(run(OTHER), []);
    assert_eq!(run(OTHER + 0x1000), [Rule::StageOrder]);
}

/// A plain store over `old`, with hardware that sets the access flag, and the dirty state if `is_dirty`.
fn lost(old: u64, is_dirty: bool) -> Vec<Rule> {
    let mut machine = Machine::new(&[Features::full(3)]);
    tables(&mut machine);
    let writes = [
        (Register::MairEl1, MAIR),
        (Register::TcrEl1, TCR_48 | 1 << 23 | 1 << 39 | u64::from(is_dirty) << 40),
        (Register::Ttbr0El1, ASID | ROOT),
        (Register::SctlrEl1, 1),
    ];
    msr(&mut machine, 0, &writes);
    map(&mut machine, L3, old);
    machine.take_findings();
    machine.store(0, L3, 0);
    rules(&machine)
}

#[test]
fn hardware_writes_only_what_it_may() {
    assert_eq!(lost(PAGE & !AF | PA, false), [Rule::LostUpdate]);
    assert_eq!(lost(PAGE | PA, true), []);
    assert_eq!(lost(PAGE | PA | RO | DBM, true), [Rule::LostUpdate]);
    assert_eq!(lost(PAGE | PA | RO | DBM, false), []);
    assert_eq!(lost(PAGE | PA | RO, true), []);
    assert_eq!(lost(PAGE | PA | DBM, true), []);
    // Table descriptors it leaves alone; and what nobody walks.
    let hardware = |is_left: bool| {
        let mut machine = el1(1, Features::full(3));
        msr(&mut machine, 0, &[(Register::TcrEl1, TCR_48 | 1 << 23 | 3 << 39)]);
        machine.tlbi(0, VMALLE1IS, 0);
        machine.barrier(0, ISH);
        machine.barrier(0, ISB);
        map(&mut machine, L3, PAGE & !AF | PA);
        if is_left {
            msr(&mut machine, 0, &[(Register::Ttbr0El1, 2 << 48 | SECOND)]);
            machine.store(0, L3, 0);
        } else {
            machine.store(0, L2, 0);
        }
        rules(&machine)
    };
    assert_eq!((hardware(true), hardware(false)), (vec![], vec![]));
}

#[test]
fn stage_2_is_written_by_hardware_too() {
    let run = |page: u64| {
        let mut machine = Machine::new(&[Features::full(3)]);
        for (word, value) in [(S2_ROOT, S2_L2 | TABLE), (S2_L2, S2_L3 | TABLE), (S2_L3, page | PA)] {
            machine.store(0, word, value);
        }
        machine.barrier(0, ISH);
        let vtcr = 25 | 1 << 6 | 5 << 16 | 3 << 21;
        msr(&mut machine, 0, &[(Register::VtcrEl2, vtcr), (Register::VttbrEl2, 7 << 48 | S2_ROOT)]);
        msr(&mut machine, 0, &[(Register::HcrEl2, HCR_VM)]);
        machine.take_findings();
        machine.store(0, S2_L3, 0);
        rules(&machine)
    };
    let clean = S2_PAGE & !(1 << 7);
    assert_eq!(run(clean | DBM), [Rule::LostUpdate]);
    assert_eq!(run(S2_PAGE | DBM), []);
    assert_eq!(run(clean), []);
    assert_eq!(run(S2_PAGE & !AF), [Rule::LostUpdate]);
}

#[test]
fn ground_is_all_that_is_needed_where_it_is_needed() {
    let run = |needs: (u64, u64), is_here: bool, value: u64| {
        let mut machine = el1(2, Features::full(3));
        machine.store(0, L3 + 0x1000, PAGE | PA);
        map(&mut machine, L2 + 8, BLOCK | PA);
        if !is_here {
            msr(&mut machine, 1, &[(Register::Ttbr0El1, 2 << 48 | 0x4200_0000)]);
        }
        machine.take_findings();
        machine.needs(1, needs.0, needs.1);
        machine.store(0, L2 + 8, value);
        rules(&machine).contains(&Rule::OwnGround)
    };
    let (first, second) = (0x20_0000, 0x20_1000);
    let split = (L3 + 0x1000) | TABLE;
    assert!(run((first, first + 0xfff), true, 0));
    assert!(!run((first, first + 0xfff), false, 0));
    assert!(!run((first, first + 0xfff), true, split));
    assert!(run((first, second), true, split), "one page of two");
    assert!(run((second, second), true, split));
    assert!(!run((0x40_0000, 0x40_0fff), true, 0), "of other addresses");
    // What stage 2 does not let anybody read is no ground.
    let stage2_change = |value: u64| {
        let mut machine = stage2(1, Features::full(3));
        map(&mut machine, S2_L3, S2_PAGE | PA);
        machine.needs(0, 0, 0xfff);
        machine.store(0, S2_L3, value);
        rules(&machine)
    };
    assert_eq!(stage2_change(S2_PAGE & !(1 << 6) | PA), [Rule::OwnGround]);
    assert_eq!(stage2_change(S2_PAGE & !(1 << 7) | PA), []);
}

/// A page that walks may find by two values is one page, and a set of sixteen is no ground but where its members are.
#[test]
fn what_is_found_twice_is_no_ground_for_what_is_not_found() {
    let table = L3 + 0x1000;
    let run = |words: &[(u64, u64)], unfinished: Option<(u64, u64)>, needs: (u64, u64)| {
        let mut machine = el1(1, Features::full(3));
        words.iter().for_each(|(word, value)| machine.store(0, *word, *value));
        map(&mut machine, L2 + 8, table | TABLE);
        if let Some((word, value)) = unfinished {
            machine.store(0, word, value);
        }
        machine.take_findings();
        machine.needs(0, needs.0, needs.1);
        machine.store(0, L2 + 8, (table | TABLE) | 1 << 55);
        rules(&machine).contains(&Rule::OwnGround)
    };
    let (first, page) = (0x20_0000, 0x1000);
    let two = [(table, PAGE | PA), (table + 8, PAGE | OTHER)];
    assert!(!run(&two, None, (first, first + 2 * page - 1)));
    let again = Some((table, PAGE | PA | 1 << 55));
    assert!(run(&two[..1], again, (first, first + 2 * page - 1)), "the second page is a hole");
    let set: Vec<(u64, u64)> = (0..16).map(|it| (table + it * 8, PAGE | CONT | (PA + it * page))).collect();
    assert!(!run(&set, None, (first + page, first + 3 * page)));
    assert!(run(&set[..2], None, (first + page, first + 3 * page)));
    assert!(run(&set[3..], None, (first + page, first + 3 * page)));
}

/// The Contiguous bit of a guest's page that stage 2 cuts up all the same.
#[test]
fn a_contiguous_bit_matters_above_smaller_leaves() {
    let run = |bbm: u8| {
        let mut machine = Machine::new(&[Features::full(bbm)]);
        tables(&mut machine);
        machine.store(0, L3, PAGE | 0x20_0000);
        machine.store(0, S2_ROOT, S2_L2 | TABLE);
        machine.store(0, S2_ROOT + 8, S2_BLOCK | 0x4000_0000);
        machine.store(0, S2_L2 + 8, S2_L3 | TABLE);
        machine.store(0, S2_L3, S2_PAGE | PA);
        machine.barrier(0, ISH);
        let writes = [(Register::VtcrEl2, 25 | 1 << 6 | 5 << 16), (Register::VttbrEl2, 7 << 48 | S2_ROOT)];
        msr(&mut machine, 0, &writes);
        msr(&mut machine, 0, &[(Register::HcrEl2, HCR_VM)]);
        enable_el1(&mut machine, 0, 1, ROOT);
        machine.take_findings();
        machine.store(0, L3, PAGE | 0x20_0000 | CONT);
        machine.findings().iter().map(|it| it.reason).collect::<Vec<_>>()
    };
    assert_eq!((run(0), run(1)), (vec![Some(Reason::Contiguous)], vec![]));
}

/// Two tables, or a table and a block, that change places while they are live: what is missing is the break, whatever
/// was forgotten before.
#[test]
fn a_live_swap_of_tables_needs_a_break() {
    let swap = |new: u64, steps: &dyn Fn(&mut Machine)| {
        let mut machine = el1(2, Features::full(0));
        machine.store(0, 0x4000_4000, PAGE | (PA + 0x1000));
        map(&mut machine, L3, PAGE | PA);
        steps(&mut machine);
        machine.store(0, L2, new);
        let missing: Vec<Missing> = machine.findings().iter().map(|it| it.missing).collect();
        missing
    };
    for new in [0x4000_4000 | TABLE, BLOCK | 0x9000_0000] {
        assert_eq!(swap(new, &|_| ()), [Missing::Break], "{new:#x}");
        let with_tlbi = |machine: &mut Machine| {
            machine.tlbi(0, VMALLE1IS, 0);
            machine.barrier(0, ISH);
        };
        assert_eq!(swap(new, &with_tlbi), [Missing::Break], "{new:#x}");
        let broken = |machine: &mut Machine| machine.store(0, L2, 0);
        assert_eq!(swap(new, &broken), [Missing::DsbAfterStore(0)], "{new:#x}");
        let visible = |machine: &mut Machine| {
            broken(machine);
            machine.barrier(0, ISH);
        };
        assert_eq!(swap(new, &visible), [Missing::Tlbi], "{new:#x}");
    }
    let same = |machine: &mut Machine| map(machine, 0x4000_4000, PAGE | PA);
    assert_eq!(swap(0x4000_4000 | TABLE, &same), [], "equal tables");
}
