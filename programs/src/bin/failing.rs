//! Calls whose n-th allocation fails, for each n until none does. A kernel that cannot be asked for that makes each call once.

use libc::*;
use programs::child::wait;
use programs::errno::{Answer, Errno};
use programs::machine::{exit, fail_allocation as fail, fork};
use programs::timers::{BY_SIGNAL, bit, event, mask};
use programs::{call, map, page};

/// More allocations than any call makes here.
const MOST: u64 = 3000;
const HERE: u64 = AT_FDCWD as u64;

/// Makes calls again and again, each time with another allocation that fails. What is refused has to change nothing, so that in the end
/// they come to what they come to.
fn every(what: &str, mut calls: impl FnMut() -> Answer) {
    for count in 1..MOST {
        let is_known = fail(count).is_some();
        let answer = calls();
        let left = fail(0).unwrap_or(1);
        if !is_known || left > 0 {
            return println!("{what}: {}", answer.map_or_else(|error| error.to_string(), |_| "done".into()));
        }
        match answer {
            Ok(_) | Err(Errno(ENOMEM | EAGAIN | ENOSPC | ENFILE | ENOLCK)) => {}
            Err(error) => println!("{what}: allocation {count} failed: {error}"),
        }
    }
    println!("{what}: no end");
}

/// Takes back what a call has made: at once, or once nothing fails any more.
fn undo(number: c_long, arguments: &[u64]) -> Answer {
    call(number, arguments).inspect_err(|_| {
        fail(0);
        call(number, arguments).expect("nothing fails any more");
    })
}

/// Makes a name in the tree, and takes it back. Memory for the name is asked for last: without it the tree is full.
fn makes(what: &str, number: c_long, arguments: &[u64], [name, flags]: [u64; 2]) {
    let mut last = Errno(ENOSPC);
    every(what, || {
        call(number, arguments).inspect_err(|error| last = *error)?;
        undo(SYS_unlinkat, &[HERE, name, flags])
    });
    println!("{what}, the last: {last}");
}

fn path(text: &'static std::ffi::CStr) -> u64 {
    text.as_ptr() as u64
}

fn open(name: u64, flags: i32) -> Answer {
    call(SYS_openat, &[HERE, name, flags as u64, 0o600])
}

fn close(number: u64) -> Answer {
    call(SYS_close, &[number])
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some("again") {
        // Run by `execute`, with what was left.
        let left = fail(0).unwrap_or(1);
        exit(if left > 0 { 0 } else { ENOMEM });
    }
    names();
    descriptors();
    splices();
    memory();
    blocks();
    signals();
    processes();
    execute(c"/failing.none");
    execute(c"/proc/self/exe");
    texts();
}

/// Files and folders: made, found, listed, renamed, taken away.
fn names() {
    let (file, other, folder, link) =
        (path(c"failing.file"), path(c"failing.other"), path(c"failing.d"), path(c"failing.l"));
    makes("mkdir", SYS_mkdirat, &[HERE, folder, 0o700], [folder, AT_REMOVEDIR as u64]);
    makes("mknod", SYS_mknodat, &[HERE, file, S_IFREG as u64 | 0o600, 0], [file, 0]);
    every("open", || {
        let number = open(file, O_CREAT | O_RDWR)?;
        close(number)?;
        undo(SYS_unlinkat, &[HERE, file, 0])
    });
    makes("symlink", SYS_symlinkat, &[path(c"failing.to"), HERE, link], [link, 0]);
    close(open(file, O_CREAT | O_RDWR).expect("a file")).expect("it closes");
    every("rename", || {
        call(SYS_renameat2, &[HERE, file, HERE, other, 0])?;
        undo(SYS_renameat2, &[HERE, other, HERE, file, 0])
    });
    every("stat", || {
        let mut stat = [0u64; 32];
        call(SYS_newfstatat, &[HERE, file, stat.as_mut_ptr() as u64, 0])
    });
    every("getdents", || {
        let number = open(path(c"/"), O_RDONLY | O_DIRECTORY)?;
        let mut room = [0u8; 4096];
        let answer = call(SYS_getdents64, &[number, room.as_mut_ptr() as u64, room.len() as u64]);
        close(number)?;
        answer
    });
    every("getcwd", || {
        let mut room = [0u8; 4096];
        call(SYS_getcwd, &[room.as_mut_ptr() as u64, room.len() as u64])
    });
    makes("link", SYS_linkat, &[HERE, file, HERE, other, 0], [other, 0]);
    call(SYS_unlinkat, &[HERE, file, 0]).expect("it was there");
}

/// Pipes, memory files, numbers, what waits for them, and content.
fn descriptors() {
    every("pipe", || {
        let mut ends = [0u32; 2];
        call(SYS_pipe2, &[ends.as_mut_ptr() as u64, 0])?;
        let written = call(SYS_write, &[ends[1].into(), c"words".as_ptr() as u64, 5]);
        close(ends[0].into())?;
        close(ends[1].into())?;
        written
    });
    every("memfd", || {
        let number = call(SYS_memfd_create, &[path(c"failing"), 0])?;
        let words = [7u8; 5000];
        let written = call(SYS_pwrite64, &[number, words.as_ptr() as u64, words.len() as u64, 3 * page()]);
        let shorter = written.and_then(|_| call(SYS_ftruncate, &[number, 100]));
        close(number)?;
        shorter
    });
    every("eventfd", || close(call(SYS_eventfd2, &[3, 0])?));
    every("dup", || close(call(SYS_dup3, &[1, 900, 0])?));
    every("poll", || {
        let mut asked = [[1u32, POLLOUT as u32]; 40];
        call(SYS_ppoll, &[asked.as_mut_ptr() as u64, 40, [0u64; 2].as_ptr() as u64, 0, 8])
    });
    every("lock", || {
        let number = call(SYS_memfd_create, &[path(c"failing"), 0])?;
        let mut answer = Ok(0);
        for at in 0..40u64 {
            let lock = [F_WRLCK as u64, 2 * at, 1, 0];
            answer = answer.and_then(|_| call(SYS_fcntl, &[number, F_SETLK as u64, lock.as_ptr() as u64]));
        }
        close(number)?;
        answer
    });
    every("writev", || {
        let number = call(SYS_memfd_create, &[path(c"failing"), 0])?;
        let parts = [[path(c"word"), 4]; 30];
        let answer = call(SYS_writev, &[number, parts.as_ptr() as u64, parts.len() as u64]);
        close(number)?;
        answer
    });
}

/// Areas: made, cut, moved, filled.
fn memory() {
    let bytes = 64 * page();
    every("map", || {
        let start = map(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)?;
        let cut = |at: u64| call(SYS_mprotect, &[start + at * page(), page(), PROT_READ as u64]);
        let answer = (1..60).step_by(2).try_for_each(|at| cut(at).map(|_| ()));
        let filled = call(SYS_madvise, &[start, page(), MADV_POPULATE_WRITE as u64]);
        undo(SYS_munmap, &[start, bytes])?;
        answer.and(filled.map_err(|error| if error.0 == EFAULT { Errno(ENOMEM) } else { error }))
    });
    every("shared", || {
        let start = map(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)?;
        undo(SYS_munmap, &[start, bytes])
    });
    let start = map(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0).expect("memory");
    programs::touch(start, bytes, 9);
    every("remap", || {
        let moved = call(SYS_mremap, &[start, bytes, 2 * bytes, MREMAP_MAYMOVE as u64])?;
        let left = fail(0);
        assert!((moved..moved + bytes).step_by(page() as usize).all(|at| programs::peek(at) == 9), "what was there");
        let back = (MREMAP_MAYMOVE | MREMAP_FIXED) as u64;
        if moved != start {
            call(SYS_mremap, &[moved, bytes, bytes, back, start]).expect("it goes back");
        }
        call(SYS_munmap, &[moved + bytes, bytes]).expect("it goes");
        left.map(fail);
        Ok(0)
    });
    assert!((start..start + bytes).step_by(page() as usize).all(|at| programs::peek(at) == 9), "what was there");
}

/// A pipe and a file for `body`, gone afterwards.
fn with_pipe(body: impl FnOnce([u64; 2], u64) -> Answer) -> Answer {
    let file = call(SYS_memfd_create, &[path(c"failing"), 0])?;
    let mut ends = [0u32; 2];
    let made = call(SYS_pipe2, &[ends.as_mut_ptr() as u64, O_NONBLOCK as u64]);
    let ends = ends.map(u64::from);
    let answer = made.and_then(|_| body(ends, file));
    if made.is_ok() {
        ends.into_iter().try_for_each(|end| close(end).map(drop))?;
    }
    close(file)?;
    answer
}

/// Bytes between files and pipes, and holes.
fn splices() {
    let words = [7u8; 9000];
    let parts = [[words.as_ptr() as u64, words.len() as u64]; 2];
    every("vmsplice", || with_pipe(|ends, _| call(SYS_vmsplice, &[ends[1], parts.as_ptr() as u64, 2, 0])));
    every("splice", || {
        with_pipe(|ends, file| {
            call(SYS_vmsplice, &[ends[1], parts.as_ptr() as u64, 2, 0])?;
            call(SYS_splice, &[ends[0], 0, file, 0, 8000, 0])?;
            let start = 0u64;
            call(SYS_splice, &[file, &raw const start as u64, ends[1], 0, 5000, 0])
        })
    });
    every("tee", || {
        with_pipe(|from, _| {
            with_pipe(|to, _| {
                call(SYS_vmsplice, &[from[1], parts.as_ptr() as u64, 2, 0])?;
                call(SYS_tee, &[from[0], to[1], 9000, 0])
            })
        })
    });
    every("sendfile", || {
        with_pipe(|ends, file| {
            call(SYS_pwrite64, &[file, words.as_ptr() as u64, words.len() as u64, 0])?;
            let start = 0u64;
            call(SYS_sendfile, &[ends[1], file, &raw const start as u64, 9000])
        })
    });
    every("room of a pipe", || with_pipe(|ends, _| call(SYS_fcntl, &[ends[0], F_SETPIPE_SZ as u64, 1 << 24])));
    every("fallocate", || {
        with_pipe(|_, file| {
            call(SYS_fallocate, &[file, 0, 0, 40 * page()])?;
            let hole = (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE) as u64;
            call(SYS_fallocate, &[file, hole, page(), 5 * page()])
        })
    });
}

/// Locks and advice, where leaves are as large as they come, and are split.
fn blocks() {
    const BYTES: u64 = 64 << 20;
    let room = map(0, 2 * BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0).expect("room");
    let (start, bytes) = (room.next_multiple_of(BYTES), (64 * page()).max(4 << 20));
    map(start, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0).expect("memory");
    programs::touch(start, bytes, 9);
    let (inner, few) = (start + 3 * page(), 5 * page());
    let again = |what: &str, there: (c_long, &[u64]), back: (c_long, &[u64])| {
        every(what, || {
            call(there.0, there.1)?;
            undo(back.0, back.1)
        });
    };
    again("mlock", (SYS_mlock, &[inner, few]), (SYS_munlock, &[inner, few]));
    again("mlock2", (SYS_mlock2, &[inner, few, 1]), (SYS_munlock, &[inner, few]));
    let both = (MCL_CURRENT | MCL_FUTURE) as u64;
    again("mlockall", (SYS_mlockall, &[both]), (SYS_munlockall, &[]));
    let writable = (PROT_READ | PROT_WRITE) as u64;
    again("mprotect", (SYS_mprotect, &[inner, few, 1]), (SYS_mprotect, &[inner, few, writable]));
    for (what, advice) in [("cold", MADV_COLD), ("no fork", MADV_DONTFORK), ("fork", MADV_DOFORK), ("pages", 15)] {
        every(what, || call(SYS_madvise, &[inner, few, advice as u64]));
    }
    every("populate", || {
        let fresh = map(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)?;
        let read = call(SYS_madvise, &[fresh, bytes, MADV_POPULATE_READ as u64]);
        let written = read.and_then(|_| call(SYS_madvise, &[fresh, bytes, MADV_POPULATE_WRITE as u64]));
        undo(SYS_munmap, &[fresh, bytes])?;
        written.map_err(|error| if error.0 == EFAULT { Errno(ENOMEM) } else { error })
    });
    forks("fork of blocks");
    assert!((start..start + bytes).step_by(page() as usize).all(|at| programs::peek(at) == 9), "what was there");
    every("a hole", || call(SYS_madvise, &[inner, few, MADV_DONTNEED as u64]));
    every("a block's end", || call(SYS_munmap, &[start + bytes - page(), page()]));
}

/// Timers, and signals that wait.
fn signals() {
    const SIGNAL: i32 = 40;
    mask(bit(SIGNAL));
    every("timer", || {
        let mut number = 0u32;
        let event = event(1, SIGNAL, BY_SIGNAL, 0);
        call(SYS_timer_create, &[CLOCK_MONOTONIC as u64, event.as_ptr() as u64, &raw mut number as u64])?;
        undo(SYS_timer_delete, &[number.into()])
    });
    every("interval", || {
        let words = [0u64, 0, 100, 0];
        call(SYS_setitimer, &[0, words.as_ptr() as u64, 0])?;
        undo(SYS_setitimer, &[0, [0u64; 4].as_ptr() as u64, 0])
    });
    every("sigqueue", || {
        let mut info = [0u64; 16];
        info[1] = SI_QUEUE as u32 as u64;
        call(SYS_rt_sigqueueinfo, &[std::process::id().into(), SIGNAL as u64, info.as_ptr() as u64])?;
        programs::timers::await_signal(SIGNAL, 0).map(|_| 0)
    });
    mask(0);
    every("futex", || {
        let word = 5u32;
        let waiter = [5u64, &raw const word as u64, 2];
        let until = [0u64; 2];
        let waiters = [waiter; 8];
        call(SYS_futex_waitv, &[waiters.as_ptr() as u64, 8, 0, until.as_ptr() as u64, 1])
            .or_else(|error| if error.0 == ETIMEDOUT { Ok(0) } else { Err(error) })
    });
    every("mutex", || {
        let word = 0u32;
        let place = &raw const word as u64;
        call(SYS_futex, &[place, 6 | 128, 0, 0])?;
        call(SYS_futex, &[place, 7 | 128, 0, 0])
    });
}

/// Children, and programs.
fn processes() {
    forks("fork");
    every("groups", || {
        let groups: Vec<u32> = (0..5000).collect();
        call(SYS_setgroups, &[5000, groups.as_ptr() as u64])?;
        undo(SYS_setgroups, &[0, 0])
    });
    every("name", || call(SYS_prctl, &[PR_SET_NAME as u64, path(c"failing")]));
}

fn forks(what: &str) {
    every(what, || {
        // By the call itself: nothing of the library's comes in between.
        let child = call(SYS_clone, &[SIGCHLD as u64, 0, 0, 0, 0])?;
        if child == 0 {
            exit(0);
        }
        let left = fail(0);
        wait(child as i32);
        left.map(fail);
        Ok(0)
    });
}

/// A program, with arguments. Past the point of no return a process ends by what fails.
fn execute(name: &'static std::ffi::CStr) {
    for count in 1..MOST {
        let child = fork().unwrap_or_else(|| {
            let is_known = fail(count).is_some();
            let arguments = [path(c"failing"), path(c"again"), 0];
            let answer = call(SYS_execve, &[path(name), arguments.as_ptr() as u64, arguments.as_ptr() as u64]);
            let refused = answer.expect_err("it does not come back").0;
            let left = fail(0).unwrap_or(1);
            exit(if !is_known || left > 0 { 0 } else { refused })
        });
        match wait(child) {
            0 => return println!("execve of {name:?}: done"),
            status if [ENOMEM << 8, ENOENT << 8, SIGKILL].contains(&status) => {}
            other => println!("execve of {name:?}: allocation {count} failed: {other:#x}"),
        }
    }
}

/// Texts of `/proc`.
fn texts() {
    let all = [
        path(c"/proc/self/maps"),
        path(c"/proc/self/smaps"),
        path(c"/proc/self/status"),
        path(c"/proc/self/stat"),
        path(c"/proc/self/limits"),
        path(c"/proc/self/cmdline"),
        path(c"/proc/cpuinfo"),
        path(c"/proc/meminfo"),
        path(c"/sys/kernel/mm/transparent_hugepage/enabled"),
    ];
    for (at, name) in all.into_iter().enumerate() {
        every(&format!("text {at}"), || {
            let number = open(name, O_RDONLY)?;
            let mut room = [0u8; 4096];
            let answer = call(SYS_read, &[number, room.as_mut_ptr() as u64, room.len() as u64]);
            close(number)?;
            answer
        });
    }
    for name in [path(c"/proc/self/exe"), path(c"/proc/self/cwd"), path(c"/proc/self/fd/1")] {
        every("link", || {
            let mut room = [0u8; 512];
            call(SYS_readlinkat, &[HERE, name, room.as_mut_ptr() as u64, room.len() as u64])
        });
    }
    for name in [path(c"/proc"), path(c"/proc/self"), path(c"/proc/self/task"), path(c"/sys/kernel/mm")] {
        every("folder", || {
            let number = open(name, O_RDONLY | O_DIRECTORY)?;
            let mut room = [0u8; 4096];
            let answer = call(SYS_getdents64, &[number, room.as_mut_ptr() as u64, room.len() as u64]);
            close(number)?;
            answer
        });
    }
}
