//! All attacks, and those of more than one call, whose random discovery would take too long.

use std::sync::atomic::Ordering;
use std::thread::Builder;

use libc::*;

use super::attacker::Attacker;
use super::{ALIVE, DOING, attempt};
use crate::machine::{exit, long};
use crate::memory::{ANONYMOUS, READ_WRITE, pages};
use crate::{call, map, page, poke, touch};

/// A scene: its name, how often it comes among others (0 for by name alone), whether it makes calls of the table, what it does.
pub type Scene = (&'static str, u64, bool, fn(&mut Attacker));

/// All scenes.
pub const SCENES: [Scene; 15] = [
    ("call", 120, true, Attacker::one_call),
    ("flood", 6, true, Attacker::flood),
    ("lacking", 24, true, Attacker::lacking),
    ("race", 12, true, Attacker::race),
    ("descend", 8, true, Attacker::descend),
    ("sparse", 8, false, sparse),
    ("storm", 3, false, storm),
    ("own", 6, false, own),
    ("overflow", 1, false, overflow_stack),
    ("robust", 3, false, robust),
    ("chain", 1, false, chain),
    ("deep", 1, false, deep),
    ("bomb", 1, false, bomb),
    ("hoard", 1, false, hoard),
    ("console", 0, false, console),
];

/// Attacks until `operations` are counted. Blocked calls end by a timer, as long as that lives.
pub fn attack(attacker: &mut Attacker, operations: u64) {
    let choice = attacker.choice;
    let scenes: Vec<_> = SCENES.iter().filter(|scene| choice.has_scene(scene.0, scene.2, scene.1 > 0)).collect();
    let weights: u64 = scenes.iter().map(|scene| scene.1.max(1)).sum();
    attacker.set_alarm();
    for _ in 0..operations {
        attacker.get_on();
        long(attacker.counter).fetch_add(1, Ordering::Relaxed);
        let mut place = attacker.actor.random.below(weights);
        let scene = scenes.iter().find(|scene| {
            let is_here = place < scene.1.max(1);
            place = place.wrapping_sub(scene.1.max(1));
            is_here
        });
        let Some(scene) = scene else { return };
        let place = SCENES.iter().position(|one| one.0 == scene.0).unwrap_or(0);
        long(attacker.counter + DOING).store(place as u64, Ordering::Relaxed);
        (scene.3)(attacker);
    }
}

/// A large area of which nothing is touched, and a call that walks all of it.
pub(super) fn sparse(attacker: &mut Attacker) {
    let actor = &mut attacker.actor;
    let bytes = 1u64 << (30 + actor.random.below(16));
    let rights = actor.random.one(&[READ_WRITE, PROT_READ, PROT_NONE, PROT_READ | PROT_EXEC]);
    let more = actor.random.one(&[0, 0, 0, MAP_POPULATE, MAP_LOCKED]);
    let Ok(start) = map(0, bytes, rights, ANONYMOUS | MAP_NORESERVE | more, -1, 0) else { return };
    actor.keep_area((start, bytes));
    if actor.random.once_in(4) {
        // Many areas instead of a large one.
        for index in 0..1u64 << actor.random.below(12) {
            attempt(SYS_mprotect, &[start + 2 * index * page(), page(), index % 4]);
        }
    }
    let advice = actor.random.one(&[3, 4, 8, 9, 14, 15, 20, 21, 22, 23, 25]);
    let answer = match actor.random.below(9) {
        0 => call(SYS_mlock, &[start, bytes]),
        1 => call(SYS_mlockall, &[1 + actor.random.below(7)]),
        2 | 3 => call(SYS_madvise, &[start, bytes, advice]),
        4 => call(SYS_mremap, &[start, bytes, bytes << 1, 1]),
        5 => call(SYS_msync, &[start, bytes, 4]),
        6 => call(SYS_mincore, &[start, bytes, start]),
        7 => call(SYS_getrandom, &[start, bytes, 0]),
        _ => call(SYS_mprotect, &[start, bytes, 1]),
    };
    // Whatever it came to; the area goes, or stays for later calls.
    if answer.is_ok() && !actor.random.once_in(4) {
        attempt(SYS_munmap, &[start, bytes]);
    }
}

/// A timer of a microsecond or so, and a program that runs meanwhile.
pub(super) fn storm(attacker: &mut Attacker) {
    let interval = attacker.actor.random.one(&[1u64, 1, 2, 10, 100]);
    let values = [0, interval, 0, 1];
    let which = attacker.actor.random.below(3);
    let action = attacker.actor.draw(b'A');
    let signal = [SIGALRM, SIGVTALRM, SIGPROF][which as usize] as u64;
    attempt(SYS_rt_sigaction, &[signal, action, 0, 8]);
    attempt(SYS_setitimer, &[which, values.as_ptr() as u64, 0]);
    for _ in 0..1 << 8 {
        (0..1 << 10).for_each(|at| _ = std::hint::black_box(at));
        attacker.get_on();
    }
    if !attacker.actor.random.once_in(4) {
        attempt(SYS_setitimer, &[which, [0u64; 4].as_ptr() as u64, 0]);
    }
}

/// What `/proc` says of this process, read to its end; of a descriptor by which it is read, too.
pub(super) fn own(attacker: &mut Attacker) {
    let actor = &mut attacker.actor;
    let Ok(other) = call(SYS_dup, &[0]) else { return };
    let name = actor.random.one(&["fdinfo/", "fd/", "fdinfo/", "smaps", "pagemap", "maps", "mem", "environ", "status"]);
    let is_of_file = name.ends_with('/');
    let number = if is_of_file { other.to_string() } else { String::new() };
    let path = actor.text(&format!("/proc/self/{name}{number}"));
    if let (Ok(mut file), Ok(room)) =
        (call(SYS_openat, &[AT_FDCWD as u64, path, 0, 0]), map(0, 1 << 16, READ_WRITE, ANONYMOUS, -1, 0))
    {
        if is_of_file {
            // Now it names itself.
            attempt(SYS_dup3, &[file, other, 0]);
            attempt(SYS_close, &[std::mem::replace(&mut file, other)]);
        }
        for _ in 0..64 {
            if call(SYS_read, &[file, room, 1 << 16]).unwrap_or(0) == 0 {
                break;
            }
        }
        attempt(SYS_close, &[file]);
        attempt(SYS_munmap, &[room, 1 << 16]);
    }
    attempt(SYS_close, &[other]);
}

/// A child whose stack overflows.
pub(super) fn overflow_stack(_: &mut Attacker) {
    match call(SYS_clone, &[SIGCHLD as u64, 0]) {
        Ok(0) => exit(overflow(0) as i32),
        Ok(child) => attempt(SYS_wait4, &[child, 0, 0, 0]),
        Err(_) => {}
    }
}

#[expect(unconditional_recursion, reason = "it is to overflow")]
fn overflow(depth: u64) -> u64 {
    let room = std::hint::black_box([depth; 2048]);
    overflow(depth + 1) + room[depth as usize % 2048]
}

/// A child that ends with a list of mutexes that leads anywhere.
pub(super) fn robust(attacker: &mut Attacker) {
    let actor = &mut attacker.actor;
    let (entry, offset) = (actor.draw(b'a'), actor.boundary());
    match call(SYS_clone, &[SIGCHLD as u64, 0]) {
        Ok(0) => {
            let room = pages(1);
            let own = call(SYS_gettid, &[]).unwrap_or(0);
            let (first, pending) = if entry % 2 == 0 { (entry, 0) } else { (room + 64, room + 64) };
            for (at, word) in [(0, first), (8, offset), (16, pending), (64, room), (96, own)] {
                long(room + at).store(word, Ordering::Relaxed);
            }
            exit(i32::from(call(SYS_set_robust_list, &[room, 24]).is_err()))
        }
        Ok(child) => attempt(SYS_wait4, &[child, 0, 0, 0]),
        Err(_) => {}
    }
}

/// Threads each of which has a mutex that inherits priority, and waits for the next's; then one asks for the first.
pub(super) fn chain(attacker: &mut Attacker) {
    let count = attacker.actor.random.one(&[2, 16, 128, 1024]);
    let counter = attacker.counter;
    let bytes = 4 * (count + 2);
    let Ok(words) = map(0, bytes, READ_WRITE, ANONYMOUS, -1, 0) else { return };
    let lock = move |which: u64, command: i32| {
        call(SYS_futex, &[words + 4 * which, (command | FUTEX_PRIVATE_FLAG) as u64, 0, 0])
    };
    let started = std::sync::Arc::new(std::sync::Barrier::new(count as usize + 1));
    for which in 0..count {
        let begun = started.clone();
        let body = move || {
            let _ = lock(which, FUTEX_LOCK_PI);
            begun.wait();
            long(counter + ALIVE).fetch_add(1, Ordering::Relaxed);
            let _ = lock(which + 1, FUTEX_LOCK_PI);
        };
        if Builder::new().stack_size(1 << 14).spawn(body).is_err() {
            // Too few for the barrier: the process ends with its threads.
            exit(0);
        }
    }
    started.wait();
    // In the past: it is walked, and given up.
    let time = [1u64, 0];
    for _ in 0..64 {
        let command = (FUTEX_LOCK_PI | FUTEX_PRIVATE_FLAG) as u64;
        attempt(SYS_futex, &[words, command, 0, time.as_ptr() as u64]);
        attacker.get_on();
    }
    exit(0)
}

/// Folders in folders, and the way to the last.
pub(super) fn deep(attacker: &mut Attacker) {
    let name = attacker.actor.text(&"n".repeat(255));
    let count = attacker.actor.random.one(&[16, 64, 512, 4096]);
    let Ok(room) = map(0, 1 << 20, READ_WRITE, ANONYMOUS, -1, 0) else { return };
    for depth in 0..count {
        let made = call(SYS_mkdirat, &[AT_FDCWD as u64, name, 0o700]);
        if made.is_err() || call(SYS_chdir, &[name]).is_err() {
            break;
        }
        if depth % 16 == 0 {
            attempt(SYS_getcwd, &[room, 1 << 20]);
            attacker.get_on();
        }
    }
    attempt(SYS_munmap, &[room, 1 << 20]);
}

/// Children of children, each of which touches memory.
pub(super) fn bomb(attacker: &mut Attacker) {
    let (depth, bytes) = (attacker.actor.random.below(6), 1u64 << (16 + attacker.actor.random.below(9)));
    let Ok(child) = call(SYS_clone, &[SIGCHLD as u64, 0]) else { return };
    if child > 0 {
        return;
    }
    for _ in 0..depth {
        attempt(SYS_clone, &[SIGCHLD as u64, 0]);
        attacker.get_on();
        if let Ok(start) = map(0, bytes, READ_WRITE, ANONYMOUS | MAP_NORESERVE, -1, 0) {
            touch(start, bytes, 1);
        }
    }
    exit(0)
}

/// Memory until there is none, or a quarter of a gigabyte.
pub(super) fn hoard(attacker: &mut Attacker) {
    for _ in 0..64 {
        let Ok(start) = map(0, 4 << 20, READ_WRITE, ANONYMOUS | MAP_NORESERVE, -1, 0) else { return };
        attacker.actor.keep_area((start, 4 << 20));
        touch(start, 4 << 20, 1);
        attacker.get_on();
    }
}

/// One long write to the console; by name alone, as what reaches the console is what the kernel writes before it stops.
pub(super) fn console(attacker: &mut Attacker) {
    let path = attacker.actor.text("/dev/console");
    let Ok(file) = call(SYS_openat, &[AT_FDCWD as u64, path, O_WRONLY as u64, 0]) else { return };
    let Ok(start) = map(0, 1 << 30, READ_WRITE, ANONYMOUS | MAP_NORESERVE, -1, 0) else { return };
    poke(start, b'.');
    attempt(SYS_write, &[file, start, 1 << 30]);
}
