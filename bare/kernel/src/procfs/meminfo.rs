//! `/proc/meminfo`: where the machine's memory is.

use core::fmt::Write;

use vmsa::LeafSize;

use super::areas::line;
use crate::facts::{facts, page_size};
use crate::files::text::Text;
use crate::memory::{current, folios, frames, heap, pages, promises};
use crate::process::table;

/// Writes it.
pub(super) fn write(text: &mut Text) {
    let all = frames::all_pages() << page_size().shift();
    let free = pages::with_pages(|pages| pages.free_bytes());
    let (mut own, mut mapped, mut tables, mut locked) = (0, 0, 0, 0);
    for space in table::all().filter_map(|process| process.try_space()) {
        let usage = space.usage();
        (own, mapped) = (own + usage.anonymous, mapped + usage.file);
        (tables, locked) = (tables + usage.tables, locked + usage.locked);
    }
    let shift = page_size().shift();
    let cached = frames::taken_bytes().saturating_sub((own + tables) << shift);
    // What is in files is in memory alone: shared memory, which has no other place.
    let rows = [
        ("MemTotal", all),
        ("MemFree", free),
        ("MemAvailable", frames::available_bytes()),
        ("Buffers", 0),
        ("Cached", cached),
        ("SwapCached", 0),
        ("Active", own << shift),
        ("Inactive", cached),
        ("Active(anon)", own << shift),
        ("Inactive(anon)", cached),
        ("Active(file)", 0),
        ("Inactive(file)", 0),
        ("Unevictable", locked << shift),
        ("Mlocked", locked << shift),
        ("SwapTotal", 0),
        ("SwapFree", 0),
        ("Zswap", 0),
        ("Zswapped", 0),
        ("Dirty", 0),
        ("Writeback", 0),
        ("AnonPages", own << shift),
        ("Mapped", mapped << shift),
        ("Shmem", cached),
        ("KReclaimable", 0),
        ("Slab", heap::bytes()),
        ("SReclaimable", 0),
        ("SUnreclaim", heap::bytes()),
        ("PageTables", tables << shift),
        ("SecPageTables", 0),
        ("NFS_Unstable", 0),
        ("Bounce", 0),
        ("WritebackTmp", 0),
        ("CommitLimit", promises::limit() << shift),
        ("Committed_AS", promises::promised() << shift),
        ("HardwareCorrupted", 0),
        ("ShmemHugePages", 0),
        ("ShmemPmdMapped", 0),
        ("FileHugePages", 0),
        ("FilePmdMapped", 0),
    ];
    for (name, bytes) in rows {
        line!(text, "{name}:{:width$}{:>8} kB", "", bytes >> 10, width = 15usize.saturating_sub(name.len()));
    }
    // There are none of the large pages that are kept apart.
    for name in ["HugePages_Total:", "HugePages_Free:", "HugePages_Rsvd:", "HugePages_Surp:"] {
        line!(text, "{name:<16}{:>8}", 0);
    }
    line!(text, "Hugepagesize:   {:>8} kB", (page_size().size_bytes() << folios::block()) >> 10);
    line!(text, "Hugetlb:        {:>8} kB", 0);
    direct_map(text);
}

/// By which leaves the linear map leads to memory.
fn direct_map(text: &mut Text) {
    let upper = current::upper();
    let Ok(summary) = upper.summary(facts().linear.range()) else { return };
    for size in LeafSize::all(page_size(), upper.shape().layout) {
        let bytes = (upper.leaves(&summary, size) as u64) << size.shift(page_size());
        if bytes > 0 {
            let shift = size.shift(page_size());
            let (unit, letter) = match shift {
                30.. => (30, 'G'),
                20..30 => (20, 'M'),
                _ => (10, 'k'),
            };
            let before = text.bytes();
            let _ = write!(text, "DirectMap{}{letter}:", 1u64 << (shift - unit));
            let width = 16usize.saturating_sub(text.bytes() - before);
            line!(text, "{:width$}{:>8} kB", "", bytes >> 10);
        }
    }
}
