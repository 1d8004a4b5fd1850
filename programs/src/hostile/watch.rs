//! What must hold whatever others do: CPUs get on, memory comes back, words and sealed files stay, fresh memory is zeros.

use std::sync::atomic::Ordering;

use libc::*;

use super::attempt;
use crate::machine::{exit, long};
use crate::memory::{ANONYMOUS, READ_WRITE};
use crate::{call, map, page};

/// Bytes of the canary and of the sealed file.
const CANARY: u64 = 4 << 20;
const SEALED: u64 = 64 << 10;
/// Kilobytes that may be elsewhere between two rounds: stacks that CPUs keep, tables of the linear map that fold later.
const KEPT_KIB: u64 = 4 << 10;
/// Nanoseconds of a ticker's rest.
const REST: u64 = 5_000_000;
/// Nanoseconds until a killed process is gone, or a CPU runs a thread: far more than a busy host takes.
pub const BOUND: u64 = 120_000_000_000;
const MOST_CPUS: usize = 8;

/// A block of this page size.
pub fn block() -> u64 {
    page() / 8 * page()
}

/// Nanoseconds of the monotonic clock.
pub fn now() -> u64 {
    let mut time = [0u64; 2];
    attempt(SYS_clock_gettime, &[CLOCK_MONOTONIC as u64, time.as_mut_ptr() as u64]);
    time[0] * 1_000_000_000 + time[1]
}

/// Nothing that this process prints is seen from now on.
pub fn be_silent() {
    if let Ok(null) = call(SYS_openat, &[AT_FDCWD as u64, c"/dev/null".as_ptr() as u64, O_RDWR as u64, 0]) {
        (0..3).for_each(|number| attempt(SYS_dup3, &[null, number, 0]));
    }
}

/// The content of a small file, without memory of the heap.
pub fn text_of<'t>(path: &std::ffi::CStr, room: &'t mut [u8]) -> &'t str {
    let Ok(file) = call(SYS_openat, &[AT_FDCWD as u64, path.as_ptr() as u64, 0, 0]) else { return "" };
    let bytes = call(SYS_read, &[file, room.as_mut_ptr() as u64, room.len() as u64]).unwrap_or(0);
    attempt(SYS_close, &[file]);
    std::str::from_utf8(&room[..bytes as usize]).unwrap_or("")
}

/// Bytes of all memory and of free memory.
pub fn memory() -> (u64, u64) {
    let mut room = [0; 4096];
    let text = text_of(c"/proc/meminfo", &mut room);
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) << 10
    };
    (number("MemTotal:"), number("MemFree:"))
}

/// How much a process is to be ended rather than others where memory is short.
pub fn set_badness(text: &str) {
    let path = c"/proc/self/oom_score_adj".as_ptr() as u64;
    if let Ok(file) = call(SYS_openat, &[AT_FDCWD as u64, path, O_WRONLY as u64, 0]) {
        attempt(SYS_write, &[file, text.as_ptr() as u64, text.len() as u64]);
        attempt(SYS_close, &[file]);
    }
}

/// What the verdict watches.
pub struct Watch {
    /// Counts and longest gaps of the tickers, by CPU.
    board: u64,
    /// Processes that tick, a CPU each.
    pub tickers: Vec<u64>,
    canary: u64,
    /// The sealed file.
    pub sealed: u64,
    /// Whether free memory is that of our kernel, which is exact.
    is_ours: bool,
    /// Free kilobytes at the end of the first round.
    free: Option<u64>,
}

impl Watch {
    /// Begins to tick and to watch.
    pub fn new() -> Option<Self> {
        let board = map(0, page(), READ_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0).ok()?;
        let mut cpus = [0u64; 16];
        call(SYS_sched_getaffinity, &[0, 128, cpus.as_mut_ptr() as u64]).ok()?;
        let all = (0..MOST_CPUS).filter(|cpu| cpus[0] >> cpu & 1 == 1);
        let mut tickers = Vec::new();
        for (place, cpu) in all.enumerate() {
            match call(SYS_clone, &[SIGCHLD as u64, 0]).ok()? {
                0 => tick(board + 16 * place as u64, 1 << cpu),
                process => tickers.push(process),
            }
        }
        // Attackers do not have it.
        call(SYS_madvise, &[board, page(), MADV_DONTFORK as u64]).ok()?;
        let canary = map(0, CANARY, READ_WRITE, ANONYMOUS, -1, 0).ok()?;
        words(canary).for_each(|at| long(at).store(of(at), Ordering::Relaxed));
        let mut room = [0u8; 512];
        call(SYS_uname, &[room.as_mut_ptr() as u64]).ok()?;
        let is_ours = room.windows(6).any(|part| part == b"Vellum");
        Some(Self { board, tickers, canary, sealed: sealed(canary)?, is_ours, free: None })
    }

    /// The canary as an area.
    pub fn canary(&self) -> (u64, u64) {
        (self.canary, CANARY)
    }

    /// Looks at everything once no attacker is left.
    pub fn check(&mut self) -> Result<(), String> {
        let changed = words(self.canary).filter(|at| long(*at).load(Ordering::Relaxed) != of(*at)).count();
        if changed > 0 {
            return Err(format!("{changed} words of memory have changed that is private to another process"));
        }
        let room = map(0, SEALED, READ_WRITE, ANONYMOUS, -1, 0).map_err(|error| format!("no memory: {error}"))?;
        attempt(SYS_pread64, &[self.sealed, room, SEALED, 0]);
        let of_both =
            (0..SEALED).step_by(8).map(|at| [room + at, self.canary + at].map(|at| long(at).load(Ordering::Relaxed)));
        let others = of_both.filter(|[one, other]| one != other).count();
        attempt(SYS_munmap, &[room, SEALED]);
        if others > 0 {
            return Err(format!("{others} words of a sealed file have changed"));
        }
        let fresh = map(0, CANARY, READ_WRITE, ANONYMOUS, -1, 0).map_err(|error| format!("no memory: {error}"))?;
        let others = words(fresh).filter(|at| long(*at).load(Ordering::Relaxed) != 0).count();
        attempt(SYS_munmap, &[fresh, CANARY]);
        if others > 0 {
            return Err(format!("{others} words of fresh memory are not zeros"));
        }
        self.check_cpus().and_then(|()| self.check_memory())
    }

    /// Every ticker gets on.
    fn check_cpus(&self) -> Result<(), String> {
        for place in 0..self.tickers.len() as u64 {
            let count = || long(self.board + 16 * place).load(Ordering::Relaxed);
            let (before, begin) = (count(), now());
            while count() == before {
                if now() - begin > BOUND {
                    return Err(format!("a CPU runs no thread any more: ticker {place}"));
                }
                rest(REST);
            }
        }
        Ok(())
    }

    /// Free memory is what it was at the end of the first round.
    fn check_memory(&mut self) -> Result<(), String> {
        let free = || memory().1 >> 10;
        let first = *self.free.get_or_insert_with(free);
        for _ in 0..20 {
            if !self.is_ours || free() + KEPT_KIB >= first {
                return Ok(());
            }
            rest(REST);
        }
        Err(format!("{} KiB are free, {first} KiB after the first round", free()))
    }

    /// The longest time that a ticker missed its turn, in milliseconds.
    pub fn longest_gap(&self) -> u64 {
        let gaps =
            (0..self.tickers.len() as u64).map(|place| long(self.board + 16 * place + 8).load(Ordering::Relaxed));
        gaps.max().unwrap_or(0) / 1_000_000
    }

    /// Ends the tickers.
    pub fn end(&self) {
        for ticker in &self.tickers {
            attempt(SYS_kill, &[*ticker, SIGKILL as u64]);
            attempt(SYS_wait4, &[*ticker, 0, 0, 0]);
        }
    }
}

/// Waits so many nanoseconds.
fn rest(nanoseconds: u64) {
    let time = [0, nanoseconds];
    attempt(SYS_nanosleep, &[time.as_ptr() as u64, 0]);
}

/// Places of words that are looked at: two of each page.
fn words(start: u64) -> impl Iterator<Item = u64> {
    (start..start + CANARY).step_by((page() / 2) as usize)
}

/// The word at a place of the canary.
fn of(at: u64) -> u64 {
    at.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

/// A file with the canary's first words that nobody can change.
fn sealed(canary: u64) -> Option<u64> {
    let all = 0xf;
    let file = call(SYS_memfd_create, &[c"sealed".as_ptr() as u64, u64::from(MFD_ALLOW_SEALING)]).ok()?;
    call(SYS_write, &[file, canary, SEALED]).ok()?;
    call(SYS_fcntl, &[file, F_ADD_SEALS as u64, all]).ok()?;
    Some(file)
}

/// A process that counts on one CPU, and how long it had to wait at most.
fn tick(place: u64, cpus: u64) -> ! {
    set_badness("-1000");
    attempt(SYS_sched_setaffinity, &[0, 8, (&raw const cpus) as u64]);
    let mut last = now();
    loop {
        rest(REST);
        let time = now();
        long(place + 8).fetch_max(time - last - REST, Ordering::Relaxed);
        last = time;
        long(place).fetch_add(1, Ordering::Relaxed);
        if call(SYS_getppid, &[]).is_err() {
            exit(0);
        }
    }
}
