//! Locks, and what who takes one has seen.

use machine::event::Level;
use machine::registers::Register;
use machine::syndrome::AccessKind;
use vellum_audit::frames::Frames;

use crate::auditor::{DSB, DSB_STORES, ISB, LAST, MIDDLE, PAGE, ROOT, Run, TCR, TTBR0};

/// CPU 0 takes a page away, and CPU 1 invalidates for it, with DSBs of its own: enough if it has taken a lock that CPU 0 gave away after
/// its store.
#[test]
fn a_lock_lets_one_cpu_invalidate_what_another_took_away() {
    for (is_given, is_taken) in [(true, true), (true, false), (false, false)] {
        let frames = Frames::default();
        let mut run = Run::new(&frames, &[]);
        assert!(!frames.locks.may_give(0) && !frames.locks.may_take(1));
        run.store(0, LAST, 0);
        assert!(frames.locks.may_give(0) && !frames.locks.may_give(1));
        run.pass_on(0, false, is_given);
        assert_eq!((frames.locks.may_give(0), frames.locks.may_take(1)), (!is_given, is_given));
        run.pass_on(1, is_taken, false);
        assert_eq!(frames.locks.may_take(1), is_given && !is_taken);
        run.invalidate(1);
        run.store(1, LAST, 0x9000_0000 | PAGE);
        assert_eq!(run.rules().is_empty(), is_given && is_taken);
    }
    // Behind its own DSB nothing is left to tell.
    let frames = Frames::default();
    let mut run = Run::new(&frames, &[]);
    run.store(0, LAST, 0);
    run.word(0, DSB_STORES, 0);
    assert!(!frames.locks.may_give(0));
}

/// A page of a program, to which CPU 1 stored last, becomes a table of CPU 0's, zeroed by an instruction whose stores QEMU does not show: what
/// is in it is not CPU 1's, who may not have had a barrier since.
#[test]
fn what_another_cpu_stored_to_a_page_before_is_no_part_of_the_table() {
    let frames = Frames::default();
    let mut run = Run::new(&frames, &[]);
    run.store(0, MIDDLE, 0);
    run.invalidate(0);
    run.store(1, LAST + 8, 0x1234);
    for word in [LAST, LAST + 8] {
        run.memory.words.borrow_mut().insert(word, 0);
    }
    run.word(0, 0xd503_3bbf, 0);
    run.store(0, MIDDLE, LAST | 3);
    run.word(0, DSB_STORES, 0);
    run.word(0, TTBR0, ROOT | 2 << 48);
    run.word(0, ISB, 0);
    assert_eq!(run.rules(), [""; 0]);
}

/// Who is told of a release behind its store may be told of the lock first: then CPU 1 has taken nothing, for all that is known.
#[test]
fn a_release_is_told_of_before_anybody_reads_it() {
    for is_before in [true, false] {
        let frames = Frames::default();
        let mut run = Run::new(&frames, &[]);
        run.store(0, LAST, 0);
        run.pass_on(0, false, is_before);
        run.pass_on(1, frames.locks.may_take(1), false);
        run.pass_on(0, false, frames.locks.may_give(0));
        run.invalidate(1);
        run.store(1, LAST, 0x9000_0000 | PAGE);
        assert_eq!(run.rules().is_empty(), is_before);
    }
}

/// CPU 0 maps a page and gives a lock away before its own DSB; CPU 1 uses the page behind a DSB and an ISB: right if it took a lock since.
#[test]
fn a_lock_hands_over_what_was_mapped() {
    const UPPER: u64 = 0xffff_ff80_0000_1000;
    let both = [(Register::TcrEl1, TCR & !(1 << 23) | 2 << 30), (Register::Ttbr1El1, ROOT)];
    for (is_taken, words, kind, is_right) in [
        (true, &[DSB][..], AccessKind::Read, true),
        (true, &[DSB, ISB], AccessKind::Fetch, true),
        (true, &[DSB], AccessKind::Fetch, false),
        (true, &[ISB], AccessKind::Read, false),
        (false, &[DSB, ISB], AccessKind::Read, false),
        (false, &[DSB, ISB], AccessKind::Fetch, false),
    ] {
        let frames = Frames::default();
        let mut run = Run::new(&frames, &[]);
        (0..2).for_each(|cpu| run.auditor.refresh(&run.memory, cpu, Level::El1, &both));
        assert!(!frames.locks.may_give(0));
        run.store(0, LAST + 8, 0xa000_0000 | PAGE);
        assert!(frames.locks.may_give(0));
        run.pass_on(0, false, true);
        run.pass_on(1, is_taken, false);
        for word in words {
            run.word(1, *word, 0);
        }
        run.access(1, kind, UPPER);
        let expected: &[&str] = if is_right { &[] } else { &["V9"] };
        assert_eq!(run.rules(), expected, "{is_taken} {words:x?} {kind:?}");
    }
}
