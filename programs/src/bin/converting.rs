//! Folios whose parts change their rights again and again, while other threads read all over them: what they find stays right.
//!
//! `converting ROUNDS READERS` makes so many rounds, 200 without: each cuts a folio of 64 KiB, and has it fold again. So many threads read, 3 without.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use libc::*;
use programs::machine::word;
use programs::memory::{ANONYMOUS, READ_WRITE};
use programs::{call, map, page, poke};

const FOLIOS: u64 = 32;

fn main() -> ExitCode {
    let number = |place: usize, usual: u64| std::env::args().nth(place).map_or(Ok(usual), |word| word.parse());
    let (Ok(rounds), Ok(readers)) = (number(1, 200), number(2, 3)) else {
        println!("converting: expected a number of rounds, and of threads that read; nothing was done");
        return ExitCode::from(2);
    };
    let pages = (64 << 10) / page().min(64 << 10);
    let bytes = pages * page();
    let all = map(0, 2 * FOLIOS * bytes + bytes, PROT_NONE, ANONYMOUS | MAP_NORESERVE, -1, 0).expect("room");
    // Each is an area of its own: what the kernel announces to resize is one folio, which is what the readers read.
    let start = |folio: u64| all.next_multiple_of(bytes) + 2 * folio * bytes;
    let word = |number: u64| word(start(number / pages) + number % pages * page());
    for folio in 0..FOLIOS {
        map(start(folio), bytes, READ_WRITE, ANONYMOUS | MAP_FIXED, -1, 0).expect("memory");
    }
    (0..FOLIOS * pages).for_each(|number| word(number).store(number as u32, Ordering::Relaxed));
    let (current, is_done, wrong) = (AtomicU64::new(0), AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..readers {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    let first = current.load(Ordering::Relaxed) * pages;
                    let is_wrong = |number: &u64| word(*number).load(Ordering::Relaxed) != *number as u32;
                    let count = (first..first + pages).filter(is_wrong).count();
                    wrong.fetch_add(count as u64, Ordering::Relaxed);
                }
            });
        }
        for round in 0..rounds {
            let folio = round % FOLIOS;
            current.store(folio, Ordering::Relaxed);
            let part = start(folio) + round / FOLIOS % pages * page();
            for rights in [PROT_READ, READ_WRITE] {
                call(SYS_mprotect, &[part, page(), rights as u64]).expect("rights");
            }
            poke(part + 8, round as u8);
        }
        is_done.store(true, Ordering::Relaxed);
    });
    println!("{rounds} rounds; words that were wrong: {}", wrong.load(Ordering::Relaxed));
    ExitCode::from(u8::from(wrong.into_inner() > 0))
}
