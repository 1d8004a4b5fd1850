//! The areas of a process, line by line as Linux prints them in `/proc/self/maps`.

use core::fmt::Write;
use core::ops::ControlFlow;

use userspace::{Area, AreaFlags, Backing, Rights};

use crate::fallible::NoMemory;
use crate::files::inode::{DEVICE, NAMELESS};
use crate::files::text::Text;
use crate::memory::mapped::{self, Mapped};
use crate::process::table::Process;

/// Writes a line.
macro_rules! line {
    ($text:expr, $($argument:tt)*) => {{
        // What there is no memory for, the text notes.
        let _ = writeln!($text, $($argument)*);
    }};
}

pub(crate) use line;

/// Gives every area, with its name.
pub(super) fn for_each_area(process: &Process, mut sink: impl FnMut(&Area<Mapped>, &str)) -> Result<(), NoMemory> {
    areas_from(process, 0, |area, name| {
        sink(area, name);
        ControlFlow::Continue(())
    })
}

/// Gives the areas that end above `start`, with their names, until `sink` breaks.
pub(super) fn areas_from(
    process: &Process,
    start: u64,
    mut sink: impl FnMut(&Area<Mapped>, &str) -> ControlFlow<()>,
) -> Result<(), NoMemory> {
    let Some(space) = process.try_space() else { return Ok(()) };
    let mut all = Ok(());
    let heap = space.heap();
    let stack = process.image.with(|image| image.stack);
    space.areas_from(start, &mut |area| {
        let named;
        let name = match &area.backing {
            Backing::File { file, .. } => {
                named = mapped::named(&file.inode, &file.path);
                match &named {
                    Ok(name) => name,
                    Err(NoMemory) => {
                        all = Err(NoMemory);
                        return ControlFlow::Break(());
                    }
                }
            }
            Backing::Anonymous { .. } if area.range().contains(&stack) => "[stack]",
            Backing::Anonymous { .. } if area.start < heap.end && heap.start < area.end => "[heap]",
            Backing::Anonymous { .. } => "",
        };
        sink(area, name)
    });
    all
}

/// Where names stand in a line.
pub(super) const NAMES: usize = 73;

pub(super) fn map_line(text: &mut Text, area: &Area<Mapped>, name: &str) {
    let has = |right, letter| if area.rights.contains(right) { letter } else { '-' };
    let rights = [has(Rights::READ, 'r'), has(Rights::WRITE, 'w'), has(Rights::EXECUTE, 'x')];
    let shared = if area.flags.contains(AreaFlags::SHARED) { 's' } else { 'p' };
    let (offset, number) = match &area.backing {
        Backing::File { file, offset } if !name.starts_with('[') => (*offset, file.inode.number),
        _ => (0, 0),
    };
    // Memory that is shared was never in a folder, as files without a name may have been.
    let is_nameless = name == "/dev/zero (deleted)" || name.starts_with("/memfd:");
    let (major, minor) = match number {
        0 => (0, 0),
        _ if is_nameless => NAMELESS,
        _ => DEVICE,
    };
    let [read, write, execute] = rights;
    let before = text.bytes();
    let _ = write!(text, "{:08x}-{:08x} {read}{write}{execute}{shared} ", area.start, area.end);
    let _ = write!(text, "{offset:08x} {major:02x}:{minor:02x} {number} ");
    if !name.is_empty() {
        let width = NAMES.saturating_sub(text.bytes() - before);
        let _ = write!(text, "{:width$}", "");
        // A line is an area's.
        for (index, part) in name.split('\n').enumerate() {
            let _ = write!(text, "{}{part}", if index > 0 { "\\012" } else { "" });
        }
    }
    line!(text, "");
}
