//! Two calls at once on a pipe, and calls that may not wait: every byte goes one way, once, and in order.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::*;
use programs::memory::pages;
use programs::{Answer, call, race, rounds, tell, tell_race};

/// Bytes in a pipe that has room for these with every page size.
const BYTES: usize = 48 << 10;
const PART: usize = BYTES / 2;

fn main() {
    readers();
    splices();
    writers();
    waits_for_nothing();
}

fn pipe(flags: i32) -> [u64; 2] {
    let mut ends = [0i32; 2];
    call(SYS_pipe2, &[ends.as_mut_ptr() as u64, flags as u64]).expect("a pipe");
    ends.map(|end| end as u64)
}

fn close(number: u64) {
    call(SYS_close, &[number]).expect("it is open");
}

fn read(from: u64, bytes: &mut [u8]) -> Answer {
    call(SYS_read, &[from, bytes.as_mut_ptr() as u64, bytes.len() as u64])
}

/// Numbers that count up, four bytes each.
fn numbers() -> Vec<u8> {
    (0..BYTES as u32 / 4).flat_map(u32::to_le_bytes).collect()
}

/// Whether each of two parts counts up without a gap, and both together are all numbers.
fn are_all(mut parts: Vec<Vec<u8>>) -> bool {
    parts.sort_by_key(|part| part.first_chunk().map(|first| u32::from_le_bytes(*first)));
    parts.concat() == numbers()
}

/// What one reader gets is in one piece.
fn readers() {
    let (from, parts) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let take = || {
        let mut part = vec![0; PART];
        let count = read(from.load(Ordering::SeqCst), &mut part)?;
        part.truncate(count as usize);
        parts.lock().expect("whole").push(part);
        Ok(count)
    };
    let prepare = || {
        let [end, to] = pipe(0);
        call(SYS_write, &[to, numbers().as_ptr() as u64, BYTES as u64]).expect("room");
        close(to);
        from.store(end, Ordering::SeqCst);
    };
    let wrong = race(2 * rounds(), prepare, [&take, &take], |answers| {
        close(from.load(Ordering::SeqCst));
        let parts = std::mem::take(&mut *parts.lock().expect("whole"));
        answers == [Ok(PART as u64); 2] && are_all(parts)
    });
    tell_race("two readers", wrong);
}

/// What goes to files or other pipes goes to one of them.
fn splices() {
    let ends = [const { AtomicU64::new(0) }; 3];
    let [from, first, second] = &ends;
    let splice = |to: &AtomicU64| {
        let mut done = 0;
        while done < PART as u64 {
            let rest = PART as u64 - done;
            let arguments =
                [from.load(Ordering::SeqCst), 0, to.load(Ordering::SeqCst), 0, rest, SPLICE_F_NONBLOCK.into()];
            match call(SYS_splice, &arguments)? {
                0 => break,
                count => done += count,
            }
        }
        Ok(done)
    };
    let fill = || {
        let [end, to] = pipe(0);
        call(SYS_write, &[to, numbers().as_ptr() as u64, BYTES as u64]).expect("room");
        close(to);
        from.store(end, Ordering::SeqCst);
    };
    let file = || call(SYS_memfd_create, &[c"spliced".as_ptr() as u64, 0]).expect("a file");
    let prepare = || {
        fill();
        [first, second].iter().for_each(|number| number.store(file(), Ordering::SeqCst));
    };
    let wrong = race(rounds(), prepare, [&|| splice(first), &|| splice(second)], |answers| {
        let mut words = Vec::new();
        for number in [first, second].map(|number| number.load(Ordering::SeqCst)) {
            let mut part = vec![0; BYTES];
            let count = call(SYS_pread64, &[number, part.as_mut_ptr() as u64, BYTES as u64, 0]).expect("it is read");
            words.extend(part[..count as usize].chunks_exact(4).map(<[u8]>::to_vec));
            close(number);
        }
        close(from.load(Ordering::SeqCst));
        words.sort_by_key(|word| word.first_chunk().map(|word| u32::from_le_bytes(*word)));
        answers == [Ok(PART as u64); 2] && words.concat() == numbers()
    });
    tell_race("two that splice to files", wrong);
}

/// What is written comes out, be it by several at once.
fn writers() {
    const RECORD: usize = 4096;
    let [from, to] = pipe(0);
    let write = |letter: u8| {
        let record = [letter; RECORD];
        call(SYS_write, &[to, record.as_ptr() as u64, RECORD as u64])
    };
    let take = || {
        let (mut all, mut done) = (vec![0; 2 * RECORD], 0);
        while done < all.len() {
            done += read(from, &mut all[done..])? as usize;
        }
        let is_whole = all.chunks(RECORD).all(|record| record.iter().all(|byte| *byte == record[0]));
        Ok(u64::from(is_whole && all[0] != all[RECORD]))
    };
    let wrong = race(
        2 * rounds(),
        || (),
        [&|| write(b'a'), &|| write(b'b'), &take],
        |answers| answers == [Ok(RECORD as u64), Ok(RECORD as u64), Ok(1)],
    );
    tell_race("two writers and a reader", wrong);
}

/// SPLICE_F_NONBLOCK: neither a full pipe nor an empty one is waited for.
fn waits_for_nothing() {
    let (memory, bytes) = (pages(64), 64 * programs::page());
    let list = [[memory, bytes]];
    let ([from, to], [empty, empty_to]) = (pipe(0), pipe(0));
    let file = call(SYS_memfd_create, &[c"spliced".as_ptr() as u64, 0]).expect("a file");
    call(SYS_ftruncate, &[file, bytes]).expect("a length");
    let now = u64::from(SPLICE_F_NONBLOCK);
    let vmsplice = |end: u64| call(SYS_vmsplice, &[end, list.as_ptr() as u64, 1, now]);
    let splice = |from: u64, to: u64| call(SYS_splice, &[from, 0, to, 0, bytes, now]);
    let tee = |from: u64, to: u64| call(SYS_tee, &[from, to, bytes, now]);
    println!("it fills: {}", vmsplice(to).is_ok_and(|count| count > 0));
    tell("vmsplice to a full pipe", vmsplice(to));
    tell("splice of a file to a full pipe", splice(file, to));
    tell("splice of an empty pipe to a file", splice(empty, file));
    tell("splice of an empty pipe to a full one", splice(empty, to));
    tell("tee of an empty pipe", tee(empty, to));
    tell("vmsplice from an empty pipe", vmsplice(empty));
    call(SYS_write, &[empty_to, c"x".as_ptr() as u64, 1]).expect("room");
    tell("splice to a full pipe", splice(empty, to));
    tell("tee to a full pipe", tee(empty, to));
    tell("what is left", read(empty, &mut [0; 16]));
    let _ = from;
}
