//! Buffers in lists (`readv`, `writev`), the numbers of pipes, and what a process that waits is said to do.

use libc::*;
use programs::child::{ended, wait};
use programs::machine::{exit, fork};
use programs::memory::pages;
use programs::{Answer, call, page, tell};
use std::fs;

fn main() {
    reads();
    refused();
    whole();
    numbers();
    states();
}

fn pipe(flags: i32) -> Result<[u64; 2], programs::Errno> {
    let mut ends = [0i32; 2];
    call(SYS_pipe2, &[ends.as_mut_ptr() as u64, flags as u64]).map(|_| ends.map(|end| end as u64))
}

fn with_list(number: c_long, file: u64, list: &[[u64; 2]]) -> Answer {
    call(number, &[file, list.as_ptr() as u64, list.len() as u64])
}

/// What a pipe has is given, though a buffer is left.
fn reads() {
    let ([from, to], mut bytes) = (pipe(0).expect("a pipe"), [0u8; 16]);
    let at = bytes.as_mut_ptr() as u64;
    call(SYS_write, &[to, c"four".as_ptr() as u64, 4]).expect("room");
    tell("a full buffer and an empty pipe", with_list(SYS_readv, from, &[[at, 4], [at + 4, 4]]));
    call(SYS_write, &[to, c"sixsix".as_ptr() as u64, 6]).expect("room");
    tell("a buffer and a half", with_list(SYS_readv, from, &[[at, 4], [at + 4, 4]]));
    println!("read: {}", String::from_utf8_lossy(&bytes[..6]));
}

/// A list that is refused has done nothing.
fn refused() {
    let [from, to] = pipe(O_NONBLOCK).expect("a pipe");
    let file = call(SYS_memfd_create, &[c"list".as_ptr() as u64, 0]).expect("a file");
    let text = c"text".as_ptr() as u64;
    let end = pages(2) + page();
    call(SYS_mprotect, &[end, page(), PROT_NONE as u64]).expect("rights");
    for (what, number) in [("a file", file), ("a pipe", to)] {
        println!("{what}:");
        tell("  a length below 0", with_list(SYS_writev, number, &[[text, 4], [text, u64::MAX]]));
        let words = [text, 4].map(u64::to_ne_bytes).concat();
        words.iter().zip(end - 16..).for_each(|(byte, at)| programs::poke(at, *byte));
        tell("  a list that ends amid", call(SYS_writev, &[number, end - 16, 2]));
    }
    tell("the file has", call(SYS_lseek, &[file, 0, SEEK_END as u64]));
    tell("the pipe has", call(SYS_read, &[from, end - 16, 16]));
}

/// What few buffers write to a pipe stays together.
fn whole() {
    const ROUNDS: usize = 2000;
    let [from, to] = pipe(0).expect("a pipe");
    let writers = [b'a', b'b'].map(|letter| {
        fork().unwrap_or_else(|| {
            let (most, last) = ([letter; 20], [letter, b'\n']);
            let list = [[most.as_ptr() as u64, 20], [last.as_ptr() as u64, 2]];
            exit(i32::from((0..ROUNDS).any(|_| with_list(SYS_writev, to, &list) != Ok(22))))
        })
    });
    call(SYS_close, &[to]).expect("it was open");
    let (mut text, mut part) = (Vec::new(), [0u8; 4096]);
    loop {
        let bytes = call(SYS_read, &[from, part.as_mut_ptr() as u64, 4096]).expect("it can be read");
        if bytes == 0 {
            break;
        }
        text.extend(&part[..bytes as usize]);
    }
    let is_whole = |line: &&[u8]| line.len() == 21 && line.iter().all(|byte| *byte == line[0]);
    println!("whole lines: {}", text.split(|byte| *byte == b'\n').filter(is_whole).count());
    println!("writers: {:?}", writers.map(|number| ended(wait(number))));
}

/// A pipe for which there is one number has none.
fn numbers() {
    tell("a folder's flag", pipe(O_DIRECTORY).map(|_| 0));
    let next = call(SYS_dup, &[1]).expect("a number");
    call(SYS_close, &[next]).expect("it was open");
    let limits = [next + 1, 1024];
    call(SYS_prlimit64, &[0, RLIMIT_NOFILE as u64, limits.as_ptr() as u64, 0]).expect("a limit");
    tell("one number", pipe(0).map(|_| 0));
    println!("the number is free: {}", call(SYS_dup, &[1]) == Ok(next));
    call(SYS_close, &[next]).expect("it was open");
}

fn states() {
    let long = [10u64, 0];
    let number = fork().unwrap_or_else(|| {
        let _ = call(SYS_nanosleep, &[long.as_ptr() as u64, 0]);
        exit(0)
    });
    let short = [0u64, 5_000_000];
    let state = |process: &str| {
        let text = fs::read_to_string(format!("/proc/{process}/stat")).expect("stat");
        text.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next())
    };
    let mut looks = 0;
    while state(&number.to_string()) == Some('R') && looks < 400 {
        call(SYS_nanosleep, &[short.as_ptr() as u64, 0]).expect("it sleeps");
        looks += 1;
    }
    println!("one that sleeps: {:?}, itself: {:?}", state(&number.to_string()), state("self"));
    call(SYS_kill, &[number as u64, SIGKILL as u64]).expect("it is sent");
    println!("{}", ended(wait(number)));
}
