//! `memfd_secret`: memory that the kernel itself does not reach, and what such a file is not for.

use libc::*;
use programs::memory::{READ_WRITE, resident};
use programs::{Answer, call, child, faults, map, page, peek, poke, proc, tell, touch};

const PAGES: u64 = 4;

fn main() {
    let flags = [1u64, 2, O_CLOEXEC as u64 | 1, u64::from(u32::MAX)];
    flags.iter().for_each(|flags| tell(&format!("flags {flags:#x}"), secret(*flags).map(|_| 0)));
    let file = secret(0).expect("a file");
    tell("closed on exec", call(SYS_fcntl, &[file, F_GETFD as u64]));
    let closes = secret(O_CLOEXEC as u64).expect("a file");
    tell("closed on exec", call(SYS_fcntl, &[closes, F_GETFD as u64]));
    tell("opened to", call(SYS_fcntl, &[file, F_GETFL as u64]).map(|flags| flags & 3));
    tell("seals", call(SYS_fcntl, &[file, F_GET_SEALS as u64]));
    sizes(file);
    transfers(file);
    mappings(file);
    content(file);
    faults("beyond the end", 0, || {
        let short = secret(0).expect("a file");
        call(SYS_ftruncate, &[short, page()]).expect("a size");
        peek(shared(short, 2 * page(), READ_WRITE).expect("memory") + page())
    });
    for round in 0..3 {
        println!("round {round}: {}", child(rounds));
    }
}

fn secret(flags: u64) -> Answer {
    call(SYS_memfd_secret, &[flags])
}

fn shared(file: u64, bytes: u64, rights: i32) -> Answer {
    map(0, bytes, rights, MAP_SHARED, file as i32, 0)
}

fn sizes(file: u64) {
    let resize = |bytes: u64| call(SYS_ftruncate, &[file, bytes]);
    faults("without a size", 0, || peek(shared(file, page(), READ_WRITE).expect("memory")));
    tell("no size", resize(0));
    tell("less than none", resize(u64::MAX));
    tell("a size", resize(PAGES * page()));
    tell("the same", resize(PAGES * page()));
    tell("shorter", resize(page()));
    tell("none", resize(0));
    let mut status = [0u8; 128];
    call(SYS_fstat, &[file, status.as_mut_ptr() as u64]).expect("it tells");
    let half = |at: usize| u32::from_le_bytes([status[at], status[at + 1], status[at + 2], status[at + 3]]);
    println!("mode {:o}, pages {}", half(16), u64::from(half(48)) / page());
}

fn transfers(file: u64) {
    let mut byte = 0u8;
    let place = &raw mut byte as u64;
    tell("read", call(SYS_read, &[file, place, 1]));
    tell("write", call(SYS_write, &[file, place, 1]));
    tell("pread", call(SYS_pread64, &[file, place, 1, 0]));
    tell("pwrite", call(SYS_pwrite64, &[file, place, 1, 0]));
    tell("seek", call(SYS_lseek, &[file, 0, SEEK_END as u64]));
    tell("room", call(SYS_fallocate, &[file, 0, 0, page()]));
}

/// Of `smaps`: what is there, what is locked, and what an area is.
fn tell_rows(start: u64) {
    let is_told = |line: &&String| ["Rss:", "Locked:", "VmFlags:"].iter().any(|name| line.starts_with(name));
    proc::smaps(start).iter().filter(is_told).for_each(|line| println!("  {line}"));
}

fn mappings(file: u64) {
    let bytes = PAGES * page();
    tell("private", map(0, bytes, READ_WRITE, MAP_PRIVATE, file as i32, 0));
    tell("private, executed", map(0, bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE, file as i32, 0));
    tell("executed", shared(file, bytes, PROT_READ | PROT_EXEC));
    let start = shared(file, bytes, READ_WRITE).expect("memory");
    tell("executed later", call(SYS_mprotect, &[start, bytes, (PROT_READ | PROT_EXEC) as u64]));
    let advise = |advice: i32| call(SYS_madvise, &[start, bytes, advice as u64]);
    tell("not needed", advise(MADV_DONTNEED));
    tell("dumped", advise(MADV_DODUMP));
    tell_rows(start);
    tell("not dumped", advise(MADV_DONTDUMP));
    println!("resident: {}", resident(start, PAGES));
    poke(start + page(), 1);
    println!("resident: {}", resident(start, PAGES));
    tell("populated", advise(22));
    tell("populated to be written", advise(23));
    tell("locked", call(SYS_mlock, &[start, bytes]));
    tell_rows(start);
    println!("resident: {}", resident(start, PAGES));
    tell("unlocked", call(SYS_munlock, &[start, bytes]));
    tell("is gone", call(SYS_munmap, &[start, bytes]));
    let start = map(0, bytes, READ_WRITE, MAP_SHARED | MAP_POPULATE | MAP_LOCKED, file as i32, 0).expect("memory");
    tell_rows(start);
    tell("is gone", call(SYS_munmap, &[start, bytes]));
}

/// What is written is there for all who map it, and calls read and write it.
fn content(file: u64) {
    let bytes = PAGES * page();
    let [one, other] = [0, 1].map(|_| shared(file, bytes, READ_WRITE).expect("memory"));
    println!("kept without a mapping: {}", peek(one + page()));
    touch(one, bytes, 7);
    println!("elsewhere: {}", peek(other + 3 * page()));
    println!(
        "a child: {}",
        child(|| {
            poke(one, 9);
            i32::from(peek(other))
        })
    );
    println!("by a child: {}", peek(one));
    call(SYS_mprotect, &[other, bytes, PROT_READ as u64]).expect("rights");
    faults("read alone", other, || poke(other, 1));
    let mut ends = [0i32; 2];
    call(SYS_pipe2, &[ends.as_mut_ptr() as u64, 0]).expect("a pipe");
    tell("out of it", call(SYS_write, &[ends[1] as u64, one, 16]));
    tell("into it", call(SYS_read, &[ends[0] as u64, one + page(), 16]));
    println!("came: {}", peek(one + page()));
    proc::tell_maps("maps", one, one, one + bytes);
    tell_rows(one);
    [one, other].iter().for_each(|start| call(SYS_munmap, &[*start, bytes]).map(drop).expect("it goes"));
}

/// Files that come and go: each page is zero at first.
fn rounds() -> i32 {
    let mut found = 0;
    for _ in 0..16 {
        let file = secret(0).expect("a file");
        call(SYS_ftruncate, &[file, PAGES * page()]).expect("a size");
        let start = shared(file, PAGES * page(), READ_WRITE).expect("memory");
        call(SYS_close, &[file]).expect("it closes");
        found += (start..start + PAGES * page()).step_by(64).filter(|at| peek(*at) != 0).count();
        touch(start, PAGES * page(), 0xa5);
        if found % 2 == 0 {
            call(SYS_munmap, &[start, PAGES * page()]).expect("it goes");
        }
    }
    found as i32
}
