//! `execve`, identity and clocks.

use libc::*;
use programs::child::{NOBODY, wait};
use programs::machine::{exit, fork};
use programs::{call, child, page, tell};
use std::ffi::CStr;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::{env, fs};

fn main() {
    let arguments: Vec<String> = env::args().collect();
    if arguments.get(1).is_some_and(|word| word == "again") {
        return again(&arguments);
    }
    refusals();
    succeeds();
    identity();
    clocks();
}

/// What the program tells once it was run by itself.
fn again(arguments: &[String]) {
    println!("again: {arguments:?}");
    let mut names: Vec<_> = env::vars().collect();
    names.sort();
    println!("environment: {names:?}");
    println!("descriptors: {:?}", [3u64, 4].map(|number| call(SYS_fcntl, &[number, F_GETFD as u64]).is_ok()));
    let mut mask = 0u64;
    call(SYS_rt_sigprocmask, &[0, 0, &raw mut mask as u64, 8]).expect("a mask");
    println!("mask {mask:#x}");
    let keys = fs::read("/proc/self/auxv").map(|bytes| bytes.len() / 16);
    println!("auxiliary vector: {}", keys.is_ok_and(|count| count > 10));
    println!("page size {}", page());
}

fn run(path: &CStr, words: &[&CStr]) -> programs::Answer {
    let mut pointers: Vec<u64> = words.iter().map(|word| word.as_ptr() as u64).collect();
    pointers.push(0);
    call(SYS_execve, &[path.as_ptr() as u64, pointers.as_ptr() as u64, [0u64].as_ptr() as u64])
}

fn refusals() {
    let write = |name: &str, text: &[u8], mode: u32| {
        fs::write(name, text).expect("a file");
        fs::set_permissions(name, fs::Permissions::from_mode(mode)).expect("a mode");
    };
    write("text", b"no program", 0o755);
    write("empty", b"", 0o755);
    write("closed", b"#!/bin/sh\n", 0o644);
    write("lost", b"#!/bin/nowhere\n", 0o755);
    write("nothing", b"#!\n", 0o755);
    write("short", b"\x7fELF\x02\x01\x01", 0o755);
    write("script", b"#!/bin/sh -e\necho script $0 $1 $#\n", 0o755);
    write("chain", b"#!./script\n", 0o755);
    for path in [c"nowhere", c"text", c"empty", c"closed", c"lost", c"nothing", c"short", c"/tmp", c"text/x", c""] {
        tell(&format!("{path:?}"), run(path, &[path]));
    }
    let long = std::ffi::CString::new(vec![b'x'; 200_000]).expect("a word");
    tell("a word too long", run(c"/bin/busybox", &[&long]));
    // Of 32 pages with its end, be it one word or the environment's.
    let of = |bytes: u64| std::ffi::CString::new(vec![b'x'; bytes as usize]).expect("a word");
    let (longest, longer) = (of(32 * page() - 1), of(32 * page()));
    println!("the longest word: {}", child(|| run(c"/bin/true", &[&longest]).map_or(1, |_| 2)));
    tell("one byte more", run(c"/bin/true", &[c"true", &longer]));
    let (words, environment) = ([c"true".as_ptr() as u64, 0], [longer.as_ptr() as u64, 0]);
    let places = [c"/bin/true".as_ptr() as u64, words.as_ptr() as u64, environment.as_ptr() as u64];
    tell("one byte more in the environment", call(SYS_execve, &places));
    let part = std::ffi::CString::new(vec![b'x'; 100_000]).expect("a word");
    tell("words too long together", run(c"/bin/busybox", &[&*part; 25]));
    println!("long words: {}", child(|| run(c"/bin/true", &[&*part; 15]).map_or(1, |_| 2)));
    println!("a script: {}", child(|| run(c"./script", &[c"zero", c"one"]).map_or(1, |_| 2)));
    println!("a script of a script: {}", child(|| run(c"./chain", &[c"zero", c"one"]).map_or(1, |_| 2)));
    println!("no arguments: {}", child(|| run(c"/bin/true", &[]).map_or(1, |_| 2)));
}

fn succeeds() {
    let own = env::current_exe().expect("a name");
    println!("own name: {:?}", own.file_name());
    let output =
        Command::new(&own).args(["again", "a b", ""]).env_clear().env("KEY", "value").output().expect("it runs");
    print!("{}", String::from_utf8_lossy(&output.stdout));
    println!("{:?}", output.status.code());
    println!(
        "spawned: {:?}",
        Command::new("sh").args(["-c", "echo spawned; exit 9"]).status().map(|status| status.code())
    );
    println!("not there: {:?}", Command::new("/nowhere").status().map_err(|error| error.kind()));
}

fn identity() {
    let ids = [SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid].map(|number| call(number, &[]).expect("a number"));
    println!("{ids:?}");
    tell("own group", call(SYS_getpgid, &[0]).map(|group| u64::from(group > 0)));
    tell("group of nobody", call(SYS_getpgid, &[NOBODY]));
    tell("session of nobody", call(SYS_getsid, &[NOBODY]));
    tell("a group of its own", call(SYS_setpgid, &[0, 0]));
    tell("a group of nobody", call(SYS_setpgid, &[0, NOBODY]));
    tell("a negative group", call(SYS_setpgid, &[0, -5i64 as u64]));
    tell("a session while it leads", call(SYS_setsid, &[]));
    println!("a session: {}", child(|| i32::from(call(SYS_setsid, &[]).is_ok())));
    let number = fork().unwrap_or_else(|| exit(0));
    tell(
        "a child's group",
        call(SYS_setpgid, &[number as u64, 0]).or_else(|error| if error.0 == ESRCH { Ok(0) } else { Err(error) }),
    );
    wait(number);
    let mut name = [0u8; 16];
    tell("name", call(SYS_prctl, &[PR_SET_NAME as u64, c"a name that is too long".as_ptr() as u64]));
    tell("its name", call(SYS_prctl, &[PR_GET_NAME as u64, name.as_mut_ptr() as u64]));
    println!(
        "{:?} {:?}",
        CStr::from_bytes_until_nul(&name),
        fs::read_to_string("/proc/self/comm").map(|text| text.trim().to_string())
    );
    tell("unknown prctl", call(SYS_prctl, &[9999]));
    tell("signal of a parent's end", call(SYS_prctl, &[PR_SET_PDEATHSIG as u64, SIGTERM as u64]));
    tell("no new privileges", call(SYS_prctl, &[PR_GET_NO_NEW_PRIVS as u64, 0, 0, 0, 0]));
    tell("unknown call", call(1234, &[]));
    tell("usage of nobody", call(SYS_getrusage, &[7, 0]));
    tell("random, unknown flags", call(SYS_getrandom, &[0, 0, 99]));
    tell("affinity, too small", call(SYS_sched_getaffinity, &[0, 1, 0]));
    tell("affinity of nobody", call(SYS_sched_getaffinity, &[NOBODY, 8, name.as_mut_ptr() as u64]));
    tell("priority", call(SYS_getpriority, &[0, 0]));
    tell("policy", call(SYS_sched_getscheduler, &[0]));
    tell("umask", call(SYS_umask, &[0o27]));
    tell("umask", call(SYS_umask, &[0o22]));
}

fn clocks() {
    let mut time = [0u64; 2];
    for clock in [0, 1, 2, 3, 4, 5, 6, 7, 11, 12, 99] {
        tell(&format!("clock {clock}"), call(SYS_clock_gettime, &[clock, time.as_mut_ptr() as u64]));
    }
    tell("resolution", call(SYS_clock_getres, &[1, time.as_mut_ptr() as u64]));
    println!("{time:?}");
    let bad = [0u64, 1_000_000_000];
    tell("a bad sleep", call(SYS_nanosleep, &[bad.as_ptr() as u64, 0]));
    let negative = [-1i64 as u64, 0];
    tell("a negative sleep", call(SYS_nanosleep, &[negative.as_ptr() as u64, 0]));
    let none = [0u64, 0];
    tell("no sleep", call(SYS_nanosleep, &[none.as_ptr() as u64, 0]));
    tell("until the past", call(SYS_clock_nanosleep, &[1, 1, none.as_ptr() as u64, 0]));
    tell("an unknown clock", call(SYS_clock_nanosleep, &[99, 0, none.as_ptr() as u64, 0]));
    tell("a timer of nothing", call(SYS_setitimer, &[9, 0, 0]));
    let mut timer = [0u64; 4];
    tell("no timer", call(SYS_getitimer, &[0, timer.as_mut_ptr() as u64]));
    println!("{timer:?}");
}
