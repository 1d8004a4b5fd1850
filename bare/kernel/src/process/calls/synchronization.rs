//! Futexes, and what threads tell of themselves to the kernel.

use alloc::vec::Vec;
use core::sync::atomic::{Ordering, fence};

use super::call::{Call, Row};
use super::time::deadline;
use crate::cpus::calls;
use crate::errno::*;
use crate::fallible::List;
use crate::process::futex::Place;
use crate::process::{copies, futex, numbers, ownership, rseq};
use crate::threads::thread::try_current;

pub(super) const CALLS: &[Row] = calls![
    (96, "set_tid_address", set_tid_address),
    (98, "futex", futex),
    (99, "set_robust_list", set_robust_list),
    (100, "get_robust_list", get_robust_list),
    (283, "membarrier", membarrier),
    (293, "rseq", rseq),
    (449, "futex_waitv", futex_waitv),
];

fn set_tid_address(call: &mut Call, address: u64) -> Answer {
    call.thread.task().clear_at_end.set(address);
    Ok(call.thread.number() as u64)
}

fn set_robust_list(call: &mut Call, head: u64, bytes: u64) -> Answer {
    if bytes != 24 {
        return Err(EINVAL);
    }
    call.thread.task().robust_list.store(head, Ordering::Relaxed);
    Ok(0)
}

fn get_robust_list(call: &mut Call, number: i32, head: u64, bytes: u64) -> Answer {
    let thread = match number {
        0 => call.thread.clone(),
        number => numbers::find_thread(number)?,
    };
    copies::write_words(bytes, &[24])?;
    copies::write_words(head, &[thread.task().robust_list.load(Ordering::Relaxed)]).map(|()| 0)
}

fn rseq(call: &mut Call, address: u64, bytes: u32, flags: u32, signature: u32) -> Answer {
    rseq::set(&call.thread.task().sequences, address, bytes, flags, signature)
}

fn futex(call: &mut Call, address: u64, operation: u32, value: u32, time: u64, second: u64, third: u32) -> Answer {
    const PRIVATE: u32 = 128;
    const REALTIME: u32 = 256;
    const WAIT: u32 = 0;
    const WAIT_BITSET: u32 = 9;
    const LOCK: u32 = 6;
    const UNLOCK: u32 = 7;
    const TRY_LOCK: u32 = 8;
    const LOCK_BY_CLOCK: u32 = 13;
    let (process, operation) = (call.process(), operation);
    let command = operation & !(PRIVATE | REALTIME);
    let is_real = operation & REALTIME != 0;
    // The time of FUTEX_WAIT is a length, that of the others is a point.
    let until = match command {
        WAIT | LOCK | WAIT_BITSET | LOCK_BY_CLOCK if time != 0 => Some(deadline(time, command != WAIT)?),
        _ => None,
    };
    const KNOWN: [u32; 11] = [WAIT, 1, 3, 4, 5, LOCK, UNLOCK, TRY_LOCK, WAIT_BITSET, 10, LOCK_BY_CLOCK];
    if !KNOWN.contains(&command) || is_real && ![WAIT_BITSET, LOCK_BY_CLOCK].contains(&command) {
        return Err(ENOSYS);
    }
    let is_shared = operation & PRIVATE == 0;
    let place = |address: u64| Place { address: copies::without_tag(address), is_shared };
    let (place, other) = (place(address), place(second));
    futex::check(process, place)?;
    // Who is to wake none, or less, wakes one.
    let some = (value as i32).max(1) as usize;
    let counts = || match [value, time as u32].map(|value| usize::try_from(value as i32)) {
        [Ok(wakes), Ok(moves)] => Ok([wakes, moves]),
        _ => Err(EINVAL),
    };
    let wait = |bits: u32| restartable(futex::wait(process, place, value, bits, until), time == 0);
    match command {
        WAIT => wait(u32::MAX),
        WAIT_BITSET => wait(third),
        LOCK | LOCK_BY_CLOCK => ownership::lock(process, place, until, true),
        TRY_LOCK => ownership::lock(process, place, None, false),
        UNLOCK => ownership::unlock(process, place),
        1 => Ok(futex::wake(process, place, some, u32::MAX) as u64),
        10 if third == 0 => Err(EINVAL),
        10 => Ok(futex::wake(process, place, some, third) as u64),
        3 => futex::requeue(process, [place, other], counts()?, None),
        4 => futex::requeue(process, [place, other], counts()?, Some(third)),
        _ => wake_operation(call, [place, other], [value, time as u32], third),
    }
}

/// Waits for one of several words.
fn futex_waitv(call: &mut Call, list: u64, count: u32, flags: u32, time: u64, clock: u32) -> Answer {
    const MOST: u32 = 128;
    const PRIVATE: u64 = 128;
    /// A word of 32 bits.
    const WORD: u64 = 2;
    if flags != 0 || count == 0 || count > MOST || list == 0 {
        return Err(EINVAL);
    }
    let until = match time {
        0 => None,
        _ if clock > 1 => return Err(EINVAL),
        time => Some(deadline(time, true)?),
    };
    let mut words = Vec::new();
    for index in 0..u64::from(count) {
        let [value, address, kind] = copies::read_words(list + 24 * index)?;
        // The upper half is kept for later.
        if kind & !PRIVATE != WORD {
            return Err(EINVAL);
        }
        words.try_push((Place { address, is_shared: kind & PRIVATE == 0 }, value as u32))?;
    }
    futex::wait_for_any(call.process(), &words, until)
}

fn restartable(answer: Answer, may_restart: bool) -> Answer {
    if answer == Err(EINTR) && may_restart { Err(ERESTART) } else { answer }
}

/// FUTEX_WAKE_OP: changes a second word, wakes who waits for the first, and, by what the second was, who waits for that.
fn wake_operation(call: &Call, [place, other]: [Place; 2], [first, second]: [u32; 2], encoded: u32) -> Answer {
    let process = call.process();
    futex::check(process, Place { is_shared: false, ..other })?;
    let operand = if encoded >> 31 == 1 { 1 << (encoded >> 12 & 31) } else { ((encoded << 8) as i32 >> 20) as u32 };
    let compared = (encoded << 20) as i32 >> 20;
    let operation = encoded >> 28 & 7;
    if operation > 4 {
        return Err(ENOSYS);
    }
    let change = |old: u32| match operation {
        0 => operand,
        1 => old.wrapping_add(operand),
        2 => old | operand,
        3 => old & !operand,
        _ => old ^ operand,
    };
    let is_so = |old: u32| match encoded >> 24 & 15 {
        0 => Ok(old as i32 == compared),
        1 => Ok(old as i32 != compared),
        2 => Ok((old as i32) < compared),
        3 => Ok(old as i32 <= compared),
        4 => Ok(old as i32 > compared),
        5 => Ok(old as i32 >= compared),
        _ => Err(ENOSYS),
    };
    let most = [first, second].map(|count| (count as i32).max(1) as usize);
    futex::change_and_wake(process, [place, other], most, change, is_so)
}

/// Every thread that runs has done what it did before, and its sequences are over, once this returns.
fn membarrier(call: &mut Call, command: u32, flags: u32) -> Answer {
    /// All commands, a bit each, as MEMBARRIER_CMD_QUERY has them.
    const KNOWN: u64 = 0x1ff;
    const RSEQ: u64 = 1 << 7;
    /// Those that ask for something to have been announced by the next, which these are.
    const PRIVATE: [u64; 3] = [1 << 3, 1 << 5, RSEQ];
    let [command, flags] = [command, flags].map(u64::from);
    // Of one CPU alone, which is no less than all.
    if flags != 0 && (command, flags) != (RSEQ, 1) {
        return Err(EINVAL);
    }
    let wishes = &call.process().wishes;
    match command {
        0 => return Ok(KNOWN),
        4 => return Ok(0),
        1 | 2 => {}
        command if PRIVATE.contains(&(command >> 1)) => {
            wishes.with(|wishes| wishes.barriers |= command);
            return Ok(0);
        }
        command if PRIVATE.contains(&command) => {
            if wishes.with(|wishes| wishes.barriers) & command << 1 == 0 {
                return Err(EPERM);
            }
        }
        _ => return Err(EINVAL),
    }
    calls::on_every_cpu(&|_| {
        // Behind what the CPU did for its thread, before what it does; the exception's return is the rest.
        fence(Ordering::SeqCst);
        if let Some(thread) = try_current() {
            thread.task().sequences.note_leaving();
        }
    });
    Ok(0)
}
