//! Frames and tables that are given away while a walk may still reach them by a table that was unlinked, or by a value that
//! was stored over: each mistake, and beside it the same without it.

use crate::common;
use common::*;
use machine::barrier::Barrier;
use machine::event::Owned;
use machine::finding::{Missing, Rule};
use machine::machine::Machine;
use machine::registers::{Features, Register};
use machine::tlbi::Opcode;

const PA: u64 = 0x8000_0000;
const ASID: u64 = 1 << 48;
/// A table without a valid descriptor.
const EMPTY: u64 = 0x4000_4000;

/// What a program does between unlinking and giving away.
enum Step {
    Do(Barrier),
    Tlbi(Opcode, u64),
    Store(u64, u64),
    /// A page of memory.
    Free(u64),
}
use Step::{Do, Free, Store, Tlbi};

fn go(mut machine: Machine, steps: &[Step]) -> Machine {
    for step in steps {
        match *step {
            Do(barrier) => machine.barrier(0, barrier),
            Tlbi(opcode, operand) => machine.tlbi(0, opcode, operand),
            Store(word, value) => machine.store(0, word, value),
            Free(address) => machine.release(0, address, 0x1000, Owned::Frame),
        }
    }
    machine
}

/// Two CPUs on one page table, with a frame mapped at 0.
fn mapped() -> Machine {
    let mut machine = el1(2, Features::full(0));
    map(&mut machine, L3, PAGE | PA | NON_GLOBAL);
    machine
}

/// `word` is stored to, `steps` follow, then the frame is given away.
fn freed(machine: Machine, word: u64, value: u64, steps: &[Step]) -> Machine {
    let machine = go(machine, &[Store(word, value)]);
    go(go(machine, steps), &[Free(PA)])
}

/// Each mistake of stage 1 is caught, whichever table is unlinked, and its repair is silent.
#[test]
fn a_frame_below_an_unlinked_table_waits_for_the_tlbi() {
    for (word, value) in [(L2, 0), (L1, 0), (ROOT, 0), (L2, EMPTY | TABLE), (L1, EMPTY | TABLE)] {
        let freed = |steps: &[Step]| freed(mapped(), word, value, steps);
        let rules: &[Rule] = &[Rule::Reuse];
        let caught = |steps: &[Step]| assert_eq!(common::rules(&freed(steps)), rules, "{word:#x} {value:#x}");
        let silent = |steps: &[Step]| assert_eq!(common::rules(&freed(steps)), [], "{word:#x} {value:#x}");
        caught(&[]);
        caught(&[Do(ISH), Do(ISB)]);
        caught(&[Do(ISH), Tlbi(VMALLE1, 0), Do(ISH), Do(ISB)]);
        caught(&[Tlbi(VMALLE1IS, 0), Do(ISH), Do(ISB)]);
        caught(&[Do(ISH), Tlbi(VMALLE1IS, 0), Do(ISB)]);
        caught(&[Do(ISH), Tlbi(VMALLE1IS, 0), Do(ISHST), Do(ISB)]);
        caught(&[Do(ISH), Tlbi(ASIDE1IS, 2 * ASID), Do(ISH), Do(ISB)]);
        caught(&[Do(ISH), Tlbi(VAE1IS, 2 * ASID), Do(ISH), Do(ISB)]);
        caught(&[Do(ISH), Tlbi(VALE1IS, ASID), Do(ISH), Do(ISB)]);
        caught(&[Do(ISH), Tlbi(VAALE1IS, 0), Do(ISH), Do(ISB)]);
        caught(&[Do(ISH), Tlbi(VAE1IS, ASID | 0x7_fff0_0001), Do(ISH), Do(ISB)]);
        for tlbi in [(VMALLE1IS, 0), (ASIDE1IS, ASID), (VAE1IS, ASID), (VAAE1IS, 0)] {
            silent(&[Do(ISH), Tlbi(tlbi.0, tlbi.1), Do(ISH), Do(ISB)]);
        }
    }
}

/// A leaf that is linked still is no finding, but where it is asked for; nor is one whose table was linked again.
#[test]
fn a_linked_frame_may_be_given_away() {
    silent(&go(mapped(), &[Free(PA)]));
    silent(&go(mapped(), &[Store(L2, 0), Do(ISH), Store(L2, L3 | TABLE), Do(ISH), Free(PA)]));
    let strict = |steps: &[Step]| {
        let mut machine = mapped();
        machine.be_strict();
        go(machine, steps)
    };
    caught(&strict(&[Free(PA)]), Rule::Reuse);
    let clean = [Store(L3, 0), Do(ISH), Tlbi(VAE1IS, ASID), Do(ISH), Do(ISB), Free(PA)];
    silent(&strict(&clean));
    silent(&strict(&[Free(PA + 0x1000)]));
}

/// It is the table that was forgotten too little: the story tells of that.
#[test]
fn the_story_is_the_table_s() {
    let missing = |steps: &[Step]| freed(mapped(), L2, 0, steps).findings()[0].missing;
    assert_eq!(missing(&[Do(ISH)]), Missing::Tlbi);
    assert_eq!(missing(&[]), Missing::DsbAfterStore(0));
    assert_eq!(missing(&[Do(ISH), Tlbi(VMALLE1IS, 0)]), Missing::DsbAfterTlbi(0));
    assert!(matches!(missing(&[Do(ISH), Tlbi(VALE1IS, ASID), Do(ISH)]), Missing::BetterTlbi(_)));
    let found = freed(mapped(), L2, 0, &[Do(ISH)]);
    let story = found.findings()[0].to_string();
    assert!(story.contains("level-3 leaf") && story.contains("the store to 0x40002000 was complete"), "{story}");
}

/// Whoever has left the ASID may walk on from what it kept.
#[test]
fn a_cpu_that_left_may_have_kept_the_table() {
    let run = |opcode, operand| {
        let mut machine = mapped();
        msr(&mut machine, 1, &[(Register::Ttbr0El1, 2 << 48 | 0x4100_0000)]);
        freed(machine, L2, 0, &[Do(ISH), Tlbi(opcode, operand), Do(ISH), Do(ISB)])
    };
    caught(&run(VAE1, ASID), Rule::Reuse);
    caught(&run(VAE1IS, 2 * ASID), Rule::Reuse);
    silent(&run(VAE1IS, ASID));
}

/// Walks go on from a kept table by any value that they may still see there.
#[test]
fn an_unfinished_value_on_the_way_is_walked() {
    // The table of level 2 is unlinked; in that, the link to the last table is stored over.
    let run = |steps: &[Step]| go(go(mapped(), &[Store(L1, 0), Do(ISH)]), steps);
    caught(&run(&[Store(L2, 0), Free(PA)]), Rule::Reuse);
    caught(&run(&[Store(L3, 0), Free(PA)]), Rule::Reuse);
    caught(&run(&[Store(L2, 0), Do(ISH), Free(PA)]), Rule::Reuse);
    caught(&run(&[Tlbi(VMALLE1IS, 0), Store(L2, 0), Free(PA)]), Rule::Reuse);
    silent(&run(&[Tlbi(VMALLE1IS, 0), Do(ISH), Do(ISB), Store(L2, 0), Free(PA)]));
    // What was linked below it meanwhile is walked too, and no more once it is gone.
    let other = PA + 0x8000;
    caught(&run(&[Store(L3 + 8, PAGE | other | NON_GLOBAL), Do(ISH), Free(other)]), Rule::Reuse);
    caught(&run(&[Store(L2 + 8, EMPTY | TABLE), Store(EMPTY, PAGE | other), Free(other)]), Rule::Reuse);
    silent(&run(&[Free(other)]));
    // From a root.
    let run = |steps: &[Step]| go(mapped(), steps);
    caught(&run(&[Store(L2, 0), Free(PA)]), Rule::Reuse);
    caught(&run(&[Store(L2, 0), Do(NSH), Free(PA)]), Rule::Reuse);
    caught(&run(&[Store(L3, 0), Free(PA)]), Rule::Reuse);
}

/// A block below a stale table, and frames that are part of it or lie across its end.
#[test]
fn a_block_below_an_unlinked_table_is_all_its_frames() {
    let run = |address: u64, size_bytes: u64, opcode: Opcode| {
        let mut machine = el1(2, Features::full(0));
        map(&mut machine, L2 + 8, BLOCK | PA | NON_GLOBAL);
        let mut machine = go(machine, &[Store(L1, 0), Do(ISH), Tlbi(opcode, 0), Do(ISH), Do(ISB)]);
        machine.release(0, address, size_bytes, Owned::Frame);
        machine
    };
    let inside = [(PA, 0x1000), (PA + 0x1f_f000, 0x2000), (PA - 0x1000, 0x2000), (PA - 0x10_0000, 0x1000_0000)];
    for (address, size_bytes) in inside {
        caught(&run(address, size_bytes, VMALLE1), Rule::Reuse);
        silent(&run(address, size_bytes, VMALLE1IS));
    }
    silent(&run(PA - 0x1000, 0x1000, VMALLE1));
    silent(&run(PA + 0x20_0000, 0x1000, VMALLE1));
}

/// A member of a contiguous set translates for all of the set.
#[test]
fn a_set_below_an_unlinked_table_is_all_its_frames() {
    let run = |member: u64, page: u64, opcode: Opcode| {
        let mut machine = el1(2, Features::full(0));
        map(&mut machine, L3 + member * 8, PAGE | PA | member << 12 | NON_GLOBAL | CONT);
        let steps = [Do(ISH), Tlbi(opcode, 0), Do(ISH), Do(ISB), Free(PA + (page << 12))];
        go(go(machine, &[Store(L2, 0)]), &steps)
    };
    for member in [0, 7, 15] {
        for page in [0, 5, 15] {
            caught(&run(member, page, VMALLE1), Rule::Reuse);
            silent(&run(member, page, VMALLE1IS));
        }
        silent(&run(member, 16, VMALLE1));
    }
}

/// Tables, and frames that walks take for tables, below an unlinked table.
#[test]
fn a_table_below_an_unlinked_table_waits_too() {
    let run = |table: u64, size_bytes: u64, owned: Owned, opcode: Opcode| {
        let mut machine = go(mapped(), &[Store(L1, 0), Do(ISH), Tlbi(opcode, 0), Do(ISH), Do(ISB)]);
        machine.release(0, table, size_bytes, owned);
        machine
    };
    for owned in [Owned::Table, Owned::Frame] {
        for (table, size_bytes) in [(L3, 0x1000), (L2, 0x1000), (L2, 0x2000), (L3 - 0x8000, 0x1_0000)] {
            caught(&run(table, size_bytes, owned, VMALLE1), Rule::Reuse);
        }
        for (table, size_bytes) in [(L3, 0x1000), (L2, 0x1000), (L2, 0x2000)] {
            silent(&run(table, size_bytes, owned, VMALLE1IS));
        }
    }
    // Several tables are given away at once, one of them linked still.
    let mut machine = el1(1, Features::full(0));
    machine.release(0, L3 - 0x8000, 0x1_0000, Owned::Table);
    caught(&machine, Rule::Reuse);
    // Of a table of 64 KiB, any part.
    let part = |opcode: Opcode| {
        let mut machine = Machine::new(&[Features::full(0); 2]);
        let table = 0x4101_0000;
        machine.store(0, ROOT, table | TABLE);
        machine.barrier(0, ISH);
        for cpu in 0..2 {
            let tcr = 22 | 1 << 14 | 1 << 23 | 5 << 32 | 1 << 36;
            let writes = [(Register::MairEl1, MAIR), (Register::TcrEl1, tcr), (Register::Ttbr0El1, ASID | ROOT)];
            msr(&mut machine, cpu, &writes);
            msr(&mut machine, cpu, &[(Register::SctlrEl1, 1)]);
        }
        let mut machine = go(machine, &[Store(ROOT, 0), Do(ISH), Tlbi(opcode, 0), Do(ISH), Do(ISB)]);
        machine.release(0, table + 0x8000, 0x1000, Owned::Frame);
        machine
    };
    caught(&part(VMALLE1), Rule::Reuse);
    silent(&part(VMALLE1IS));
}

/// Stage 2 alone, its tables unlinked at each level.
#[test]
fn a_frame_below_an_unlinked_table_of_stage_2_waits_too() {
    for (word, value) in [(S2_L2, 0), (S2_ROOT, 0), (S2_L2, EMPTY | TABLE)] {
        let run = |steps: &[Step]| {
            let mut machine = stage2(2, Features::full(0));
            map(&mut machine, S2_L3, S2_PAGE | PA);
            rules(&freed(machine, word, value, steps))
        };
        let both = [Tlbi(IPAS2E1IS, 0), Do(ISH), Tlbi(VMALLE1IS, 0), Do(ISH), Do(ISB)];
        assert_eq!(run(&[]).len(), 1);
        assert_eq!(run(&[Do(ISH)]).len(), 1);
        assert_eq!(run(&[Do(ISH), Tlbi(VMALLE1IS, 0), Do(ISH), Do(ISB)]).len(), 1);
        assert_eq!(run(&[Do(ISH), Tlbi(IPAS2E1IS, 0), Do(ISH), Do(ISB)]).len(), 1);
        assert_eq!(run(&[Do(ISH), Tlbi(IPAS2LE1IS, 0), Do(ISH), Tlbi(VMALLE1IS, 0), Do(ISH), Do(ISB)]).len(), 1);
        assert_eq!(run(&both).len(), 1, "no DSB before the TLBI");
        assert_eq!(run(&[Do(ISH), Tlbi(VMALLS12E1IS, 0), Do(ISH), Do(ISB)]), []);
        assert_eq!(run(&[Do(ISH), Tlbi(IPAS2E1IS, 0), Do(ISH), Tlbi(VMALLE1IS, 0), Do(ISH), Do(ISB)]), []);
    }
}

/// Guests on stage 1 above stage 2: one page of tables and one frame at the same intermediate addresses.
fn guests() -> Machine {
    let mut machine = Machine::new(&[Features::full(0); 2]);
    tables(&mut machine);
    machine.store(0, L3, PAGE | 0x20_0000 | NON_GLOBAL);
    machine.store(0, S2_ROOT, S2_L2 | TABLE);
    machine.store(0, S2_ROOT + 8, S2_BLOCK | 0x4000_0000);
    machine.store(0, S2_L2 + 8, S2_L3 | TABLE);
    machine.store(0, S2_L3, S2_PAGE | PA);
    machine.barrier(0, ISH);
    for cpu in 0..2 {
        let writes = [(Register::VtcrEl2, 25 | 1 << 6 | 5 << 16), (Register::VttbrEl2, 7 << 48 | S2_ROOT)];
        msr(&mut machine, cpu, &writes);
        msr(&mut machine, cpu, &[(Register::HcrEl2, 1)]);
        enable_el1(&mut machine, cpu, 1, ROOT);
    }
    machine.take_findings();
    machine
}

/// The stale entry is stage 1's, and what it leads to is joined with a stage 2 that nobody has changed.
#[test]
fn a_frame_below_an_unlinked_table_of_a_guest_waits_too() {
    for word in [L2, L1, ROOT] {
        let run = |steps: &[Step]| freed(guests(), word, 0, steps);
        caught(&run(&[]), Rule::Reuse);
        caught(&run(&[Do(ISH)]), Rule::Reuse);
        caught(&run(&[Do(ISH), Tlbi(VALE1IS, ASID), Do(ISH), Do(ISB)]), Rule::Reuse);
        caught(&run(&[Do(ISH), Tlbi(VMALLE1, 0), Do(ISH), Do(ISB)]), Rule::Reuse);
        caught(&run(&[Do(ISH), Tlbi(IPAS2E1IS, 0x200), Do(ISH), Do(ISB)]), Rule::StageOrder);
        silent(&run(&[Do(ISH), Tlbi(VMALLE1IS, 0), Do(ISH), Do(ISB)]));
        silent(&run(&[Do(ISH), Tlbi(VAE1IS, ASID), Do(ISH), Do(ISB)]));
    }
    silent(&go(guests(), &[Free(PA)]));
}

/// Stage 2's table is unlinked beneath a guest that runs on.
#[test]
fn a_frame_below_an_unlinked_table_beneath_a_guest_waits_too() {
    for (word, value) in [(S2_L2 + 8, 0), (S2_ROOT, 0), (S2_L2 + 8, EMPTY | TABLE)] {
        let run = |steps: &[Step]| freed(guests(), word, value, steps);
        let found = |steps: &[Step]| assert_eq!(rules(&run(steps)).len(), 1, "{word:#x}");
        found(&[]);
        found(&[Do(ISH)]);
        found(&[Do(ISH), Tlbi(VMALLE1IS, 0), Do(ISH), Do(ISB)]);
        found(&[Do(ISH), Tlbi(IPAS2E1IS, 0x200), Do(ISH), Do(ISB)]);
        found(&[Do(ISH), Tlbi(IPAS2LE1IS, 0x200), Do(ISH), Tlbi(VMALLE1IS, 0), Do(ISH), Do(ISB)]);
        silent(&run(&[Do(ISH), Tlbi(VMALLS12E1IS, 0), Do(ISH), Do(ISB)]));
        silent(&run(&[Do(ISH), Tlbi(IPAS2E1IS, 0x200), Do(ISH), Tlbi(VMALLE1IS, 0), Do(ISH), Do(ISB)]));
    }
}

/// Stage 2 takes away the memory of a guest's tables, while walks of the guest find them by what TLBs hold of stage 2.
#[test]
fn a_guest_s_table_waits_for_the_tlbi_of_stage_2() {
    for table in [L1, L2, L3] {
        let run = |steps: &[Step]| {
            let mut machine = go(go(guests(), &[Store(S2_ROOT + 8, 0)]), steps);
            machine.release(0, table, 0x1000, Owned::Table);
            rules(&machine)
        };
        let found = |steps: &[Step]| assert_eq!(run(steps), [Rule::Reuse], "{table:#x}");
        found(&[]);
        found(&[Do(ISH)]);
        found(&[Do(ISH), Tlbi(VMALLE1IS, 0), Do(ISH), Do(ISB)]);
        found(&[Do(ISH), Tlbi(IPAS2E1IS, 0x30_0000), Do(ISH), Tlbi(VMALLE1IS, 0), Do(ISH), Do(ISB)]);
        assert_eq!(run(&[Do(ISH), Tlbi(VMALLS12E1IS, 0), Do(ISH), Do(ISB)]), []);
        assert_eq!(run(&[Do(ISH), Tlbi(IPAS2E1IS, 0x4_0000), Do(ISH), Tlbi(VMALLE1IS, 0), Do(ISH), Do(ISB)]), []);
    }
}

/// A guest's table is moved by stage 2; what the old place leads to is walked until stage 2's entry is gone.
#[test]
fn a_frame_below_a_moved_table_waits_too() {
    let run = |steps: &[Step]| {
        let mut machine = guests();
        // The last table's page lies in a block of 1 GiB: a table of 2 MiB blocks and pages takes its place.
        machine.store(0, S2_ROOT + 8, 0);
        machine.barrier(0, ISH);
        machine.tlbi(0, VMALLS12E1IS, 0);
        machine.barrier(0, ISH);
        machine.barrier(0, ISB);
        let (middle, low) = (0x5001_0000, 0x5001_1000);
        machine.store(0, middle, low | TABLE);
        for page in 0..5 {
            machine.store(0, low + page * 8, S2_PAGE | 0x4000_0000 | page << 12);
        }
        machine.barrier(0, ISH);
        machine.store(0, S2_ROOT + 8, middle | TABLE);
        machine.barrier(0, ISH);
        machine.barrier(0, ISB);
        // Now it moves to a page of zeros.
        machine.store(0, low + 3 * 8, 0);
        go(machine, steps)
    };
    let tlbis = [Tlbi(IPAS2E1IS, 0x4_0003), Do(ISH), Tlbi(VMALLE1IS, 0), Do(ISH), Do(ISB), Free(PA)];
    caught(&run(&[Do(ISH), Free(PA)]), Rule::Reuse);
    caught(&run(&[Free(PA)]), Rule::Reuse);
    let machine = run(&[Do(ISH)]);
    silent(&machine);
    silent(&go(machine, &tlbis));
}
