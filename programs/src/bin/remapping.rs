//! `mremap` in all its forms.

use libc::*;
use programs::memory::{READ_WRITE, file, pages, resident};
use programs::proc::tell_maps;
use programs::{Answer, call, faults, map, page, peek, poke, tell_at, touch};

const DONTUNMAP: i32 = 4;

fn remap(start: u64, old: u64, new: u64, flags: i32, to: u64) -> Answer {
    call(SYS_mremap, &[start, old, new, flags as u64, to])
}

fn main() {
    let page = page();
    refusals(page);
    sizes(page);
    moves(page);
    kept(page);
    of_files(page);
}

fn refusals(page: u64) {
    let base = pages(8);
    let at = |what: &str, answer: Answer| tell_at(what, answer, base);
    at("an odd address", remap(base + 1, page, page, 0, 0));
    at("no new bytes", remap(base, page, 0, 0, 0));
    at("no old bytes of what is private", remap(base, 0, page, MREMAP_MAYMOVE, 0));
    at("unknown flags", remap(base, page, page, 8, 0));
    at("fixed alone", remap(base, page, page, MREMAP_FIXED, base));
    at("kept alone", remap(base, page, page, DONTUNMAP, 0));
    at("kept, and another size", remap(base, page, 2 * page, DONTUNMAP | MREMAP_MAYMOVE, 0));
    at("to an odd address", remap(base, page, page, MREMAP_FIXED | MREMAP_MAYMOVE, base + 1));
    at("onto itself", remap(base, 2 * page, 2 * page, MREMAP_FIXED | MREMAP_MAYMOVE, base + page));
    at("above all", remap(base, page, page, MREMAP_FIXED | MREMAP_MAYMOVE, 1 << 52));
    at("too much", remap(base, page, 1 << 50, MREMAP_MAYMOVE, 0));
    at("what is not there", remap(base + 8 * page, page, 2 * page, MREMAP_MAYMOVE, 0));
    at("what is there in part, shrunk", remap(base + 7 * page, 2 * page, page, 0, 0));
    at("what is there in part, grown", remap(base + 7 * page, 2 * page, 3 * page, MREMAP_MAYMOVE, 0));
    at("all old bytes", remap(base, u64::MAX, page, MREMAP_MAYMOVE, 0));
    let kept = MREMAP_MAYMOVE | DONTUNMAP;
    at("kept, to an odd address", remap(base, page, page, kept, base + 9 * page + 1));
    at("kept, onto itself", remap(base, 2 * page, 2 * page, kept, base + page));
    at("kept, above all", remap(base, page, page, kept, 1 << 52));
    at("below 64 KiB", remap(base + 7 * page, page, page, MREMAP_FIXED | MREMAP_MAYMOVE, page));
    at("back", remap(page, page, page, MREMAP_FIXED | MREMAP_MAYMOVE, base + 7 * page));
}

fn sizes(page: u64) {
    let base = pages(8);
    touch(base, 8 * page, 4);
    tell_at("the same", remap(base, 8 * page, 8 * page, 0, 0), base);
    tell_at("less", remap(base, 8 * page, 4 * page, 0, 0), base);
    tell_at("more in place", remap(base, 4 * page, 6 * page, 0, 0), base);
    println!("there: {}", resident(base, 6));
    tell_at("more of a part in place", remap(base, 2 * page, 3 * page, 0, 0), base);
    let neighbour = map(base + 6 * page, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    tell_at("a neighbour", neighbour, base);
    tell_at("more where none is free", remap(base, 6 * page, 7 * page, 0, 0), base);
    let moved = remap(base, 6 * page, 7 * page, MREMAP_MAYMOVE, 0).expect("room");
    println!("moved: {}, {} {}", moved != base, peek(moved), peek(moved + 6 * page));
    tell_maps("the old place", base, base, base + 8 * page);
    faults("the old place", base, || poke(base, 1));
    tell_at("a byte more", remap(moved, 7 * page, 7 * page + 1, MREMAP_MAYMOVE, 0).map(|_| moved), moved);
}

fn moves(page: u64) {
    let (from, to) = (pages(8), pages(8));
    touch(from, 8 * page, 6);
    touch(to, 8 * page, 9);
    let fixed = MREMAP_FIXED | MREMAP_MAYMOVE;
    tell_at("a part onto another", remap(from + 2 * page, 3 * page, 3 * page, fixed, to + page), to);
    println!("{} {} {} {}", peek(to), peek(to + page), peek(to + 3 * page), peek(to + 4 * page));
    tell_maps("from", from, from - page, from + 9 * page);
    tell_maps("to", to, to - page, to + 9 * page);
    tell_at("moved and grown", remap(from, 2 * page, 4 * page, fixed, to + 4 * page), to);
    println!("{} {} {}", peek(to + 4 * page), peek(to + 5 * page), peek(to + 6 * page));
    let (from, to) = (pages(8), pages(8));
    touch(to, 8 * page, 9);
    tell_at("moved and shrunk", remap(to, 8 * page, 2 * page, fixed, from), from);
    println!("{} {}", peek(from), peek(from + page));
    tell_maps("from", from, from - page, from + 9 * page);
    tell_maps("to", to, to - page, to + 9 * page);
    // Areas of different rights do not move together.
    call(SYS_mprotect, &[from, page, PROT_READ as u64]).expect("rights");
    tell_at("two areas at once", remap(from, 2 * page, 2 * page, fixed, to), to);
    tell_at("two areas, grown", remap(from, 2 * page, 3 * page, MREMAP_MAYMOVE, 0), from);
}

fn kept(page: u64) {
    let base = pages(4);
    touch(base, 4 * page, 8);
    let moved = remap(base, 4 * page, 4 * page, DONTUNMAP | MREMAP_MAYMOVE, 0).expect("room");
    println!("moved: {}, content {}", moved != base, peek(moved + 3 * page));
    println!("kept: {}, content {}", resident(base, 4), peek(base));
    tell_maps("kept", base, base, base + 4 * page);
    let fixed = DONTUNMAP | MREMAP_FIXED | MREMAP_MAYMOVE;
    tell_at("kept, to a place", remap(moved, 2 * page, 2 * page, fixed, base), base);
    println!("{} {}", peek(base), peek(moved));
    let (from, to) = (pages(2), pages(6));
    call(SYS_munmap, &[to, 2 * page]).expect("it goes");
    poke(from, 12);
    tell_at("kept, near what is free", remap(from, page, page, DONTUNMAP | MREMAP_MAYMOVE, to), to);
    println!("content: {}", peek(to));
    let taken = remap(from, page, page, DONTUNMAP | MREMAP_MAYMOVE, to + 3 * page).expect("room");
    println!("kept, near what is taken: {}", if taken == to + 3 * page { "there" } else { "elsewhere" });
    let shared = map(0, page, READ_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0).expect("room");
    poke(shared, 11);
    match remap(shared, page, page, DONTUNMAP | MREMAP_MAYMOVE, 0) {
        Ok(other) => println!("shared, kept: {} {}", peek(shared), peek(other)),
        Err(error) => println!("shared, kept: {error}"),
    }
}

fn of_files(page: u64) {
    let number = file(8 * page);
    let base = pages(8);
    map(base, 2 * page, READ_WRITE, MAP_SHARED | MAP_FIXED, number, page).expect("room");
    call(SYS_munmap, &[base + 2 * page, 6 * page]).expect("it goes");
    tell_at("a file grown in place", remap(base, 2 * page, 4 * page, 0, 0), base);
    println!("{} {}", peek(base + 2 * page), peek(base + 3 * page));
    tell_maps("the file", base, base - page, base + 9 * page);
    // No old bytes of what is shared: a second mapping.
    let second = remap(base, 0, 3 * page, MREMAP_MAYMOVE, 0).expect("room");
    poke(second, 99);
    println!("a second mapping: {} {}", peek(base), peek(second + page));
    tell_at("behind the end of the file", remap(base, 4 * page, 8 * page, 0, 0), base);
    faults("behind the end of the file", base, || poke(base + 7 * page, 1));
}
