//! Locks of files: of ranges for a process (F_SETLK) and an open file (F_OFD_SETLK), and of whole files (`flock`).

use libc::*;
use programs::child::wait;
use programs::machine::{exit, fork, handle};
use programs::proc::asleep;
use programs::{Answer, call, child, in_child, tell};
use std::ffi::CStr;

/// `struct flock`: kind and origin, start, length, process.
type Lock = [u64; 4];

fn lock(kind: i32, start: i64, bytes: i64) -> Lock {
    [kind as u64 | (SEEK_SET as u64) << 16, start as u64, bytes as u64, 0]
}

fn open(path: &CStr, flags: i32) -> u64 {
    call(SYS_openat, &[AT_FDCWD as u64, path.as_ptr() as u64, flags as u64, 0o644]).expect("it opens")
}

fn ask(file: u64, command: i32, lock: &mut Lock) -> Answer {
    call(SYS_fcntl, &[file, command as u64, lock.as_mut_ptr() as u64])
}

fn set(file: u64, kind: i32, start: i64, bytes: i64) -> Answer {
    ask(file, F_SETLK, &mut lock(kind, start, bytes))
}

/// What keeps another process from a lock.
fn tell_other(what: &str, file: u64, command: i32, kind: i32, start: i64, bytes: i64) {
    let mut wanted = lock(kind, start, bytes);
    match ask(file, command, &mut wanted) {
        Err(error) => println!("{what}: {error}"),
        Ok(_) if wanted[0] & 0xffff == F_UNLCK as u64 => println!("{what}: nothing"),
        Ok(_) => {
            let owner = match wanted[3] as i32 {
                -1 => "no process",
                number if Ok(number as u64) == call(SYS_getppid, &[]) => "its parent",
                _ => "another",
            };
            println!("{what}: {} from {} on, {} bytes, of {owner}", wanted[0] & 0xffff, wanted[1], wanted[2]);
        }
    }
}

fn main() {
    let file = open(c"file", O_RDWR | O_CREAT);
    call(SYS_ftruncate, &[file, 100]).expect("room");
    ranges(file);
    refused(file);
    waiting(file);
    of_open_files(file);
    whole_files(file);
}

fn ranges(file: u64) {
    tell("a lock", set(file, F_WRLCK, 10, 10));
    tell("its own does not hinder", set(file, F_WRLCK, 5, 10));
    in_child("another process", || {
        tell_other("within", file, F_GETLK, F_RDLCK, 12, 1);
        tell_other("before", file, F_GETLK, F_WRLCK, 0, 5);
        tell_other("behind", file, F_GETLK, F_WRLCK, 20, 0);
        tell_other("all", file, F_GETLK, F_WRLCK, 0, 0);
        tell("refused", set(file, F_RDLCK, 19, 1));
        tell("had", set(file, F_RDLCK, 20, 1));
    });
    tell("a part is let go", set(file, F_UNLCK, 8, 2));
    tell("a part is shared", set(file, F_RDLCK, 12, 2));
    in_child("three parts", || {
        tell_other("first", file, F_GETLK, F_RDLCK, 0, 0);
        tell_other("second", file, F_GETLK, F_WRLCK, 8, 3);
        tell_other("third", file, F_GETLK, F_WRLCK, 12, 1);
        tell_other("fourth", file, F_GETLK, F_RDLCK, 14, 100);
        tell("shared by two", set(file, F_RDLCK, 12, 2));
    });
    tell("one again", set(file, F_WRLCK, 8, 6));
    tell("backwards", set(file, F_WRLCK, 30, -5));
    tell("to the end", set(file, F_WRLCK, 40, 0));
    in_child("merged", || {
        tell_other("one", file, F_GETLK, F_WRLCK, 0, 22);
        tell_other("backwards", file, F_GETLK, F_WRLCK, 22, 5);
        tell_other("to the end", file, F_GETLK, F_WRLCK, 1 << 40, 1);
    });
    let second = open(c"file", O_RDONLY);
    call(SYS_close, &[second]).expect("it closes");
    in_child("any descriptor closes", || tell_other("all", file, F_GETLK, F_WRLCK, 0, 0));
    set(file, F_WRLCK, 0, 0).expect("a lock");
    let second = call(SYS_dup, &[file]).expect("a number");
    call(SYS_dup3, &[1, second, 0]).expect("another in its place");
    in_child("another takes its place", || tell_other("all", file, F_GETLK, F_WRLCK, 0, 0));
    call(SYS_close, &[second]).expect("it closes");
    println!("ends with one: {}", child(|| i32::from(set(file, F_WRLCK, 0, 0).is_err())));
    in_child("it is gone", || tell_other("all", file, F_GETLK, F_WRLCK, 0, 0));
}

fn refused(file: u64) {
    let read_only = open(c"file", O_RDONLY);
    let write_only = open(c"file", O_WRONLY);
    tell("exclusive, read-only", set(read_only, F_WRLCK, 0, 1));
    tell("shared, write-only", set(write_only, F_RDLCK, 0, 1));
    tell("let go, read-only", set(read_only, F_UNLCK, 0, 1));
    tell("no such kind", set(file, 3, 0, 1));
    tell("none asked for", ask(file, F_GETLK, &mut lock(F_UNLCK, 0, 1)));
    tell("no such origin", ask(file, F_SETLK, &mut [F_WRLCK as u64 | 9 << 16, 0, 1, 0]));
    tell("before the start", set(file, F_WRLCK, -1, 1));
    tell("backwards beyond it", set(file, F_WRLCK, 3, -4));
    tell("too far", set(file, F_WRLCK, 1 << 62, i64::MAX));
    tell("nowhere", call(SYS_fcntl, &[file, F_SETLK as u64, 8]));
    tell("no file", set(99, F_WRLCK, 0, 1));
    tell("from the end", ask(file, F_SETLK, &mut [F_WRLCK as u64 | (SEEK_END as u64) << 16, -10i64 as u64, 5, 0]));
    in_child("from the end", || tell_other("all", file, F_GETLK, F_WRLCK, 0, 0));
    call(SYS_close, &[read_only]).expect("it closes");
    call(SYS_close, &[write_only]).expect("it closes");
}

extern "C" fn nothing(_: i32, _: &siginfo_t, _: *mut c_void) {}

fn waiting(file: u64) {
    set(file, F_WRLCK, 0, 1).expect("a lock");
    let other = match fork() {
        None => {
            let had = ask(file, F_SETLKW, &mut lock(F_WRLCK, 0, 1));
            tell("it waited", had);
            exit(0)
        }
        Some(number) => number,
    };
    asleep(&other.to_string());
    set(file, F_UNLCK, 0, 1).expect("it goes");
    wait(other);
    set(file, F_WRLCK, 0, 1).expect("a lock");
    let interrupted = match fork() {
        None => {
            handle(SIGUSR1, nothing, 0).expect("a handler");
            tell("interrupted", ask(file, F_SETLKW, &mut lock(F_WRLCK, 0, 1)));
            exit(0)
        }
        Some(number) => number,
    };
    asleep(&interrupted.to_string());
    call(SYS_kill, &[interrupted as u64, SIGUSR1 as u64]).expect("a signal");
    wait(interrupted);
    // Each waits for the other.
    let circle = match fork() {
        None => {
            set(file, F_WRLCK, 1, 1).expect("a lock");
            let had = ask(file, F_SETLKW, &mut lock(F_WRLCK, 0, 1));
            exit(i32::from(had.is_err()))
        }
        Some(number) => number,
    };
    asleep(&circle.to_string());
    tell("a circle", ask(file, F_SETLKW, &mut lock(F_WRLCK, 1, 1)));
    set(file, F_UNLCK, 0, 1).expect("it goes");
    println!("the other goes on: {}", wait(circle));
}

fn of_open_files(file: u64) {
    const SET: i32 = 37;
    const GET: i32 = 36;
    let other = open(c"file", O_RDWR);
    tell("an open file's", ask(file, SET, &mut lock(F_WRLCK, 0, 10)));
    tell("of another", ask(other, SET, &mut lock(F_WRLCK, 0, 10)));
    tell_other("in the way", other, GET, F_WRLCK, 5, 1);
    tell("a process in it", ask(file, SET, &mut [F_WRLCK as u64, 0, 1, 7]));
    in_child("a child shares it", || {
        tell("again", ask(file, SET, &mut lock(F_WRLCK, 0, 10)));
        tell("a process' own", set(file, F_WRLCK, 0, 10));
    });
    let copy = call(SYS_dup, &[file]).expect("a number");
    call(SYS_close, &[copy]).expect("it closes");
    tell("still had", ask(other, SET, &mut lock(F_WRLCK, 0, 10)));
    tell("let go", ask(file, SET, &mut lock(F_UNLCK, 0, 0)));
    tell("the other's turn", ask(other, SET, &mut lock(F_WRLCK, 0, 10)));
    call(SYS_close, &[other]).expect("it closes");
    tell("closed", ask(file, SET, &mut lock(F_WRLCK, 0, 10)));
    tell("let go", ask(file, SET, &mut lock(F_UNLCK, 0, 0)));
}

fn whole_files(file: u64) {
    let flock = |file: u64, how: i32| call(SYS_flock, &[file, how as u64]);
    let other = open(c"file", O_RDONLY);
    tell("exclusive", flock(file, LOCK_EX));
    tell("of another", flock(other, LOCK_SH | LOCK_NB));
    tell("shared now", flock(file, LOCK_SH));
    tell("of another", flock(other, LOCK_SH | LOCK_NB));
    tell("alone again", flock(file, LOCK_EX | LOCK_NB));
    // What it had it has lost by that.
    tell("the other alone", flock(other, LOCK_EX | LOCK_NB));
    tell("let go", flock(other, LOCK_UN));
    tell("ranges apart", set(file, F_WRLCK, 0, 0));
    tell("alone", flock(other, LOCK_EX));
    in_child("shared with a child", || tell("again", flock(other, LOCK_EX | LOCK_NB)));
    call(SYS_close, &[other]).expect("it closes");
    tell("closed", flock(file, LOCK_EX | LOCK_NB));
    tell("no such kind", flock(file, 0));
    tell("no file", flock(99, LOCK_EX));
    let path = open(c"file", O_PATH);
    tell("a path", flock(path, LOCK_EX));
    tell("a path's ranges", set(path, F_WRLCK, 0, 1));
}
