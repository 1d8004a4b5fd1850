//! What programs set by writing to `/proc`: numbers of the machine, which are kept for who asks, and what a process is told of.

use super::areas::line;
use crate::fallible::{Arc, Lossy, try_format};
use core::fmt::Write;
use core::sync::atomic::{AtomicI64, Ordering};

use userspace::Advice;

use crate::errno::{EACCES, EINVAL, Errno};
use crate::files::text::Text;
use crate::memory::promises;
use crate::process::table::Process;
use crate::threads::thread::{Thread, current};

/// A number of the machine: its path, the least and the most that it may be, and what it is.
struct Setting {
    path: &'static str,
    least: i64,
    most: i64,
    value: AtomicI64,
}

const fn setting(path: &'static str, least: i64, most: i64, value: i64) -> Setting {
    Setting { path, least, most, value: AtomicI64::new(value) }
}

const MOST: i64 = i32::MAX as i64;

/// What they are on Linux, if nobody has set them; those of over-commit first.
static ALL: [Setting; 13] = [
    setting("sys/vm/overcommit_memory", 0, 2, 0),
    setting("sys/vm/overcommit_ratio", 0, MOST, 50),
    setting("sys/vm/overcommit_kbytes", 0, i64::MAX >> 10, 0),
    setting("sys/fs/file-max", 0, i64::MAX, i64::MAX),
    setting("sys/fs/nr_open", 64, MOST, 1 << 20),
    setting("sys/fs/pipe-max-size", 4096, MOST, 1 << 20),
    setting("sys/fs/pipe-user-pages-soft", 0, i64::MAX, 16384),
    setting("sys/kernel/pid_max", 301, 1 << 22, 32768),
    setting("sys/kernel/threads-max", 20, MOST, 16384),
    setting("sys/vm/drop_caches", 0, 4, 0),
    setting("sys/vm/min_free_kbytes", 0, MOST, 22528),
    setting("sys/vm/panic_on_oom", 0, 2, 0),
    setting("sys/vm/swappiness", 0, 200, 60),
];

/// Their paths.
pub(super) fn paths() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|one| one.path)
}

fn find(path: &str) -> Option<&'static Setting> {
    ALL.iter().find(|one| one.path == path)
}

/// What one says.
pub(super) fn text(path: &str) -> Option<Text> {
    let one = find(path)?;
    let mut text = Text::new();
    line!(text, "{}", one.value.load(Ordering::Relaxed));
    Some(text)
}

/// The number that is written: with a line's end or a zero behind it.
fn number(bytes: &[u8]) -> Result<i64, Errno> {
    let text = core::str::from_utf8(bytes).map_err(|_| EINVAL)?;
    text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\0').parse().map_err(|_| EINVAL)
}

/// Sets one.
pub(super) fn set(path: &str, bytes: &[u8]) -> Result<(), Errno> {
    let one = find(path).ok_or(EACCES)?;
    let value = number(bytes)?;
    if !(one.least..=one.most).contains(&value) {
        return Err(EINVAL);
    }
    one.value.store(value, Ordering::Relaxed);
    // Of the two that say how much there may be, one counts.
    match path {
        "sys/vm/overcommit_ratio" => ALL[2].value.store(0, Ordering::Relaxed),
        "sys/vm/overcommit_kbytes" => ALL[1].value.store(0, Ordering::Relaxed),
        _ => {}
    }
    promises::follow([0, 1, 2].map(|which: usize| ALL[which].value.load(Ordering::Relaxed) as u64));
    Ok(())
}

/// How much rather than others a process ends where there is no memory.
const MOST_BADNESS: i64 = 1000;

/// Sets something of a process, or of one thread of it.
pub(super) fn set_of_process(
    process: &Process,
    thread: Option<&Arc<Thread>>,
    name: &str,
    bytes: &[u8],
) -> Result<(), Errno> {
    let within =
        |least: i64, most: i64| number(bytes).ok().filter(|value| (least..=most).contains(value)).ok_or(EINVAL);
    match name {
        "oom_score_adj" => {
            let badness = within(-MOST_BADNESS, MOST_BADNESS)? as i32;
            set_badness(process, badness)?;
        }
        "comm" => {
            let end = bytes.iter().position(|byte| [b'\n', 0].contains(byte)).unwrap_or(bytes.len()).min(15);
            let name = try_format!("{}", Lossy(&bytes[..end]))?;
            process.set_name(thread, name);
        }
        // Marks of all pages, of those that are nobody else's, of those of files; what was written, which is not told; peaks.
        "clear_refs" => {
            if within(1, 5)? <= 3 {
                forget_accesses(process);
            }
        }
        _ => return Err(EACCES),
    }
    Ok(())
}

/// Root alone makes a process end less likely than it was when root last said so.
fn set_badness(process: &Process, badness: i32) -> Result<(), Errno> {
    let is_root = current().task().process.users.with(|users| users.is_root());
    process.wishes.with(|wishes| {
        if badness < wishes.least_badness && !is_root {
            return Err(EACCES);
        }
        if is_root {
            wishes.least_badness = badness;
        }
        wishes.badness = badness;
        Ok(())
    })
}

/// Has nothing count as looked at any more.
fn forget_accesses(process: &Process) {
    let Some(space) = process.try_space() else { return };
    let mut at = 0;
    loop {
        let mut next = None;
        space.areas(&mut |area| {
            if area.start >= at && next.is_none() {
                next = Some(area.range());
            }
        });
        let Some(range) = next else { return };
        at = range.end;
        // An area that has gone meanwhile has no marks.
        let _ = space.advise(range.start, range.end - range.start, Advice::Unaccessed);
    }
}
