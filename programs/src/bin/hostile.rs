//! Random calls with random arguments, threads that unmap under each other, faults in every copy, stacks that overflow; and
//! patterns that must stay what they are: `hostile --seed S --operations N`.

use libc::*;
use programs::child::{ended, wait};
use programs::machine::{exit, fork};
use programs::memory::{ANONYMOUS, pages};
use programs::{call, child, map, page, peek, poke};
use std::process::ExitCode;
use std::{env, thread};

/// Processes beside each other, pages that each attacks, and pages that each watches.
const PROCESSES: u64 = 4;
const ARENA: u64 = 64;
const WATCHED: u64 = 32;

/// xorshift64*: the same numbers from the same seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 33) % bound
    }
}

/// What one process attacks.
struct Attack {
    random: Random,
    arena: u64,
    /// `/dev/zero` and `/dev/null`.
    zero: u64,
    null: u64,
}

fn main() -> ExitCode {
    let words: Vec<String> = env::args().collect();
    let number = |name: &str, usual: u64| {
        let place = words.iter().position(|word| word == name);
        place.map_or(Some(usual), |place| words.get(place + 1)?.parse().ok())
    };
    let (Some(seed), Some(operations)) = (number("--seed", 1), number("--operations", 400)) else {
        eprintln!("hostile: expected --seed S --operations N, whole numbers");
        return ExitCode::from(2);
    };
    let children: Vec<i32> = (0..PROCESSES)
        .map(|which| {
            fork().unwrap_or_else(|| exit(attack(seed * PROCESSES + which + 1, which, operations / PROCESSES)))
        })
        .collect();
    let ends: Vec<String> = children.into_iter().map(|number| ended(wait(number))).collect();
    println!("seed {seed}, {operations} operations: {ends:?}");
    ExitCode::from(u8::from(ends.iter().any(|end| end != "ended with 0")))
}

/// Attacks, and looks at its own pages all the while; 1 if one of them has changed.
fn attack(seed: u64, which: u64, operations: u64) -> i32 {
    let open = |path: &std::ffi::CStr| {
        call(SYS_openat, &[AT_FDCWD as u64, path.as_ptr() as u64, O_RDWR as u64, 0]).expect("a device")
    };
    let watched = pages(WATCHED);
    let pattern = |at: u64| (at / page()).wrapping_mul(31).wrapping_add(which * 67) as u8 | 1;
    let places = move || (watched..watched + WATCHED * page()).step_by(page() as usize);
    places().for_each(|at| poke(at, pattern(at)));
    let (zero, null) = (open(c"/dev/zero"), open(c"/dev/null"));
    let mut attack =
        Attack { random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1), arena: pages(ARENA), zero, null };
    for operation in 0..operations {
        attack.once();
        if operation % 16 == 0 && places().any(|at| peek(at) != pattern(at)) {
            return 1;
        }
    }
    i32::from(places().any(|at| peek(at) != pattern(at)))
}

impl Attack {
    fn once(&mut self) {
        match self.random.below(21) {
            0 => drop(child(|| self.touch())),
            1 => drop(child(|| self.beside())),
            2 => drop(child(|| overflow(0) as i32)),
            3 | 4 => self.with_bad_addresses(),
            5 => drop(child(|| self.leave_mutexes())),
            _ => self.change(),
        }
    }

    /// An address in the arena, mostly the start of a page.
    fn place(&mut self) -> u64 {
        let odd = if self.random.below(16) == 0 { self.random.below(page()) } else { 0 };
        self.arena + self.random.below(ARENA) * page() + odd
    }

    /// A number of bytes, mostly few whole pages.
    fn bytes(&mut self) -> u64 {
        match self.random.below(32) {
            0 => self.random.next(),
            1 => 0,
            2 => self.random.below(page()),
            _ => (1 + self.random.below(8)) * page(),
        }
    }

    /// An address where something is, or nothing, or the kernel.
    fn anywhere(&mut self) -> u64 {
        match self.random.below(6) {
            0 => self.random.below(1 << 16),
            1 => self.random.next() | 0xffff << 48,
            2 => self.arena + ARENA * page() - self.random.below(16),
            3 => u64::MAX - self.random.below(64),
            _ => self.place(),
        }
    }

    /// Changes what is mapped. What would leave the arena is cut to it, for the program needs the rest.
    fn change(&mut self) {
        let (start, to, flags) = (self.place(), self.place(), self.random.next());
        let end = self.arena + ARENA * page();
        let room = |at: u64, bytes: u64| bytes.min(end - at);
        let (bytes, other) = (self.bytes(), self.bytes());
        let (bytes, other) = (room(start, bytes), room(to, other));
        let number = |which: u64| (flags >> which) & 0xff;
        let answer = match self.random.below(9) {
            0..=2 => {
                let kind = if number(8) % 4 == 0 { MAP_SHARED | MAP_ANONYMOUS } else { ANONYMOUS };
                let more = [0, MAP_POPULATE, MAP_LOCKED, MAP_NORESERVE][(number(16) % 4) as usize];
                map(start, bytes, (flags % 8) as i32, kind | more | MAP_FIXED, -1, 0)
            }
            3 => call(SYS_munmap, &[start, bytes]),
            4 => call(SYS_mprotect, &[start, bytes, flags % 8]),
            5 => call(SYS_madvise, &[start, bytes, number(0) % 25]),
            6 => call(SYS_mremap, &[start, bytes, other, (MREMAP_MAYMOVE | MREMAP_FIXED) as u64 | (number(8) & 4), to]),
            7 => call(if number(0) % 2 == 0 { SYS_mlock } else { SYS_munlock }, &[start, bytes]),
            _ => call(SYS_msync, &[start, bytes, number(0) % 8]),
        };
        // Whatever it comes to: the patterns tell.
        let _ = answer;
    }

    /// Calls whose arguments lead to where nothing is.
    fn with_bad_addresses(&mut self) {
        let (one, two, bytes) = (self.anywhere(), self.anywhere(), self.random.below(3 * page()));
        let folder = AT_FDCWD as u64;
        let unknown = (self.random.next() >> self.random.below(40)) | 1 << 20;
        let calls: [(c_long, [u64; 5]); 18] = [
            (SYS_read, [self.zero, one, bytes, 0, 0]),
            (SYS_write, [self.null, one, bytes, 0, 0]),
            (SYS_readv, [self.zero, one, 3, 0, 0]),
            (SYS_writev, [self.null, one, 3, 0, 0]),
            (SYS_openat, [folder, one, 0, 0, 0]),
            (SYS_newfstatat, [folder, one, two, 0, 0]),
            (SYS_readlinkat, [folder, one, two, bytes, 0]),
            (SYS_getcwd, [one, bytes, 0, 0, 0]),
            (SYS_uname, [one, 0, 0, 0, 0]),
            (SYS_getrandom, [one, bytes, 0, 0, 0]),
            (SYS_mincore, [self.arena, ARENA * page(), one, 0, 0]),
            (SYS_futex, [one, FUTEX_WAKE as u64, 1, 0, two]),
            (SYS_futex, [one, FUTEX_REQUEUE as u64, 1, 1, two]),
            (SYS_pipe2, [one, O_CLOEXEC as u64 | 1 << 40, 0, 0, 0]),
            (SYS_rt_sigpending, [one, 8, 0, 0, 0]),
            (SYS_execve, [one, two, one, 0, 0]),
            (SYS_futex, [one, FUTEX_WAKE_OP as u64, 1, 1, two]),
            (unknown as c_long, [one, two, bytes, 0, 0]),
        ];
        let (number, arguments) = calls[self.random.below(18) as usize];
        // As above; a file that was opened by chance is closed again.
        if let (true, Ok(opened)) = (number == SYS_openat, call(number, &arguments)) {
            call(SYS_close, &[opened]).ok();
        }
    }

    /// Reads and writes all over the arena, until a fault ends the child.
    fn touch(&mut self) -> i32 {
        for _ in 0..32 {
            let at = self.place();
            match self.random.below(2) {
                0 => poke(at, 1),
                _ => {
                    std::hint::black_box(peek(at));
                }
            }
        }
        0
    }

    /// Ends with a list of mutexes that leads anywhere.
    fn leave_mutexes(&mut self) -> i32 {
        let room = pages(1);
        let own = call(SYS_gettid, &[]).expect("a number");
        let entry = if self.random.below(4) == 0 { self.anywhere() } else { room + 64 };
        let offset = self.anywhere().wrapping_sub(entry);
        let pending = if self.random.below(2) == 0 { 0 } else { room + 64 };
        for (at, word) in [(0, entry), (8, offset), (16, pending), (64, room), (96, own)] {
            word.to_le_bytes().iter().zip(room + at..).for_each(|(byte, at)| poke(at, *byte));
        }
        call(SYS_set_robust_list, &[room, 24]).map_or(1, |_| 0)
    }

    /// Threads that change the same pages at once.
    fn beside(&mut self) -> i32 {
        let seeds: Vec<u64> = (0..3).map(|_| self.random.next() | 1).collect();
        let (arena, zero, null) = (self.arena, self.zero, self.null);
        let all: Vec<_> = seeds
            .into_iter()
            .map(|seed| {
                thread::spawn(move || {
                    let mut own = Attack { random: Random(seed), arena, zero, null };
                    (0..24).for_each(|_| own.change());
                    own.touch();
                })
            })
            .collect();
        all.into_iter().for_each(|thread| drop(thread.join()));
        0
    }
}

#[expect(unconditional_recursion, reason = "it is to overflow")]
fn overflow(depth: u64) -> u64 {
    let room = std::hint::black_box([depth; 2048]);
    overflow(depth + 1) + room[depth as usize % 2048]
}
