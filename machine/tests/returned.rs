//! A root that CPUs left, and come back to: what was linked below meanwhile, and given away while nobody could walk there.

use crate::common;
use common::*;
use machine::event::Owned;
use machine::finding::Rule;
use machine::machine::{Machine, Update};
use machine::registers::{Features, Register};
use machine::syndrome::AccessKind;

const AWAY: u64 = 0x4200_0000;
const PA: u64 = 0x8000_0000;
const OTHER: u64 = 0x9000_0000;

/// Somebody whose tables nobody walks links them anew, uses their memory, and comes back with another ASID.
fn returned(forget: impl Fn(&mut Machine, u64)) -> Machine {
    let mut machine = el1(1, Features::full(0));
    unmap(&mut machine, ROOT, VMALLE1IS, 0);
    msr(&mut machine, 0, &[(Register::Ttbr0El1, 5 << 48 | AWAY)]);
    machine.store(0, ROOT, L1 | TABLE);
    for table in [L1, L2, L3] {
        forget(&mut machine, table);
    }
    for (word, value) in [(ROOT, L1 | TABLE), (L1, L2 | TABLE), (L2, L3 | TABLE), (L3, PAGE | PA | NON_GLOBAL)] {
        machine.store(0, word, value);
    }
    machine.barrier(0, ISH);
    msr(&mut machine, 0, &[(Register::Ttbr0El1, 2 << 48 | ROOT)]);
    silent(&machine);
    machine
}

#[test]
fn what_was_forgotten_is_a_table_again_once_somebody_may_walk_there() {
    let forget = |machine: &mut Machine, table: u64| assert!(machine.forget_unreached(table));
    let release = |machine: &mut Machine, table: u64| machine.release(0, table, 0x1000, Owned::Table);
    for forget in [forget, release] {
        let mut machine = returned(forget);
        assert!(machine.is_descriptor(L3));
        machine.store(0, L3, PAGE | OTHER | NON_GLOBAL);
        caught(&machine, Rule::BreakExpected);
    }
}

/// A root that a CPU left, and may have kept entries of, becomes the last table of another page table: what is written there since
/// belongs to nobody who left, and not when hardware marks it either.
#[test]
fn what_hardware_marks_stays_hidden_from_who_left() {
    const TOP: u64 = 0x4300_0000;
    for marks in [0, AF] {
        let mut machine = el1(1, Features { output_bits: 48, lpa: false, ..Features::full(0) });
        machine.store(0, TOP, (TOP + 0x1000) | TABLE);
        machine.store(0, TOP + 0x1000, (TOP + 0x2000) | TABLE);
        unmap(&mut machine, ROOT, VMALLE1IS, 0);
        msr(&mut machine, 0, &[(Register::Ttbr0El1, 5 << 48 | TOP)]);
        map(&mut machine, TOP + 0x2000, ROOT | TABLE);
        let frame = 0x4500_0000;
        for word in [frame, frame + 8] {
            machine.store(0, word, BLOCK | PA);
        }
        let page = PAGE & !AF | frame | NON_GLOBAL;
        map(&mut machine, ROOT, page);
        machine.update_by_hardware(0, &Update { word: ROOT, from: page, to: page | marks });
        unmap(&mut machine, ROOT, ASIDE1IS, 5 << 48);
        // Data, that looks like a block of 1 GiB.
        machine.store(0, frame, BLOCK | 0xc000_0000);
        machine.barrier(0, ISH);
        silent(&machine);
    }
}

/// What was the last table of a page table comes back one level up: that it once held leaves concerns no walk any more.
#[test]
fn a_table_at_another_level_has_no_leaves_that_hardware_marks() {
    let mut machine = el1(1, Features::full(0));
    machine.write_register(0, Register::TcrEl1, TCR_48 | 1 << 23 | 3 << 39);
    machine.barrier(0, ISB);
    machine.store(0, L2, 0);
    machine.barrier(0, ISH);
    machine.tlbi(0, VMALLE1IS, 0);
    machine.barrier(0, ISH);
    machine.barrier(0, ISB);
    map(&mut machine, L1 + 8, L3 | TABLE);
    map(&mut machine, L3, 0x4600_0000 | TABLE);
    machine.store(0, L3, 0);
    silent(&machine);
    // A leaf there is one, as ever.
    map(&mut machine, L3 + 8, BLOCK & !AF | PA | NON_GLOBAL);
    machine.store(0, L3 + 8, 0);
    caught(&machine, Rule::LostUpdate);
}

/// What was a table of level 2 comes back as one of level 3, at another place; perhaps it is what it was there, too.
fn back_below(is_table_still: bool) -> Machine {
    let mut machine = el1(1, Features::full(0));
    if !is_table_still {
        unmap(&mut machine, L1, VMALLE1IS, 0);
    }
    machine.store(0, L2, 0);
    machine.barrier(0, ISH);
    map(&mut machine, L1 + 8, AWAY | TABLE);
    map(&mut machine, AWAY, L2 | TABLE);
    machine
}

/// A leaf there links no table, whatever was stored to its memory.
#[test]
fn a_leaf_in_what_was_a_table_above_links_nothing() {
    const FRAME: u64 = 0x4600_0000;
    for is_table_still in [false, true] {
        let mut machine = back_below(is_table_still);
        machine.store(0, FRAME, PAGE | PA);
        silent(&machine);
        let leaf = PAGE | NON_GLOBAL | FRAME;
        assert_eq!(machine.links_at(L2 + 8, leaf).len(), usize::from(is_table_still));
        machine.store(0, L2 + 8, leaf);
        assert_eq!(rules(&machine).contains(&Rule::NotVisible), is_table_still);
        assert_eq!(machine.is_plain(FRAME), !is_table_still);
    }
}

/// What nobody walks any more may have changed unseen, and comes back as it is then; what somebody walks, a store alone changes.
#[test]
fn a_table_that_was_left_is_learnt_as_it_is_when_it_comes_back() {
    for is_left in [false, true] {
        let mut machine = el1(1, Features::full(0));
        map(&mut machine, L3, PAGE | PA);
        if is_left {
            unmap(&mut machine, L1, VMALLE1IS, 0);
        }
        assert_eq!(machine.learn(L3, PAGE | OTHER), is_left);
        map(&mut machine, L1, L2 | TABLE);
        let found = if is_left { OTHER } else { PA };
        assert_eq!(machine.access(0, 0, AccessKind::Read).addresses().collect::<Vec<_>>(), [found]);
        silent(&machine);
    }
}

/// A root is emptied, its ASID invalidated while the CPU still runs with it, and given away once the CPU has left: what is written there
/// as data says nothing of a page table that begins there later.
#[test]
fn an_empty_root_that_everybody_left_is_a_page_like_any_other() {
    let mut machine = el1(1, Features::full(0));
    unmap(&mut machine, ROOT, ASIDE1IS, 1 << 48);
    msr(&mut machine, 0, &[(Register::Ttbr0El1, 5 << 48 | AWAY)]);
    assert!(machine.forget_unreached(ROOT));
    assert!(machine.learn(ROOT + 8, BLOCK | PA));
    machine.store(0, ROOT + 8, 0);
    machine.barrier(0, ISH);
    msr(&mut machine, 0, &[(Register::Ttbr0El1, 1 << 48 | ROOT)]);
    machine.store(0, ROOT + 8, L1 | TABLE);
    machine.barrier(0, ISH);
    silent(&machine);
}

/// What a CPU had when it left, it may have still: that it was cleared since, and set again by hardware, hides nothing.
#[test]
fn what_hardware_makes_as_it_was_is_not_hidden_from_who_left() {
    for is_set_again in [false, true] {
        let mut machine = el1(2, Features::full(2));
        let page = PAGE | NON_GLOBAL | PA;
        map(&mut machine, L3, page);
        msr(&mut machine, 0, &[(Register::Ttbr0El1, 2 << 48 | AWAY)]);
        machine.store(1, L3, page & !AF);
        if is_set_again {
            machine.update_by_hardware(1, &Update { word: L3, from: page & !AF, to: page });
        }
        machine.take_findings();
        machine.store(1, L3, 0);
        machine.barrier(1, ISH);
        machine.tlbi(1, VAE1, 1 << 48);
        machine.barrier(1, ISH);
        machine.barrier(1, ISB);
        machine.release(1, PA, 0x1000, Owned::Frame);
        caught(&machine, Rule::Reuse);
        assert_eq!(machine.findings().last().unwrap().cpus, 1);
    }
}

/// CPU 0 takes the last table away where CPU 1 alone walks, which forgets it; CPU 2 has not come yet. Unless CPU 0 has a DSB, the walker of CPU 2
/// may miss that store still.
fn taken_from_one(is_finished: bool) -> Machine {
    let mut machine = Machine::new(&[Features::full(0); 3]);
    tables(&mut machine);
    enable_el1(&mut machine, 1, 1, ROOT);
    map(&mut machine, L3, PAGE | PA);
    machine.store(0, L2, 0);
    if is_finished {
        machine.barrier(0, ISH);
    }
    machine.unlock(0);
    machine.lock(1);
    machine.barrier(1, ISH);
    machine.tlbi(1, VMALLE1, 0);
    machine.barrier(1, NSH);
    machine.barrier(1, ISB);
    machine
}

/// A table comes back elsewhere: where it was before, who comes may find it still.
#[test]
fn who_comes_later_may_walk_to_where_a_table_was() {
    for is_finished in [false, true] {
        let mut machine = taken_from_one(is_finished);
        machine.store(1, L2 + 8, L3 | TABLE);
        enable_el1(&mut machine, 2, 1, ROOT);
        machine.store(1, L3, 0);
        machine.barrier(1, ISH);
        machine.tlbi(1, VAE1IS, 1 << 48 | 0x200);
        machine.barrier(1, ISH);
        machine.barrier(1, ISB);
        silent(&machine);
        machine.release(1, PA, 0x1000, Owned::Frame);
        assert_eq!(rules(&machine), if is_finished { vec![] } else { vec![Rule::Reuse] });
    }
}

#[test]
fn what_who_comes_later_may_walk_is_not_learnt() {
    for is_finished in [false, true] {
        let mut machine = taken_from_one(is_finished);
        assert_eq!(machine.learn(L3, PAGE | OTHER), is_finished);
    }
}

/// A link that was stored when its table was given away leads there again once somebody walks, unless it was stored anew.
#[test]
fn what_was_linked_when_it_was_given_away_waits_for_whoever_walks_there() {
    for is_anew in [false, true] {
        let mut machine = el1(1, Features::full(0));
        unmap(&mut machine, ROOT, VMALLE1IS, 0);
        msr(&mut machine, 0, &[(Register::Ttbr0El1, 5 << 48 | AWAY)]);
        machine.store(0, ROOT, L1 | TABLE);
        machine.release(0, L1, 0x1000, Owned::Table);
        machine.store(0, L1, L2 | TABLE);
        if is_anew {
            machine.store(0, ROOT, L1 | TABLE);
        }
        machine.barrier(0, ISH);
        silent(&machine);
        msr(&mut machine, 0, &[(Register::Ttbr0El1, 2 << 48 | ROOT)]);
        assert_eq!(rules(&machine), if is_anew { vec![] } else { vec![Rule::Reuse] });
    }
}
