//! Children that are left when the program ends: one sleeps, one waits for a writer that never comes, one writes without end, one has ended.
//! `leaving stuck` waits for that writer itself, and never ends.

use std::sync::atomic::Ordering;

use libc::*;
use programs::machine::{exit, fork, long};
use programs::memory::READ_WRITE;
use programs::{call, map, page, tell};

const PIPE: &std::ffi::CStr = c"pipe";

fn main() {
    let (folder, path) = (AT_FDCWD as u64, PIPE.as_ptr() as u64);
    tell("a pipe with a name", call(SYS_mknodat, &[folder, path, u64::from(S_IFIFO | 0o600), 0]));
    let wait = || call(SYS_openat, &[folder, path, O_RDONLY as u64, 0]);
    if std::env::args().nth(1).is_some_and(|word| word == "stuck") {
        return tell("a writer came", wait());
    }
    let null = call(SYS_openat, &[folder, c"/dev/null".as_ptr() as u64, O_WRONLY as u64, 0]).expect("it opens");
    let time = [1000u64, 0];
    let bodies: [&dyn Fn(); 4] = [
        &|| _ = call(SYS_nanosleep, &[time.as_ptr() as u64, 0]),
        &|| _ = wait(),
        &|| while call(SYS_write, &[null, path, 4]).is_ok() {},
        &|| (),
    ];
    let begun = long(map(0, page(), READ_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0).expect("memory"));
    for body in bodies {
        if fork().is_none() {
            begun.fetch_add(1, Ordering::Relaxed);
            body();
            exit(0);
        }
    }
    while begun.load(Ordering::Relaxed) < bodies.len() as u64 {
        let _ = call(SYS_sched_yield, &[]);
    }
    println!("children are left: {}", begun.load(Ordering::Relaxed));
}
