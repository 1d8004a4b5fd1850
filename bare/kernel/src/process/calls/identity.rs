//! Who a program is, what the machine is, and what it may have.

use core::sync::atomic::Ordering;

use super::{Call, Row};
use crate::clock::{self, SECOND};
use crate::cpus::capabilities;
use crate::facts::page_size;
use crate::files::device::fill_randomly;
use crate::memory::{frames, pages};
use crate::process::errno::*;
use crate::process::signals::SIGNALS;
use crate::process::spent::Spent;
use crate::process::table::{self, Process};
use crate::process::{copies, resources};

pub(super) const CALLS: &[Row] = &[
    (90, "capget", capget),
    (91, "capset", nothing),
    (143, "setregid", nothing),
    (144, "setgid", nothing),
    (145, "setreuid", nothing),
    (146, "setuid", nothing),
    (147, "setresuid", nothing),
    (148, "getresuid", three_zeros),
    (149, "setresgid", nothing),
    (150, "getresgid", three_zeros),
    (158, "getgroups", nothing),
    (159, "setgroups", nothing),
    (160, "uname", uname),
    (163, "getrlimit", getrlimit),
    (164, "setrlimit", setrlimit),
    (165, "getrusage", getrusage),
    (166, "umask", umask),
    (167, "prctl", prctl),
    (168, "getcpu", getcpu),
    (174, "getuid", nothing),
    (175, "geteuid", nothing),
    (176, "getgid", nothing),
    (177, "getegid", nothing),
    (179, "sysinfo", sysinfo),
    (261, "prlimit64", prlimit64),
    (278, "getrandom", getrandom),
];

/// Descriptors that a process may have at most: `fs.nr_open`.
const MOST_FILES: u64 = 1 << 20;

/// There is one user, who may everything.
fn nothing(_: &mut Call) -> Answer {
    Ok(0)
}

fn three_zeros(call: &mut Call) -> Answer {
    call.arguments[..3].iter().try_for_each(|to| copies::write_half(*to, 0)).map(|()| 0)
}

fn capget(call: &mut Call) -> Answer {
    let to = call.arguments[1];
    if to != 0 {
        copies::write_words(to, &[0xffff_ffff_ffff_ffff, 0x1ff_ffff_ffff, 0x1ff])?;
    }
    Ok(0)
}

fn getcpu(call: &mut Call) -> Answer {
    let [cpu, node, ..] = call.arguments;
    if cpu != 0 {
        copies::write_half(cpu, hardware::per_cpu::index() as u32)?;
    }
    if node != 0 {
        copies::write_half(node, 0)?;
    }
    Ok(0)
}

fn uname(call: &mut Call) -> Answer {
    const BYTES: usize = 65;
    // A version that programs know: what is here follows it.
    let parts = ["Linux", "vellum", "6.12.0", concat!("Vellum ", env!("CARGO_PKG_VERSION")), "aarch64", "(none)"];
    let mut bytes = [0; 6 * BYTES];
    for (place, part) in bytes.chunks_exact_mut(BYTES).zip(parts) {
        place[..part.len()].copy_from_slice(part.as_bytes());
    }
    copies::write(call.arguments[0], &bytes).map(|()| 0)
}

fn umask(call: &mut Call) -> Answer {
    Ok(call.process().umask.swap(call.arguments[0] as u32 & 0o777, Ordering::Relaxed).into())
}

fn limit(process: &Process, resource: u64) -> Result<[u64; 2], Errno> {
    let found = process.limits.with(|limits| limits.0.get(resource as u32 as usize).copied());
    found.ok_or(EINVAL)
}

fn set_limit(process: &Process, resource: u64, [soft, hard]: [u64; 2]) -> Result<(), Errno> {
    let which = resource as u32 as usize;
    if soft > hard {
        return Err(EINVAL);
    }
    if which == resources::FILES && hard > MOST_FILES {
        return Err(EPERM);
    }
    let all = process.limits.with(|limits| {
        limits.0[which] = [soft, hard];
        *limits
    });
    if which == resources::FILES {
        process.files.with(|files| files.most = soft as usize);
    }
    if let Some(space) = process.try_space() {
        space.set_limits(all.of_memory());
    }
    Ok(())
}

fn getrlimit(call: &mut Call) -> Answer {
    let [resource, to, ..] = call.arguments;
    copies::write_words(to, &limit(call.process(), resource)?).map(|()| 0)
}

fn setrlimit(call: &mut Call) -> Answer {
    let [resource, from, ..] = call.arguments;
    limit(call.process(), resource)?;
    set_limit(call.process(), resource, copies::read_words(from)?).map(|()| 0)
}

fn prlimit64(call: &mut Call) -> Answer {
    let [number, resource, new, old, ..] = call.arguments;
    let new = if new == 0 { None } else { Some(copies::read_words(new)?) };
    let process = match number as i32 {
        0 => call.process().clone(),
        number => table::find(number)?,
    };
    let before = limit(&process, resource)?;
    if let Some(new) = new {
        set_limit(&process, resource, new)?;
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

fn getrusage(call: &mut Call) -> Answer {
    let [who, to, ..] = call.arguments;
    let process = call.process();
    let spent = match who as i32 {
        0 => process.spent(),
        -1 => process.life.with(|life| life.spent_by_children),
        1 => call.thread.spent(),
        _ => return Err(EINVAL),
    };
    let usage = process.space().usage();
    let kib = (usage.anonymous + usage.file) * (page_size().size_bytes() >> 10);
    copies::write_words(to, &usage_words(spent, kib)).map(|()| 0)
}

/// Whether a program may ask for vectors of so many bytes: flags of inheritance beside, which change nothing here.
fn is_vector(argument: u64) -> bool {
    const FLAGS: u64 = 3 << 17;
    let bytes = argument & !FLAGS;
    (16..=8192).contains(&bytes) && bytes.is_multiple_of(16)
}

fn prctl(call: &mut Call) -> Answer {
    const SET_NAME: u64 = 15;
    const GET_NAME: u64 = 16;
    const GET_DUMPABLE: u64 = 3;
    const SET_DUMPABLE: u64 = 4;
    const SET_DEATH_SIGNAL: u64 = 1;
    const GET_DEATH_SIGNAL: u64 = 2;
    const GET_NO_NEW_PRIVILEGES: u64 = 39;
    const SET_CHILD_SUBREAPER: u64 = 36;
    const GET_CHILD_SUBREAPER: u64 = 37;
    const SVE_SET_VECTOR: u64 = 50;
    const SVE_GET_VECTOR: u64 = 51;
    /// Bytes of a vector, whatever is asked for.
    const VECTOR: u64 = 16;
    /// PR_GET_KEEPCAPS, PR_GET_TIMING, PR_GET_SECUREBITS, PR_GET_TIMERSLACK: what nobody can change.
    const FIXED: [(u64, u64); 4] = [(7, 0), (13, 0), (27, 0), (30, 50_000)];
    const GET_NO_HUGE_PAGES: u64 = 42;
    const READ_CAPABILITY: u64 = 23;
    const LAST_CAPABILITY: u64 = 40;
    let [what, argument, others @ ..] = call.arguments;
    let process = call.process();
    if let Some((_, answer)) = FIXED.iter().find(|(one, _)| *one == what) {
        return Ok(*answer);
    }
    match what {
        READ_CAPABILITY if argument <= LAST_CAPABILITY => Ok(1),
        SET_CHILD_SUBREAPER => {
            process.is_reaper.store(argument != 0, Ordering::Relaxed);
            Ok(0)
        }
        GET_CHILD_SUBREAPER => {
            copies::write_half(argument, process.is_reaper.load(Ordering::Relaxed).into()).map(|()| 0)
        }
        SET_DEATH_SIGNAL if argument <= SIGNALS as u64 => {
            process.death_signal.store(argument as u32, Ordering::Relaxed);
            Ok(0)
        }
        GET_DEATH_SIGNAL => copies::write_half(argument, process.death_signal.load(Ordering::Relaxed)).map(|()| 0),
        // Nobody can ask for none.
        GET_NO_NEW_PRIVILEGES | GET_NO_HUGE_PAGES if argument == 0 && others[..3] == [0; 3] => Ok(0),
        SET_NAME => {
            let name = copies::read_start(argument, 15)?;
            process.image.with(|image| image.name = alloc::string::String::from_utf8_lossy(&name).into_owned());
            Ok(0)
        }
        GET_NAME => {
            let name = process.image.with(|image| image.name.clone());
            let mut bytes = [0; 16];
            bytes[..name.len().min(15)].copy_from_slice(&name.as_bytes()[..name.len().min(15)]);
            copies::write(argument, &bytes).map(|()| 0)
        }
        SVE_GET_VECTOR if capabilities::has("sve") => Ok(VECTOR),
        SVE_SET_VECTOR if is_vector(argument) && capabilities::has("sve") => Ok(VECTOR),
        GET_DUMPABLE => Ok(process.dumpable.load(Ordering::Relaxed).into()),
        SET_DUMPABLE if argument < 2 => {
            process.dumpable.store(argument as u32, Ordering::Relaxed);
            Ok(0)
        }
        _ => Err(EINVAL),
    }
}

fn sysinfo(call: &mut Call) -> Answer {
    let all = frames::all_pages() << page_size().shift();
    let free = pages::with_pages(|pages| pages.free_bytes());
    let processes = table::all().len() as u64;
    let seconds = clock::monotonic_nanoseconds() / SECOND;
    let words = [seconds, 0, 0, 0, all, free, 0, 0, 0, 0, processes & 0xffff, 0, 0, 1];
    copies::write_words(call.arguments[0], &words).map(|()| 0)
}

fn getrandom(call: &mut Call) -> Answer {
    let [to, bytes, flags, ..] = call.arguments;
    // GRND_RANDOM and GRND_INSECURE do not go together.
    if flags & !7 != 0 || flags & 6 == 6 {
        return Err(EINVAL);
    }
    super::input::give(to, bytes.min(32 << 20), |part| {
        fill_randomly(part);
        part.len()
    })
}
