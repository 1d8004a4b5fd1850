//! Where the programs leave Rust: calls, memory by address, `fork`, handlers of signals.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::errno::{Answer, Errno};

/// Makes a call; what is left out of its six arguments is 0.
pub fn call(number: libc::c_long, arguments: &[u64]) -> Answer {
    let argument = |index: usize| arguments.get(index).copied().unwrap_or(0);
    // SAFETY: a program that spoils its own memory by a call shows what the kernel made of it, which is its purpose.
    let answer =
        unsafe { libc::syscall(number, argument(0), argument(1), argument(2), argument(3), argument(4), argument(5)) };
    match answer {
        -1 => Err(Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))),
        value => Ok(value as u64),
    }
}

/// Has allocation `count` from here on fail in the kernel, be it of the heap or of pages, or none for 0; how many were left of what was asked
/// for before. Nothing if the kernel does not know of it: ours alone does.
pub fn fail_allocation(count: u64) -> Option<u64> {
    const FAIL_ALLOCATION: u64 = 0x5645_4c46;
    call(libc::SYS_prctl, &[FAIL_ALLOCATION, count, 0, 0, 0]).ok()
}

/// Bytes of a page.
pub fn page() -> u64 {
    // SAFETY: it asks, and changes nothing.
    (unsafe { libc::sysconf(libc::_SC_PAGESIZE) }) as u64
}

/// Reads a byte.
pub fn peek(address: u64) -> u8 {
    // SAFETY: an address of the program's own, or a fault that is to be seen.
    unsafe { std::ptr::read_volatile(address as *const u8) }
}

/// Writes a byte.
pub fn poke(address: u64, value: u8) {
    // SAFETY: memory that the program has mapped for this, or a fault that is to be seen.
    unsafe { std::ptr::write_volatile(address as *mut u8, value) }
}

/// Writes a byte into each page of a range.
pub fn touch(start: u64, bytes: u64, value: u8) {
    (start..start + bytes).step_by(page() as usize).for_each(|address| poke(address, value));
}

/// A word that threads share, at an address.
pub fn word(address: u64) -> &'static AtomicU32 {
    // SAFETY: memory that the program has mapped for this and keeps mapped; its own addresses are multiples of four.
    unsafe { AtomicU32::from_ptr(address as *mut u32) }
}

/// Eight bytes that threads or processes share, at an address.
pub fn long(address: u64) -> &'static AtomicU64 {
    // SAFETY: memory that the program has mapped for this and keeps mapped, or a fault is to be seen; a multiple of eight.
    unsafe { AtomicU64::from_ptr(address as *mut u64) }
}

/// Has `body` do to a word what it does by an instruction that reads and writes in one access.
pub fn atomically<T>(address: u64, body: impl FnOnce(&'static AtomicU32) -> T) {
    // SAFETY: the CPUs that the programs run on have FEAT_LSE.
    unsafe { with_lse(word(address), body) };
}

/// `body` is inlined, as it has no other use.
#[cfg_attr(target_arch = "aarch64", target_feature(enable = "lse"))]
unsafe fn with_lse<T>(word: &'static AtomicU32, body: impl FnOnce(&'static AtomicU32) -> T) {
    body(word);
}

/// Runs what is at an address, which returns a number.
pub fn execute(address: u64) -> u64 {
    // SAFETY: the program has put a function there, or a fault is to be seen.
    let function: extern "C" fn() -> u64 = unsafe { std::mem::transmute(address) };
    function()
}

/// The same of a function of one number.
pub fn execute_with(address: u64, argument: u64) -> u64 {
    // SAFETY: as above.
    let function: extern "C" fn(u64) -> u64 = unsafe { std::mem::transmute(address) };
    function(argument)
}

/// The number of the child, or `None` in the child.
pub fn fork() -> Option<i32> {
    // SAFETY: the programs fork while they have one thread, or call nothing that needs the others.
    match unsafe { libc::fork() } {
        0 => None,
        number => Some(number),
    }
}

/// Ends at once.
pub fn exit(status: i32) -> ! {
    // SAFETY: it ends the process.
    unsafe { libc::_exit(status) }
}

/// What a handler is told: signal, code, and the words of `siginfo_t` behind them.
pub type Handler = extern "C" fn(i32, &libc::siginfo_t, *mut libc::c_void);

/// Has a handler called for a signal.
pub fn handle(signal: i32, handler: Handler, flags: i32) -> Answer {
    // SAFETY: all zeros is a mask without signals, and no restorer.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | flags;
    set_action(signal, &action)
}

/// Has a signal ignored (SIG_IGN), or do what it does (SIG_DFL).
pub fn dispose(signal: i32, what: usize) -> Answer {
    // SAFETY: as above.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = what;
    set_action(signal, &action)
}

fn set_action(signal: i32, action: &libc::sigaction) -> Answer {
    // SAFETY: the structure is whole.
    match unsafe { libc::sigaction(signal, action, std::ptr::null_mut()) } {
        0 => Ok(0),
        _ => Err(Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))),
    }
}

/// The address that a fault was at.
pub fn fault_address(info: &libc::siginfo_t) -> u64 {
    // SAFETY: of the signals that programs look at here, the first word behind the code is an address.
    unsafe { info.si_addr() as u64 }
}

/// Who sent a signal, and the value or status that came with it.
pub fn sender(info: &libc::siginfo_t) -> (i32, i32) {
    // SAFETY: of the signals that programs look at here, it is there.
    let process = unsafe { info.si_pid() };
    // SAFETY: as is this.
    let value = unsafe { info.si_status() };
    (process, value)
}

/// ESR_EL1 of the fault that a handler was called for, if the kernel tells it.
#[cfg(target_arch = "aarch64")]
pub fn syndrome(context: *mut libc::c_void) -> Option<u64> {
    const MAGIC: u32 = 0x4553_5201;
    /// Where the records begin in `ucontext_t`: behind `fault_address`, 31 registers, sp, pc, pstate, to 16 bytes.
    const RECORDS: u64 = 176 + 8 + 31 * 8 + 3 * 8 + 8;
    let mut at = context as u64 + RECORDS;
    loop {
        let (magic, bytes) = (word(at).load(Ordering::Relaxed), word(at + 4).load(Ordering::Relaxed));
        if magic == MAGIC {
            let halves = [at + 8, at + 12].map(|at| u64::from(word(at).load(Ordering::Relaxed)));
            return Some(halves[0] | halves[1] << 32);
        }
        if magic == 0 || bytes == 0 {
            return None;
        }
        at += u64::from(bytes);
    }
}

/// Elsewhere there is none.
#[cfg(not(target_arch = "aarch64"))]
pub fn syndrome(_: *mut libc::c_void) -> Option<u64> {
    None
}

/// Where the program counter is among the words of the context, to go on behind the instruction that faulted.
pub fn skip_instruction(context: *mut libc::c_void) {
    const COUNTER: u64 = 176 + 8 + 31 * 8 + 8;
    let place = context as u64 + COUNTER;
    let at = |offset: u64| word(place + offset);
    let counter = u64::from(at(0).load(Ordering::Relaxed)) | u64::from(at(4).load(Ordering::Relaxed)) << 32;
    let next = counter + 4;
    at(0).store(next as u32, Ordering::Relaxed);
    at(4).store((next >> 32) as u32, Ordering::Relaxed);
}

/// A number that a handler leaves behind.
pub static SEEN: AtomicU64 = AtomicU64::new(0);
