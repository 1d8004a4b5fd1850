//! Blocks of anonymous memory: when a write fills one, what `smaps` and `mincore` say of it, what becomes of it when a part changes, and
//! the settings below `/sys/kernel/mm/transparent_hugepage`.

use std::fs;

use libc::*;
use programs::memory::{ANONYMOUS, READ_WRITE, resident};
use programs::proc::smaps;
use programs::{call, in_child, map, page, peek, poke, tell};

const SETTINGS: &str = "/sys/kernel/mm/transparent_hugepage";

fn main() {
    let block = setting("hpage_pmd_size").trim().parse().expect("bytes");
    println!("a block: {block}; {}", setting("enabled").trim());
    filled(block);
    changed(block);
    forked(block);
    zeros(block);
    settings(block);
}

fn setting(name: &str) -> String {
    fs::read_to_string(format!("{SETTINGS}/{name}")).unwrap_or_else(|error| error.to_string())
}

/// Two blocks of memory, aligned.
fn blocks(block: u64) -> u64 {
    let all = map(0, 4 * block, PROT_NONE, ANONYMOUS | MAP_NORESERVE, -1, 0).expect("room");
    let base = all.next_multiple_of(block);
    map(base, 2 * block, READ_WRITE, ANONYMOUS | MAP_FIXED, -1, 0).expect("memory")
}

/// What is resident there, and in blocks, and whether there may be any.
fn tell_area(what: &str, start: u64) {
    let rows = smaps(start);
    let row = |name: &str| rows.iter().find(|row| row.starts_with(name)).map(|row| row.split_whitespace().nth(1));
    println!("{what}: {:?}", ["Rss:", "AnonHugePages:", "THPeligible:"].map(|name| row(name).flatten()));
}

fn filled(block: u64) {
    let base = blocks(block);
    tell_area("nothing touched", base);
    poke(base + 5 * page(), 1);
    tell_area("a page written", base);
    println!("beside it: {}, behind it: {}", resident(base, 8), resident(base + block, 8));
    poke(base + 2 * block - 1, 2);
    tell_area("all", base);
    println!("{:?} {:?} {:?}", peek(base + 5 * page()), peek(base), peek(base + 2 * block - 1));
    let base = blocks(block);
    tell("not here", call(SYS_madvise, &[base, 2 * block, MADV_NOHUGEPAGE as u64]));
    poke(base, 1);
    tell_area("where it was not wanted", base);
    let base = blocks(block);
    poke(base + block - page(), 1);
    tell("half of it is free", call(SYS_munmap, &[base, block / 2]));
    tell_area("half of one", base + block / 2);
    poke(base + block / 2, 3);
    println!("{:?} {:?}", peek(base + block - page()), peek(base + block / 2));
}

/// Blocks that are read before they are written.
fn zeros(block: u64) {
    println!("zeros: {}", setting("use_zero_page").trim());
    let base = blocks(block);
    println!("{:?}", peek(base + 3 * page()));
    println!("its end: {}, behind it: {}", resident(base + block - 8 * page(), 8), resident(base + block, 8));
    tell_area("a page read", base);
    // Linux 7.3 has a block there then, as we do, and 6.1 a page: not told.
    poke(base + 5 * page(), 1);
    println!("{:?} {:?} {:?}", peek(base), peek(base + 5 * page()), peek(base + block - 1));
    // A part of the other goes, a part may not be written, a part moves.
    let base = base + block;
    println!("{:?}", peek(base));
    tell("a part of zeros", call(SYS_munmap, &[base + block / 2, block / 4]));
    tell("read alone", call(SYS_mprotect, &[base, 2 * page(), PROT_READ as u64]));
    println!("read: {} {}", resident(base, 8), resident(base + block / 2 - 8 * page(), 8));
    in_child("a child", || {
        println!("its zeros: {:?} {:?}", peek(base), peek(base + block - 1));
        poke(base + block - 1, 3);
        println!("its own: {:?}", peek(base + block - 1));
    });
    poke(base + block - 1, 4);
    println!("{:?} {:?}", peek(base), peek(base + block - 1));
    let base = blocks(block);
    println!("{:?}", peek(base + block));
    let to = base + block - 3 * page();
    let moved = [base + block + page(), 2 * page(), 2 * page(), MREMAP_MAYMOVE as u64 | MREMAP_FIXED as u64, to];
    println!("moved: {}", call(SYS_mremap, &moved) == Ok(to));
    println!("{:?} {:?} {}", peek(to), peek(base + block + 3 * page()), resident(to, 2));
    tell_area("after that", base + block + 3 * page());
}

fn changed(block: u64) {
    let base = blocks(block);
    (0..block / page()).for_each(|number| poke(base + number * page(), number as u8));
    let part = (base + 3 * page(), 2 * page());
    tell("read alone", call(SYS_mprotect, &[part.0, part.1, PROT_READ as u64]));
    tell_area("before it", base);
    tell_area("the part", part.0);
    tell("written again", call(SYS_mprotect, &[part.0, part.1, READ_WRITE as u64]));
    let is_same = |number: &u64| peek(base + number * page()) == *number as u8;
    println!("as written: {}", (0..block / page()).filter(is_same).count());
    tell("zeros", call(SYS_madvise, &[part.0, part.1, MADV_DONTNEED as u64]));
    println!("as written: {}", (0..block / page()).filter(is_same).count());
    println!("resident: {}", resident(base, 8));
    tell_area("after that", base);
    let moved = call(
        SYS_mremap,
        &[base + block / 2, block / 2, block / 2, MREMAP_MAYMOVE as u64 | MREMAP_FIXED as u64, base + block],
    );
    println!("moved: {}", moved == Ok(base + block));
    println!("there: {:?}", [0, 1, 7].map(|number| peek(base + block + number * page())));
}

fn forked(block: u64) {
    let base = blocks(block);
    poke(base, 1);
    in_child("a child", || {
        tell_area("shared", base);
        poke(base, 2);
        println!("its own: {:?}", peek(base));
    });
    poke(base, 3);
    println!("the parent's: {:?}", peek(base));
}

fn settings(block: u64) {
    let before = setting("enabled");
    for word in ["never", "madvise", "always\n", "sometimes", "", "[never]"] {
        let answer = fs::write(format!("{SETTINGS}/enabled"), word).map_err(|error| error.kind());
        println!("{word:?}: {answer:?}, {}", setting("enabled").trim());
    }
    for word in ["never", "madvise"] {
        println!("{word}: {:?}", fs::write(format!("{SETTINGS}/enabled"), word));
        let base = blocks(block);
        poke(base, 1);
        tell_area("not advised", base);
        tell("advised", call(SYS_madvise, &[base + block, block, MADV_HUGEPAGE as u64]));
        poke(base + block, 1);
        tell_area("advised", base + block);
    }
    let size = fs::write(format!("{SETTINGS}/hpage_pmd_size"), "1").map_err(|error| error.kind());
    println!("the size of a block: {}", size.is_err() || setting("hpage_pmd_size").trim() == block.to_string());
    let word = before.split(['[', ']']).nth(1).expect("a choice");
    println!("as before: {:?} {}", fs::write(format!("{SETTINGS}/enabled"), word), setting("enabled") == before);
}
