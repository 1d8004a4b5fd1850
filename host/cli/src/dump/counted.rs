//! What a kernel of this project counts of its linear map itself, beside its tables as they are.
//!
//! ```text
//! image ── its header, 64 bytes ── "VELLUMLM", distance ──▶ record: version, range, tables when painted, address ──▶ counters
//! ```
//! No dump names the image: it runs at one address, whatever else differs.

use std::io::{self, Write};

use image::{Machine, Regime, Root, Table};
use vmsa::PhysAddr;

/// Where the image runs, and what it never is larger than.
const IMAGE: u64 = 0xffff_ffff_8000_0000;
const MOST_BYTES: u64 = 1 << 26;
/// Where the header of an image has its magic number, and where it ends.
const MAGIC: u64 = 56;
const HEADER_BYTES: u64 = 64;
/// The version of the record that is known.
const VERSION: u64 = 2;

/// The counters, in their order in memory.
const NAMES: [&str; 19] = [
    "changes",
    "atomic",
    "splits",
    "folds",
    "windows",
    "parked",
    "reserve_dry",
    "out_of_tables",
    "not_parked",
    "refused",
    "tlbi_address",
    "tlbi_range",
    "tlbi_everything",
    "dsb_stores",
    "dsb_all",
    "isb",
    "reserve",
    "added",
    "removed",
];
const SPLITS: usize = 2;
const FOLDS: usize = 3;

/// A kernel's counters.
pub(super) struct Counted {
    /// First and last address of the linear map.
    range: (u64, u64),
    /// Tables that it was painted with.
    painted: u64,
    counters: [u64; NAMES.len()],
    /// Tables that were met.
    tables: u64,
}

impl Counted {
    /// The counters of a kernel that has some, if all of its linear map is among the addresses of interest.
    pub(super) fn read(machine: &mut Machine, root: &Root, (first, last): (u64, u64)) -> Option<Self> {
        if root.regime != Regime::El1Upper {
            return None;
        }
        let physical = machine.locate(root, IMAGE)?;
        let [magic, ours, distance] = [MAGIC, HEADER_BYTES, HEADER_BYTES + 8].map(|at| words(machine, physical + at));
        let [[magic], [ours], [distance]] = [magic?, ours?, distance?];
        if magic as u32 != u32::from_le_bytes(*b"ARM\x64") || ours != u64::from_le_bytes(*b"VELLUMLM") {
            return None;
        }
        let of_image = |distance: u64| (distance < MOST_BYTES).then_some(physical + distance);
        let [version, start, end, painted, counters] = words(machine, of_image(distance)?)?;
        if version != VERSION {
            return None;
        }
        let counters = words(machine, of_image(counters.wrapping_sub(IMAGE))?)?;
        let range = (start, end.wrapping_sub(1));
        (first <= range.0 && range.1 <= last).then_some(Self { range, painted, counters, tables: 0 })
    }

    /// A table is there.
    pub(super) fn table(&mut self, root: &Root, table: &Table) {
        let last = table.input.wrapping_add(root.shape.reach(table.level) - 1);
        self.tables += u64::from(table.input <= self.range.1 && self.range.0 <= last);
    }

    /// The counters as aligned lines, and whether the tables are as many as they say.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{:<26} {:>12}", "linear map, counted inside", "")?;
        for (name, value) in NAMES.iter().zip(&self.counters) {
            writeln!(out, "  {name:<24} {value:>12}")?;
        }
        let inside = self.painted.wrapping_add(self.counters[SPLITS]).wrapping_sub(self.counters[FOLDS]);
        writeln!(out, "  {:<24} {inside:>12}", "tables")?;
        if inside != self.tables {
            let seen = self.tables;
            writeln!(
                out,
                "the linear map has {seen} tables, its kernel counts {inside}: a change is under way, or one is wrong"
            )?;
        }
        Ok(())
    }
}

/// Words at a physical address.
fn words<const N: usize>(machine: &mut Machine, at: u64) -> Option<[u64; N]> {
    let mut bytes = vec![0; 8 * N];
    machine.memory.read(PhysAddr::new(at), &mut bytes).ok()?;
    let mut words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
    Some(std::array::from_fn(|_| words.next().expect("as many words")))
}
