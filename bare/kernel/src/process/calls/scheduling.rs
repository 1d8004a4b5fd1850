//! Which CPUs a thread runs on.

use crate::fallible::Arc;
use core::sync::atomic::Ordering;

use super::call::{Call, Row};
use crate::cpus::walkers;
use crate::errno::*;
use crate::process::copies;
use crate::process::numbers;
use crate::threads::dispatcher;
use crate::threads::thread::Thread;

pub(super) const CALLS: &[Row] =
    calls![(122, "sched_setaffinity", sched_setaffinity), (123, "sched_getaffinity", sched_getaffinity),];

/// The thread of a number; 0 is the caller.
fn named(call: &Call, number: i32) -> Result<Arc<Thread>, Errno> {
    match number {
        0 => Ok(call.thread.clone()),
        number => numbers::find_thread(number),
    }
}

fn cpus() -> u64 {
    walkers::running().into()
}

fn sched_getaffinity(call: &mut Call, number: i32, bytes: u32, to: u64) -> Answer {
    if bytes < 8 || !bytes.is_multiple_of(8) {
        return Err(EINVAL);
    }
    let own = u64::from(named(call, number)?.cpus.load(Ordering::Relaxed));
    copies::write_words(to, &[own & cpus()]).map(|()| 8)
}

fn sched_setaffinity(call: &mut Call, number: i32, bytes: u32, from: u64) -> Answer {
    let mut wanted = [0; 8];
    // What is not passed is 0.
    let part = &mut wanted[..bytes.min(8) as usize];
    copies::read(part, from)?;
    let wanted = u64::from_le_bytes(wanted) & cpus();
    let thread = named(call, number)?;
    call.check_owner(&thread)?;
    if wanted == 0 {
        return Err(EINVAL);
    }
    thread.cpus.store(wanted as u32, Ordering::Relaxed);
    if Arc::ptr_eq(&thread, call.thread) {
        dispatcher::leave_wrong_cpu();
    }
    Ok(0)
}
