//! What is kept of actions, alternate stacks and their sizes, and who is told to have sent what the kernel sends.

use libc::*;
use programs::child::signal_name;
use programs::machine::{dispose, exit, fork, handle, sender};
use programs::memory::pages;
use programs::{call, child, in_child, page, tell};
use std::sync::atomic::{AtomicU64, Ordering};

// Of one type with every C library: RLIMIT_FSIZE.
const FILE_BYTES: u64 = 1;
const AUTODISARM: u64 = 1 << 31;

static AT: AtomicU64 = AtomicU64::new(0);

fn main() {
    kept();
    pending();
    ignored();
    senders();
    sizes();
    disarmed();
}

fn mask(how: i32, set: u64) {
    call(SYS_rt_sigprocmask, &[how as u64, &raw const set as u64, 0, 8]).expect("a mask");
}

const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

fn send(signal: i32) {
    call(SYS_kill, &[std::process::id().into(), signal as u64]).expect("it is sent");
}

fn kept() {
    for (flags, set) in [(0x400u64, u64::MAX), (0x1800, 0), (u64::MAX, bit(SIGKILL) | bit(SIGUSR2)), (0, 0)] {
        let action = [1u64, flags, 0, set];
        let mut told = [7u64; 4];
        let which = SIGUSR2 as u64;
        tell("an action", call(SYS_rt_sigaction, &[which, action.as_ptr() as u64, 0, 8]));
        call(SYS_rt_sigaction, &[which, 0, told.as_mut_ptr() as u64, 8]).expect("it tells");
        println!("  {:#x} {:#x}", told[1], told[3]);
    }
    dispose(SIGUSR2, SIG_DFL).expect("usual");
}

fn pending() {
    mask(SIG_BLOCK, bit(SIGUSR1) | bit(40));
    send(SIGUSR1);
    send(40);
    for bytes in [0, 1, 4, 7, 8, 9, u64::MAX] {
        let mut set = 0x5555_5555_5555_5555u64;
        tell("pending", call(SYS_rt_sigpending, &[&raw mut set as u64, bytes]));
        println!("  {set:#x}");
    }
    dispose(SIGUSR1, SIG_IGN).expect("ignored");
    dispose(40, SIG_IGN).expect("ignored");
    mask(SIG_SETMASK, 0);
}

/// A child's end is told to nobody who ignores it.
fn ignored() {
    for what in [SIG_DFL, SIG_IGN] {
        dispose(SIGCHLD, what).expect("it is set");
        mask(SIG_BLOCK, bit(SIGCHLD));
        let number = fork().unwrap_or_else(|| exit(3));
        let waited = call(SYS_wait4, &[number as u64, 0, 0, 0]).map(|_| 0);
        tell("waited", waited);
        let mut set = 0u64;
        call(SYS_rt_sigpending, &[&raw mut set as u64, 8]).expect("a set");
        println!("pending: {set:#x}");
        mask(SIG_SETMASK, 0);
    }
    dispose(SIGCHLD, SIG_DFL).expect("usual");
}

extern "C" fn told(signal: i32, info: &siginfo_t, _: *mut c_void) {
    let who = sender(info).0 as u32;
    let who = if who == std::process::id() {
        "itself"
    } else if who == 0 {
        "nobody"
    } else {
        "another"
    };
    println!("  {} code {} of {who}", signal_name(signal), info.si_code);
}

extern "C" fn noted(_: i32, info: &siginfo_t, _: *mut c_void) {
    let is_own = info.si_code == 0 && sender(info).0 as u32 == std::process::id();
    AT.fetch_add(u64::from(is_own), Ordering::SeqCst);
}

fn senders() {
    for signal in [SIGPIPE, SIGXFSZ, SIGUSR1] {
        handle(signal, told, 0).expect("a handler");
    }
    let mut ends = [0i32; 2];
    call(SYS_pipe2, &[ends.as_mut_ptr() as u64, 0]).expect("a pipe");
    call(SYS_close, &[ends[0] as u64]).expect("it closes");
    tell("nobody reads", call(SYS_write, &[ends[1] as u64, c"x".as_ptr() as u64, 1]));
    handle(SIGXFSZ, noted, 0).expect("a handler");
    in_child("a limit", || {
        let limit = [4u64, u64::MAX];
        call(SYS_setrlimit, &[FILE_BYTES, limit.as_ptr() as u64]).expect("a limit");
        let path = c"limited".as_ptr() as u64;
        let number = call(SYS_openat, &[AT_FDCWD as u64, path, (O_CREAT | O_RDWR) as u64, 0o644]).expect("a file");
        let write = || call(SYS_write, &[number, c"123456".as_ptr() as u64, 6]);
        let answers = [write(), write(), call(SYS_ftruncate, &[number, 6])];
        // What is printed may go to a file too.
        let limit = [u64::MAX; 2];
        call(SYS_setrlimit, &[FILE_BYTES, limit.as_ptr() as u64]).expect("no limit");
        for (what, answer) in ["up to the limit", "beyond the limit", "longer than the limit"].into_iter().zip(answers)
        {
            tell(what, answer);
        }
        println!("told {} times of itself", AT.load(Ordering::SeqCst));
    });
    in_child("a parent that ends", || {
        let mut ends = [0i32; 2];
        call(SYS_pipe2, &[ends.as_mut_ptr() as u64, 0]).expect("a pipe");
        mask(SIG_BLOCK, bit(SIGUSR1));
        if fork().is_some() {
            // The child has asked for the signal once it has written.
            let mut byte = 0u8;
            call(SYS_read, &[ends[0] as u64, &raw mut byte as u64, 1]).expect("it reads");
            let middle = u64::from(std::process::id());
            if fork().is_none() {
                exit(0);
            }
            return println!("the parent ends: {}", middle > 0);
        }
        let parent = call(SYS_getppid, &[]).expect("a number") as i32;
        call(SYS_prctl, &[PR_SET_PDEATHSIG as u64, SIGUSR1 as u64]).expect("it is set");
        call(SYS_write, &[ends[1] as u64, c"x".as_ptr() as u64, 1]).expect("it writes");
        let (set, time, mut info) = (bit(SIGUSR1), [20u64, 0], [0i32; 32]);
        let to = info.as_mut_ptr() as u64;
        tell("a parent's end", call(SYS_rt_sigtimedwait, &[&raw const set as u64, to, time.as_ptr() as u64, 8]));
        println!("  code {} of the parent {}", info[2], info[4] == parent);
    });
    // The grandchild may still be telling.
    let long = [0u64, 500_000_000];
    call(SYS_nanosleep, &[long.as_ptr() as u64, 0]).ok();
}

fn set(start: u64, flags: u64, bytes: u64) -> programs::Answer {
    let stack = [start, flags, bytes];
    call(SYS_sigaltstack, &[stack.as_ptr() as u64, 0])
}

fn tell_stack(what: &str) {
    let mut stack = [7u64; 3];
    call(SYS_sigaltstack, &[0, stack.as_mut_ptr() as u64]).expect("it tells");
    println!("{what}: flags {:#x}, {} bytes", stack[1] as u32, stack[2]);
}

fn sizes() {
    let room = pages(16);
    for bytes in [0, 2048, 4096, 5119, 5120, 16 * page()] {
        tell(&format!("{} bytes", if bytes > 5120 { 0 } else { bytes }), set(room, 0, bytes));
    }
    tell("on the stack", set(room, 1, 16 * page()));
    tell_stack("there");
    tell("none", set(room, SS_DISABLE as u64, 16 * page()));
    tell_stack("none");
    tell("unknown flags", set(room, 4, 16 * page()));
    tell("none, and a flag", set(room, AUTODISARM | SS_DISABLE as u64, 0));
}

extern "C" fn within(_: i32, _: &siginfo_t, _: *mut c_void) {
    let local = 0u8;
    println!("  on the stack: {}", (&raw const local as u64).wrapping_sub(AT.load(Ordering::SeqCst)) < 16 * page());
    tell_stack("  in the handler");
    tell("  changed meanwhile", set(AT.load(Ordering::SeqCst), AUTODISARM, 8 * page()));
    tell_stack("  changed");
}

fn disarmed() {
    let room = pages(16);
    AT.store(room, Ordering::SeqCst);
    for on_stack in [SA_ONSTACK, 0] {
        handle(SIGUSR2, within, on_stack).expect("a handler");
        tell("disarmed while it is used", set(room, AUTODISARM, 16 * page()));
        tell_stack("before");
        send(SIGUSR2);
        tell_stack("after");
    }
    println!(
        "in a child: {}",
        child(|| {
            tell_stack("of a child");
            0
        })
    );
}
