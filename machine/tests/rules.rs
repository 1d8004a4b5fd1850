//! The rules one by one, each broken and kept, over BBM levels and features where they matter.

use crate::common;
use common::*;
use machine::barrier::{Accesses, Barrier, Domain};
use machine::context::Tag;
use machine::event::Owned;
use machine::finding::{Lint, Missing, Rule};
use machine::machine::{Machine, Outcome};
use machine::registers::{Ets, Features, Register};
use machine::syndrome::{AccessKind, FaultKind};

const PA: u64 = 0x8000_0000;
const ASID: u64 = 1 << 48;

#[test]
fn tables_and_frames_are_given_away_after_the_tlbi() {
    let free = |opcode, operand, is_complete: bool| {
        let mut machine = el1(2, Features::full(0));
        machine.store(0, L2, 0);
        machine.barrier(0, ISH);
        machine.tlbi(0, opcode, operand);
        if is_complete {
            machine.barrier(0, ISH);
            machine.barrier(0, ISB);
        }
        machine.release(0, L3, 4096, Owned::Table);
        machine
    };
    silent(&free(VAE1IS, ASID, true));
    silent(&free(VAAE1IS, 0x1ff, true));
    caught(&free(VAE1IS, ASID, false), Rule::Reuse);
    caught(&free(VALE1IS, ASID, true), Rule::Reuse);
    caught(&free(VAE1IS, 2 * ASID, true), Rule::Reuse);
    let with_hint = free(VAE1IS, ASID | 0b0111 << 44, true);
    caught(&with_hint, Rule::Reuse);
    // Still linked, or still a root.
    let mut machine = el1(1, Features::full(0));
    machine.release(0, L3, 4096, Owned::Table);
    caught(&machine, Rule::Reuse);
    let mut machine = el1(1, Features::full(0));
    machine.release(0, ROOT, 4096, Owned::Table);
    caught(&machine, Rule::Reuse);
    // Once given away, its words are ordinary memory.
    let mut machine = free(VAE1IS, ASID, true);
    machine.store(1, L3, PAGE | PA);
    silent(&machine);
    assert_eq!(machine.access(0, 0, AccessKind::Read).outcomes.len(), 1);
}

#[test]
fn an_asid_is_reused_after_its_tlbi() {
    let switch = |opcode, operand| {
        let mut machine = el1(2, Features::full(0));
        map(&mut machine, L3, PAGE | PA | NON_GLOBAL);
        for cpu in 0..2 {
            msr(&mut machine, cpu, &[(Register::Ttbr0El1, 2 << 48 | 0x4100_0000)]);
        }
        machine.tlbi(0, opcode, operand);
        machine.barrier(0, ISH);
        machine.barrier(0, ISB);
        machine.reuse_asid(0, Tag::el10(0), 1);
        machine
    };
    silent(&switch(ASIDE1IS, ASID));
    silent(&switch(VMALLE1IS, 0));
    caught(&switch(VMALLE1, 0), Rule::Reuse);
    caught(&switch(ASIDE1IS, 2 * ASID), Rule::Reuse);
    caught(&switch(ASIDE1IS, 1), Rule::Reuse);
    // Another root under the same ASID is the same as replacing every entry.
    let mut machine = el1(1, Features::full(3));
    map(&mut machine, L3, PAGE | PA | NON_GLOBAL);
    machine.store(0, 0x4100_0000, 0x4100_1000 | TABLE);
    machine.store(0, 0x4100_1000, 0x4100_2000 | TABLE);
    machine.store(0, 0x4100_2000, 0x4100_3000 | TABLE);
    machine.store(0, 0x4100_3000, PAGE | (PA + 0x1000) | NON_GLOBAL);
    machine.barrier(0, ISH);
    let mut other = machine.clone();
    msr(&mut machine, 0, &[(Register::Ttbr0El1, 1 << 48 | 0x4100_0000)]);
    caught(&machine, Rule::Overlap);
    msr(&mut other, 0, &[(Register::Ttbr0El1, 2 << 48 | 0x4100_0000)]);
    silent(&other);
}

#[test]
fn hardware_may_be_writing_the_descriptor() {
    let machine = || {
        let mut machine = el1(1, Features::full(0));
        msr(&mut machine, 0, &[(Register::TcrEl1, TCR_48 | 1 << 23 | 3 << 39)]);
        machine.tlbi(0, VMALLE1IS, 0);
        machine.barrier(0, ISH);
        machine.barrier(0, ISB);
        map(&mut machine, L3, PAGE | PA & !AF | RO | 1 << 51);
        machine
    };
    let mut plain = machine();
    plain.store(0, L3, 0);
    caught(&plain, Rule::LostUpdate);
    let mut exchanged = machine();
    assert!(exchanged.compare_exchange(0, L3, PAGE | PA | RO | 1 << 51, 0).is_ok());
    silent(&exchanged);
}

#[test]
fn a_cpu_must_not_break_its_own_ground() {
    let mut machine = el1(2, Features::full(0));
    map(&mut machine, L3, PAGE | PA);
    machine.needs(1, 0, 0xfff);
    let mut broken = machine.clone();
    broken.store(0, L3, 0);
    caught(&broken, Rule::OwnGround);
    machine.store(0, L3, PAGE | PA | RO);
    silent(&machine);
    machine.needs_nothing(1);
    machine.store(0, L3, 0);
    silent(&machine);
}

#[test]
fn a_new_mapping_needs_its_barriers() {
    let use_after = |barriers: &[Barrier], ets| {
        let mut machine = el1(1, Features { ets, ..Features::full(0) });
        machine.store(0, L3, PAGE | PA);
        barriers.iter().for_each(|it| machine.barrier(0, *it));
        let answer = machine.access(0, 0, AccessKind::Read);
        assert!(answer.addresses().any(|it| it == PA));
        (answer.may_fault(FaultKind::Translation), rules(&machine).contains(&Rule::NotVisible))
    };
    for ets in [Ets::None, Ets::Ets2, Ets::Ets3] {
        assert_eq!(use_after(&[], ets), (true, true));
        assert_eq!(use_after(&[Barrier::Dmb { domain: Domain::Inner, accesses: Accesses::All }], ets), (true, true));
        assert_eq!(use_after(&[ISHST, ISB], ets), (false, false));
        assert_eq!(use_after(&[ISHST], ets), (ets == Ets::None, ets == Ets::None));
    }
    // A table is linked before what was stored in it is ordered.
    let link = |barrier: Option<Barrier>| {
        let mut machine = el1(1, Features::full(0));
        machine.store(0, L3 + 0x1000, PAGE | PA);
        barrier.iter().for_each(|it| machine.barrier(0, *it));
        machine.store(0, L2 + 8, (L3 + 0x1000) | TABLE);
        machine
    };
    caught(&link(None), Rule::NotVisible);
    silent(&link(Some(ISHST)));
}

#[test]
fn conflict_aborts_need_a_whole_invalidation() {
    let mut machine = el1(1, Features::full(2));
    machine.conflict_abort(0);
    machine.tlbi(0, VAE1, ASID);
    caught(&machine, Rule::Recovery);
    let mut machine = el1(1, Features::full(2));
    machine.conflict_abort(0);
    machine.tlbi(0, VMALLE1, 0);
    silent(&machine);
    let mut guest = stage2(1, Features::full(2));
    guest.conflict_abort(0);
    guest.tlbi(0, VMALLE1, 0);
    caught(&guest, Rule::Recovery);
}

#[test]
fn stage_2_then_stage_1() {
    let change = |steps: &[(machine::tlbi::Opcode, u64)]| {
        let mut machine = stage2(2, Features::full(0));
        map(&mut machine, S2_L3, S2_PAGE | PA);
        machine.store(0, S2_L3, 0);
        machine.barrier(0, ISH);
        for (opcode, operand) in steps {
            machine.tlbi(0, *opcode, *operand);
            machine.barrier(0, ISH);
        }
        machine.barrier(0, ISB);
        machine.release(0, PA, 4096, Owned::Frame);
        machine
    };
    silent(&change(&[(IPAS2E1IS, 0), (VMALLE1IS, 0)]));
    silent(&change(&[(IPAS2LE1IS, 0), (VMALLE1IS, 0)]));
    silent(&change(&[(VMALLS12E1IS, 0)]));
    caught(&change(&[(IPAS2E1IS, 0)]), Rule::StageOrder);
    caught(&change(&[(VMALLE1IS, 0), (IPAS2E1IS, 0)]), Rule::StageOrder);
    caught(&change(&[(VMALLE1IS, 0)]), Rule::Reuse);
    caught(&change(&[(IPAS2E1IS, 1), (VMALLE1IS, 0)]), Rule::Reuse);
}

#[test]
fn what_the_lint_says() {
    let lints = |run: &dyn Fn(&mut Machine)| {
        let mut machine = el1(1, Features::full(0));
        machine.lint();
        run(&mut machine);
        let found: Vec<Lint> = machine
            .findings()
            .iter()
            .filter_map(|it| match it.rule {
                Rule::Lint(lint) => Some(lint),
                _ => None,
            })
            .collect();
        found
    };
    let unmap_with = |opcode| {
        move |machine: &mut Machine| {
            map(machine, L3, PAGE | PA | NON_GLOBAL);
            unmap(machine, L3, opcode, ASID);
        }
    };
    // With ETS2 the DSB alone completes a TLBI for what is not executable.
    assert_eq!(lints(&unmap_with(VALE1IS)), [Lint::LocalSuffices, Lint::NothingToSynchronize]);
    assert_eq!(lints(&unmap_with(VAE1)), [Lint::LastLevelSuffices, Lint::NothingToSynchronize]);
    assert_eq!(lints(&unmap_with(machine::tlbi::Opcode::new(0, 8, 7, 5))), [Lint::NothingToSynchronize]);
    assert_eq!(
        lints(&|machine| {
            map(machine, L3, PAGE | PA);
            machine.tlbi(0, VALE1IS, ASID);
        }),
        [Lint::NothingCached]
    );
    assert_eq!(lints(&|machine| machine.barrier(0, ISH)), [Lint::NothingToComplete]);
    assert_eq!(lints(&|machine| machine.barrier(0, ISB)), [Lint::NothingToSynchronize]);
}

#[test]
fn a_story_names_the_missing_step() {
    let story = |steps: &dyn Fn(&mut Machine)| {
        let mut machine = el1(2, Features::full(0));
        map(&mut machine, L3, PAGE | PA);
        machine.store(0, L3, 0);
        steps(&mut machine);
        machine.take_findings();
        machine.store(0, L3, PAGE | (PA + 0x1000));
        machine.take_findings().remove(0)
    };
    let early = story(&|machine| machine.tlbi(0, VAE1IS, ASID));
    assert_eq!(early.missing, Missing::DsbAfterStore(0));
    let none = story(&|machine| machine.barrier(0, ISH));
    assert_eq!(none.missing, Missing::Tlbi);
    let unfinished = story(&|machine| {
        machine.barrier(0, ISH);
        machine.tlbi(0, VAE1IS, ASID);
        machine.barrier(1, ISH);
    });
    assert_eq!(unfinished.missing, Missing::DsbAfterTlbi(0));
    let local = story(&|machine| {
        machine.barrier(0, ISH);
        machine.tlbi(0, VAE1, ASID);
        machine.barrier(0, ISH);
    });
    let words = local.to_string();
    assert!(words.contains("local to its CPU") && words.contains("conflict abort"), "{words}");
}

#[test]
fn equal_states_have_equal_digests() {
    let run = |order: &[u64]| {
        let mut machine = el1(1, Features::full(0));
        for page in order {
            machine.store(0, L3 + page * 8, PAGE | PA | page << 12);
        }
        machine.barrier(0, ISH);
        machine.digest()
    };
    assert_eq!(run(&[0, 1]), run(&[1, 0]));
    assert_ne!(run(&[0, 1]), run(&[0]));
    let mut machine = el1(1, Features::full(0));
    assert_eq!(machine.access(0, 1 << 40, AccessKind::Read).outcomes.len(), 1);
    assert!(matches!(machine.access(0, 0, AccessKind::Read).outcomes[0], Outcome::Fault(_)));
}

#[test]
fn registers_take_effect_at_a_synchronization() {
    let mut machine = el1(1, Features::full(0));
    map(&mut machine, L3, PAGE | PA | NON_GLOBAL);
    machine.store(0, 0x4100_0000, 0);
    machine.barrier(0, ISH);
    // Until the ISB either root may be walked.
    machine.write_register(0, Register::Ttbr0El1, 2 << 48 | 0x4100_0000);
    let answer = machine.access(0, 0, AccessKind::Read);
    assert!(answer.addresses().any(|it| it == PA) && answer.may_fault(FaultKind::Translation));
    machine.barrier(0, ISB);
    assert_eq!(machine.access(0, 0, AccessKind::Read).addresses().count(), 0);
    // And a TLBI under a VMID that is not certain yet may not be relied on.
    let mut guest = stage2(1, Features::full(0));
    map(&mut guest, S2_L3, S2_PAGE | PA);
    guest.store(0, S2_L3, 0);
    guest.barrier(0, ISH);
    guest.write_register(0, Register::VttbrEl2, 8 << 48 | S2_ROOT);
    guest.tlbi(0, VMALLS12E1IS, 0);
    guest.barrier(0, ISH);
    guest.barrier(0, ISB);
    guest.release(0, PA, 4096, Owned::Frame);
    caught(&guest, Rule::Reuse);
}

#[test]
fn with_cnp_a_cpu_uses_what_another_cached() {
    let run = |common: u64| {
        let mut machine = el1(2, Features::full(0));
        for cpu in 0..2 {
            msr(&mut machine, cpu, &[(Register::Ttbr0El1, 1 << 48 | ROOT | common)]);
        }
        map(&mut machine, L3, PAGE | PA | NON_GLOBAL);
        // CPU 1 has left, and forgot all it had; what CPU 0 caches it may still be given.
        msr(&mut machine, 1, &[(Register::Ttbr0El1, 2 << 48 | 0x4100_0000 | common)]);
        machine.tlbi(1, VMALLE1, 0);
        machine.barrier(1, NSH);
        machine.barrier(1, ISB);
        machine.store(0, L3, 0);
        machine.barrier(0, ISH);
        machine.tlbi(0, VAE1, ASID);
        machine.barrier(0, ISH);
        machine.barrier(0, ISB);
        machine.release(0, PA, 4096, Owned::Frame);
        machine
    };
    silent(&run(0));
    caught(&run(1), Rule::Reuse);
}

#[test]
fn local_invalidation_is_broadcast_where_the_hypervisor_says_so() {
    let run = |hcr: u64| {
        let mut machine = el1(2, Features::full(0));
        for cpu in 0..2 {
            msr(&mut machine, cpu, &[(Register::HcrEl2, hcr)]);
        }
        map(&mut machine, L3, PAGE | PA);
        unmap(&mut machine, L3, VAE1, ASID);
        machine.release(0, PA, 4096, Owned::Frame);
        machine
    };
    caught(&run(0), Rule::Reuse);
    silent(&run(machine::registers::HCR_FB));
}

#[test]
fn nxs_operations_leave_device_memory() {
    let run = |crn: u32, descriptor: u64| {
        let mut machine = el1(1, Features::full(0));
        map(&mut machine, L3, descriptor | PA);
        unmap(&mut machine, L3, machine::tlbi::Opcode::new(0, crn, 3, 5), ASID);
        machine.release(0, PA, 4096, Owned::Frame);
        machine
    };
    silent(&run(9, PAGE));
    silent(&run(8, PAGE | DEVICE));
    caught(&run(9, PAGE | DEVICE), Rule::Reuse);
}

/// One register may bring two page tables whose stores are not finished: that is told once.
#[test]
fn a_register_that_comes_too_early_is_told_once() {
    let mut machine = Machine::new(&[Features::full(3)]);
    machine.store(0, S2_ROOT + 8, S2_BLOCK | 0x4000_0000);
    machine.store(0, ROOT, L1 | TABLE);
    let writes = [(Register::VtcrEl2, 25 | 1 << 6 | 5 << 16), (Register::VttbrEl2, 7 << 48 | S2_ROOT)];
    msr(&mut machine, 0, &writes);
    enable_el1(&mut machine, 0, 1, ROOT);
    machine.take_findings();
    machine.store(0, ROOT + 8, L1 | TABLE);
    machine.store(0, S2_ROOT + 16, S2_BLOCK | 0x8000_0000);
    machine.write_register(0, Register::HcrEl2, 1);
    assert_eq!(rules(&machine), [Rule::NotVisible]);
}

/// A register that names a table is ordered after the table's stores by a DSB, and by nothing less.
#[test]
fn a_root_is_named_when_every_walker_can_see_it() {
    let run = |barrier: Option<Barrier>, cpu: u8| {
        let mut machine = Machine::new(&[Features::full(3); 2]);
        machine.store(0, ROOT, L1 | TABLE);
        if let Some(barrier) = barrier {
            machine.barrier(0, barrier);
        }
        enable_el1(&mut machine, cpu, 1, ROOT);
        machine
    };
    let (nshst, dmb) = (
        Barrier::Dsb { domain: Domain::NonShareable, accesses: Accesses::Stores, is_nxs: false },
        Barrier::Dmb { domain: Domain::Inner, accesses: Accesses::Stores },
    );
    for cpu in 0..2 {
        silent(&run(Some(ISHST), cpu));
        caught(&run(None, cpu), Rule::NotVisible);
        caught(&run(Some(dmb), cpu), Rule::NotVisible);
    }
    silent(&run(Some(nshst), 0));
    caught(&run(Some(nshst), 1), Rule::NotVisible);
}
