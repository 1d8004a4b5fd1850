//! Sizes, offsets and lists at the bounds of all numbers. A line holds the answers for one bound after the other, and names a bound only
//! where the answer changes.

use libc::*;
use programs::bounds::{PAGES, done, numbers, places, sweep, write_word};
use programs::memory::{file, pages};
use programs::{call, in_child, page};

fn main() {
    let base = pages(PAGES);
    in_child("files", || files(base));
    in_child("lists", || lists(base));
    in_child("locks", || locks(base));
}

/// Sizes and offsets of files.
fn files(base: u64) {
    let number = file(4 * page()) as u64;
    let bounds = numbers();
    for (what, which) in [("read", SYS_read), ("write", SYS_write)] {
        sweep(&format!("{what} of so many"), &bounds, |bytes| {
            call(SYS_lseek, &[number, 0, 0]).expect("a file");
            done(call(which, &[number, base, bytes]))
        });
        sweep(&format!("{what} at so high an address"), &places(base), |at| {
            call(SYS_lseek, &[number, 0, 0]).expect("a file");
            Some(call(which, &[number, at, 8]))
        });
    }
    for (name, bytes) in
        bounds.iter().filter(|(name, _)| ["0", "1", "P", "2^31", "2^63-P", "-P", "-1"].contains(&name.as_str()))
    {
        sweep(&format!("pread64 of {name} from"), &bounds, |at| Some(call(SYS_pread64, &[number, base, *bytes, at])));
    }
    sweep("pwrite64 of none at", &bounds, |at| Some(call(SYS_pwrite64, &[number, base, 0, at])));
    // Of the very last page, Linux's SEEK_DATA and SEEK_HOLE say what is negative.
    let is_last = |at: u64| at == (1 << 63) - page();
    sweep("pwrite64 at", &bounds, |at| (!is_last(at)).then(|| call(SYS_pwrite64, &[number, base, 8, at])));
    for whence in 0..6 {
        sweep(&format!("lseek {whence}"), &bounds, |at| {
            call(SYS_lseek, &[number, 8, 0]).expect("a file");
            Some(call(SYS_lseek, &[number, at, whence]))
        });
        call(SYS_lseek, &[number, i64::MAX as u64, 0]).err();
        sweep(&format!("lseek {whence} from the largest"), &bounds, |at| done(call(SYS_lseek, &[number, at, whence])));
    }
    sweep("read from the largest offset", &bounds, |bytes| {
        call(SYS_lseek, &[number, i64::MAX as u64, 0]).err();
        done(call(SYS_read, &[number, base, bytes]))
    });
    sweep("ftruncate", &bounds, |bytes| Some(call(SYS_ftruncate, &[number, bytes])));
    call(SYS_ftruncate, &[number, 4 * page()]).expect("a file");
    for (name, at) in &bounds {
        sweep(&format!("fallocate from {name}"), &bounds, |bytes| {
            let is_large = at.checked_add(bytes).is_some_and(|end| end > 1 << 22 && end < 1 << 63);
            (!is_large).then(|| call(SYS_fallocate, &[number, 0, *at, bytes]))
        });
        sweep(&format!("holes from {name}"), &bounds, |bytes| Some(call(SYS_fallocate, &[number, 3, *at, bytes])));
        sweep(&format!("fadvise64 from {name}"), &bounds, |bytes| Some(call(SYS_fadvise64, &[number, *at, bytes, 3])));
    }
    let (other, at) = (file(0) as u64, base + 8);
    sweep("sent from an offset", &bounds, |offset| {
        write_word(at, offset);
        Some(call(SYS_sendfile, &[other, number, at, 8]))
    });
    sweep("so many bytes sent", &bounds, |bytes| {
        write_word(at, 0);
        call(SYS_lseek, &[other, 0, 0]).expect("a file");
        done(call(SYS_sendfile, &[other, number, at, bytes]))
    });
    pieces(base, number, other);
    sweep("descriptors", &bounds, |number| done(call(SYS_fcntl, &[number, F_GETFD as u64])));
    sweep("seals", &bounds, |seals| Some(call(SYS_fcntl, &[number, F_ADD_SEALS as u64, seals])));
    sweep("a descriptor from", &bounds, |least| done(call(SYS_fcntl, &[number, F_DUPFD as u64, least])));
}

/// Places that parts of files are moved to, and files that may not be so long.
fn pieces(base: u64, number: u64, other: u64) {
    let (bounds, at) = (numbers(), base + 8);
    call(SYS_pipe2, &[base, O_NONBLOCK as u64]).expect("a pipe");
    let ends = [0, 4].map(|at| u64::from(programs::peek(base + at)));
    sweep("spliced from an offset", &bounds, |offset| {
        write_word(at, offset);
        let answer = call(SYS_splice, &[number, at, ends[1], 0, 8, SPLICE_F_NONBLOCK as u64]);
        let _ = call(SYS_read, &[ends[0], base + 64, 64]);
        Some(answer)
    });
    sweep("spliced to an offset", &bounds, |offset| {
        write_word(at, offset);
        call(SYS_write, &[ends[1], base, 8]).expect("room");
        let answer = call(SYS_splice, &[ends[0], 0, other, at, 8, SPLICE_F_NONBLOCK as u64]);
        let _ = call(SYS_read, &[ends[0], base + 64, 64]);
        Some(answer)
    });
    call(SYS_ftruncate, &[other, 4 * page()]).expect("a file");
    in_child("files that may not be so long", || limited(base, other));
}

/// RLIMIT_FSIZE: what is as long already stays so.
fn limited(base: u64, other: u64) {
    programs::machine::dispose(SIGXFSZ, SIG_IGN).expect("ignored");
    let page = page();
    let tell = |what: &str, answer| programs::tell(&format!("limited, {what}"), answer);
    call(SYS_ftruncate, &[other, 4 * page]).expect("a file");
    for bytes in [0, 2 * page, 8 * page, u64::MAX >> 1] {
        call(SYS_prlimit64, &[0, RLIMIT_FSIZE as u64, [bytes, u64::MAX].as_ptr() as u64, 0]).expect("a limit");
        for (name, bound) in [("4P-1", 4 * page - 1), ("4P", 4 * page), ("4P+1", 4 * page + 1), ("9P", 9 * page)] {
            tell(&format!("{name} by ftruncate"), call(SYS_ftruncate, &[other, bound]));
            tell(&format!("{name} by fallocate"), call(SYS_fallocate, &[other, 0, 0, bound]));
            tell(&format!("{name} kept by fallocate"), call(SYS_fallocate, &[other, 1, 0, bound]));
            tell(&format!("{name} by pwrite64"), call(SYS_pwrite64, &[other, base, 8, bound - 4]));
            call(SYS_ftruncate, &[other, 4 * page - 1]).expect("shorter");
        }
    }
}

/// Lists of buffers, of words and of files.
fn lists(base: u64) {
    let number = file(4 * page()) as u64;
    let (bounds, list) = (numbers(), base + page());
    for (what, which) in [("readv", SYS_readv), ("writev", SYS_writev)] {
        let once = |first: [u64; 2], second: [u64; 2]| {
            [first[0], first[1], second[0], second[1]]
                .iter()
                .zip((list..).step_by(8))
                .for_each(|(word, at)| write_word(at, *word));
            call(SYS_lseek, &[number, 0, 0]).expect("a file");
            call(which, &[number, list, 2])
        };
        sweep(&format!("{what}, the first size"), &bounds, |bytes| done(once([base, bytes], [base, 8])));
        sweep(&format!("{what}, the second size"), &bounds, |bytes| done(once([base, 8], [base, bytes])));
        sweep(&format!("{what}, the first address"), &places(base), |at| done(once([at, 8], [base, 8])));
        sweep(&format!("{what}, the second address"), &places(base), |at| done(once([base, 8], [at, 8])));
        sweep(&format!("{what}, the list"), &numbers(), |at| done(call(which, &[number, at, 2])));
        sweep(&format!("{what}, so many"), &bounds, |count| {
            (0..PAGES * page() / 2 / 8).for_each(|word| write_word(base + 8 * page() + 8 * word, 0));
            done(call(which, &[number, base + 8 * page(), count]))
        });
    }
    let zero = base + 2 * page();
    (0..4).for_each(|word| write_word(zero + 8 * word, 0));
    sweep("ppoll, the list", &numbers(), |at| done(call(SYS_ppoll, &[at, 1, zero, 0, 0])));
    sweep("ppoll, so many", &bounds, |count| done(call(SYS_ppoll, &[base + 8 * page(), count, zero, 0, 0])));
    sweep("pselect6, a set", &numbers(), |at| done(call(SYS_pselect6, &[64, at, 0, 0, zero, 0])));
    sweep("pselect6, the time", &numbers(), |at| (at != 0).then(|| done(call(SYS_pselect6, &[0, 0, 0, 0, at, 0])))?);
    let pipes = base + 3 * page();
    call(SYS_pipe2, &[pipes, O_NONBLOCK as u64]).expect("a pipe");
    let ends: [u64; 2] = [0, 4].map(|at| u64::from(programs::peek(pipes + at)));
    sweep("a pipe's room", &bounds, |room| done(call(SYS_fcntl, &[ends[0], F_SETPIPE_SZ as u64, room])));
    sweep("into a pipe", &bounds, |bytes| done(call(SYS_write, &[ends[1], base, bytes])));
    sweep("out of a pipe", &bounds, |bytes| done(call(SYS_read, &[ends[0], base, bytes])));
    sweep("spliced into a pipe", &bounds, |bytes| {
        // On Linux what is spliced takes a page of the pipe, however little it is.
        let _ = call(SYS_read, &[ends[0], base, PAGES * page()]);
        done(call(SYS_splice, &[number, 0, ends[1], 0, bytes, 2]))
    });
}

/// Locks of parts of files.
fn locks(base: u64) {
    let (number, bounds) = (file(page()) as u64, numbers());
    for whence in 0..3 {
        for (name, start) in &bounds {
            sweep(&format!("a lock of {whence} from {name}"), &bounds, |bytes| {
                write_word(base, whence << 16 | 1);
                [*start, bytes, 0].iter().zip((base + 8..).step_by(8)).for_each(|(word, at)| write_word(at, *word));
                done(call(SYS_fcntl, &[number, F_SETLK as u64, base]))
            });
        }
    }
}
