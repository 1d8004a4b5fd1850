//! `/proc/self/smaps` and its kin: page by page, what a process has and shares.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use core::ops::ControlFlow;

use userspace::{Area, AreaFlags, Backing, Rights};

use super::areas::{NAMES, areas_from, line, map_line};
use crate::errno::Errno;
use crate::facts::page_size;
use crate::fallible::{List, NoMemory, try_text};
use crate::files::inode::Body;
use crate::files::text::Text;
use crate::memory::mapped::Mapped;
use crate::memory::{folios, frames};
use crate::process::space::Space;
use crate::process::table::Process;
use crate::threads::dispatcher;

/// Bytes of an area, by what its pages are.
#[derive(Clone, Copy, Default)]
struct Sums {
    resident: u64,
    /// Each page divided by those who share it, in bytes times 4096.
    part: u64,
    part_dirty: u64,
    /// The same of anonymous pages, of the kernel's own and secret memory, and of files in memory.
    part_by_kind: [u64; 3],
    shared: [u64; 2],
    own: [u64; 2],
    referenced: u64,
    anonymous: u64,
    lazy: u64,
    /// Of anonymous memory in blocks.
    in_blocks: u64,
    locked: u64,
}

impl Sums {
    fn of(space: &dyn Space, area: &Area<Mapped>) -> Self {
        let mut sums = Self::default();
        let bytes = page_size().size_bytes();
        let of_file = if is_of_regular_file(area) { 2 } else { 1 };
        space.counted_pages(area.range(), &mut |page| {
            // A file itself is one of the holders of its pages, and no program.
            let is_files = !page.is_own && matches!(area.backing, Backing::File { .. });
            let programs = u64::from(frames::holders(page.frame)).saturating_sub(is_files.into()).max(1);
            let part = (bytes << 12) / programs;
            // What is in a file is in memory alone: all that was ever written is dirty, by whomever.
            let is_dirty = page.is_dirty && !page.is_lazy || is_files && is_written(area, page.address);
            sums.resident += bytes;
            sums.part += part;
            sums.part_dirty += if is_dirty { part } else { 0 };
            sums.part_by_kind[if page.is_own { 0 } else { of_file }] += part;
            let counts = if programs > 1 { &mut sums.shared } else { &mut sums.own };
            counts[usize::from(is_dirty)] += bytes;
            sums.referenced += if page.is_accessed { bytes } else { 0 };
            sums.anonymous += if page.is_own { bytes } else { 0 };
            sums.in_blocks += if page.is_own && page.is_of_block { bytes } else { 0 };
            sums.lazy += if page.is_lazy { bytes } else { 0 };
            sums.locked += if area.flags.contains(AreaFlags::LOCKED) { part } else { 0 };
        });
        sums
    }

    fn add(&mut self, other: &Self) {
        let ([shared, shared_dirty], [own, own_dirty]) = (&mut self.shared, &mut self.own);
        self.part_by_kind.iter_mut().zip(other.part_by_kind).for_each(|(sum, part)| *sum += part);
        let pairs = [
            (&mut self.resident, other.resident),
            (&mut self.part, other.part),
            (&mut self.part_dirty, other.part_dirty),
            (shared, other.shared[0]),
            (shared_dirty, other.shared[1]),
            (own, other.own[0]),
            (own_dirty, other.own[1]),
            (&mut self.referenced, other.referenced),
            (&mut self.anonymous, other.anonymous),
            (&mut self.lazy, other.lazy),
            (&mut self.in_blocks, other.in_blocks),
            (&mut self.locked, other.locked),
        ];
        pairs.into_iter().for_each(|(sum, part)| *sum += part);
    }

    /// Writes the rows; of a whole process also its parts by kind.
    fn write(&self, text: &mut Text, is_whole: bool) {
        let first = [("Rss", self.resident), ("Pss", self.part >> 12), ("Pss_Dirty", self.part_dirty >> 12)];
        let kinds = ["Pss_Anon", "Pss_File", "Pss_Shmem"].into_iter().zip(self.part_by_kind);
        let kinds = kinds.filter(|_| is_whole).map(|(name, part)| (name, part >> 12));
        first.into_iter().chain(kinds).chain(self.last_rows()).for_each(|(name, bytes)| row(text, name, bytes));
    }

    fn last_rows(&self) -> [(&'static str, u64); 15] {
        [
            ("Shared_Clean", self.shared[0]),
            ("Shared_Dirty", self.shared[1]),
            ("Private_Clean", self.own[0]),
            ("Private_Dirty", self.own[1]),
            ("Referenced", self.referenced),
            ("Anonymous", self.anonymous),
            ("LazyFree", self.lazy),
            ("AnonHugePages", self.in_blocks),
            ("ShmemPmdMapped", 0),
            ("FilePmdMapped", 0),
            ("Shared_Hugetlb", 0),
            ("Private_Hugetlb", 0),
            ("Swap", 0),
            ("SwapPss", 0),
            ("Locked", self.locked >> 12),
        ]
    }
}

/// Whether what is not a program's own there is a page of a file in memory.
fn is_of_regular_file(area: &Area<Mapped>) -> bool {
    let Backing::File { file, .. } = &area.backing else { return false };
    matches!(file.inode.body, Body::Regular(_)) && !is_kernels(file)
}

/// Whether it is the kernel's own, and none of a program's.
fn is_kernels(file: &Mapped) -> bool {
    file.path.starts_with('[')
}

/// Whether a page of a file was written.
fn is_written(area: &Area<Mapped>, address: u64) -> bool {
    let Backing::File { file, offset } = &area.backing else { return false };
    let Body::Regular(content) = &file.inode.body else { return false };
    !is_kernels(file) && content.is_dirty((offset + (address - area.start)) >> page_size().shift())
}

fn row(text: &mut Text, name: &str, bytes: u64) {
    line!(text, "{name}:{:width$}{:>8} kB", "", bytes >> 10, width = 15usize.saturating_sub(name.len()));
}

/// Gives every area of a process and its name, some at a time: what is asked of the space must not be asked while it tells of its areas, and
/// all of them are no small thing to hold.
fn for_each(process: &Process, mut sink: impl FnMut(&Area<Mapped>, &str)) -> Result<(), NoMemory> {
    const AT_ONCE: usize = 256;
    let mut at = 0;
    loop {
        let mut some: Vec<(Area<Mapped>, String)> = Vec::new();
        let mut put = Ok(());
        areas_from(process, at, |area, name| {
            put = try_text(name).and_then(|name| some.try_push((area.clone(), name)));
            if some.len() < AT_ONCE && put.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        put?;
        let Some((last, _)) = some.last().filter(|_| dispatcher::goes_on()) else { return Ok(()) };
        at = last.end;
        some.iter().for_each(|(area, name)| sink(area, name));
    }
}

/// `smaps`.
pub(super) fn write(text: &mut Text, process: &Process) {
    let Some(space) = process.try_space() else { return };
    let all = for_each(process, |area, name| {
        map_line(text, area, name);
        row(text, "Size", area.bytes());
        row(text, "KernelPageSize", page_size().size_bytes());
        row(text, "MMUPageSize", page_size().size_bytes());
        Sums::of(&*space, area).write(text, false);
        line!(text, "THPeligible:    {}", u32::from(may_have_folios(area)));
        text.push_str("VmFlags:");
        write_flags(text, area, name);
        text.push_str(" \n");
    });
    if all.is_err() {
        text.cut();
    }
}

/// Whether a write to an area may fill a folio.
fn may_have_folios(area: &Area<Mapped>) -> bool {
    let is_anonymous = matches!(area.backing, Backing::Anonymous { .. });
    let orders = folios::orders(area.flags.contains(AreaFlags::HUGE));
    let has_room = |order: u32| {
        let bytes = page_size().size_bytes() << order;
        area.start.next_multiple_of(bytes) + bytes <= area.end
    };
    let mut sizes = folios::sizes().filter(|&order| orders >> order & 1 == 1);
    is_anonymous && !area.flags.contains(AreaFlags::NOT_HUGE) && sizes.any(has_room)
}

/// `smaps_rollup`.
pub(super) fn write_sum(text: &mut Text, process: &Process) {
    let Some(space) = process.try_space() else { return };
    let (mut first, mut last, mut sums) = (None, 0, Sums::default());
    let all = for_each(process, |area, _| {
        first = first.or(Some(area.start));
        last = area.end;
        sums.add(&Sums::of(&*space, area));
    });
    if all.is_err() {
        return text.cut();
    }
    let first = first.unwrap_or(0);
    let before = text.bytes();
    let _ = write!(text, "{first:08x}-{last:08x} ---p 00000000 00:00 0 ");
    line!(text, "{:width$}[rollup]", "", width = NAMES.saturating_sub(text.bytes() - before));
    sums.write(text, true);
}

/// `VmFlags`.
fn write_flags(text: &mut Text, area: &Area<Mapped>, name: &str) {
    // The page of clocks can be nothing else, and like the kernel's code it cannot grow.
    if name == "[vvar]" {
        return text.push_str(" rd mr pf de");
    }
    let rights = [(Rights::READ, "rd"), (Rights::WRITE, "wr"), (Rights::EXECUTE, "ex")];
    let most = [(Rights::READ, "mr"), (Rights::WRITE, "mw"), (Rights::EXECUTE, "me")];
    let has = |text: &mut Text, is_so: bool, word: &str| {
        if is_so {
            let _ = write!(text, " {word}");
        }
    };
    rights.iter().for_each(|(right, word)| has(text, area.rights.contains(*right), word));
    let is_shared = area.flags.contains(AreaFlags::SHARED);
    // Of a file that was opened to be read nobody's writes are told.
    has(text, is_shared && area.most.contains(Rights::WRITE), "sh");
    most.iter().for_each(|(right, word)| has(text, area.most.contains(*right), word));
    has(text, is_shared, "ms");
    let others = [
        (AreaFlags::GROWS_DOWN, "gd"),
        (AreaFlags::LOCKED, "lo"),
        (AreaFlags::SEQUENTIAL, "sr"),
        (AreaFlags::RANDOM, "rr"),
        (AreaFlags::DONT_FORK, "dc"),
        // It has no name on Linux.
        (AreaFlags::LOCKED_ON_FAULT, "??"),
        (AreaFlags::ACCOUNTED, "ac"),
        (AreaFlags::NO_RESERVE, "nr"),
        (AreaFlags::WIPE_ON_FORK, "wf"),
        (AreaFlags::DONT_DUMP, "dd"),
        (AreaFlags::HUGE, "hg"),
        (AreaFlags::NOT_HUGE, "nh"),
        (AreaFlags::DROPPABLE, "dp"),
    ];
    others.iter().for_each(|(flag, word)| has(text, area.flags.contains(*flag), word));
    has(text, name == "[vdso]", "de");
}

/// A part of `pagemap`: a word for each page.
pub(crate) fn pagemap(process: &Process, offset: u64, bytes: u64) -> Result<Vec<u8>, Errno> {
    const PRESENT: u64 = 1 << 63;
    const OF_FILE: u64 = 1 << 61;
    const EXCLUSIVE: u64 = 1 << 56;
    let Some(space) = process.try_space() else { return Ok(Vec::new()) };
    let shift = page_size().shift();
    let (first, count) = (offset / 8, bytes / 8);
    let last = (space.highest() >> shift).min(first.saturating_add(count));
    if !offset.is_multiple_of(8) || first >= last {
        return Ok(Vec::new());
    }
    let mut words: Vec<u8> = Vec::new();
    words.try_resize((last - first) as usize * size_of::<u64>(), 0)?;
    space.pages(first << shift..last << shift, &mut |page| {
        // A file has its pages as well.
        let others = if page.is_own { 1 } else { 2 };
        let is_alone = page.is_counted && frames::holders(page.frame) == others;
        let kind = if page.is_own || !page.is_counted { 0 } else { OF_FILE };
        let place = ((page.address >> shift) - first) as usize;
        let word = PRESENT | kind | if is_alone { EXCLUSIVE } else { 0 } | page.frame.bits() >> shift;
        words[place * size_of::<u64>()..][..size_of::<u64>()].copy_from_slice(&word.to_le_bytes());
    });
    Ok(words)
}
