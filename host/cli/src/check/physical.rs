//! What is mapped more than once: physical pages with two permissions, or two memory types.

use std::collections::BTreeMap;
use std::ops::Range;

use image::{Root, Table};
use vmsa::{DESCRIPTOR_BYTES, Descriptor, Level, Permissions, Rights, Stage2Attributes, Stage2Memory};

use super::finding::{Finding, Findings};
use super::kinds::Kind;
use crate::dump::size;
use crate::leaf;
use crate::runs::Run;

/// A stretch of physical memory, and where a page table maps it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Stretch {
    output: u64,
    end: u64,
    input: u64,
    root: usize,
}

/// What stretches have in common as far as caches care: whose physical addresses, the memory type and shareability.
type Class = (Space, u8, u8);

/// Whose physical addresses: the machine's, or those of the guest behind this stage 2.
type Space = Option<u64>;

fn space(root: &Root) -> Space {
    root.stage2.as_ref().map(|stage2| stage2.address.bits())
}

/// All that page tables map.
#[derive(Default)]
pub(super) struct Mapped {
    /// Writable by anybody, of each root.
    writable: BTreeMap<usize, Vec<Stretch>>,
    /// Read-only for a kernel, and whether it is executable. A process's page is writable in its kernel's linear map by design.
    read_only: Vec<(Stretch, bool)>,
    /// Where page tables are, and what may be done with memory that must not be done with theirs.
    tables: Vec<(Space, Level, Stretch)>,
    exposed: BTreeMap<(Space, &'static str), Vec<Stretch>>,
    /// Normal memory that is cached, by the machine's own addresses.
    cached: Vec<Stretch>,
    classes: BTreeMap<Class, Vec<Stretch>>,
}

impl Mapped {
    pub(super) fn add(&mut self, root: &Root, number: usize, run: &Run, permissions: Option<Permissions>) {
        let bytes = if run.repeats { 1 << root.shape.shift(run.level) } else { run.bytes(root) };
        let end = run.output.saturating_add(bytes);
        let stretch = Stretch { output: run.output, end, input: run.input, root: number };
        if let Some(permissions) = permissions {
            self.rights(root, stretch, permissions);
        }
        if space(root).is_none() && is_cached(root, run.descriptor) {
            self.cached.push(stretch);
        }
        if root.is_stage1() {
            self.classes.entry(class(root, run)).or_default().push(stretch);
        }
    }

    fn rights(&mut self, root: &Root, stretch: Stretch, permissions: Permissions) {
        let (privileged, user) = (permissions.privileged, permissions.unprivileged);
        let anyone = privileged | user;
        let mut expose = |what| self.exposed.entry((space(root), what)).or_default().push(stretch);
        if !root.is_stage1() {
            if anyone.contains(Rights::WRITE) {
                expose("the guest writes");
            }
            return;
        }
        if user.contains(Rights::WRITE) {
            expose("EL0 writes");
        } else if anyone.contains(Rights::EXECUTE) {
            expose("executable:");
        }
        if anyone.contains(Rights::WRITE) {
            self.writable.entry(stretch.root).or_default().push(stretch);
        } else if !leaf::is_user(&permissions) {
            self.read_only.push((stretch, anyone.contains(Rights::EXECUTE)));
        }
    }

    pub(super) fn table(&mut self, root: &Root, number: usize, table: &Table) {
        let output = table.address.bits();
        let end = output.saturating_add(root.shape.entries(table.level) as u64 * DESCRIPTOR_BYTES as u64);
        self.tables.push((space(root), table.level, Stretch { output, end, input: table.input, root: number }));
    }

    /// `memory` are the ranges that the machine has, if it tells them.
    pub(super) fn check(mut self, roots: &[Root], memory: &[Range<u64>], findings: &mut Findings) {
        self.aliases(roots, findings);
        self.exposed_tables(roots, findings);
        self.without_memory(roots, memory, findings);
        self.types(roots, findings);
    }

    /// Memory that a kernel has read-only, and that the same half or the other one writes.
    fn aliases(&mut self, roots: &[Root], findings: &mut Findings) {
        let writable: BTreeMap<usize, Index> =
            std::mem::take(&mut self.writable).into_iter().map(|(root, all)| (root, Index::new(all))).collect();
        self.read_only.sort_by_key(|(stretch, _)| (stretch.root, stretch.input));
        for (stretch, executes) in &self.read_only {
            let root = &roots[stretch.root];
            let what = if *executes { "executable memory, writable" } else { "read-only memory, writable" };
            let others =
                writable.iter().filter(|(other, _)| **other == stretch.root || root.shares_cpu(&roots[**other]));
            for (_, index) in others {
                index.overlaps(stretch, |other, overlap| {
                    findings.add(at(Kind::Alias, roots, (stretch, other), overlap, what));
                });
            }
        }
    }

    fn exposed_tables(&mut self, roots: &[Root], findings: &mut Findings) {
        let exposed: Vec<_> =
            std::mem::take(&mut self.exposed).into_iter().map(|(key, all)| (key, Index::new(all))).collect();
        for (table_space, level, table) in &self.tables {
            for ((_, what), index) in exposed.iter().filter(|((space, _), _)| space == table_space) {
                index.overlaps(table, |mapping, overlap| {
                    let text = format!("{what} a table of {level}");
                    let kind = if roots[mapping.root].is_stage1() { Kind::ExposedTable } else { Kind::GuestTable };
                    let finding = at(kind, roots, (mapping, table), overlap, &text);
                    findings.add(Finding { other: None, ..finding });
                });
            }
        }
    }

    fn without_memory(&mut self, roots: &[Root], memory: &[Range<u64>], findings: &mut Findings) {
        for stretch in self.cached.iter().filter(|_| !memory.is_empty()) {
            let mut at = stretch.output;
            let first = memory.partition_point(|range| range.end <= at);
            let next = memory[first..].iter().take_while(|range| range.start < stretch.end);
            for range in next.cloned().chain(std::iter::once(stretch.end..stretch.end)) {
                if at < range.start {
                    let input = stretch.input.wrapping_add(at - stretch.output);
                    let leaves = (range.start - at).div_ceil(roots[stretch.root].shape.page_size.size_bytes());
                    let what = "no memory is there";
                    findings.add(Finding::new(Kind::NoMemory, stretch.root, input, range.start - at, leaves, what));
                }
                at = at.max(range.end);
            }
        }
    }

    fn types(self, roots: &[Root], findings: &mut Findings) {
        let indexes: Vec<(Class, Index)> =
            self.classes.into_iter().map(|(class, all)| (class, Index::new(all))).collect();
        for (place, (class, index)) in indexes.iter().enumerate() {
            for (other_class, other_index) in indexes[place + 1..].iter().filter(|(other, _)| other.0 == class.0) {
                let mut all = index.sorted.clone();
                all.sort_by_key(|stretch| (stretch.root, stretch.input));
                for stretch in &all {
                    other_index.overlaps(stretch, |other, overlap| {
                        let (this, that) = (class_name(*class), class_name(*other_class));
                        let text = format!("{this} here, {that}");
                        findings.add(at(Kind::Types, roots, (stretch, other), overlap, &text));
                    });
                }
            }
        }
    }
}

/// Whether caches hold what it maps.
fn is_cached(root: &Root, descriptor: Descriptor) -> bool {
    if !root.is_stage1() {
        let memory = Stage2Attributes::from_bits_retain(descriptor.bits()).memory(root.forces_write_back);
        return matches!(memory, Stage2Memory::WriteBack | Stage2Memory::WriteThrough);
    }
    let memory = leaf::memory_type(root, descriptor).0;
    memory & 0xf0 != 0 && memory != 0x44
}

/// A finding about the memory from `overlap.0` to `overlap.1`, mapped by both stretches; its text is ended by the address of
/// the other.
fn at(kind: Kind, roots: &[Root], stretches: (&Stretch, &Stretch), overlap: (u64, u64), what: &str) -> Finding {
    let ((stretch, other), (from, to)) = (stretches, overlap);
    let input = stretch.input.wrapping_add(from - stretch.output);
    let leaves = (to - from) >> roots[stretch.root].shape.page_size.shift();
    let distance = other.input.wrapping_add(from - other.output).wrapping_sub(input);
    let finding = Finding::new(kind, stretch.root, input, to - from, leaves, what);
    Finding { other: Some((distance, other.root)), ..finding }
}

/// Normal and Normal-Tagged differ in tags alone: to caches they are the same.
fn class(root: &Root, run: &Run) -> Class {
    let memory = leaf::memory_type(root, run.descriptor).0;
    let memory = if memory == 0xf0 { 0xff } else { memory };
    // Device and non-cacheable memory is outer shareable whatever the field says.
    let shareability = if is_cached(root, run.descriptor) { leaf::shareability(root, run.descriptor) } else { 2 };
    (space(root), memory, shareability)
}

fn class_name((_, memory, shareability): Class) -> String {
    let name = vmsa::ptdump::memory_name(vmsa::registers::MemoryType(memory));
    let name = name.map_or_else(|| format!("MAIR {memory:#04x}"), str::to_owned);
    match shareability {
        0 => format!("{name}, not shareable"),
        _ => name,
    }
}

/// Stretches by output, with how far those of each half, quarter, … reach: the next that reaches beyond a place is found in as
/// many steps as the number of stretches has bits.
struct Index {
    sorted: Vec<Stretch>,
    /// A tree: 1 is its root, the children of `n` are `2n` and `2n + 1`, and the second half of it are the stretches' own ends.
    reach: Vec<u64>,
}

/// How many of the overlaps of one stretch are told: a page of zeros has thousands.
const MOST_OVERLAPS: usize = 4;

impl Index {
    fn new(mut sorted: Vec<Stretch>) -> Self {
        sorted.sort();
        let leaves = sorted.len().next_power_of_two();
        let mut reach = vec![0; 2 * leaves];
        for (place, stretch) in sorted.iter().enumerate() {
            reach[leaves + place] = stretch.end;
        }
        for node in (1..leaves).rev() {
            reach[node] = reach[2 * node].max(reach[2 * node + 1]);
        }
        Self { sorted, reach }
    }

    /// The first stretch from a place on that ends above an address.
    fn next(&self, place: usize, above: u64) -> Option<usize> {
        let leaves = self.reach.len() / 2;
        if place >= self.sorted.len() {
            return None;
        }
        let mut node = leaves + place;
        while self.reach[node] <= above {
            // The last of its row has nothing behind it.
            if (node + 1).is_power_of_two() {
                return None;
            }
            node += 1;
            node >>= node.trailing_zeros();
        }
        while node < leaves {
            node = 2 * node + usize::from(self.reach[2 * node] <= above);
        }
        Some(node - leaves)
    }

    /// Calls `tell` with a stretch that overlaps, and the overlap.
    fn overlaps(&self, stretch: &Stretch, mut tell: impl FnMut(&Stretch, (u64, u64))) {
        let mut place = 0;
        for _ in 0..MOST_OVERLAPS {
            let Some(found) = self.next(place, stretch.output) else { return };
            let other = &self.sorted[found];
            if other.output >= stretch.end {
                return;
            }
            tell(other, (stretch.output.max(other.output), stretch.end.min(other.end)));
            place = found + 1;
        }
    }
}

/// Bytes as text, for the report.
pub(super) fn bytes(bytes: u64) -> String {
    size(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_are_those_that_a_plain_search_finds() {
        let mut state = 7u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..200 {
            let mut stretch = || {
                let output = random(64);
                Stretch { output, end: output + 1 + random(8), input: output, root: 0 }
            };
            let all: Vec<Stretch> = (0..20).map(|_| stretch()).collect();
            let wanted = stretch();
            let mut found = Vec::new();
            Index::new(all.clone()).overlaps(&wanted, |other, _| found.push(*other));
            let mut expected: Vec<Stretch> =
                all.into_iter().filter(|other| other.output < wanted.end && wanted.output < other.end).collect();
            expected.sort();
            expected.truncate(MOST_OVERLAPS);
            assert_eq!(found, expected);
        }
    }
}
