//! Programs that have very much of something: areas, descriptors, bytes in pipes.

use libc::*;
use programs::memory::{ANONYMOUS, READ_WRITE};
use programs::{call, child, map, page, tell};
use std::fs::File;
use std::io::Read;

/// Areas: their `smaps` is some 9 MiB.
const AREAS: u64 = 12_000;

fn main() {
    println!("areas: {}", child(areas));
    println!("descriptors: {}", child(descriptors));
    println!("pipes: {}", child(pipes));
}

/// Bytes and lines of a text with a word in them; what comes in parts is put together.
fn count(path: &str, word: &str) -> usize {
    let (mut file, mut text, mut part) = (File::open(path).expect("a text"), String::new(), vec![0; 1 << 20]);
    let mut found = 0;
    loop {
        let bytes = file.read(&mut part).expect("it can be read");
        if bytes == 0 {
            return found;
        }
        text.push_str(std::str::from_utf8(&part[..bytes]).expect("text"));
        let end = text.rfind('\n').map_or(0, |end| end + 1);
        found += text[..end].lines().filter(|line| line.contains(word)).count();
        text.drain(..end);
    }
}

fn areas() -> i32 {
    let base = map(0, AREAS * page(), READ_WRITE, ANONYMOUS | MAP_NORESERVE, -1, 0).expect("room");
    for number in (0..AREAS).step_by(2) {
        call(SYS_mprotect, &[base + number * page(), page(), PROT_READ as u64]).expect("rights");
    }
    let is_there = |found: usize| (found as u64).abs_diff(AREAS) < 100;
    println!("  maps has them: {}", is_there(count("/proc/self/maps", "-")));
    println!("  smaps has them: {}", is_there(count("/proc/self/smaps", "VmFlags:")));
    println!("  the sum has one: {}", count("/proc/self/smaps_rollup", "[rollup]"));
    0
}

fn descriptors() -> i32 {
    const MOST: u64 = 1 << 20;
    let limits = [MOST, MOST];
    tell("  the limit", call(SYS_prlimit64, &[0, RLIMIT_NOFILE as u64, limits.as_ptr() as u64, 0]));
    println!("  the last: {}", call(SYS_dup3, &[1, MOST - 1, 0]) == Ok(MOST - 1));
    println!("  a child: {}", child(|| call(SYS_fcntl, &[MOST - 1, F_GETFD as u64]).map_or(1, |_| 0)));
    0
}

/// Full pipes.
fn pipes() -> i32 {
    let bytes = vec![7u8; 64 << 10];
    let mut written = 0;
    for _ in 0..200 {
        let mut ends = [0i32; 2];
        call(SYS_pipe2, &[ends.as_mut_ptr() as u64, O_NONBLOCK as u64]).expect("a pipe");
        written += call(SYS_write, &[ends[1] as u64, bytes.as_ptr() as u64, bytes.len() as u64]).expect("room");
    }
    println!("  written: {written}");
    0
}
