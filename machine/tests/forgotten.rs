//! What is to be forgotten, one condition at a time: by which TLBI and barrier, of which ASID or VMID, and when that is
//! needless.

use crate::common;
use common::*;
use machine::attributes::Permissions;
use machine::barrier::{Accesses, Barrier, Domain};
use machine::context::Tag;
use machine::event::Owned;
use machine::finding::{Lint, Missing, Rule};
use machine::machine::Machine;
use machine::registers::{Ets, Features, Register};
use machine::syndrome::{AccessKind, FaultKind};
use machine::tlbi::Opcode;

const PA: u64 = 0x8000_0000;
const OTHER: u64 = PA + 0x1000;
const ASID: u64 = 1 << 48;
/// Memory that is no table.
const UNUSED: u64 = 0x4100_0000;

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

#[test]
fn the_first_barrier_of_a_cpu_has_nothing_to_complete() {
    let mut machine = Machine::new(&[Features::full(0)]);
    machine.lint();
    machine.barrier(0, ISH);
    assert_eq!(lints(&machine), [Lint::NothingToComplete]);
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
            machine.store(0, UNUSED, L1 | TABLE);
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
    map(&mut machine, L2 + 8, (UNUSED + 0x1000) | TABLE);
    machine.release(0, UNUSED, 0x1000, Owned::Table);
    silent(&machine);
    machine.release(0, UNUSED, 0x2000, Owned::Table);
    caught(&machine, Rule::Reuse);
    // A leaf may map them: the linear map does. One that only a TLB holds does harm.
    let mut machine = el1(1, Features::full(0));
    map(&mut machine, L3, PAGE | PA);
    machine.release(0, PA, 0x1000, Owned::Table);
    silent(&machine);
    machine.store(0, L3, 0);
    machine.barrier(0, ISH);
    machine.release(0, PA, 0x1000, Owned::Table);
    caught(&machine, Rule::Reuse);
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
