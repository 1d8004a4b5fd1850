//! Mapped memory, and lines about it.

use crate::errno::Answer;
use crate::machine::{call, page};

/// PROT_READ | PROT_WRITE.
pub const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;
/// MAP_PRIVATE | MAP_ANONYMOUS.
pub const ANONYMOUS: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;

/// `mmap`.
pub fn map(address: u64, bytes: u64, rights: i32, flags: i32, file: i32, offset: u64) -> Answer {
    call(libc::SYS_mmap, &[address, bytes, rights as u64, flags as u64, file as u64, offset])
}

/// So many pages of zeros of one's own, with as many free pages before and behind.
pub fn pages(count: u64) -> u64 {
    let bytes = count * page();
    let all = map(0, 3 * bytes, libc::PROT_NONE, ANONYMOUS | libc::MAP_NORESERVE, -1, 0).expect("room");
    call(libc::SYS_munmap, &[all, 3 * bytes]).expect("it goes");
    map(all + bytes, bytes, READ_WRITE, ANONYMOUS | libc::MAP_FIXED, -1, 0).expect("memory")
}

/// A file that has no name, of so many bytes that count up.
pub fn file(bytes: u64) -> i32 {
    let number = call(libc::SYS_memfd_create, &[c"file".as_ptr() as u64, 0]).expect("a file") as i32;
    let content: Vec<u8> = (0..bytes).map(|at| (at / page() + 1) as u8).collect();
    let mut done = 0;
    while done < content.len() {
        let rest = &content[done..];
        done +=
            call(libc::SYS_write, &[number as u64, rest.as_ptr() as u64, rest.len() as u64]).expect("room") as usize;
    }
    number
}

/// One line: what was asked, and what came of it.
pub fn tell(what: &str, answer: Answer) {
    match answer {
        Ok(value) => println!("{what}: {value}"),
        Err(error) => println!("{what}: {error}"),
    }
}

/// The same where the answer is an address, which is told as its distance from `base`.
pub fn tell_at(what: &str, answer: Answer, base: u64) {
    match answer {
        Ok(value) => println!("{what}: {}", distance(value, base)),
        Err(error) => println!("{what}: {error}"),
    }
}

/// An address as its distance in pages, and bytes beyond them, from another; what is far is told as that.
pub fn distance(address: u64, base: u64) -> String {
    let far = 1 << 30;
    let distance = address.wrapping_sub(base) as i64;
    let (pages, bytes) = (distance.div_euclid(page() as i64), distance.rem_euclid(page() as i64));
    match (distance.unsigned_abs() < far, bytes) {
        (true, 0) => format!("page {pages}"),
        (true, bytes) => format!("page {pages}, byte {bytes}"),
        (false, 0) => "elsewhere".into(),
        (false, bytes) => format!("elsewhere, byte {bytes}"),
    }
}

/// Which pages of a range are in memory, by `mincore`: a letter for each.
pub fn resident(start: u64, pages: u64) -> String {
    let mut found = vec![0u8; pages as usize];
    match call(libc::SYS_mincore, &[start, pages * page(), found.as_mut_ptr() as u64]) {
        Ok(_) => found.iter().map(|one| if one & 1 == 1 { 'x' } else { '.' }).collect(),
        Err(error) => error.to_string(),
    }
}

/// Faults of this process so far that took nothing from a disk.
pub fn minor_faults() -> u64 {
    let mut usage = [0u64; 18];
    call(libc::SYS_getrusage, &[libc::RUSAGE_SELF as u64, usage.as_mut_ptr() as u64]).expect("a usage");
    usage[8]
}
