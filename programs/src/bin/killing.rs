//! SIGKILL ends every call, however much it is asked for: a child makes each, and the parent waits for its end for a number of steps.
//!
//! ```text
//! child   ──▶ says that it begins ──▶ the call ──▶ for ever
//! parent  ──▶ waits for that ──▶ some turns ──▶ SIGKILL ──▶ is it over? ──▶ …
//! ```

use std::sync::atomic::Ordering;

use libc::*;
use programs::child::{ended, wait};
use programs::machine::{exit, fork, long};
use programs::memory::{ANONYMOUS, READ_WRITE};
use programs::{call, child, map, page};

/// Bytes of what is mapped, far more than there is memory; and of what is moved.
const LARGE: u64 = 1 << 44;
const MOVED: u64 = 0x7fff_f000;
/// Turns that a child has before it is killed, and looks of the parent until it must be over.
const TURNS: usize = 200;
const LOOKS: usize = 3_000_000;
const RESERVE_NOTHING: i32 = ANONYMOUS | MAP_NORESERVE;

fn main() {
    memory();
    bytes();
    areas();
    beside();
    in_vfork();
}

/// Who waits for a lock that another process has for long is killed as well: the other changes its memory, or writes a file, for ever.
fn beside() {
    let holder = |body: &dyn Fn(&dyn Fn()) -> programs::Answer| {
        let shared = map(0, page(), READ_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0).expect("memory");
        let has_begun = long(shared);
        let child = fork().unwrap_or_else(|| {
            let _ = body(&|| has_begun.store(1, Ordering::Release));
            exit(1)
        });
        while has_begun.load(Ordering::Acquire) == 0 {
            let _ = call(SYS_sched_yield, &[]);
        }
        child
    };
    let end = |child: i32| {
        let _ = call(SYS_kill, &[child as u64, SIGKILL as u64]);
        println!("  the other: {}", ended(wait(child)));
    };
    let other = holder(&|begin| {
        let at = room(LARGE, READ_WRITE);
        begin();
        loop {
            call(SYS_mprotect, &[at, LARGE, PROT_READ as u64])?;
            call(SYS_mprotect, &[at, LARGE, READ_WRITE as u64])?;
        }
    });
    let path = std::ffi::CString::new(format!("/proc/{other}/smaps")).expect("a path");
    killed("smaps of another", |begin| {
        let text = room(1 << 16, READ_WRITE);
        begin();
        loop {
            let file = call(SYS_openat, &[AT_FDCWD as u64, path.as_ptr() as u64, O_RDONLY as u64, 0])?;
            while call(SYS_read, &[file, text, 1 << 16])? > 0 {}
            call(SYS_close, &[file])?;
        }
    });
    end(other);
    let file = call(SYS_memfd_create, &[c"shared".as_ptr() as u64, 0]).expect("a file");
    let write_again = |begin: &dyn Fn()| {
        let (at, bytes) = (room(page(), PROT_READ), 1024 * page());
        let buffers = room(1024 * 16, READ_WRITE);
        for index in 0..1024 {
            long(buffers + 16 * index).store(at, Ordering::Relaxed);
            long(buffers + 16 * index + 8).store(page(), Ordering::Relaxed);
        }
        // Opened once more: what both wait for is the content, and not where the file stands.
        let own = std::ffi::CString::new(format!("/proc/self/fd/{file}")).expect("a path");
        let own = call(SYS_openat, &[AT_FDCWD as u64, own.as_ptr() as u64, O_RDWR as u64, 0])?;
        begin();
        loop {
            call(SYS_lseek, &[own, 0, SEEK_SET as u64])?;
            call(SYS_writev, &[own, buffers, 1024])?;
            call(SYS_ftruncate, &[file, bytes / 2])?;
        }
    };
    let other = holder(&write_again);
    killed("a file that another writes", write_again);
    end(other);
}

/// So many bytes with these rights, of which there is nothing yet.
fn room(bytes: u64, rights: i32) -> u64 {
    map(0, bytes, rights, RESERVE_NOTHING, -1, 0).expect("room")
}

fn memory() {
    killed("MADV_POPULATE_READ", |begin| {
        let at = room(LARGE, PROT_READ);
        begin();
        call(SYS_madvise, &[at, LARGE, MADV_POPULATE_READ as u64])
    });
    killed("MADV_POPULATE_READ of what may be executed", |begin| {
        let at = room(LARGE, PROT_READ | PROT_EXEC);
        begin();
        call(SYS_madvise, &[at, LARGE, MADV_POPULATE_READ as u64])
    });
    killed("MAP_POPULATE", |begin| {
        begin();
        map(0, LARGE, PROT_READ, RESERVE_NOTHING | MAP_POPULATE, -1, 0)
    });
    killed("mlock", |begin| {
        let at = room(LARGE, PROT_READ);
        begin();
        call(SYS_mlock, &[at, LARGE])
    });
    killed("mlockall", |begin| {
        room(LARGE, PROT_READ);
        begin();
        call(SYS_mlockall, &[MCL_CURRENT as u64])
    });
    killed("mincore", |begin| {
        let (at, to) = (room(LARGE, PROT_READ), room(LARGE / page(), READ_WRITE));
        begin();
        call(SYS_mincore, &[at, LARGE, to])
    });
    killed("mprotect and munmap again and again", |begin| {
        let at = room(LARGE, READ_WRITE);
        begin();
        loop {
            call(SYS_mprotect, &[at, LARGE, PROT_READ as u64])?;
            call(SYS_mprotect, &[at, LARGE, READ_WRITE as u64])?;
            call(SYS_munmap, &[at + LARGE / 2, LARGE / 2])?;
            map(at + LARGE / 2, LARGE / 2, READ_WRITE, RESERVE_NOTHING | MAP_FIXED, -1, 0)?;
        }
    });
}

fn bytes() {
    let open = |path: &std::ffi::CStr, flags: i32| {
        call(SYS_openat, &[AT_FDCWD as u64, path.as_ptr() as u64, flags as u64, 0]).expect("it opens")
    };
    let file = call(SYS_memfd_create, &[c"sparse".as_ptr() as u64, 0]).expect("a file");
    call(SYS_ftruncate, &[file, LARGE]).expect("it grows");
    for (what, path) in [("zero", c"/dev/zero"), ("a sparse file", c"")] {
        let from = if path.is_empty() { file } else { open(path, O_RDONLY) };
        killed(&format!("read of {what}, to one page again and again"), |begin| {
            let (at, buffers) = (room(page(), READ_WRITE), room(1024 * 16, READ_WRITE));
            for index in 0..1024 {
                long(buffers + 16 * index).store(at, Ordering::Relaxed);
                long(buffers + 16 * index + 8).store(page(), Ordering::Relaxed);
            }
            begin();
            loop {
                call(SYS_readv, &[from, buffers, 1024])?;
            }
        });
    }
    let null = open(c"/dev/null", O_WRONLY);
    killed("sendfile of a sparse file", |begin| {
        begin();
        loop {
            call(SYS_sendfile, &[null, file, 0, MOVED])?;
        }
    });
    killed("SEEK_HOLE and SEEK_DATA", |begin| {
        begin();
        loop {
            call(SYS_lseek, &[file, 0, SEEK_HOLE as u64])?;
            let _ = call(SYS_lseek, &[file, 0, SEEK_DATA as u64]);
        }
    });
    killed("a pipe that nobody reads", |begin| {
        let mut ends = [0i32; 2];
        call(SYS_pipe2, &[ends.as_mut_ptr() as u64, 0])?;
        let at = room(MOVED, PROT_READ);
        begin();
        call(SYS_write, &[ends[1] as u64, at, MOVED])
    });
}

fn areas() {
    killed("maps and smaps of many areas", |begin| {
        let (count, at) = (20_000, room(40_000 * page(), PROT_NONE));
        for index in 0..count {
            call(SYS_mprotect, &[at + 2 * index * page(), page(), PROT_READ as u64])?;
        }
        let text = room(1 << 16, READ_WRITE);
        begin();
        loop {
            for path in [c"/proc/self/smaps", c"/proc/self/maps", c"/proc/self/smaps_rollup"] {
                let file = call(SYS_openat, &[AT_FDCWD as u64, path.as_ptr() as u64, O_RDONLY as u64, 0])?;
                while call(SYS_read, &[file, text, 1 << 16])? > 0 {}
                call(SYS_close, &[file])?;
            }
        }
    });
    // Who reads the text of the descriptor that it reads it by waits for nobody.
    let [one, other] = [(); 2].map(|()| {
        let path = c"/dev/null".as_ptr() as u64;
        call(SYS_openat, &[AT_FDCWD as u64, path, O_RDONLY as u64, 0]).expect("it opens")
    });
    let path = std::ffi::CString::new(format!("/proc/self/fdinfo/{other}")).expect("a path");
    let own = call(SYS_openat, &[AT_FDCWD as u64, path.as_ptr() as u64, O_RDONLY as u64, 0]).expect("it opens");
    call(SYS_dup3, &[own, other, 0]).expect("it is put there");
    let mut text = [0u8; 4];
    call(SYS_read, &[other, text.as_mut_ptr() as u64, 4]).expect("it can be read");
    println!("its own fdinfo: {}", String::from_utf8_lossy(&text));
    let _ = one;
}

/// Has a child begin a call, and kills it; how it ended.
fn killed(what: &str, body: impl FnOnce(&dyn Fn()) -> programs::Answer) {
    let shared = map(0, page(), READ_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0).expect("memory");
    let has_begun = long(shared);
    let Some(child) = fork() else {
        if let Err(error) = body(&|| has_begun.store(1, Ordering::Release)) {
            println!("{what}: {error}");
        }
        if has_begun.load(Ordering::Acquire) == 0 {
            exit(1);
        }
        loop {
            std::hint::spin_loop();
        }
    };
    let mut status = 0i32;
    let mut is_over = || call(SYS_wait4, &[child as u64, &raw mut status as u64, WNOHANG as u64, 0]) != Ok(0);
    while has_begun.load(Ordering::Acquire) == 0 && !is_over() {
        let _ = call(SYS_sched_yield, &[]);
    }
    for _ in 0..TURNS {
        let _ = call(SYS_sched_yield, &[]);
    }
    let _ = call(SYS_kill, &[child as u64, SIGKILL as u64]);
    let looks = (0..LOOKS).take_while(|_| {
        let goes_on = !is_over();
        let _ = call(SYS_sched_yield, &[]);
        goes_on
    });
    match looks.count() {
        LOOKS => println!("{what}: not over after {LOOKS} looks"),
        _ => println!("{what}: {}", ended(status)),
    }
}

/// Who waits for a child that has its memory is killed at once.
fn in_vfork() {
    let mut ends = [0i32; 2];
    call(SYS_pipe2, &[ends.as_mut_ptr() as u64, 0]).expect("a pipe");
    println!(
        "killed in vfork: {}",
        child(|| {
            let own = call(SYS_getpid, &[]).expect("a number");
            let flags = CLONE_VFORK as u64 | SIGCHLD as u64;
            if call(SYS_clone, &[flags, 0, 0, 0, 0]).expect("a child") == 0 {
                call(SYS_kill, &[own, SIGKILL as u64]).expect("a signal");
                // It goes on when the other has ended: nobody else writes.
                let mut byte = 0u8;
                call(SYS_close, &[ends[1] as u64]).expect("it closes");
                call(SYS_read, &[ends[0] as u64, &raw mut byte as u64, 1]).ok();
                exit(0);
            }
            3
        })
    );
}
