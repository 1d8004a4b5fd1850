//! Calls with addresses and ranges at the bounds of all numbers. A line holds the answers for one bound after the other, and
//! names a bound only where the answer changes. Of parameters of 32 bits the upper half of the register means nothing.

use libc::*;
use programs::bounds::{PAGES, done, numbers, places, sweep, write_word};
use programs::memory::{ANONYMOUS, READ_WRITE, file, pages};
use programs::{call, halves, in_child, map, page, poke, tell};

fn main() {
    let base = pages(PAGES);
    (0..4).for_each(|at| poke(base + at * page(), 1));
    in_child("ranges", || ranges(base));
    in_child("mremap", || moves(base));
    in_child("brk", breaks);
    in_child("pointers", || pointers(base));
    in_child("ends", || ends(base));
    in_child("halves", || halves::tell(base));
}

/// Whether a range is the program's own memory, whose end would end the program as well.
fn is_own(base: u64, start: u64, bytes: u64) -> bool {
    // The uppermost byte may be a tag.
    let start = start << 8 >> 8;
    let Some(end) = bytes.checked_next_multiple_of(page()).and_then(|bytes| start.checked_add(bytes)) else {
        return false;
    };
    let around = base - PAGES * page()..=base + 2 * PAGES * page();
    start < 1 << 48 && bytes > 0 && !(around.contains(&start) && around.contains(&end))
}

/// Calls about a range of addresses.
fn ranges(base: u64) {
    let all: [(&str, c_long, [u64; 2]); 12] = [
        ("munmap", SYS_munmap, [0, 0]),
        ("mprotect", SYS_mprotect, [READ_WRITE as u64, 0]),
        ("a growing mprotect", SYS_mprotect, [(READ_WRITE | 0x0100_0000) as u64, 0]),
        ("mlock", SYS_mlock, [0, 0]),
        ("mlock2", SYS_mlock2, [1, 0]),
        ("munlock", SYS_munlock, [0, 0]),
        ("msync", SYS_msync, [MS_SYNC as u64, 0]),
        ("advice to discard", SYS_madvise, [MADV_DONTNEED as u64, 0]),
        ("advice to free", SYS_madvise, [MADV_FREE as u64, 0]),
        ("advice to read", SYS_madvise, [22, 0]),
        ("remap_file_pages", SYS_remap_file_pages, [0, 1]),
        ("mincore", SYS_mincore, [base, 0]),
    ];
    for (what, number, [third, fourth]) in all {
        for (name, start) in &places(base) {
            sweep(&format!("{what} from {name}"), &numbers(), |bytes| {
                let is_changed = number != SYS_msync && number != SYS_mincore && is_own(base, *start, bytes);
                if is_changed { None } else { done(call(number, &[*start, bytes, third, fourth])) }
            });
        }
        // What went is there again.
        map(base, PAGES * page(), READ_WRITE, ANONYMOUS | MAP_FIXED, -1, 0).expect("memory");
    }
    let zeros = file(4 * page()) as u64;
    let fixed = MAP_FIXED | MAP_PRIVATE;
    for (what, flags) in
        [("mmap", MAP_PRIVATE), ("a fixed mmap", fixed), ("mmap without reserve", MAP_PRIVATE | MAP_NORESERVE)]
    {
        for (name, start) in &places(base) {
            // Of a fixed one at what could be an error's number, Linux answers with that number.
            if flags == fixed && *start > 0_u64.wrapping_sub(page()) {
                continue;
            }
            let at = |bytes, of_file: bool, offset| {
                let (kind, number) = if of_file { (0, zeros) } else { (MAP_ANONYMOUS, u64::MAX) };
                let is_skipped = is_own(base, *start, bytes) && (flags & MAP_FIXED != 0 || bytes > 1 << 40);
                let asked = [*start, bytes, READ_WRITE as u64, (flags | kind) as u64, number, offset];
                let answer = if is_skipped { return None } else { call(SYS_mmap, &asked) };
                answer.iter().filter(|_| flags & MAP_FIXED == 0).for_each(|at| _ = call(SYS_munmap, &[*at, bytes]));
                done(answer)
            };
            sweep(&format!("{what} at {name}"), &numbers(), |bytes| at(bytes, false, 0));
            sweep(&format!("{what} of a file at {name}"), &numbers(), |bytes| at(bytes, true, 0));
            if *start < 1 << 47 {
                sweep(&format!("{what} of a file at {name}, by offset"), &numbers(), |offset| {
                    at(2 * page(), true, offset)
                });
            }
        }
    }
}

/// `mremap`, whose sizes are two.
fn moves(base: u64) {
    let again = || map(base, PAGES * page(), READ_WRITE, ANONYMOUS | MAP_FIXED, -1, 0).expect("memory");
    let free = base + PAGES * page();
    for (flags, to) in
        [(0, 0), (1, 0), (3, free + 8 * page()), (3, 0_u64.wrapping_sub(page())), (3, (1 << 48) - page())]
    {
        for (name, old) in &numbers() {
            sweep(&format!("mremap {flags} of {name}"), &numbers(), |bytes| {
                again();
                if is_own(base, base, *old) {
                    return None;
                }
                let answer = call(SYS_mremap, &[base, *old, bytes, flags, to]);
                // Without a target, Linux 6.1 adds these to the address, and goes on below it.
                if flags != 3 && *old > 1 << 63 && bytes > 1 << 63 {
                    return None;
                }
                answer.iter().for_each(|at| _ = call(SYS_munmap, &[*at, bytes]));
                done(answer)
            });
        }
        for (name, start) in &numbers() {
            tell(&format!("mremap {flags} from {name}"), call(SYS_mremap, &[*start, page(), 2 * page(), flags, to]));
        }
    }
}

fn breaks() {
    let start = call(SYS_brk, &[0]).expect("a break");
    let bounds = numbers();
    // Below the break lies what the program has allocated by it.
    let is_harmless = |wanted: u64| !(1 << 16..1 << 48).contains(&wanted);
    sweep("brk", &bounds, |wanted| {
        is_harmless(wanted).then(|| call(SYS_brk, &[wanted]).map(|at| at.wrapping_sub(start)))
    });
    sweep("brk by", &bounds, |more| {
        let wanted = start.wrapping_add(more);
        // What there is room for depends on what lies above.
        (more < 1 << 33 || is_harmless(wanted))
            .then(|| Some(call(SYS_brk, &[wanted]).map(|at| at.wrapping_sub(start))))?
    });
}

/// The arguments of a call, by one of them.
type Arguments<'a> = &'a dyn Fn(u64) -> [u64; 6];

/// Calls that write or read where a pointer leads.
fn pointers(base: u64) {
    let mut bounds = places(base);
    for (name, less) in [("end-4", 4), ("end-1", 1)] {
        bounds.push((name.into(), base + PAGES * page() - less));
    }
    bounds.push(("2^48-4".into(), (1 << 48) - 4));
    let (zeros, folder) = (file(4 * page()) as u64, AT_FDCWD as u64);
    let all: [(&str, c_long, Arguments<'_>); 34] = [
        ("clock_gettime", SYS_clock_gettime, &|at| [1, at, 0, 0, 0, 0]),
        ("clock_getres", SYS_clock_getres, &|at| [1, at, 0, 0, 0, 0]),
        ("gettimeofday", SYS_gettimeofday, &|at| [at, at, 0, 0, 0, 0]),
        ("nanosleep", SYS_nanosleep, &|at| [at, 0, 0, 0, 0, 0]),
        ("uname", SYS_uname, &|at| [at, 0, 0, 0, 0, 0]),
        ("sysinfo", SYS_sysinfo, &|at| [at, 0, 0, 0, 0, 0]),
        ("getrusage", SYS_getrusage, &|at| [0, at, 0, 0, 0, 0]),
        ("prlimit64, old", SYS_prlimit64, &|at| [0, 7, 0, at, 0, 0]),
        ("prlimit64, new", SYS_prlimit64, &|at| [0, 0, at, 0, 0, 0]),
        ("getcpu", SYS_getcpu, &|at| [at, at, 0, 0, 0, 0]),
        ("getrandom", SYS_getrandom, &|at| [at, 16, 0, 0, 0, 0]),
        ("rt_sigaction, new", SYS_rt_sigaction, &|at| [10, at, 0, 8, 0, 0]),
        ("rt_sigaction, old", SYS_rt_sigaction, &|at| [10, 0, at, 8, 0, 0]),
        ("rt_sigprocmask, new", SYS_rt_sigprocmask, &|at| [0, at, 0, 8, 0, 0]),
        ("rt_sigprocmask, old", SYS_rt_sigprocmask, &|at| [0, 0, at, 8, 0, 0]),
        ("rt_sigpending", SYS_rt_sigpending, &|at| [at, 8, 0, 0, 0, 0]),
        ("sigaltstack, old", SYS_sigaltstack, &|at| [0, at, 0, 0, 0, 0]),
        ("wait4", SYS_wait4, &|at| [u64::MAX, at, 1, at, 0, 0]),
        ("pipe2", SYS_pipe2, &|at| [at, 0, 0, 0, 0, 0]),
        ("openat", SYS_openat, &|at| [folder, at, 0, 0, 0, 0]),
        ("readlinkat", SYS_readlinkat, &|at| [folder, c"/proc/self/exe".as_ptr() as u64, at, 4, 0, 0]),
        ("fstat", SYS_fstat, &|at| [zeros, at, 0, 0, 0, 0]),
        ("statx", SYS_statx, &|at| [folder, c"/".as_ptr() as u64, 0, 0x7ff, at, 0]),
        ("getcwd", SYS_getcwd, &|at| [at, 64, 0, 0, 0, 0]),
        ("getitimer", SYS_getitimer, &|at| [0, at, 0, 0, 0, 0]),
        ("setitimer", SYS_setitimer, &|at| [0, at, 0, 0, 0, 0]),
        ("timer_create", SYS_timer_create, &|at| [1, at, base, 0, 0, 0]),
        ("timer_settime", SYS_timer_settime, &|at| [0, 0, at, 0, 0, 0]),
        ("set_robust_list", SYS_get_robust_list, &|at| [0, at, at, 0, 0, 0]),
        ("sched_getaffinity", SYS_sched_getaffinity, &|at| [0, 8, at, 0, 0, 0]),
        ("sched_setaffinity", SYS_sched_setaffinity, &|at| [0, 8, at, 0, 0, 0]),
        ("prctl name", SYS_prctl, &|at| [16, at, 0, 0, 0, 0]),
        ("execve arguments", SYS_execve, &|at| [c"/none".as_ptr() as u64, at, at, 0, 0, 0]),
        ("times", SYS_times, &|at| [at, 0, 0, 0, 0, 0]),
    ];
    for (what, number, arguments) in all {
        sweep(what, &bounds, |at| done(call(number, &arguments(at))));
    }
    for (what, number, at) in [
        ("getcwd of so many", SYS_getcwd, 1),
        ("rt_sigpending of so many", SYS_rt_sigpending, 1),
        ("getgroups of so many", SYS_getgroups, 0),
    ] {
        sweep(what, &numbers(), |size| {
            let end = base + PAGES * page() - page();
            let arguments = match at {
                0 => [size, end, 0],
                _ => [end, size, 0],
            };
            done(call(number, &arguments))
        });
    }
}

/// What is told to the kernel for the end of a thread, at which it looks there.
fn ends(base: u64) {
    for (name, at) in places(base) {
        in_child(&format!("a word to be cleared at {name}"), || _ = call(SYS_set_tid_address, &[at]));
        in_child(&format!("a list of locks at {name}"), || _ = call(SYS_set_robust_list, &[at, 24]));
        in_child(&format!("a list that leads to {name}"), || {
            [at, at, at].iter().zip((base..).step_by(8)).for_each(|(word, to)| write_word(to, *word));
            _ = call(SYS_set_robust_list, &[base, 24]);
        });
    }
}
