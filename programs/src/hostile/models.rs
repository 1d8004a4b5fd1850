//! Models: what an honest process does beside those that attack, and what must come of it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::Builder;

use libc::*;

use super::attempt;
use super::model::Model;
use super::moves;
use crate::machine::{exit, long, word};
use crate::memory::{ANONYMOUS, READ_WRITE};
use crate::{call, map, page};

/// A scene: its name, how often it comes among others, and what it does; an error is a fault of the kernel.
pub type Scene = (&'static str, u64, fn(&mut Model) -> Result<(), String>);

/// All scenes.
pub const SCENES: [Scene; 5] = [
    ("move", 12, moves::scene),
    ("fresh", 4, fresh),
    ("seals", 2, seals),
    ("renames", 2, renames),
    ("zombies", 2, zombies),
];

/// What an honest process ends with once it has printed a fault.
pub const FAULT: i32 = 77;

/// Plays scenes until `operations` are counted, or one shows a fault; the status.
pub fn play(model: &mut Model, operations: u64) -> i32 {
    let scenes: Vec<&Scene> = SCENES.iter().filter(|scene| model.choice.has_scene(scene.0, false, true)).collect();
    let all: Vec<&Scene> = scenes.iter().flat_map(|scene| std::iter::repeat_n(*scene, scene.1 as usize)).collect();
    let until = long(model.counter).load(Ordering::Relaxed) + operations;
    while !all.is_empty() && long(model.counter).load(Ordering::Relaxed) < until {
        model.get_on();
        let (name, _, scene) = *model.random.one(&all);
        if let Err(line) = scene(model) {
            println!("fault: {name}: {line}");
            return FAULT;
        }
    }
    0
}

/// Fresh anonymous memory is zeros, a word of each page and one at random.
fn fresh(model: &mut Model) -> Result<(), String> {
    let bytes = (1 + model.random.below(model.budget / page())) * page();
    let Ok(start) = map(0, bytes, READ_WRITE, ANONYMOUS | MAP_NORESERVE, -1, 0) else { return Ok(()) };
    let places = (start..start + bytes).step_by(page() as usize);
    let odd = 8 * model.random.below(page() / 8);
    let is_zero = |at: &u64| long(*at).load(Ordering::Relaxed) | long(*at + odd).load(Ordering::Relaxed) == 0;
    let count = places.filter(|at| !is_zero(at)).count();
    attempt(SYS_munmap, &[start, bytes]);
    if count == 0 { Ok(()) } else { Err(format!("{count} of {} pages of fresh memory are not zeros", bytes / page())) }
}

/// Once F_SEAL_WRITE is set, nothing of a write that was under way comes any more.
fn seals(model: &mut Model) -> Result<(), String> {
    let (bytes, add_seals, seal_write) = (2u64 << 20, 1033, 8);
    let Ok(source) = map(0, 2 * bytes, READ_WRITE, ANONYMOUS, -1, 0) else { return Ok(()) };
    (source..source + bytes).step_by(8).for_each(|at| long(at).store(u64::MAX, Ordering::Relaxed));
    for _ in 0..8 {
        model.get_on();
        let Ok(file) = call(SYS_memfd_create, &[c"sealed".as_ptr() as u64, u64::from(MFD_ALLOW_SEALING)]) else {
            break;
        };
        attempt(SYS_ftruncate, &[file, bytes]);
        let write = move || attempt(SYS_pwrite64, &[file, source, bytes, 0]);
        let Ok(thread) = Builder::new().stack_size(1 << 16).spawn(write) else { break };
        (0..model.random.below(1 << 12)).for_each(|at| _ = std::hint::black_box(at));
        let sealed = call(SYS_fcntl, &[file, add_seals, seal_write]);
        let filled = || {
            attempt(SYS_pread64, &[file, source + bytes, bytes, 0]);
            let places = (source + bytes..source + 2 * bytes).step_by(page() as usize);
            places.filter(|at| long(*at).load(Ordering::Relaxed) != 0).count()
        };
        let before = filled();
        drop(thread.join());
        let after = filled();
        attempt(SYS_close, &[file]);
        if sealed.is_ok() && before != after {
            return Err(format!("{before} pages of a file were filled when it was sealed, {after} afterwards"));
        }
    }
    attempt(SYS_munmap, &[source, 2 * bytes]);
    Ok(())
}

/// Two folders are renamed, each into the other: one of them stays where it can be found.
fn renames(model: &mut Model) -> Result<(), String> {
    let Ok(turn) = map(0, page(), READ_WRITE, ANONYMOUS, -1, 0) else { return Ok(()) };
    let here = AT_FDCWD as u64;
    let rename = move |from: &std::ffi::CStr, to: &std::ffi::CStr| {
        attempt(SYS_renameat, &[here, from.as_ptr() as u64, here, to.as_ptr() as u64]);
    };
    let make = |name: &std::ffi::CStr| call(SYS_mkdirat, &[here, name.as_ptr() as u64, 0o700]);
    let remove = |name: &std::ffi::CStr| call(SYS_unlinkat, &[here, name.as_ptr() as u64, AT_REMOVEDIR as u64]);
    let go: &AtomicU32 = word(turn);
    let thread = Builder::new().stack_size(1 << 16).spawn(move || {
        while go.load(Ordering::Acquire) < 2 {
            if go.compare_exchange(1, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                rename(c"one", c"two/one");
            } else {
                attempt(SYS_sched_yield, &[]);
            }
        }
    });
    let Ok(thread) = thread else { return Ok(()) };
    let mut lost = None;
    for round in 0..64 {
        model.get_on();
        let made = make(c"one").is_ok() && make(c"two").is_ok();
        go.store(1, Ordering::Release);
        while go.load(Ordering::Acquire) == 1 {}
        rename(c"two", c"one/two");
        // The thread has begun its rename; it ends before a folder can be removed under it, or fails.
        let removed = [c"one/two", c"two/one", c"one", c"two"].map(|name| (0..64).any(|_| remove(name).is_ok()));
        let found = removed.iter().filter(|done| **done).count();
        if made && found != 2 && lost.is_none() {
            lost = Some(format!("round {round}: {found} of two folders were found"));
            break;
        }
    }
    go.store(2, Ordering::Release);
    drop(thread.join());
    attempt(SYS_munmap, &[turn, page()]);
    lost.map_or(Ok(()), Err)
}

/// Two processes share the writing end of a pipe by one table of descriptors: once both have ended, waited for or not, it is closed.
fn zombies(model: &mut Model) -> Result<(), String> {
    let mut pair = [0i32; 2];
    let ended = |process: u64| call(SYS_waitid, &[1, process, 0, (WEXITED | WNOWAIT) as u64, 0]);
    if call(SYS_pipe2, &[pair.as_mut_ptr() as u64, O_NONBLOCK as u64]).is_err() {
        return Ok(());
    }
    let [read, write] = pair.map(|end| end as u64);
    let child = call(SYS_clone, &[SIGCHLD as u64, 0]);
    if let Ok(0) = child {
        match call(SYS_clone, &[(SIGCHLD | CLONE_FILES) as u64, 0]) {
            Ok(other) if other > 0 => _ = ended(other),
            _ => {}
        }
        exit(0)
    }
    attempt(SYS_close, &[write]);
    let Ok(child) = child else { return Ok(()) };
    let has_ended = ended(child);
    let mut byte = 0u8;
    let answer = call(SYS_read, &[read, (&raw mut byte) as u64, 1]);
    attempt(SYS_close, &[read]);
    attempt(SYS_wait4, &[child, 0, 0, 0]);
    model.get_on();
    match (has_ended, answer) {
        (Ok(_), Err(error)) if error.0 == EAGAIN => Err("a pipe has a writer after all writers have ended".into()),
        _ => Ok(()),
    }
}
