//! Bytes that go from file to file: `sendfile`, `copy_file_range`, `splice`, `tee`; and how much a pipe holds.

use libc::*;
use programs::{Answer, call, child, page, tell};
use std::ffi::CStr;

const NONBLOCK: u64 = 2;
const SET_ROOM: u64 = 1031;
const GET_ROOM: u64 = 1032;

fn open(path: &CStr, flags: i32) -> u64 {
    call(SYS_openat, &[AT_FDCWD as u64, path.as_ptr() as u64, flags as u64, 0o644]).expect("it opens")
}

fn pipe() -> [u64; 2] {
    let mut ends = [0u32; 2];
    call(SYS_pipe2, &[ends.as_mut_ptr() as u64, 0]).expect("a pipe");
    ends.map(u64::from)
}

fn write(file: u64, bytes: &[u8]) {
    call(SYS_write, &[file, bytes.as_ptr() as u64, bytes.len() as u64]).expect("room");
}

/// Reads what there is.
fn tell_read(what: &str, file: u64) {
    let mut bytes = [0u8; 64];
    match call(SYS_read, &[file, bytes.as_mut_ptr() as u64, 64]) {
        Ok(count) => println!("{what}: {:?}", String::from_utf8_lossy(&bytes[..count as usize])),
        Err(error) => println!("{what}: {error}"),
    }
}

fn stands(file: u64) -> Answer {
    call(SYS_lseek, &[file, 0, SEEK_CUR as u64])
}

/// Files of a kind each, open as well.
struct Files {
    from: u64,
    to: u64,
    appended: u64,
    read_only: u64,
    write_only: u64,
    zeros: u64,
    nothing: u64,
    folder: u64,
    pipe: [u64; 2],
    other: [u64; 2],
}

fn main() {
    let files = Files {
        from: open(c"from", O_RDWR | O_CREAT),
        to: open(c"to", O_RDWR | O_CREAT),
        appended: open(c"to", O_RDWR | O_APPEND),
        read_only: open(c"to", O_RDONLY),
        write_only: open(c"from", O_WRONLY),
        zeros: open(c"/dev/zero", O_RDWR),
        nothing: open(c"/dev/null", O_RDWR),
        folder: open(c".", O_RDONLY),
        pipe: pipe(),
        other: pipe(),
    };
    write(files.from, b"hello world");
    sent(&files);
    copied(&files);
    spliced(&files);
    doubled(&files);
    rooms(&files);
    flagged(&files);
}

fn sent(files: &Files) {
    let send = |to: u64, from: u64, place: u64, bytes: u64| call(SYS_sendfile, &[to, from, place, bytes]);
    let mut place = 3i64;
    let at = |place: &mut i64| &raw mut *place as u64;
    tell("from 3 on", send(files.to, files.from, at(&mut place), 100));
    println!("then at {place}");
    tell("one stands at", stands(files.to));
    tell("the other at", stands(files.from));
    tell("from the end on", send(files.to, files.from, 0, 5));
    call(SYS_lseek, &[files.from, 2, 0]).expect("a place");
    tell("from where it stands", send(files.to, files.from, 0, 5));
    tell("then at", stands(files.from));
    tell("to what is appended to", send(files.appended, files.from, 0, 1));
    tell("to what is read", send(files.read_only, files.from, 0, 1));
    tell("from what is written", send(files.to, files.write_only, 0, 1));
    tell("from a pipe", send(files.to, files.pipe[0], 0, 1));
    tell("from before the start", send(files.pipe[1], files.from, at(&mut -1), 1));
    tell("to a pipe", send(files.pipe[1], files.from, at(&mut 0), 4));
    tell_read("in the pipe", files.pipe[0]);
    tell("from zeros", send(files.to, files.zeros, 0, 4));
    tell("to nothing", send(files.nothing, files.from, at(&mut 0), 4));
    tell("from a folder", send(files.to, files.folder, 0, 4));
    tell("nowhere", send(files.to, files.from, u64::MAX, 4));
    tell("too much", send(files.to, files.from, 0, u64::MAX));
    tell("no file", send(99, files.from, 0, 1));
    tell("from behind the end", send(files.to, files.from, at(&mut 100), 4));
}

fn copied(files: &Files) {
    let copy = |from: u64, at: i64, to: u64, to_at: i64, bytes: u64, flags: u64| {
        let (mut at, mut to_at) = (at, to_at);
        let places = [&raw mut at as u64, &raw mut to_at as u64];
        let answer = call(SYS_copy_file_range, &[from, places[0], to, places[1], bytes, flags]);
        answer.map(|done| done * 10000 + at as u64 * 100 + to_at as u64)
    };
    call(SYS_ftruncate, &[files.to, 0]).expect("it is short");
    let here = |from: u64, to: u64| call(SYS_copy_file_range, &[from, 0, to, 0, 5, 0]);
    tell("copied", copy(files.from, 0, files.to, 0, 5, 0));
    tell("the rest", copy(files.from, 5, files.to, 5, 50, 0));
    tell("a flag", copy(files.from, 0, files.to, 0, 5, 1));
    tell("to what is appended to", here(files.from, files.appended));
    tell("to what is read", here(files.from, files.read_only));
    tell("from what is written", here(files.write_only, files.to));
    tell("from a folder", here(files.folder, files.to));
    tell("from a pipe", here(files.pipe[0], files.to));
    tell("to a pipe", here(files.from, files.pipe[1]));
    tell("into itself", copy(files.from, 0, files.from, 2, 5, 0));
    tell("beside itself", copy(files.from, 0, files.from, 6, 5, 0));
    tell("from zeros", here(files.zeros, files.to));
    tell("nothing", copy(files.from, 0, files.to, 0, 0, 0));
    tell("too far", copy(files.from, 0, files.to, i64::MAX, 5, 0));
}

fn spliced(files: &Files) {
    let splice = |from: u64, at: u64, to: u64, to_at: u64, bytes: u64, flags: u64| {
        call(SYS_splice, &[from, at, to, to_at, bytes, flags])
    };
    let plain = |from: u64, to: u64, bytes: u64| splice(from, 0, to, 0, bytes, 0);
    let mut place = 0i64;
    let at = &raw mut place as u64;
    let (source, target) = (files.pipe[0], files.pipe[1]);
    tell("into a pipe", splice(files.from, at, target, 0, 5, 0));
    tell("out of it", plain(source, files.to, 3));
    tell("as much as there is", splice(source, 0, files.nothing, 0, 3, NONBLOCK));
    tell("nothing there", splice(source, 0, files.to, 0, 3, NONBLOCK));
    tell("into itself", plain(source, target, 3));
    tell("nothing for another pipe", splice(source, 0, files.other[1], 0, 3, NONBLOCK));
    tell("no pipe", plain(files.from, files.to, 3));
    tell("no bytes", splice(files.from, 0, target, 0, 0, 99));
    tell("a flag", splice(files.from, 0, target, 0, 1, 99));
    tell("from a place in a pipe", splice(source, at, files.to, 0, 1, 0));
    tell("to a place in a pipe", splice(files.from, 0, target, at, 1, 0));
    tell("from where one writes", plain(target, files.to, 1));
    tell("to where one reads", plain(files.from, source, 1));
    tell("no file", plain(99, target, 1));
    tell("to what is appended to", plain(source, files.appended, 1));
    tell("to what is read", plain(source, files.read_only, 1));
    tell("from what is written", plain(files.write_only, target, 1));
    tell("from zeros", plain(files.zeros, target, 10));
    tell("from a folder", plain(files.folder, target, 10));
}

fn doubled(files: &Files) {
    let tee = |from: u64, to: u64, bytes: u64, flags: u64| call(SYS_tee, &[from, to, bytes, flags]);
    let (source, other) = (files.pipe[0], files.other[1]);
    write(files.pipe[1], b"abcdef");
    tell("four", tee(source, other, 4, 0));
    tell("all", tee(source, other, 100, 0));
    tell("into itself", tee(source, files.pipe[1], 4, 0));
    tell("from a file", tee(files.from, files.pipe[1], 4, 0));
    tell("from where one writes", tee(files.pipe[1], other, 4, 0));
    tell("to where one reads", tee(source, files.other[0], 4, 0));
    tell("none", tee(source, other, 0, 0));
    tell("a flag", tee(source, other, 1, 99));
    tell("moved", call(SYS_splice, &[source, 0, other, 0, 3, 0]));
    tell_read("in one", files.other[0]);
    tell_read("in the other", source);
    tell("nothing there", tee(source, other, 1, NONBLOCK));
}

fn rooms(files: &Files) {
    let target = files.pipe[1];
    let pages = |answer: Answer| answer.map(|bytes| bytes / page());
    tell("pages of a pipe", pages(call(SYS_fcntl, &[target, GET_ROOM])));
    tell("little", pages(call(SYS_fcntl, &[target, SET_ROOM, 1])));
    tell("more than a page", pages(call(SYS_fcntl, &[target, SET_ROOM, page() + 1])));
    write(target, &vec![7; page() as usize + 1]);
    tell("less than is there", pages(call(SYS_fcntl, &[target, SET_ROOM, page()])));
    tell("much", pages(call(SYS_fcntl, &[target, SET_ROOM, 3 * page() + 1])));
    println!(
        "as much as that: {}",
        child(|| {
            let more = vec![7; 3 * page() as usize - 1];
            write(target, &more);
            0
        })
    );
    tell("without bound", call(SYS_fcntl, &[target, SET_ROOM, u64::MAX]));
    tell("of a file", call(SYS_fcntl, &[files.from, GET_ROOM]));
}

fn flagged(files: &Files) {
    let mut bytes = [0u8; 3];
    let buffers = [bytes.as_mut_ptr() as u64, 3];
    let list = buffers.as_ptr() as u64;
    let read = |at: i64, flags: u64| call(SYS_preadv2, &[files.from, list, 1, at as u64, 0, flags]);
    let written = |at: i64, flags: u64| call(SYS_pwritev2, &[files.to, list, 1, at as u64, 0, flags]);
    tell("read at 0", read(0, 0));
    call(SYS_lseek, &[files.from, 9, 0]).expect("a place");
    tell("where it stands", read(-1, 0));
    tell("it moves", stands(files.from));
    tell("at once", read(0, 1));
    tell("an unknown flag", read(0, 0x80));
    tell("before the start", read(-2, 0));
    tell("written at 0", written(0, 0));
    tell("behind the end", written(0, 0x10));
    tell("through", written(-1, 2));
    tell("an unknown flag", written(0, 0x80));
    tell("ahead", call(SYS_readahead, &[files.from, 0, 10]));
    tell("ahead, write-only", call(SYS_readahead, &[files.write_only, 0, 10]));
    tell("ahead in a folder", call(SYS_readahead, &[files.folder, 0, 10]));
    tell("a range", call(SYS_sync_file_range, &[files.from, 0, 10, 7]));
    tell("a flag of it", call(SYS_sync_file_range, &[files.from, 0, 10, 99]));
    tell("of a pipe", call(SYS_sync_file_range, &[files.pipe[0], 0, 10, 1]));
    tell("all of it", call(SYS_syncfs, &[files.from]));
    tell("of no file", call(SYS_syncfs, &[99]));
}
