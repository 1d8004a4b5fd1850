//! Two calls at once on processes, their threads, their memory and futexes. Whatever the order, nobody is told twice, lost, or left waiting.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::{env, thread};

use libc::*;
use programs::child::ended;
use programs::machine::{exit, fork};
use programs::memory::{ANONYMOUS, READ_WRITE, file};
use programs::{Answer, Errno, call, child, map, page, race, rounds, tell_race};

fn main() {
    if env::args().any(|word| word == "nothing") {
        // Run by `programs_of_threads`.
        return;
    }
    waits();
    ends();
    programs_of_threads();
    alarms();
    groups();
    requeues();
    requeues_of_what_has_changed();
    copies();
    seals();
}

/// Two threads wait for one child: one is told, and the other that there is none.
fn waits() {
    let number = AtomicU64::new(0);
    let wait = || call(SYS_wait4, &[number.load(Ordering::SeqCst), 0, 0, 0]);
    let prepare = || match fork() {
        None => exit(0),
        Some(child) => number.store(child as u64, Ordering::SeqCst),
    };
    let wrong = race(2 * rounds(), prepare, [&wait, &wait], |answers| {
        let (told, none) = (Ok(number.load(Ordering::SeqCst)), Err(Errno(ECHILD)));
        answers == [told, none] || answers == [none, told]
    });
    tell_race("two that wait for a child", wrong);
}

/// A process whose threads end one by one ends with what the last one said.
fn ends() {
    let wrong = (0..rounds()).filter(|_| {
        let end = child(|| {
            let go = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    go.store(true, Ordering::SeqCst);
                    call(SYS_exit, &[3])
                });
                while !go.load(Ordering::SeqCst) {
                    thread::yield_now();
                }
                let _ = call(SYS_exit, &[5]);
            });
            1
        });
        end != "ended with 5" && end != "ended with 3"
    });
    tell_race("threads that end", wrong.count() as u32);
}

/// Of threads that run another program at once one does, and the others are gone.
fn programs_of_threads() {
    let arguments = [c"racing".as_ptr() as u64, c"nothing".as_ptr() as u64, 0];
    let run = || call(SYS_execve, &[c"/proc/self/exe".as_ptr() as u64, arguments.as_ptr() as u64, 0]);
    let wrong = (0..1 + rounds() / 5).filter(|_| {
        let end = child(|| {
            race(1, || (), [&run, &run, &run], |_| false);
            1
        });
        end != "ended with 0"
    });
    tell_race("threads that run programs", wrong.count() as u32);
}

/// An alarm that comes while its process ends is nobody's.
fn alarms() {
    let wrong = (0..rounds()).filter(|round| {
        let end = child(|| {
            let times = [0, 50, 0, u64::from(round % 50) + 1];
            let _ = call(SYS_rt_sigprocmask, &[SIG_BLOCK as u64, &raw const MASK as u64, 0, 8]);
            let _ = call(SYS_setitimer, &[ITIMER_REAL as u64, times.as_ptr() as u64, 0]);
            0
        });
        end != "ended with 0"
    });
    tell_race("alarms of processes that end", wrong.count() as u32);
}

static MASK: u64 = 1 << (SIGALRM - 1);

/// A signal to a group reaches a child that comes meanwhile: nobody of the group is left.
fn groups() {
    call(SYS_prctl, &[PR_SET_CHILD_SUBREAPER as u64, 1]).expect("its children's children are its own");
    let mut wrong = 0;
    for _ in 0..1 + rounds() / 5 {
        let mut ends = [0i32; 2];
        call(SYS_pipe2, &[ends.as_mut_ptr() as u64, 0]).expect("a pipe");
        let leader = match fork() {
            Some(number) => number,
            None => forks(ends[1] as u64),
        };
        let mut byte = 0u8;
        call(SYS_read, &[ends[0] as u64, &raw mut byte as u64, 1]).expect("it has begun");
        call(SYS_kill, &[(-leader) as u64, SIGKILL as u64]).expect("there is a group");
        let mut status = 0i32;
        while call(SYS_wait4, &[u64::MAX, &raw mut status as u64, 0, 0]).is_ok() {
            wrong += u32::from(ended(status) != "killed by SIGKILL" && status != 0);
        }
        ends.iter().for_each(|end| _ = call(SYS_close, &[*end as u64]));
    }
    tell_race("a group that forks and is killed", wrong);
}

/// Has children until it is killed; whoever is not tells so after a while.
fn forks(to: u64) -> ! {
    const SECONDS: u64 = 5;
    call(SYS_setpgid, &[0, 0]).expect("a group");
    for number in 0u64.. {
        if number == 3 {
            call(SYS_write, &[to, c"x".as_ptr() as u64, 1]).expect("room");
        }
        // Some are there, some end at once.
        if fork().is_none() {
            if number % 2 == 0 {
                exit(0);
            }
            let times = [0, 0, SECONDS, 0];
            let _ = call(SYS_setitimer, &[ITIMER_REAL as u64, times.as_ptr() as u64, 0]);
            loop {
                let _ = call(SYS_ppoll, &[0, 0, 0, 0, 0]);
            }
        }
        if number % 16 == 15 {
            while call(SYS_wait4, &[u64::MAX, 0, WNOHANG as u64, 0]).is_ok_and(|number| number > 0) {}
        }
    }
    exit(1)
}

fn futex(word: &AtomicU32, operation: i32, value: u32, more: [u64; 3]) -> Answer {
    let operation = (operation | FUTEX_PRIVATE_FLAG) as u64;
    call(SYS_futex, &[&[word.as_ptr() as u64, operation, value.into()], &more[..]].concat())
}

/// Waiters that are moved from one word to another, while both are woken: each is woken once, and counted.
fn requeues() {
    const WAITERS: u64 = 4;
    let words = [AtomicU32::new(0), AtomicU32::new(0)];
    let (ended, woken) = (AtomicU64::new(0), AtomicU64::new(0));
    let is_left = || ended.load(Ordering::SeqCst) < WAITERS;
    let wait = || {
        let answer = futex(&words[0], FUTEX_WAIT, 0, [0; 3]);
        ended.fetch_add(1, Ordering::SeqCst);
        answer
    };
    let moves = |from: &AtomicU32, to: &AtomicU32| {
        while is_left() {
            futex(from, FUTEX_CMP_REQUEUE, 0, [2, to.as_ptr() as u64, 0])?;
        }
        Ok(0)
    };
    let wake = || {
        while is_left() {
            for word in &words {
                woken.fetch_add(futex(word, FUTEX_WAKE, 1, [0; 3])?, Ordering::SeqCst);
            }
        }
        Ok(0)
    };
    let (there, back) = (|| moves(&words[0], &words[1]), || moves(&words[1], &words[0]));
    let prepare = || [&ended, &woken].iter().for_each(|count| count.store(0, Ordering::SeqCst));
    let wrong = race(rounds(), prepare, [&wait, &wait, &wait, &wait, &there, &back, &wake], |answers| {
        answers == [Ok(0); 7] && woken.load(Ordering::SeqCst) == WAITERS
    });
    tell_race("waiters that are moved and woken", wrong);
}

/// A word that has changed moves nobody: who would move waiters meanwhile finds that, or finds them before.
fn requeues_of_what_has_changed() {
    let words = [AtomicU32::new(0), AtomicU32::new(0)];
    let is_over = AtomicBool::new(false);
    let wait = || {
        let answer = futex(&words[0], FUTEX_WAIT, 0, [0; 3]);
        is_over.store(true, Ordering::SeqCst);
        answer.or_else(|error| if error.0 == EAGAIN { Ok(0) } else { Err(error) })
    };
    let moves = || futex(&words[0], FUTEX_CMP_REQUEUE, 0, [1, words[1].as_ptr() as u64, 0]);
    let change = || {
        words[0].store(1, Ordering::SeqCst);
        // Behind this nobody is moved any more: whoever was, waits for the other word by now.
        let refused = moves();
        while !is_over.load(Ordering::SeqCst) {
            futex(&words[0], FUTEX_WAKE, 1, [0; 3])?;
            futex(&words[1], FUTEX_WAKE, 1, [0; 3])?;
        }
        Ok(u64::from(refused == Err(Errno(EAGAIN))))
    };
    let prepare = || {
        words[0].store(0, Ordering::SeqCst);
        is_over.store(false, Ordering::SeqCst);
    };
    let wrong = race(2 * rounds(), prepare, [&wait, &moves, &change], |[waited, moved, changed]| {
        let is_known = moved.map_or_else(|error| error.0 == EAGAIN, |count| count <= 1);
        waited == Ok(0) && changed == Ok(1) && is_known
    });
    tell_race("waiters of a word that changes", wrong);
}

/// A copy to memory whose pages go again and again comes to its end, as a whole; what is unmapped is refused, in part or as a whole.
fn copies() {
    const PAGES: u64 = 16;
    let bytes = PAGES * page();
    let (from, address) = (file(bytes) as u64, AtomicU64::new(0));
    let start = || address.load(Ordering::SeqCst);
    let read = || call(SYS_pread64, &[from, start(), bytes, 0]);
    let prepare = || {
        let fresh = map(0, bytes, READ_WRITE, ANONYMOUS, -1, 0).expect("room");
        address.store(fresh, Ordering::SeqCst);
    };
    let drop = || (0..50).try_fold(0, |_, _| call(SYS_madvise, &[start(), bytes, MADV_DONTNEED as u64]));
    let unmap = || call(SYS_munmap, &[start(), bytes]);
    let shrink = || call(SYS_mremap, &[start(), bytes, page(), 0]).map(|_| 0);
    let changes: [(&str, bool, &(dyn Fn() -> Answer + Sync)); 3] =
        [("thrown away", true, &drop), ("unmapped", false, &unmap), ("made smaller", false, &shrink)];
    for (what, is_whole, change) in changes {
        let wrong = race(2 * rounds(), prepare, [&read, change], |[read, changed]| {
            let _ = unmap();
            let is_part = || read.map_or_else(|error| error.0 == EFAULT, |count| count <= bytes);
            changed == Ok(0) && if is_whole { read == Ok(bytes) } else { is_part() }
        });
        tell_race(&format!("a copy to memory that is {what}"), wrong);
    }
}

/// A file is sealed against writing only while no process can write to it by an area: neither this one, nor a child that is made meanwhile.
fn seals() {
    let (file, address, zeros) = (AtomicU64::new(0), AtomicU64::new(0), file(page()) as u64);
    let shared = map(0, page(), READ_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0).expect("a page");
    let is_over = programs::machine::word(shared);
    let area = || address.load(Ordering::SeqCst);
    let prepare = || {
        is_over.store(0, Ordering::SeqCst);
        let fresh = call(SYS_memfd_create, &[c"seals".as_ptr() as u64, u64::from(MFD_ALLOW_SEALING)]).expect("a file");
        call(SYS_ftruncate, &[fresh, page()]).expect("a page");
        file.store(fresh, Ordering::SeqCst);
        address.store(map(0, page(), READ_WRITE, MAP_SHARED, fresh as i32, 0).expect("an area"), Ordering::SeqCst);
    };
    let forks = || match fork() {
        Some(child) => Ok(child as u64),
        None => {
            while is_over.load(Ordering::SeqCst) == 0 {
                let _ = call(SYS_sched_yield, &[]);
            }
            exit(i32::from(call(SYS_pread64, &[zeros, area(), 1, 0]).is_ok()))
        }
    };
    let seal = || {
        call(SYS_munmap, &[area(), page()])?;
        call(SYS_fcntl, &[file.load(Ordering::SeqCst), F_ADD_SEALS as u64, F_SEAL_WRITE as u64])
    };
    let wrong = race(2 * rounds(), prepare, [&forks, &seal], |[child, sealed]| {
        is_over.store(1, Ordering::SeqCst);
        let can_write = child::wait(child.expect("a child") as i32) != 0;
        call(SYS_close, &[file.load(Ordering::SeqCst)]).expect("it is open");
        sealed == Ok(0) && !can_write || sealed == Err(Errno(EBUSY))
    });
    tell_race("seals beside a fork", wrong);
}
