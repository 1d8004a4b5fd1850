//! Children, what they end with, and faults that are to be seen.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::machine::{call, exit, fault_address, fork, handle, syndrome};
use crate::memory::distance;

/// Runs `body` in a child; how that ended, in words.
pub fn child(body: impl FnOnce() -> i32) -> String {
    match fork() {
        None => exit(body()),
        Some(number) => ended(wait(number)),
    }
}

/// Runs `body` in a child and tells how that ended, if not well.
pub fn in_child(what: &str, body: impl FnOnce()) {
    let end = child(|| {
        body();
        0
    });
    if end != "ended with 0" {
        println!("{what}: {end}");
    }
}

/// The status of a child, once it is over.
pub fn wait(number: i32) -> i32 {
    let mut status = 0i32;
    loop {
        match call(libc::SYS_wait4, &[number as u64, &raw mut status as u64, 0, 0]) {
            Err(error) if error.0 == libc::EINTR => {}
            Ok(_) => return status,
            Err(error) => panic!("wait4: {error}"),
        }
    }
}

/// A status in words.
pub fn ended(status: i32) -> String {
    match status & 0x7f {
        0 => format!("ended with {}", status >> 8 & 0xff),
        signal => format!("killed by {}{}", signal_name(signal), if status & 0x80 != 0 { ", core" } else { "" }),
    }
}

/// A signal by its name.
pub fn signal_name(number: i32) -> String {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM",
        "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF",
        "WINCH", "IO", "PWR", "SYS",
    ];
    NAMES.get(number as usize - 1).map_or(format!("signal {number}"), |name| format!("SIG{name}"))
}

static BASE: AtomicU64 = AtomicU64::new(0);

extern "C" fn tell_fault(signal: i32, info: &libc::siginfo_t, context: *mut libc::c_void) {
    let mut line = String::new();
    let place = match info.si_code {
        1.. => distance(fault_address(info), BASE.load(Ordering::Relaxed)),
        _ => "no address".into(),
    };
    // A string takes everything.
    let _ = write!(line, "{} code {} at {place}", signal_name(signal), info.si_code);
    if let Some(syndrome) = syndrome(context) {
        let _ = write!(line, ", class {:#x}{}", syndrome >> 26, if syndrome & 0x40 != 0 { ", a write" } else { "" });
    }
    println!("{line}");
    exit(0);
}

/// Has a child do what faults, and tells which signal comes of it; `base` is what its address is told from.
pub fn faults<T>(what: &str, base: u64, body: impl FnOnce() -> T) {
    print!("{what}: ");
    std::io::Write::flush(&mut std::io::stdout()).expect("it can be written");
    let end = child(|| {
        BASE.store(base, Ordering::Relaxed);
        for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGTRAP, libc::SIGFPE] {
            handle(signal, tell_fault, 0).expect("a handler");
        }
        // What was read is of no use.
        let _ = body();
        println!("no fault");
        0
    });
    if end != "ended with 0" {
        println!("{end}");
    }
}

/// The number of a thread or process that is nobody's.
pub const NOBODY: u64 = 0x3f_fff0;
