//! `mmap`: where, what for, and what is refused.

use libc::*;
use programs::memory::{ANONYMOUS, READ_WRITE, file, pages, resident};
use programs::proc::tell_maps;
use programs::{call, map, page, peek, poke, tell, tell_at};

fn main() {
    let page = page();
    anywhere(page);
    fixed(page);
    flags(page);
    files(page);
    hints(page);
}

fn anywhere(page: u64) {
    let zero = |bytes: u64, flags: i32| map(0, bytes, READ_WRITE, flags, -1, 0);
    tell_at("no bytes", zero(0, ANONYMOUS), 0);
    tell_at("all bytes", zero(u64::MAX, ANONYMOUS), 0);
    tell_at("all bytes but a page", zero(u64::MAX - page, ANONYMOUS), 0);
    tell_at("half of all", zero(1 << 63, ANONYMOUS), 0);
    tell_at("more than there are addresses", zero(1 << 49, ANONYMOUS), 0);
    tell_at("no type", zero(page, MAP_ANONYMOUS), 0);
    tell_at("both types", zero(page, MAP_ANONYMOUS | MAP_SHARED | MAP_PRIVATE), 0);
    tell_at("an unknown type", zero(page, MAP_ANONYMOUS | 4), 0);
    tell_at("type 15", zero(page, MAP_ANONYMOUS | 15), 0);
    tell_at("one byte", zero(1, ANONYMOUS), 0);
    tell_at("no rights", map(0, page, PROT_NONE, ANONYMOUS, -1, 0), 0);
    tell_at("unknown rights", map(0, page, 0x1000, ANONYMOUS, -1, 0), 0);
    tell_at("an odd offset of zeros", map(0, page, READ_WRITE, ANONYMOUS, -1, 1), 0);
    tell_at("an offset of zeros", map(0, page, READ_WRITE, ANONYMOUS, -1, page), 0);
    tell_at("a file that is not there, and no bytes", map(0, 0, READ_WRITE, MAP_PRIVATE, -1, 0), 0);
    tell_at("a file that is not there, and no type", map(0, page, READ_WRITE, 0, -1, 0), 0);
    let write_only = call(SYS_openat, &[AT_FDCWD as u64, c"w".as_ptr() as u64, (O_CREAT | O_WRONLY) as u64, 0o644]);
    let write_only = write_only.expect("a file") as i32;
    tell_at("a file that is not readable, and no bytes", map(0, 0, READ_WRITE, MAP_PRIVATE, write_only, 0), 0);
    tell_at("a file that is not readable, and no type", map(0, page, READ_WRITE, 0, write_only, 0), 0);
}

fn fixed(page: u64) {
    let base = pages(8);
    let at = |offset: u64, bytes: u64, flags: i32| map(base + offset, bytes, READ_WRITE, ANONYMOUS | flags, -1, 0);
    poke(base + page, 7);
    tell_at("fixed in the middle", at(page, page, MAP_FIXED), base);
    println!("what was there: {}", peek(base + page));
    tell_at("fixed at an odd address", at(1, page, MAP_FIXED), base);
    tell_at("not replacing what is there", at(2 * page, page, MAP_FIXED_NOREPLACE), base);
    tell_at("not replacing, over the end", at(7 * page, 2 * page, MAP_FIXED_NOREPLACE), base);
    tell_at("not replacing, behind the end", at(8 * page, page, MAP_FIXED_NOREPLACE), base);
    tell_at("not replacing, at an odd address", at(9 * page + 1, page, MAP_FIXED_NOREPLACE), base);
    tell_at("fixed and not replacing", at(3 * page, page, MAP_FIXED | MAP_FIXED_NOREPLACE), base);
    tell_at("fixed above all", map(1 << 52, page, READ_WRITE, ANONYMOUS | MAP_FIXED, -1, 0), base);
    tell_at("fixed over the top", map((1 << 48) - page, 2 * page, READ_WRITE, ANONYMOUS | MAP_FIXED, -1, 0), base);
    tell_at("fixed at the kernel's", map(u64::MAX << 48, page, READ_WRITE, ANONYMOUS | MAP_FIXED, -1, 0), base);
    tell_at("fixed at 64 KiB", map(0x10000, page, READ_WRITE, ANONYMOUS | MAP_FIXED, -1, 0), 0x10000);
    tell_maps("what is there", base, base - page, base + 12 * page);
    for address in [0, page, 0x8000 & !(page - 1)] {
        let low = |flags: i32| map(address, page, READ_WRITE, ANONYMOUS | flags, -1, 0);
        tell_at("fixed below 64 KiB", low(MAP_FIXED), address);
        tell_at("not replacing below 64 KiB", low(MAP_FIXED_NOREPLACE), address);
    }
    poke(page, 3);
    println!("what is there: {}", peek(page));
    tell("nothing below 64 KiB again", call(SYS_munmap, &[0, 0x10000]));
}

fn flags(page: u64) {
    let with = |flags: i32| map(0, 4 * page, READ_WRITE, ANONYMOUS | flags, -1, 0);
    let there = |what: &str, flags: i32| match with(flags) {
        Ok(start) => println!("{what}: {}", resident(start, 4)),
        Err(error) => println!("{what}: {error}"),
    };
    there("plain", 0);
    there("populated", MAP_POPULATE);
    there("not blocking", MAP_NONBLOCK);
    there("populated, not blocking", MAP_POPULATE | MAP_NONBLOCK);
    there("locked", MAP_LOCKED);
    there("no reserve", MAP_NORESERVE);
    there("a stack", MAP_STACK);
    there("grows down", MAP_GROWSDOWN);
    there("deny write, executable", MAP_DENYWRITE | MAP_EXECUTABLE);
    there("an unknown flag", 0x0800_0000);
    there("huge pages, of which there are none", MAP_HUGETLB);
    there("huge pages of an unknown size", MAP_HUGETLB | 13 << MAP_HUGE_SHIFT);
    there("a size of huge pages alone", 21 << MAP_HUGE_SHIFT);
    let shared = |flags: i32| map(0, page, READ_WRITE, flags, -1, 0);
    tell_at("shared zeros", shared(MAP_SHARED | MAP_ANONYMOUS), 0);
    tell_at("shared zeros, validated", shared(MAP_SHARED_VALIDATE | MAP_ANONYMOUS), 0);
    tell_at("validated, an unknown flag", shared(MAP_SHARED_VALIDATE | MAP_ANONYMOUS | 0x0800_0000), 0);
    tell_at("validated, grows down", shared(MAP_SHARED_VALIDATE | MAP_ANONYMOUS | MAP_GROWSDOWN), 0);
    tell_at("shared, grows down", shared(MAP_SHARED | MAP_ANONYMOUS | MAP_GROWSDOWN), 0);
    let none = map(0, 4 * page, PROT_NONE, ANONYMOUS | MAP_POPULATE, -1, 0).expect("room");
    println!("no rights, populated: {}", resident(none, 4));
    let read = map(0, 4 * page, PROT_READ, ANONYMOUS | MAP_POPULATE, -1, 0).expect("room");
    println!("read-only, populated: {}", resident(read, 4));
}

fn files(page: u64) {
    let with = |what: &str, file: i32, rights: i32, flags: i32, offset: u64| {
        tell_at(what, map(0, page, rights, flags, file, offset), 0);
    };
    with("no file", -1, READ_WRITE, MAP_PRIVATE, 0);
    with("file 99", 99, READ_WRITE, MAP_PRIVATE, 0);
    with("file 99, an odd offset", 99, READ_WRITE, MAP_PRIVATE, 1);
    let number = file(3 * page + 5);
    with("private", number, READ_WRITE, MAP_PRIVATE, 0);
    with("shared", number, READ_WRITE, MAP_SHARED, page);
    with("an odd offset", number, READ_WRITE, MAP_PRIVATE, page / 2);
    with("behind the end", number, READ_WRITE, MAP_SHARED, 100 * page);
    with("an offset that is too large", number, READ_WRITE, MAP_SHARED, 0u64.wrapping_sub(page));
    with("an offset of half of all", number, READ_WRITE, MAP_SHARED, 1 << 63);
    with("grows down", number, READ_WRITE, MAP_PRIVATE | MAP_GROWSDOWN, 0);
    with("validated, synchronous", number, READ_WRITE, MAP_SHARED_VALIDATE | MAP_SYNC, 0);
    let open = |path: &std::ffi::CStr, flags: i32| {
        call(SYS_openat, &[AT_FDCWD as u64, path.as_ptr() as u64, flags as u64, 0o644]).expect("it opens") as i32
    };
    let path = c"/tmp/mapped";
    let write_only = open(path, O_CREAT | O_WRONLY);
    with("open for writing, private", write_only, PROT_READ, MAP_PRIVATE, 0);
    with("open for writing, shared", write_only, PROT_WRITE, MAP_SHARED, 0);
    let read_only = open(path, O_RDONLY);
    with("open for reading, private, written", read_only, READ_WRITE, MAP_PRIVATE, 0);
    with("open for reading, shared, written", read_only, READ_WRITE, MAP_SHARED, 0);
    with("open for reading, shared, read", read_only, PROT_READ, MAP_SHARED, 0);
    with("a folder", open(c"/tmp", O_RDONLY | O_DIRECTORY), PROT_READ, MAP_PRIVATE, 0);
    with("a path", open(c"/tmp", O_PATH), PROT_READ, MAP_PRIVATE, 0);
    with("zero, private", open(c"/dev/zero", O_RDWR), READ_WRITE, MAP_PRIVATE, 0);
    with("zero, shared", open(c"/dev/zero", O_RDWR), READ_WRITE, MAP_SHARED, 0);
    with("null", open(c"/dev/null", O_RDWR), READ_WRITE, MAP_PRIVATE, 0);
    let mut ends = [0i32; 2];
    tell("pipe", call(SYS_pipe2, &[ends.as_mut_ptr() as u64, 0]));
    with("a pipe", ends[0], PROT_READ, MAP_PRIVATE, 0);
    let start = map(0, 4 * page, READ_WRITE, MAP_PRIVATE, number, 0).expect("room");
    println!("content: {} {} {}", peek(start), peek(start + page), peek(start + 3 * page));
    println!("behind the last byte: {} {}", peek(start + 3 * page + 4), peek(start + 3 * page + 5));
}

/// An address that is only wished for.
fn hints(page: u64) {
    let base = pages(4);
    let near = |address: u64, bytes: u64| map(address, bytes, READ_WRITE, ANONYMOUS, -1, 0);
    tell_at("near what is free", near(base + 4 * page, page), base);
    let taken = near(base, page).expect("room");
    println!("near what is taken: {}", if taken == base { "there" } else { "elsewhere" });
    tell_at("near an odd address", near(base + 5 * page + 7, page), base);
    let low = near(1, page).expect("room");
    println!("near 1: {}", if low < 0x20000 { "low" } else { "high" });
    let high = near(1 << 60, page).expect("room");
    println!("near what is above all: {}", if high < 1 << 48 { "elsewhere" } else { "there" });
    call(SYS_munmap, &[base, 4 * page]).expect("it goes");
}
