//! What a kernel maps and uses at once.

use machine::event::Level;
use machine::registers::Register;
use machine::syndrome::AccessKind;
use vellum_audit::frames::Frames;

use crate::auditor::{LAST, PAGE, ROOT, Run, TCR};

/// The same tables are those of both halves: in the lower one who faults repeats what faulted.
#[test]
fn what_a_kernel_maps_is_not_used_before_it_is_visible() {
    use AccessKind::{Fetch, Read, Write};
    const UPPER: u64 = 0xffff_ff80_0000_1000;
    const DSB: u32 = 0xd503_3a9f;
    const DMB: u32 = 0xd503_3bbf;
    const ISB: u32 = 0xd503_3fdf;
    const ERET: u32 = 0xd69f_03e0;
    let both = [(Register::TcrEl1, TCR & !(1 << 23) | 2 << 30), (Register::Ttbr1El1, ROOT)];
    let found = |words: &[(u8, u32)], cpu: u8, kind: AccessKind, address: u64, level: Level| {
        let frames = Frames::default();
        let mut run = Run::new(&frames, &[]);
        (0..2).for_each(|cpu| run.auditor.refresh(&run.memory, cpu, Level::El1, &both));
        run.store(0, LAST + 8, 0xa000_0000 | PAGE);
        for (cpu, word) in words {
            let place = run.word(*cpu, *word, 0);
            if *word == ERET {
                run.auditor.enter(&run.memory, *cpu, place, Level::El1, false);
            }
        }
        if level == Level::El0 {
            run.auditor.enter(&run.memory, cpu, 0x1000, level, false);
        }
        (0..2).for_each(|_| run.access(cpu, kind, address));
        let rules = run.rules();
        assert!(rules.is_empty() || rules == ["V9"], "{rules:?}");
        !rules.is_empty()
    };
    for (words, cpu, kind, expected) in [
        (&[][..], 0, Read, true),
        (&[], 1, Write, true),
        (&[(0, DMB), (1, DSB), (0, ISB), (0, ERET)], 0, Read, true),
        (&[(0, DSB)], 0, Read, false),
        (&[(0, DSB)], 1, Write, false),
        (&[(0, ISB), (0, DSB)], 0, Fetch, true),
        (&[(0, ISB), (0, DSB), (0, ISB)], 0, Fetch, false),
        (&[(0, ERET), (0, DSB), (0, ERET)], 0, Fetch, false),
    ] {
        assert_eq!(found(words, cpu, kind, UPPER, Level::El1), expected, "{words:x?} {cpu} {kind:?}");
        assert!(!found(words, cpu, kind, UPPER & 0x7f_ffff_ffff, Level::El1));
        assert!(!found(words, cpu, kind, UPPER, Level::El0));
        assert!(!found(words, cpu, kind, UPPER + 0x1000, Level::El1));
    }
}

/// One store of a function that all use is where each of them is found: they are as many faults as stores that mapped.
#[test]
fn each_store_that_maps_is_told_of_where_one_instruction_uses_all() {
    const PAGES: u64 = 0xffff_ff80_0000_0000;
    let both = [(Register::TcrEl1, TCR & !(1 << 23) | 2 << 30), (Register::Ttbr1El1, ROOT)];
    // A store that maps a page, on a CPU, or a use of it.
    let map = |cpu, page| (Some(cpu), page);
    let using = |page| (None, page);
    for steps in [
        &[map(0, 1), using(1), map(0, 2), using(2)][..],
        &[map(0, 1), map(0, 2), using(1), using(2)],
        &[map(0, 1), map(1, 2), using(1), using(2)],
        &[map(0, 1), map(0, 2), map(0, 3), using(2), using(1), using(3)],
    ] {
        let frames = Frames::default();
        let mut run = Run::new(&frames, &[]);
        (0..2).for_each(|cpu| run.auditor.refresh(&run.memory, cpu, Level::El1, &both));
        for (cpu, page) in steps {
            match cpu {
                Some(cpu) => run.store(*cpu, LAST + page * 8, 0xa000_0000 | page << 12 | PAGE),
                // Word by word, at one instruction.
                None => (PAGES + (page << 12)..).step_by(8).take(3).for_each(|address| {
                    if frames.fresh.has(0, address) {
                        run.auditor.access(&run.memory, 0, 0x9000, address, AccessKind::Write);
                    }
                }),
            }
        }
        assert_eq!(run.rules(), vec!["V9"; steps.len() / 2], "{steps:?}");
        // Of a page that was told, nothing is looked at any more.
        assert!((1..4).all(|page| !frames.fresh.has(0, PAGES + (page << 12))));
    }
}
