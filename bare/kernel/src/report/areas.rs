//! The areas of a process, line by line as Linux prints them in `/proc/self/maps`.

use alloc::string::String;
use core::fmt::Write;

use userspace::{Area, AreaFlags, Backing, Rights};

use crate::files::inode::{DEVICE, NAMELESS};
use crate::files::text::Text;
use crate::memory::mapped::Mapped;
use crate::process::table::Process;

/// Writes a line.
macro_rules! line {
    ($text:expr, $($argument:tt)*) => {{
        // What there is no memory for, the text notes.
        let _ = writeln!($text, $($argument)*);
    }};
}

pub(super) use line;

/// Gives every area, with its name.
pub(super) fn for_each_area(process: &Process, mut sink: impl FnMut(&Area<Mapped>, &str)) {
    let Some(space) = process.try_space() else { return };
    let heap = space.heap();
    let stack = process.image.with(|image| image.stack);
    space.areas(&mut |area| {
        let name = match &area.backing {
            Backing::File { file, .. } => &*file.name(),
            Backing::Anonymous { .. } if area.range().contains(&stack) => "[stack]",
            Backing::Anonymous { .. } if area.start < heap.end && heap.start < area.end => "[heap]",
            Backing::Anonymous { .. } => "",
        };
        sink(area, name);
    });
}

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
    let mut head = String::new();
    let _ = write!(head, "{:08x}-{:08x} ", area.start, area.end);
    head.extend(rights);
    let _ = write!(head, "{shared} {offset:08x} {major:02x}:{minor:02x} {number} ");
    match name {
        "" => line!(text, "{head}"),
        // A line is an area's.
        name => line!(text, "{head:<73}{}", name.replace('\n', "\\012")),
    }
}
