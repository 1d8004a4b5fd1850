//! One workload for every kind of TLBI: parts of folios that change their rights or go, children, another program, the end.
//!
//! As the first process it tells what a part costs, in instructions, where one nanosecond is one (`-icount`): `cargo xtask bench tlbis`
//! runs it so, and reads its lines.

use std::env;
use std::process::Command;
use std::time::Instant;

use libc::*;
use programs::memory::{ANONYMOUS, READ_WRITE};
use programs::{call, in_child, map, page, peek, poke};

const GROUPS: u64 = 32;

fn main() {
    if env::args().len() > 1 {
        return;
    }
    // Of a contiguous group: 64 KiB with pages of 4K, 2 MiB with others.
    let bytes = if page() == 4096 { 64 << 10 } else { 2 << 20 };
    let all = map(0, (GROUPS + 1) * bytes, PROT_NONE, ANONYMOUS | MAP_NORESERVE, -1, 0).expect("room");
    let base = all.next_multiple_of(bytes);
    map(base, GROUPS * bytes, READ_WRITE, ANONYMOUS | MAP_FIXED, -1, 0).expect("memory");
    (base..base + GROUPS * bytes).step_by(page() as usize).for_each(|at| poke(at, 1));
    // The fourth page of each group.
    let parts: Vec<u64> = (0..GROUPS).map(|group| base + group * bytes + 3 * page()).collect();
    let protect = |at: u64, rights: i32| _ = call(SYS_mprotect, &[at, page(), rights as u64]).expect("rights");
    let cut = timed(&parts, |at| protect(at, PROT_READ));
    let again = timed(&parts, |at| protect(at, READ_WRITE));
    let whole = timed(&parts, |at| poke(at, 2));
    for &at in &parts {
        call(SYS_madvise, &[at, page(), MADV_DONTNEED as u64]).expect("it goes");
        assert_eq!(peek(at), 0);
        poke(at, 3);
    }
    in_child("a child", || parts.iter().for_each(|&at| poke(at, 4)));
    assert!(parts.iter().all(|&at| peek(at) == 3));
    let own = env::current_exe().expect("a name");
    let ended = Command::new(own).arg("again").status().expect("it runs");
    println!("another program: {:?}", ended.code());
    if std::process::id() == 1 {
        println!("cost: cut {cut}\ncost: again {again}\ncost: whole {whole}");
    }
}

/// Nanoseconds for each part.
fn timed(parts: &[u64], body: impl Fn(u64)) -> u64 {
    let start = Instant::now();
    parts.iter().for_each(|&at| body(at));
    start.elapsed().as_nanos() as u64 / GROUPS
}
