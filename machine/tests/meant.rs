//! Which entries are meant: by a TLBI that a host, a hypervisor or a guest issues, by an operand with DS or without, by an ASID
//! that is given away, by CPUs that share their tables (CnP).

use crate::common;
use common::*;
use machine::context::Tag;
use machine::event::Level;
use machine::finding::{Missing, Rule};
use machine::machine::Machine;
use machine::registers::{Features, HCR_E2H, HCR_FB, HCR_TGE, Register};
use machine::syndrome::AccessKind;
use machine::tlbi::{Flaw, Opcode};

const PA: u64 = 0x8000_0000;
const OTHER: u64 = 0x9000_0000;

/// Addresses that `cpu` may reach by input address 0.
fn reached(machine: &mut Machine, cpu: u8) -> Vec<u64> {
    machine.access(cpu, 0, AccessKind::Read).addresses().collect()
}

/// What is left to CPU 1 of a page that CPU 0, with this HCR_EL2 and at this level, took away and forgot so.
fn left(hcr: u64, level: Level, opcode: Opcode) -> bool {
    let mut machine = el1(2, Features::full(0));
    map(&mut machine, L3, PAGE | PA);
    msr(&mut machine, 0, &[(Register::HcrEl2, hcr)]);
    machine.enter(0, level);
    machine.store(0, L3, 0);
    machine.barrier(0, ISH);
    machine.tlbi(0, opcode, 0);
    machine.barrier(0, ISH);
    machine.barrier(0, ISB);
    machine.barrier(1, ISB);
    !reached(&mut machine, 1).is_empty()
}

/// HCR_EL2.FB broadcasts what EL1 means to be local, and nothing that EL2 does.
#[test]
fn local_tlbis_of_a_guest_are_broadcast_where_the_hypervisor_says_so() {
    assert!(left(0, Level::El1, VMALLE1));
    assert!(!left(HCR_FB, Level::El1, VMALLE1));
    assert!(left(HCR_FB, Level::El2, VMALLE1));
    assert!(!left(HCR_FB, Level::El1, VMALLE1IS));
}

/// At EL2 with {E2H, TGE} = {1, 1} the TLBIs of EL1 act on EL2&0, but for those that mean a guest by their name.
#[test]
fn a_host_forgets_its_own_and_a_guests_only_by_name() {
    let host = HCR_E2H | HCR_TGE;
    for opcode in [ALLE1IS, VMALLS12E1IS] {
        assert!(!left(host, Level::El2, opcode), "{opcode:?}");
        assert!(!left(0, Level::El2, opcode), "{opcode:?}");
    }
    for opcode in [VMALLE1IS, VAAE1IS] {
        assert!(left(host, Level::El2, opcode), "{opcode:?}");
        assert!(!left(HCR_E2H, Level::El2, opcode), "not without TGE: {opcode:?}");
        assert!(!left(0, Level::El2, opcode), "{opcode:?}");
    }
}

/// Level 0 of 4 KiB granules is a level hint with DS alone: with that of the regime that the TLBI is for.
#[test]
fn each_regime_has_a_ds_of_its_own() {
    let host = HCR_E2H | HCR_TGE;
    let bits = [(Register::VtcrEl2, 32), (Register::TcrEl2, 32), (Register::TcrEl2, 59), (Register::TcrEl1, 59)];
    let operations = [
        (IPAS2E1IS, 0, Level::El2, 0),
        (VAE2IS, 0, Level::El2, 1),
        (VAE2IS, HCR_E2H, Level::El2, 2),
        (VAE2IS, host, Level::El2, 2),
        (VAE1IS, host, Level::El2, 2),
        (VAE1IS, HCR_E2H, Level::El2, 3),
        (VAE1IS, 0, Level::El2, 3),
        (VAE1IS, 0, Level::El1, 3),
        (VAE1IS, host, Level::El1, 3),
    ];
    for (opcode, hcr, level, own) in operations {
        for (number, (register, bit)) in bits.into_iter().enumerate() {
            for lpa2 in [true, false] {
                let mut machine = Machine::new(&[Features { lpa2, ..Features::full(0) }]);
                msr(&mut machine, 0, &[(Register::HcrEl2, hcr), (register, 1 << bit)]);
                machine.enter(0, level);
                machine.tlbi(0, opcode, 0b0100 << 44);
                let flaws: Vec<Missing> = machine.findings().iter().map(|it| it.missing).collect();
                let expected =
                    if lpa2 && number == own { vec![] } else { vec![Missing::Encoding(Some(Flaw::ReservedHint))] };
                assert_eq!(flaws, expected, "{opcode:?} of {hcr:#x} at {level:?}, bit {bit} of {register:?}");
            }
        }
    }
}

/// Nothing can be walked any more, and a TLB may hold what was tagged with the ASID all the same.
#[test]
fn an_asid_is_not_free_while_stale_entries_have_it() {
    for (asid, forgets, expected) in [(1, false, vec![Rule::Reuse]), (2, false, vec![]), (1, true, vec![])] {
        let mut machine = el1(1, Features::full(0));
        map(&mut machine, L3, PAGE | PA | NON_GLOBAL);
        machine.store(0, ROOT, 0);
        machine.barrier(0, ISH);
        if forgets {
            machine.tlbi(0, ASIDE1IS, 1 << 48);
            machine.barrier(0, ISH);
            machine.barrier(0, ISB);
        }
        machine.reuse_asid(0, Tag::el10(0), asid);
        assert_eq!(rules(&machine), expected, "{asid}, {forgets}");
    }
}

/// Another table, whose address 0 leads elsewhere.
const SECOND: u64 = 0x4100_0000;

fn with_second() -> Machine {
    let mut machine = Machine::new(&[Features::full(3); 3]);
    tables(&mut machine);
    for (word, value) in [(SECOND, 0x4100_1000 | TABLE), (0x4100_1000, 0x4100_2000 | TABLE)] {
        machine.store(0, word, value);
    }
    machine.store(0, 0x4100_2000, 0x4100_3000 | TABLE);
    machine.store(0, 0x4100_3000, PAGE | OTHER | NON_GLOBAL);
    machine.store(0, L3, PAGE | PA | NON_GLOBAL);
    machine.barrier(0, ISH);
    machine
}

/// TTBR.CnP: CPUs that have it set use what any of them has cached; the others have their own.
#[test]
fn who_says_that_tables_are_common_shares_what_is_cached() {
    for (first, second) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        for is_first_last in [false, true] {
            let mut machine = with_second();
            let mut enable = |cpu: u8, root: u64| enable_el1(&mut machine, cpu, 1, root);
            if is_first_last {
                enable(1, SECOND | second);
                enable(0, ROOT | first);
            } else {
                enable(0, ROOT | first);
                enable(1, SECOND | second);
            }
            let (shared, alone) = (vec![PA, OTHER], first & second == 0);
            assert_eq!(reached(&mut machine, 0), if alone { vec![PA] } else { shared.clone() }, "{first}, {second}");
            assert_eq!(reached(&mut machine, 1), if alone { vec![OTHER] } else { shared }, "{first}, {second}");
            assert_eq!(rules(&machine).contains(&Rule::Overlap), !alone, "{first}, {second}");
        }
    }
    // Who says so no longer keeps what was cached, until it is forgotten.
    let mut machine = with_second();
    enable_el1(&mut machine, 0, 1, ROOT | 1);
    enable_el1(&mut machine, 1, 1, ROOT | 1);
    silent(&machine);
    msr(&mut machine, 1, &[(Register::Ttbr0El1, 1 << 48 | ROOT)]);
    machine.store(0, L3 + 8, PAGE | OTHER | NON_GLOBAL);
    machine.barrier(0, ISH);
    machine.store(0, L3 + 8, 0);
    machine.barrier(0, ISH);
    machine.tlbi(1, VMALLE1, 0);
    machine.barrier(1, ISH);
    machine.barrier(1, ISB);
    let pages: Vec<u64> = machine.access(1, 0x1000, AccessKind::Read).addresses().collect();
    assert_eq!(pages, [], "what CPU 1 had is its own, and gone");
    let pages: Vec<u64> = machine.access(0, 0x1000, AccessKind::Read).addresses().collect();
    assert_eq!(pages, [OTHER], "what CPU 0 had is its own, and there");
}

/// Stage 2 is common to nobody that does not say so: each CPU of a VMID has its own.
#[test]
fn stage_2_is_not_common_by_itself() {
    let mut machine = Machine::new(&[Features::full(3); 2]);
    let roots = [(S2_ROOT, PA), (0x5100_0000, OTHER)];
    for (root, output) in roots {
        machine.store(0, root, (root + 0x2000) | TABLE);
        machine.store(0, root + 0x2000, (root + 0x3000) | TABLE);
        machine.store(0, root + 0x3000, S2_PAGE | output);
    }
    machine.barrier(0, ISH);
    for (cpu, (root, _)) in (0..).zip(roots) {
        let writes = [(Register::VtcrEl2, 25 | 1 << 6 | 5 << 16), (Register::VttbrEl2, 7 << 48 | root)];
        msr(&mut machine, cpu, &writes);
        msr(&mut machine, cpu, &[(Register::HcrEl2, 1)]);
    }
    silent(&machine);
    assert_eq!([0, 1].map(|cpu| reached(&mut machine, cpu)), [[PA], [OTHER]]);
}

/// One byte is enough to be needed, the first of a leaf or the last; and who needs it is told.
#[test]
fn each_byte_of_the_ground_counts() {
    for (byte, is_taken) in [(0x1f_ffff, false), (0x20_0000, true), (0x3f_ffff, true), (0x40_0000, false)] {
        for cpu in [0, 1] {
            let mut machine = el1(2, Features::full(3));
            map(&mut machine, L2 + 8, PAGE & !2 | PA);
            machine.needs(cpu, byte, byte);
            machine.store(0, L2 + 8, 0);
            let found: Vec<_> = machine.findings().iter().map(|it| (it.rule, it.cpus, it.address)).collect();
            let expected = if is_taken { vec![(Rule::OwnGround, 1 << cpu, byte)] } else { vec![] };
            assert_eq!(found, expected, "{byte:#x} of CPU {cpu}");
        }
    }
}

#[test]
fn what_is_stale_is_counted() {
    let mut machine = el1(1, Features::full(0));
    map(&mut machine, L3, PAGE | 0x8000_0000);
    assert!(machine.may().stale().is_empty());
    machine.store(0, L3, 0);
    machine.barrier(0, ISH);
    assert!(!machine.may().stale().is_empty());
    assert_eq!(machine.may().stale().len(), 1);
    machine.tlbi(0, VMALLE1IS, 0);
    machine.barrier(0, ISH);
    machine.barrier(0, ISB);
    assert!(machine.may().stale().is_empty());
}
