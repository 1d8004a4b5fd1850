//! What each rule depends on, one condition at a time: beside what breaks it, the same with that one thing as it may be.

mod common;
use common::*;
use machine::attributes::Permissions;
use machine::barrier::{Accesses, Barrier, Domain};
use machine::context::Tag;
use machine::event::Owned;
use machine::finding::{Lint, Missing, Reason, Rule};
use machine::machine::Machine;
use machine::registers::{Ets, Features, HCR_VM, Register};
use machine::syndrome::{AccessKind, FaultKind};
use machine::tlbi::Opcode;

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

#[test]
fn a_whole_invalidation_ends_the_conflict() {
    let run = |is_guest: bool, first: Opcode| {
        let mut machine = if is_guest { stage2(1, Features::full(2)) } else { el1(1, Features::full(2)) };
        machine.conflict_abort(0);
        machine.tlbi(0, first, 0);
        let found = rules(&machine);
        // The next TLBI has no conflict to resolve.
        machine.tlbi(0, VAE1, ASID);
        (found, rules(&machine).len())
    };
    for opcode in [VMALLS12E1IS, ALLE1IS] {
        assert_eq!((run(true, opcode), run(false, opcode)), ((vec![], 0), (vec![], 0)));
    }
    assert_eq!(run(false, VMALLE1), (vec![], 0));
    assert_eq!(run(true, VMALLE1).0, [Rule::Recovery]);
    assert_eq!(run(false, ASIDE1IS).0, [Rule::Recovery]);
}

/// A hint that is right for one of two entries is no wrong encoding.
#[test]
fn a_hint_that_selects_something_is_none_that_selects_nothing() {
    let run = |is_page_gone: bool| {
        let mut machine = el1(1, Features::full(2));
        map(&mut machine, L2 + 8, BLOCK | PA);
        machine.store(0, L3 + 0x1000, PAGE | PA);
        machine.barrier(0, ISH);
        machine.store(0, L2 + 8, (L3 + 0x1000) | TABLE);
        machine.barrier(0, ISH);
        if is_page_gone {
            machine.store(0, L3 + 0x1000, 0);
            machine.barrier(0, ISH);
        }
        machine.take_findings();
        machine.tlbi(0, VALE1IS, ASID | 0b0111 << 44 | 0x200);
        rules(&machine)
    };
    assert_eq!((run(true), run(false)), (vec![], vec![Rule::Encoding]));
}

#[test]
fn an_asid_stands_in_the_high_bits() {
    let run = |operand: u64| {
        let mut machine = el1(1, Features::full(0));
        map(&mut machine, L3, PAGE | PA | NON_GLOBAL);
        machine.store(0, L3, 0);
        machine.barrier(0, ISH);
        machine.tlbi(0, ASIDE1IS, operand);
        machine.barrier(0, ISH);
        machine.barrier(0, ISB);
        machine.release(0, PA, 4096, Owned::Frame);
        rules(&machine)
    };
    assert_eq!(run(ASID), []);
    for operand in [1, 2, 2 << 48 | 1] {
        assert_eq!(run(operand), [Rule::Reuse], "{operand:#x}");
    }
}

fn lints(machine: &Machine) -> Vec<Lint> {
    let lint = |rule| if let Rule::Lint(lint) = rule { Some(lint) } else { None };
    rules(machine).into_iter().filter_map(lint).collect()
}

/// What is needed is not said to be needless.
#[test]
fn the_lint_is_silent_where_something_was_needed() {
    let run = |cpus: usize, ets: Ets, steps: &dyn Fn(&mut Machine)| {
        let mut machine = el1(cpus, Features { ets, ..Features::full(0) });
        map(&mut machine, L3, PAGE | PA | NON_GLOBAL);
        machine.lint();
        steps(&mut machine);
        lints(&machine)
    };
    let unmap = |word: u64, opcode: Opcode, operand: u64| {
        move |machine: &mut Machine| {
            machine.store(0, word, 0);
            machine.barrier(0, ISH);
            machine.tlbi(0, opcode, operand);
            machine.barrier(0, ISH);
        }
    };
    assert_eq!(run(2, Ets::Ets2, &unmap(L3, VALE1IS, ASID)), []);
    assert_eq!(run(1, Ets::Ets2, &unmap(L3, VALE1IS, ASID)), [Lint::LocalSuffices]);
    assert_eq!(run(2, Ets::Ets2, &unmap(L3, VAE1IS, ASID)), [Lint::LastLevelSuffices]);
    assert_eq!(run(2, Ets::Ets2, &unmap(L2, VAE1IS, ASID)), []);
    assert_eq!(run(2, Ets::Ets2, &unmap(L3, VMALLE1IS, 0)), []);
    // Too early is not needless.
    let early = |machine: &mut Machine| {
        machine.store(0, L3, 0);
        machine.tlbi(0, VALE1IS, ASID);
    };
    assert_eq!(run(2, Ets::Ets2, &early), []);
    // Without FEAT_ETS2 the CPU is sure of its own TLBI after an ISB only.
    let waits = |machine: &mut Machine| {
        unmap(L3, VALE1IS, ASID)(machine);
        machine.barrier(0, ISB);
    };
    assert_eq!(run(2, Ets::None, &waits), []);
    assert_eq!(run(2, Ets::Ets2, &waits), [Lint::NothingToSynchronize]);
    let written = |machine: &mut Machine| msr(machine, 0, &[(Register::Ttbr0El1, 2 << 48 | ROOT)]);
    assert_eq!(run(2, Ets::Ets2, &written), []);
    // Stores to what is no table yet, before a barrier that orders them and behind it.
    let dmb = Barrier::Dmb { domain: Domain::Inner, accesses: Accesses::Stores };
    let plain = |is_ordered: bool| {
        move |machine: &mut Machine| {
            machine.store(0, SECOND, L1 | TABLE);
            if is_ordered {
                machine.barrier(0, dmb);
            }
            machine.barrier(0, ISHST);
        }
    };
    assert_eq!((run(1, Ets::Ets2, &plain(false)), run(1, Ets::Ets2, &plain(true))), (vec![], vec![]));
}

#[test]
fn a_missing_synchronization_is_told() {
    let mut machine = el1(1, Features { ets: Ets::None, ..Features::full(0) });
    map(&mut machine, L3, PAGE | PA);
    machine.store(0, L3, 0);
    machine.barrier(0, ISH);
    machine.tlbi(0, VAE1IS, ASID);
    machine.barrier(0, ISH);
    let mut early = machine.clone();
    early.store(0, L3, PAGE | OTHER);
    assert_eq!(early.findings()[0].missing, Missing::Synchronization(0));
    machine.barrier(0, ISB);
    machine.store(0, L3, PAGE | OTHER);
    silent(&machine);
}

/// Of an ASID counts what is tagged with it, in the regime and VMID that are meant.
#[test]
fn an_asid_is_free_when_nothing_is_tagged_with_it() {
    let run = |link: u64, page: u64, is_unlinked: bool, is_left: bool, asid: u16, vmid: u16| {
        let mut machine = Machine::new(&[Features::full(0)]);
        for (word, value) in [(L2, L3 | TABLE), (L1, L2 | TABLE), (ROOT, link), (L3, page)] {
            machine.store(0, word, value);
        }
        machine.barrier(0, ISH);
        enable_el1(&mut machine, 0, 1, ROOT);
        machine.take_findings();
        if is_unlinked {
            machine.store(0, ROOT, 0);
            machine.barrier(0, ISH);
        }
        if is_left {
            msr(&mut machine, 0, &[(Register::Ttbr0El1, 2 << 48 | 0x4200_0000)]);
        }
        machine.reuse_asid(0, Tag::el10(vmid), asid);
        rules(&machine).contains(&Rule::Reuse)
    };
    let page = PAGE | PA | NON_GLOBAL;
    for (is_unlinked, is_left) in [(false, false), (false, true), (true, false), (true, true)] {
        assert!(run(L1 | TABLE, page, is_unlinked, is_left, 1, 0), "{is_unlinked} {is_left}");
        assert!(!run(L1 | TABLE, page, is_unlinked, is_left, 3, 0), "{is_unlinked} {is_left}");
        assert!(!run(L1 | TABLE, page, is_unlinked, is_left, 1, 9), "{is_unlinked} {is_left}");
        assert!(!run(0, page, is_unlinked, is_left, 1, 0), "{is_unlinked} {is_left}");
        // A root with nothing but a global block in it.
        assert!(!global_block(is_left), "{is_left}");
    }
}

/// Whether an ASID is in use under which only a global block was found: 39 bits, so that the root may hold one.
fn global_block(is_left: bool) -> bool {
    let mut machine = Machine::new(&[Features::full(0)]);
    machine.store(0, ROOT, BLOCK | PA);
    machine.barrier(0, ISH);
    let tcr = (TCR_48 & !0x3f) | 25 | 1 << 23;
    let writes = [(Register::MairEl1, MAIR), (Register::TcrEl1, tcr), (Register::Ttbr0El1, ASID | ROOT)];
    msr(&mut machine, 0, &writes);
    msr(&mut machine, 0, &[(Register::SctlrEl1, 1)]);
    if is_left {
        msr(&mut machine, 0, &[(Register::Ttbr0El1, 2 << 48 | 0x4200_0000)]);
    }
    machine.take_findings();
    machine.reuse_asid(0, Tag::el10(0), 1);
    !rules(&machine).is_empty()
}

#[test]
fn a_vmid_is_free_when_nothing_is_tagged_with_it() {
    let run = |is_stage1_forgotten: bool, vmid: u16| {
        let mut machine = stage2(1, Features::full(0));
        map(&mut machine, S2_L3, S2_PAGE | PA);
        machine.store(0, S2_ROOT, 0);
        machine.barrier(0, ISH);
        machine.tlbi(0, if is_stage1_forgotten { VMALLS12E1IS } else { IPAS2E1IS }, 0);
        machine.barrier(0, ISH);
        machine.barrier(0, ISB);
        machine.reuse_vmid(0, vmid);
        rules(&machine)
    };
    assert_eq!((run(true, 7), run(false, 9)), (vec![], vec![]));
    assert_eq!(run(false, 7).len(), 1);
    // The stage 2 that was walked is gone, and all of it is stale.
    let mut machine = stage2(1, Features::full(0));
    machine.store(0, S2_ROOT, 0);
    machine.barrier(0, ISH);
    let mut other = machine.clone();
    machine.reuse_vmid(0, 7);
    caught(&machine, Rule::Reuse);
    other.reuse_vmid(0, 8);
    silent(&other);
}

#[test]
fn rights_are_revoked_of_whom_is_meant() {
    let run = |page: u64, asid: Option<u16>, allowed: Permissions| {
        let mut machine = el1(1, Features::full(0));
        map(&mut machine, L3, page | PA);
        machine.revoked(0, Tag::el10(0), asid, 0, 0xfff, allowed);
        rules(&machine)
    };
    let all = Permissions(0x3f);
    for (page, asid, expected) in [
        (PAGE, None, true),
        (PAGE, Some(1), true),
        (PAGE, Some(2), true),
        (PAGE | NON_GLOBAL, None, true),
        (PAGE | NON_GLOBAL, Some(1), true),
        (PAGE | NON_GLOBAL, Some(2), false),
    ] {
        let found = run(page, asid, Permissions::NONE);
        assert_eq!(found == [Rule::Revocation], expected, "{page:#x} {asid:?}");
        assert_eq!(run(page, asid, all), []);
    }
}

/// A barrier or TLBI that does less than was needed.
#[test]
fn weaker_barriers_do_less() {
    let dsb = |accesses, is_nxs| Barrier::Dsb { domain: Domain::Inner, accesses, is_nxs };
    let nxs = Opcode::new(0, 9, 3, 5);
    let run = |before: Barrier, opcode: Opcode, after: Barrier, device: u64| {
        let mut machine = el1(1, Features::full(0));
        map(&mut machine, L3, PAGE | PA | device);
        machine.store(0, L3, 0);
        machine.barrier(0, before);
        machine.tlbi(0, opcode, ASID);
        machine.barrier(0, after);
        machine.barrier(0, ISB);
        machine.release(0, PA, 4096, Owned::Frame);
        rules(&machine)
    };
    assert_eq!(run(ISH, VALE1IS, ISH, 0), []);
    assert_eq!(run(ISHST, VALE1IS, ISH, 0), []);
    assert_eq!(run(dsb(Accesses::Loads, false), VALE1IS, ISH, 0), [Rule::Reuse]);
    assert_eq!(run(ISH, VALE1IS, dsb(Accesses::Stores, false), 0), [Rule::Reuse]);
    assert_eq!(run(ISH, VALE1IS, dsb(Accesses::Loads, false), 0), [Rule::Reuse]);
    assert_eq!(run(ISH, VALE1IS, dsb(Accesses::All, true), 0), [Rule::Reuse]);
    assert_eq!(run(ISH, nxs, dsb(Accesses::All, true), 0), []);
    assert_eq!(run(ISH, nxs, ISH, DEVICE), [Rule::Reuse]);
    // EL2 may make each TLBI of EL1 an nXS one.
    let by_fnxs = |device: u64| {
        let mut machine = el1(1, Features::full(0));
        msr(&mut machine, 0, &[(Register::HcrxEl2, machine::registers::HCRX_FNXS)]);
        map(&mut machine, L3, PAGE | PA | device);
        take_page(&mut machine);
        rules(&machine)
    };
    assert_eq!((by_fnxs(0), by_fnxs(DEVICE)), (vec![], vec![Rule::Reuse]));
    // A CPU without nXS forms need not act on one.
    let broadcast = |xs: bool| {
        let mut machine = Machine::new(&[Features::full(0), Features { xs, ..Features::full(0) }]);
        tables(&mut machine);
        (0..2).for_each(|cpu| enable_el1(&mut machine, cpu, 1, ROOT));
        map(&mut machine, L3, PAGE | PA);
        unmap(&mut machine, L3, nxs, ASID);
        machine.release(0, PA, 4096, Owned::Frame);
        rules(&machine)
    };
    assert_eq!((broadcast(true), broadcast(false)), (vec![], vec![Rule::Reuse]));
}

fn take_page(machine: &mut Machine) {
    unmap(machine, L3, VALE1IS, ASID);
    machine.release(0, PA, 4096, Owned::Frame);
}

/// What is said of a new mapping that may still fault, and what of one that is gone again.
#[test]
fn only_a_mapping_that_is_there_is_used_too_early() {
    let run = |values: &[u64], barrier: Option<Barrier>, ets: Ets, kind: AccessKind| {
        let mut machine = el1(1, Features { ets, ..Features::full(3) });
        values.iter().for_each(|value| machine.store(0, L3, *value));
        barrier.iter().for_each(|it| machine.barrier(0, *it));
        machine.access(0, 0, kind);
        rules(&machine)
    };
    let page = (PAGE | PA) & !(1 << 53);
    assert_eq!(run(&[page], None, Ets::Ets2, AccessKind::Read), [Rule::NotVisible]);
    assert_eq!(run(&[page, 0], None, Ets::Ets2, AccessKind::Read), []);
    assert_eq!(run(&[page], Some(ISHST), Ets::Ets2, AccessKind::Read), []);
    assert_eq!(run(&[page], Some(ISHST), Ets::Ets2, AccessKind::Fetch), [Rule::NotVisible]);
    assert_eq!(run(&[page], Some(ISHST), Ets::None, AccessKind::Read), [Rule::NotVisible]);
}

/// A block and a page with the same answer: at level 2 the abort may come, at level 3 not.
#[test]
fn two_sizes_may_abort_below_level_3() {
    let run = |bbm: u8| {
        let mut machine = el1(1, Features::full(bbm));
        map(&mut machine, L2 + 8, BLOCK | PA);
        machine.store(0, L3 + 0x1000, PAGE | PA);
        machine.barrier(0, ISH);
        map(&mut machine, L2 + 8, (L3 + 0x1000) | TABLE);
        silent(&machine);
        machine.access(0, 0x20_0000, AccessKind::Read).may_fault(FaultKind::Conflict)
    };
    assert_eq!((run(2), run(3)), (true, false));
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

/// Tables that are linked, are roots, or are given away several at once.
#[test]
fn tables_are_given_away_when_none_is_in_use() {
    let run = |address: u64, size_bytes: u64, is_left: bool| {
        let mut machine = el1(1, Features::full(0));
        if is_left {
            msr(&mut machine, 0, &[(Register::Ttbr0El1, 2 << 48 | 0x4200_0000)]);
            machine.tlbi(0, VMALLE1IS, 0);
            machine.barrier(0, ISH);
            machine.barrier(0, ISB);
        }
        machine.release(0, address, size_bytes, Owned::Table);
        rules(&machine)
    };
    assert_eq!(run(ROOT, 0x1000, false), [Rule::Reuse]);
    assert_eq!(run(ROOT - 0x1000, 0x2000, false), [Rule::Reuse]);
    assert_eq!(run(ROOT - 0x1000, 0x1000, false), []);
    assert_eq!(run(ROOT, 0x4000, true), []);
    // The second of two pages is linked.
    let mut machine = el1(1, Features::full(0));
    map(&mut machine, L2 + 8, (SECOND + 0x1000) | TABLE);
    machine.release(0, SECOND, 0x1000, Owned::Table);
    silent(&machine);
    machine.release(0, SECOND, 0x2000, Owned::Table);
    caught(&machine, Rule::Reuse);
    // A leaf to them is none of a table's: the linear map has one.
    let mut machine = el1(1, Features::full(0));
    map(&mut machine, L3, PAGE | PA);
    machine.store(0, L3, 0);
    machine.barrier(0, ISH);
    machine.release(0, PA, 0x1000, Owned::Table);
    silent(&machine);
    // Every page of what was given away is ordinary memory afterwards.
    let mut machine = el1(1, Features::full(0));
    unmap(&mut machine, L1, VMALLE1IS, 0);
    machine.release(0, L2, 0x2000, Owned::Table);
    silent(&machine);
    assert!(machine.is_plain(L2) && machine.is_plain(L3) && !machine.is_plain(L1));
}

/// What is stored when something is given away already is known to the next question, too.
#[test]
fn a_leaf_that_comes_later_is_found_too() {
    let mut machine = el1(1, Features::full(0));
    map(&mut machine, L3, PAGE | PA);
    machine.store(0, L2, 0);
    machine.barrier(0, ISH);
    machine.release(0, PA + 0x10_0000, 0x1000, Owned::Frame);
    silent(&machine);
    machine.store(0, L3 + 8, PAGE | OTHER);
    machine.barrier(0, ISH);
    machine.release(0, OTHER, 0x1000, Owned::Frame);
    caught(&machine, Rule::Reuse);
}
