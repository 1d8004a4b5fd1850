//! Modules of the kernel: loaded, called on every CPU, unloaded, by one thread and by several at once; and objects that are refused.
//! Linux takes none of these objects, so that this program is for our kernel alone.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use libc::*;
use programs::machine::fail_allocation;
use programs::{Answer, Errno, call, tell};

const OBJECT: &str = "/lib/modules/sample.o";
const ROUNDS: u64 = 25;
const THREADS: u64 = 4;

fn main() {
    let (Ok(object), Ok(file)) = (fs::read(OBJECT), File::open(OBJECT)) else {
        println!("{OBJECT} is not there: expected a module of ours; nothing is loaded");
        return;
    };
    tell("loaded from a file", call(SYS_finit_module, &[file.as_raw_fd() as u64, 0, 0]));
    tell("loaded twice", load(&object));
    tell("unloaded", unload());
    tell("unloaded twice", unload());
    let is_loaded = (0..ROUNDS).all(|_| load(&object).is_ok() && unload().is_ok());
    println!("{ROUNDS} rounds: {is_loaded}");
    together(&object);
    lacking(&file);
    grows();
    damaged(&object);
    tell("loaded after all", load(&object));
    tell("unloaded after all", unload());
}

fn load(object: &[u8]) -> Answer {
    call(SYS_init_module, &[object.as_ptr() as u64, object.len() as u64, c"".as_ptr() as u64])
}

fn unload() -> Answer {
    call(SYS_delete_module, &[c"sample".as_ptr() as u64, 0])
}

/// Each load that comes to something is one unload, whoever makes it.
fn together(object: &[u8]) {
    let (loaded, unloaded) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    loaded.fetch_add(u64::from(load(object).is_ok()), Ordering::Relaxed);
                    unloaded.fetch_add(u64::from(unload().is_ok()), Ordering::Relaxed);
                }
            });
        }
    });
    let rest = u64::from(unload().is_ok());
    println!("together: {}", loaded.into_inner() == unloaded.into_inner() + rest);
}

/// Each allocation fails once, and nothing is loaded then.
fn lacking(file: &File) {
    let attempts = (1..).map(|count| {
        fail_allocation(count).expect("our kernel");
        let loaded = call(SYS_finit_module, &[file.as_raw_fd() as u64, 0, 0]);
        (loaded, fail_allocation(0))
    });
    let refused = attempts.take_while(|(loaded, left)| *left == Some(0) && *loaded == Err(Errno(ENOMEM))).count();
    tell("loaded with all memory", unload());
    println!("allocations that fail: {}", refused > 3);
}

/// An object that others make longer and shorter meanwhile is refused, each time.
fn grows() {
    const LENGTHS: [u64; 2] = [1 << 20, 7 << 20];
    let file = call(SYS_memfd_create, &[c"grows".as_ptr() as u64, 0]).expect("a file");
    let is_over = AtomicBool::new(false);
    let is_refused = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                LENGTHS.iter().for_each(|bytes| _ = call(SYS_ftruncate, &[file, *bytes]));
            }
        });
        let is_refused = (0..ROUNDS).all(|_| call(SYS_finit_module, &[file, 0, 0]).is_err());
        is_over.store(true, Ordering::Relaxed);
        is_refused
    });
    println!("a file that grows is refused: {is_refused}");
}

fn damaged(object: &[u8]) {
    tell("nothing", load(&[]));
    tell("a script", load(b"#!/bin/sh\n"));
    let shorter = (1..8).filter(|parts| load(&object[..object.len() * parts / 8]).is_ok()).count();
    println!("parts of it that are taken: {shorter}");
    let with = |at: usize, byte: u8| {
        let mut damaged = object.to_vec();
        damaged[at] = byte;
        load(&damaged)
    };
    tell("a program", with(16, 2));
    tell("for another machine", with(18, 62));
    tell("of 32 bits", with(4, 1));
    for (text, instead) in [("module_say", "module_sat"), ("module_start", "module_starf"), ("name=", "game=")] {
        let place = object.windows(text.len()).rposition(|part| part == text.as_bytes()).expect("it is there");
        let mut damaged = object.to_vec();
        damaged[place..place + instead.len()].copy_from_slice(instead.as_bytes());
        tell(instead, load(&damaged));
    }
}
