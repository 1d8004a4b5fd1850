//! What is mapped more than once: physical pages with two permissions, or two memory types.

use std::collections::BTreeMap;

use image::Root;
use vmsa::{Permissions, Rights};

use super::finding::{Finding, Findings, Kind};
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

/// What stretches have in common as far as caches care: the memory type and shareability.
type Class = (u8, u8);

/// All that page tables map.
#[derive(Default)]
pub(super) struct Mapped {
    /// Writable and not, of kernels: a process's read-only page is writable in its kernel's linear map by design.
    writable: Vec<Stretch>,
    read_only: Vec<(Stretch, bool)>,
    classes: BTreeMap<Class, Vec<Stretch>>,
}

impl Mapped {
    pub(super) fn add(&mut self, root: &Root, number: usize, run: &Run, permissions: Option<Permissions>) {
        let bytes = if run.repeats { 1 << root.shape.shift(run.level) } else { run.bytes(root) };
        let end = run.output.saturating_add(bytes);
        let stretch = Stretch { output: run.output, end, input: run.input, root: number };
        if !root.is_stage1() {
            return;
        }
        if let Some(permissions) = permissions.filter(|permissions| !leaf::is_user(permissions)) {
            let anyone = permissions.privileged | permissions.unprivileged;
            match permissions.privileged.contains(Rights::WRITE) {
                true => self.writable.push(stretch),
                false => self.read_only.push((stretch, anyone.contains(Rights::EXECUTE))),
            }
        }
        self.classes.entry(class(root, run)).or_default().push(stretch);
    }

    pub(super) fn check(mut self, roots: &[Root], findings: &mut Findings) {
        self.writable.sort();
        let writable = Index::new(std::mem::take(&mut self.writable));
        self.read_only.sort_by_key(|(stretch, _)| (stretch.root, stretch.input));
        for (stretch, executes) in &self.read_only {
            let what = if *executes { "executable memory" } else { "read-only memory" };
            writable.overlaps(stretch, |other, overlap| {
                if other.root == stretch.root {
                    let text = format!("{what}, writable");
                    findings.add(at(Kind::Alias, roots, (stretch, other), overlap, &text));
                }
            });
        }
        self.types(roots, findings);
    }

    fn types(self, roots: &[Root], findings: &mut Findings) {
        let indexes: Vec<(Class, Index)> =
            self.classes.into_iter().map(|(class, all)| (class, Index::new(all))).collect();
        for (place, (class, index)) in indexes.iter().enumerate() {
            for (other_class, other_index) in &indexes[place + 1..] {
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
    let is_cached = memory & 0xf0 != 0 && memory != 0x44;
    (memory, if is_cached { leaf::shareability(root, run.descriptor) } else { 2 })
}

fn class_name((memory, shareability): Class) -> String {
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
