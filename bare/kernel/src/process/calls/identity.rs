//! Who a program is, what the machine is, and what it may have.

use core::sync::atomic::Ordering;

use super::amounts::MOST_BYTES;
use super::call::{Call, Row};
use crate::clock::{self, SECOND};
use crate::errno::*;
use crate::facts::page_size;
use crate::files::device::fill_randomly;
use crate::memory::{frames, pages};
use crate::process::table::{self, Process};
use crate::process::{copies, resources};
use crate::threads::thread::Spent;

pub(super) const CALLS: &[Row] = calls![
    (92, "personality", personality),
    (160, "uname", uname),
    (165, "getrusage", getrusage),
    (166, "umask", umask),
    (167, "prctl", super::prctl::prctl),
    (168, "getcpu", getcpu),
    (179, "sysinfo", sysinfo),
    (261, "prlimit64", prlimit64),
    (278, "getrandom", getrandom),
];

/// Descriptors that a process may have at most: `fs.nr_open`.
const MOST_FILES: u64 = 1 << 20;

fn getcpu(_: &mut Call, cpu: u64, node: u64) -> Answer {
    if cpu != 0 {
        copies::write_half(cpu, hardware::per_cpu::index() as u32)?;
    }
    if node != 0 {
        copies::write_half(node, 0)?;
    }
    Ok(0)
}

/// Bytes of a name of the machine, the last of which is zero.
const NAME_BYTES: usize = 65;

fn uname(_: &mut Call, to: u64) -> Answer {
    // Nobody has named host and domain. A version that programs know: what is here follows it.
    let parts = ["Linux", "(none)", "6.1.0", concat!("Vellum ", env!("CARGO_PKG_VERSION")), "aarch64", "(none)"];
    let mut bytes = [0; 6 * NAME_BYTES];
    for (place, part) in bytes.chunks_exact_mut(NAME_BYTES).zip(parts) {
        place[..part.len()].copy_from_slice(part.as_bytes());
    }
    copies::write(to, &bytes).map(|()| 0)
}

/// What it was before; nothing here follows it.
fn personality(call: &mut Call, new: u32) -> Answer {
    const ASKS: u32 = u32::MAX;
    Ok(call.process().wishes.with(|wishes| {
        let before = wishes.personality;
        wishes.personality = if new == ASKS { before } else { new };
        before.into()
    }))
}

fn umask(call: &mut Call, mask: u32) -> Answer {
    Ok(call.process().umask.swap(mask & 0o777, Ordering::Relaxed).into())
}

fn limit(process: &Process, resource: u32) -> Result<[u64; 2], Errno> {
    let found = process.limits.with(|limits| limits.0.get(resource as usize).copied());
    found.ok_or(EINVAL)
}

fn set_limit(call: &Call, process: &Process, resource: u32, [soft, hard]: [u64; 2]) -> Result<(), Errno> {
    let which = resource as usize;
    if soft > hard {
        return Err(EINVAL);
    }
    let may_raise = call.process().users.with(|users| users.is_root());
    process.limits.with(|limits| {
        let is_raised = hard > limits.0[which][1];
        if which == resources::FILES && hard > MOST_FILES || is_raised && !may_raise {
            return Err(EPERM);
        }
        limits.0[which] = [soft, hard];
        Ok(())
    })?;
    if which == resources::FILES {
        process.files.with(|files| files.most = soft as usize);
    }
    process.limit_memory();
    Ok(())
}

fn prlimit64(call: &mut Call, number: i32, resource: u32, new: u64, old: u64) -> Answer {
    let new = if new == 0 { None } else { Some(copies::read_words(new)?) };
    let process = match number {
        0 => call.process().clone(),
        number => table::find(number)?,
    };
    let theirs = process.users.with(|users| [users.user, users.group]);
    if !call.process().users.with(|users| users.may_limit(theirs)) {
        return Err(EPERM);
    }
    let before = limit(&process, resource)?;
    if let Some(new) = new {
        set_limit(call, &process, resource, new)?;
    }
    if old == 0 { Ok(0) } else { copies::write_words(old, &before).map(|()| 0) }
}

/// `struct rusage`.
pub(super) fn usage_words(spent: Spent, kib: u64) -> [u64; 18] {
    let (nanoseconds, mut words) = (clock::nanoseconds(spent.ticks), [0; 18]);
    (words[0], words[1]) = (nanoseconds / SECOND, nanoseconds % SECOND / 1000);
    (words[4], words[8]) = (kib, spent.faults);
    words
}

fn getrusage(call: &mut Call, who: i32, to: u64) -> Answer {
    let process = call.process();
    let spent = match who {
        0 => process.spent(),
        -1 => process.life.with(|life| life.spent_by_children),
        1 => call.thread.spent(),
        _ => return Err(EINVAL),
    };
    let usage = process.space().usage();
    let kib = usage.peak_resident * (page_size().size_bytes() >> 10);
    copies::write_words(to, &usage_words(spent, kib)).map(|()| 0)
}

fn sysinfo(_: &mut Call, to: u64) -> Answer {
    let all = frames::all_pages() << page_size().shift();
    let free = pages::with_pages(|pages| pages.free_bytes());
    let processes = table::count() as u64;
    let seconds = clock::monotonic_nanoseconds() / SECOND;
    let words = [seconds, 0, 0, 0, all, free, 0, 0, 0, 0, processes & 0xffff, 0, 0, 1];
    copies::write_words(to, &words).map(|()| 0)
}

fn getrandom(_: &mut Call, to: u64, bytes: u64, flags: u32) -> Answer {
    // GRND_RANDOM and GRND_INSECURE do not go together.
    if flags & !7 != 0 || flags & 6 == 6 {
        return Err(EINVAL);
    }
    super::input::give(to, bytes.min(MOST_BYTES), |part| {
        fill_randomly(part);
        part.len()
    })
}
