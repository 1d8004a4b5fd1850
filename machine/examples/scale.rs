//! Break, TLBI, make on a page table of many tables, and stores to ordinary memory beside it:
//! `cargo run --release --example scale -- [TABLES] [EVENTS]`.

use std::time::Instant;

use machine::event::Event;
use machine::registers::Features;
use machine::seed::Seed;

#[path = "../tests/common/mod.rs"]
mod common;
use common::*;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|it| it.parse::<u64>().expect("a number"));
    let tables = arguments.next().unwrap_or(20_000);
    let events = arguments.next().unwrap_or(1_000_000);
    let level3 = |table: u64| 0x10_0000_0000 + table * 4096;
    let mut machine = el1(8, Features::full(0));
    let start = Instant::now();
    for directory in 0..tables.div_ceil(512) {
        machine.store(0, L1 + directory * 8, (0x8_0000_0000 + directory * 4096) | TABLE);
    }
    for table in 0..tables {
        for page in 0..512 {
            machine.store(0, level3(table) + page * 8, PAGE | (0x100_0000_0000 + (table << 21 | page << 12)));
        }
        machine.barrier(0, ISHST);
        machine.store(0, 0x8_0000_0000 + table * 8, level3(table) | TABLE);
    }
    machine.barrier(0, ISH);
    let filled = machine.events();
    println!("{tables} tables: {:.0} events per second to fill them", filled as f64 / start.elapsed().as_secs_f64());
    let (start, mut seed) = (Instant::now(), Seed::new(1));
    while machine.events() < filled + events {
        let (table, page, cpu) = (seed.below(tables), seed.below(512), seed.below(8) as u8);
        let word = level3(table) + page * 8;
        let old = machine.word(word);
        for event in [
            Event::Store { address: word, value: 0, is_release: false },
            Event::Barrier(ISHST),
            Event::Tlbi { opcode: VAALE1IS, operand: table << 9 | page },
            Event::Barrier(ISH),
            Event::Store { address: word, value: old ^ RO, is_release: false },
            Event::Barrier(ISHST),
        ] {
            machine.apply(cpu, &event);
        }
    }
    silent(&machine);
    println!("{:.0} events per second of break, TLBI, make", events as f64 / start.elapsed().as_secs_f64());
    let start = Instant::now();
    for _ in 0..events {
        machine.store(1, 0x200_0000_0000 + seed.below(1 << 20) * 8, seed.bits());
        if seed.one_in(64) {
            machine.barrier(1, ISHST);
        }
    }
    println!("{:.0} stores to ordinary memory per second", events as f64 / start.elapsed().as_secs_f64());
}
