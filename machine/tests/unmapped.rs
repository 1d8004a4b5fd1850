//! Many pages that are unmapped and given away: the same is found whatever the order, and nothing where all is right.

use crate::common::unmapped::{By, Shape};
use machine::trace::{Judge, Trace};

/// The frames that are found to be given away too early.
fn found(text: &str) -> Vec<u64> {
    let trace = Trace::read(text).expect("a trace");
    let mut judge = Judge::new(&trace, false);
    while judge.step().expect("it makes sense") {}
    let mut found: Vec<_> = judge.findings().iter().map(|it| it.address).collect();
    found.sort_unstable();
    found
}

#[test]
fn every_frame_is_found_in_whatever_order() {
    for shape in Shape::all(70) {
        let frames = (0..shape.findings()).map(|frame| 0x80_0000_0000 | frame << 12);
        assert_eq!(found(&shape.trace()), frames.collect::<Vec<_>>(), "{shape:?}");
    }
}

#[test]
fn every_frame_below_many_tables_is_found() {
    for shape in Shape::all(1030).into_iter().filter(|it| it.by == By::Table && it.is_shared) {
        assert_eq!(found(&shape.trace()).len() as u64, shape.findings(), "{shape:?}");
    }
}

/// One line may hold very many words: each is read, and none twice.
#[test]
fn a_long_memory_line_is_read() {
    let words = 100_000_u64;
    let line = |first: u64| (0..words).fold(format!("memory {first:#x}"), |line, it| line + &format!(" {:#x}", it * 3));
    let text = format!("vellum trace 1\ncpu 0\n{}\n0 load 0x80000008 3\n", line(0x8000_0000));
    let trace = Trace::read(&text).expect("a trace");
    let is_read = |it: u64| trace.memory.get(0x8000_0000 + it * 8) == Some(it * 3);
    assert!((0..words).all(is_read) && trace.memory.get(0x8000_0000 + words * 8).is_none());
    let mut judge = Judge::new(&trace, false);
    while judge.step().expect("it makes sense") {}
    assert_eq!((judge.machine().events(), judge.machine().word(0x8000_0008)), (1, 3), "memory takes no events");
    let twice = format!("{}{}\n", text.replace("0 load 0x80000008 3\n", ""), "memory 0x80000ff8 5");
    let malformed = Trace::read(&twice).expect_err("told twice");
    assert!((malformed.line, malformed.what.contains("0x80000ff8 is told twice")) == (4, true), "{malformed:?}");
}
