//! `mprotect`: rights, split and joined areas, and what is refused.

use libc::*;
use programs::machine::execute;
use programs::memory::{ANONYMOUS, READ_WRITE, file, pages};
use programs::proc::tell_maps;
use programs::{call, faults, map, page, peek, poke, tell, touch};

fn protect(start: u64, bytes: u64, rights: i32) -> programs::Answer {
    call(SYS_mprotect, &[start, bytes, rights as u64])
}

fn main() {
    let page = page();
    let base = pages(16);
    touch(base, 16 * page, 5);
    refusals(base, page);
    tell("read-only", protect(base + 2 * page, 4 * page, PROT_READ));
    tell("none", protect(base + 4 * page, page, PROT_NONE));
    tell("execute-only", protect(base + 8 * page, page, PROT_EXEC));
    tell("write-only", protect(base + 9 * page, page, PROT_WRITE));
    tell("everything", protect(base + 10 * page, page, READ_WRITE | PROT_EXEC));
    tell_maps("areas", base, base - page, base + 17 * page);
    faults("write what is read-only", base, || poke(base + 3 * page + 9, 1));
    faults("read what is read-only", base, || peek(base + 3 * page));
    faults("read what has no rights", base, || peek(base + 4 * page));
    faults("write what has no rights", base, || poke(base + 4 * page, 0));
    faults("read what is execute-only", base, || peek(base + 8 * page));
    faults("write what is execute-only", base, || poke(base + 8 * page, 0));
    faults("read what is write-only", base, || peek(base + 9 * page));
    faults("write what is write-only", base, || poke(base + 9 * page, 0));
    faults("execute what is not to be executed", base, || execute(base));
    faults("execute what is not mapped", base, || execute(base + 16 * page));
    faults("execute at an odd address", base, || execute(base + 10 * page + 2));
    tell("back", protect(base, 16 * page, READ_WRITE));
    tell_maps("one area again", base, base - page, base + 17 * page);
    println!("content: {} {} {}", peek(base + 3 * page), peek(base + 4 * page), peek(base + 8 * page));
    code(page);
    file_rights(page);
    faults("after rights came back", base, || poke(base + 4 * page, 1));
}

fn refusals(base: u64, page: u64) {
    tell("an odd address", protect(base + 1, page, PROT_READ));
    tell("no bytes", protect(base, 0, PROT_READ));
    tell("no bytes of nothing", protect(base + 20 * page, 0, PROT_READ));
    tell("unknown rights", protect(base, page, 0x40));
    tell("other unknown rights", protect(base, page, 0x1000));
    tell("BTI", protect(base, page, READ_WRITE | 0x10));
    tell("no BTI", protect(base, page, READ_WRITE));
    tell("unknown rights of no bytes", protect(base, 0, 0x1000));
    tell("unknown rights of all bytes", protect(base, u64::MAX, 0x1000));
    tell("MTE, which the machine lacks", protect(base, page, READ_WRITE | 0x20));
    tell("grows down at an odd address", protect(base + 1, page, READ_WRITE | PROT_GROWSDOWN));
    tell("grows down, nothing is there", protect(base + 17 * page, page, READ_WRITE | PROT_GROWSDOWN));
    tell("grows up, no bytes", protect(base, 0, READ_WRITE | PROT_GROWSUP));
    tell("grows up, nothing is there", protect(base + 17 * page, page, READ_WRITE | PROT_GROWSUP));
    tell("grows both ways, no bytes", protect(base, 0, READ_WRITE | PROT_GROWSUP | PROT_GROWSDOWN));
    tell("grows down", protect(base, page, READ_WRITE | PROT_GROWSDOWN));
    tell("grows up", protect(base, page, READ_WRITE | PROT_GROWSUP));
    tell("grows both ways", protect(base, page, READ_WRITE | PROT_GROWSDOWN | PROT_GROWSUP));
    tell("nothing is there", protect(base + 17 * page, page, PROT_READ));
    tell("above all", protect(1 << 52, page, PROT_READ));
    tell("all bytes", protect(base, u64::MAX, PROT_READ));
    tell("round the end", protect(base, 0u64.wrapping_sub(base), PROT_READ));
    // What lies before the hole changes all the same.
    tell("over the end", protect(base + 15 * page, 2 * page, PROT_READ));
    tell_maps("after an error", base, base - page, base + 17 * page);
    tell("undone", protect(base + 15 * page, page, READ_WRITE));
}

/// Instructions that the program writes.
fn code(page: u64) {
    const RETURNS: [(u8, [u32; 2]); 2] = [(1, [0xd280_0020, 0xd65f_03c0]), (2, [0xd280_0040, 0xd65f_03c0])];
    for (value, words) in RETURNS {
        let base = pages(1);
        tell("to be written", protect(base, page, READ_WRITE));
        let bytes = words.iter().flat_map(|word| word.to_le_bytes());
        bytes.enumerate().for_each(|(at, byte)| poke(base + at as u64, byte));
        tell("to be executed", protect(base, page, PROT_READ | PROT_EXEC));
        println!("it returns {}, expected {value}", execute(base));
    }
}

/// What a file was opened for bounds what a shared mapping of it may be.
fn file_rights(page: u64) {
    let number = file(2 * page);
    let path = format!("/proc/self/fd/{number}\0");
    let read_only = call(SYS_openat, &[AT_FDCWD as u64, path.as_ptr() as u64, O_RDONLY as u64, 0]);
    let Ok(read_only) = read_only else { return tell("open again", read_only) };
    let shared = map(0, page, PROT_READ, MAP_SHARED, read_only as i32, 0).expect("room");
    tell("shared, open for reading, to be written", protect(shared, page, READ_WRITE));
    let private = map(0, page, PROT_READ, MAP_PRIVATE, read_only as i32, 0).expect("room");
    tell("private, open for reading, to be written", protect(private, page, READ_WRITE));
    poke(private, 77);
    println!("its own: {}, the file's: {}", peek(private), peek(shared));
    let zeros = map(0, page, PROT_READ, ANONYMOUS, -1, 0).expect("room");
    println!("zeros: {}", peek(zeros));
    tell("zeros to be written", protect(zeros, page, READ_WRITE));
    poke(zeros, 1);
    println!("written: {}", peek(zeros));
}
