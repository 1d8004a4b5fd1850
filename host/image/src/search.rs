//! Finds page tables in memory of which nothing is known.
//!
//! A page that could be a table of tables, that no other such page leads to, is a candidate. A candidate is walked, and
//! scored by how much of memory it maps in straight lines: a kernel's page table maps all of it. What a page table leads to is
//! part of it; what a page leads to that turns out to be no page table, whatever it was, is a candidate after all. The search
//! says how sure it is, and why.

mod candidate;

use std::collections::BTreeMap;
use std::ops::Range;

use vmsa::{AddressHalf, DESCRIPTOR_BYTES, Descriptor, Level, Meaning, PageSize, PhysAddr, Stage1Attributes};

use crate::memory::{Memory, ReadError, searched, total};
use crate::root::{Origin, Regime, Root};
use crate::walk::{Obstacle, Span, Table, Visitor, walk};

/// Bytes read at once while searching.
const CHUNK_BYTES: usize = 1 << 20;
/// More roots than a machine has processes worth telling of.
const MOST_CANDIDATES: usize = 20_000;
/// How many of the best are told.
const MOST_TOLD: usize = 8;

/// So often what is left is looked at for what nothing leads to. Then all that is left is a candidate: no memory can make the search long.
const MOST_ROUNDS: usize = 16;

/// Links that are kept, of all candidates together: more than tables of any machine have.
const MOST_LINKS: usize = 1 << 22;
/// Bytes of tables that are read to score candidates. Memory made to harm has thousands of roots over the same tables: then the
/// candidates that were scored must do.
const MOST_SCORED_BYTES: u64 = 1 << 34;

/// Searches all of memory. `report` is told how far the search has come, in bytes, and how far it goes.
pub(crate) fn search(memory: &mut dyn Memory, report: &mut dyn FnMut(u64, u64)) -> Result<Vec<Root>, ReadError> {
    let tables = find_tables(memory, report)?;
    let mut memory = Limited { memory, left: MOST_SCORED_BYTES };
    let mut scored = Vec::new();
    match score(&mut memory, tables, &mut scored) {
        Err(_) if memory.left == 0 => {}
        result => result?,
    }
    Ok(rank(scored))
}

fn score(memory: &mut dyn Memory, tables: Tables, scored: &mut Vec<Score>) -> Result<(), ReadError> {
    for (page_size, mut pages) in tables {
        let mut left = MOST_CANDIDATES;
        for round in 1.. {
            let roots = candidates(&pages, round == MOST_ROUNDS, left);
            left -= roots.len();
            if roots.is_empty() {
                break;
            }
            for page in roots {
                let Some(links) = pages.remove(&page) else { continue };
                let mut is_one = false;
                for root in candidate::roots(memory, page_size, page)? {
                    let score = Score::of(memory, root)?;
                    is_one |= score.stands();
                    scored.push(score);
                }
                if is_one {
                    remove_below(&mut pages, links);
                }
            }
        }
    }
    Ok(())
}

/// Memory of which only so many bytes are read.
struct Limited<'a> {
    memory: &'a mut dyn Memory,
    left: u64,
}

impl Memory for Limited<'_> {
    fn read(&mut self, at: PhysAddr, into: &mut [u8]) -> Result<(), ReadError> {
        self.left = self.left.saturating_sub(into.len() as u64);
        if self.left == 0 {
            return Err(ReadError::Failed("too many tables".to_owned()));
        }
        self.memory.read(at, into)
    }

    fn ranges(&self) -> &[Range<u64>] {
        self.memory.ranges()
    }
}

/// Those of `pages` to which no other leads, but `most` at most; all of them, if there is none or they are `all` asked for.
fn candidates(pages: &BTreeMap<u64, Vec<u64>>, all: bool, most: usize) -> Vec<u64> {
    let mut linked: Vec<u64> = pages.values().flatten().copied().collect();
    linked.sort_unstable();
    let is_free = |page: &&u64| linked.binary_search(page).is_err();
    let all = all || !pages.keys().any(|page| is_free(&page));
    pages.keys().filter(|page| all || is_free(page)).take(most).copied().collect()
}

/// Takes what these links lead to away, and all behind that.
fn remove_below(pages: &mut BTreeMap<u64, Vec<u64>>, mut links: Vec<u64>) {
    while let Some(next) = links.pop() {
        links.extend(pages.remove(&next).into_iter().flatten());
    }
}

/// Pages that could be tables of tables, and the tables that they lead to.
type Tables = BTreeMap<PageSize, BTreeMap<u64, Vec<u64>>>;

fn find_tables(memory: &mut dyn Memory, report: &mut dyn FnMut(u64, u64)) -> Result<Tables, ReadError> {
    let ranges = searched(memory)?;
    let all = total(&ranges);
    let mut done = 0;
    let mut links_left = MOST_LINKS;
    let mut tables = Tables::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    for range in &ranges {
        let mut at = range.start.next_multiple_of(CHUNK_BYTES as u64).min(range.end);
        // What lies before the first whole chunk is a chunk of its own.
        let mut next = range.start.next_multiple_of(0x1000);
        while next < range.end {
            if next >= at {
                at = next.saturating_add(CHUNK_BYTES as u64).min(range.end);
            }
            let bytes = &mut chunk[..(at - next) as usize];
            match memory.read(PhysAddr::new(next), bytes) {
                Ok(()) => find_in_chunk(memory, next, bytes, &mut tables, &mut links_left),
                Err(ReadError::Outside) => {}
                Err(error) => return Err(error),
            }
            done += at - next;
            report(done, all);
            next = at;
        }
    }
    Ok(tables)
}

fn find_in_chunk(memory: &dyn Memory, start: u64, chunk: &[u8], tables: &mut Tables, links_left: &mut usize) {
    for page_size in PageSize::ALL {
        let bytes = page_size.size_bytes();
        let first = start.next_multiple_of(bytes);
        let Some(whole) = chunk.get((first - start) as usize..) else { continue };
        for (place, page) in (0u64..).zip(whole.chunks_exact(bytes as usize)) {
            if let Some(links) = candidate::links(memory, page_size, page)
                && let Some(left) = links_left.checked_sub(links.len())
            {
                *links_left = left;
                tables.entry(page_size).or_default().insert(first + place * bytes, links);
            }
        }
    }
}

/// What a candidate maps.
struct Score {
    root: Root,
    leaves: u64,
    /// Leaves that a kernel would not write: reserved bits, or no access flag.
    odd: u64,
    /// Leaves that belong to one ASID.
    local: u64,
    /// Tables outside memory, loops.
    obstacles: u64,
    /// Bytes of memory that the longest straight line maps.
    straight: u64,
    line: Option<(u64, u64, u64)>,
    memory_bytes: u64,
}

impl Score {
    fn of(memory: &mut dyn Memory, root: Root) -> Result<Self, ReadError> {
        let memory_bytes = total(memory.ranges());
        let zero = Self { root, leaves: 0, odd: 0, local: 0, obstacles: 0, straight: 0, line: None, memory_bytes };
        let root = zero.root.clone();
        let mut score = zero;
        walk(memory, &root, 0, u64::MAX, &mut score)?;
        score.end_line();
        if score.local * 2 > score.leaves {
            score.root.regime = Regime::El1Lower;
            score.root.shape.half = AddressHalf::Lower;
        }
        Ok(score)
    }

    fn end_line(&mut self) {
        if let Some((_, _, bytes)) = self.line.take() {
            self.straight = self.straight.max(bytes.min(self.memory_bytes));
        }
    }

    /// How much of memory one straight line maps, in hundredths.
    fn coverage(&self) -> u64 {
        (u128::from(self.straight) * 100 / u128::from(self.memory_bytes.max(1))) as u64
    }

    /// Whether it is a page table.
    fn stands(&self) -> bool {
        self.leaves > 0 && self.order() > 50
    }

    /// How much of what it holds is as a kernel writes it, in hundredths.
    fn order(&self) -> u64 {
        let wrong = self.odd + self.obstacles * 100;
        100 - (wrong * 100 / self.leaves.max(1)).min(100)
    }
}

impl Visitor for Score {
    fn span(&mut self, span: &Span) {
        let shape = self.root.shape;
        let Meaning::Leaf(output, _) = span.descriptor.meaning(shape.page_size, shape.layout, span.level) else {
            return;
        };
        let bits = Stage1Attributes::from_bits_retain(span.descriptor.bits());
        let reserved = shape.layout.reserved_in_leaf(shape.page_size, span.level);
        self.leaves += span.count;
        if span.descriptor.bits() & reserved != 0 || !bits.contains(Stage1Attributes::AF) {
            self.odd += span.count;
        }
        if bits.contains(Stage1Attributes::NOT_GLOBAL) {
            self.local += span.count;
        }
        let bytes = 1u64 << shape.shift(span.level);
        match &mut self.line {
            // Holes in a straight line count as part of it: firmware keeps pieces of memory for itself.
            Some((input, first, length)) if span.input.wrapping_sub(*input) == output.bits().wrapping_sub(*first) => {
                *length += bytes;
            }
            _ => {
                self.end_line();
                self.line = Some((span.input, output.bits(), bytes));
            }
        }
    }

    fn obstacle(&mut self, _: &Table, _: Obstacle) {
        self.obstacles += 1;
    }
}

/// The best candidates first, each with how sure it is.
fn rank(mut scored: Vec<Score>) -> Vec<Root> {
    scored.retain(Score::stands);
    scored.sort_by_key(|score| std::cmp::Reverse((score.coverage() * score.order(), score.leaves)));
    let second = scored.get(1).map_or(0, Score::coverage);
    let told = scored.iter().take(MOST_TOLD).enumerate();
    told.map(|(place, score)| {
        let ahead = if place == 0 { score.coverage().saturating_sub(second) } else { 0 };
        let sure = (score.coverage() * 6 / 10 + ahead * 3 / 10 + score.order() / 10).min(99);
        let why = format!(
            "it maps {} % of memory in a straight line with {} leaves, {} % of them in order",
            score.coverage(),
            score.leaves,
            score.order()
        );
        Root { origin: Origin::Search(sure as u8, why), ..score.root.clone() }
    })
    .collect()
}

/// The descriptors of a page of memory.
fn descriptors(bytes: &[u8]) -> impl Iterator<Item = Descriptor> + '_ {
    bytes.chunks_exact(DESCRIPTOR_BYTES).map(|chunk| Descriptor::from_le_bytes(chunk.try_into().unwrap_or_default()))
}

/// The level that is `height` levels above pages.
fn level_at(height: u32) -> Option<Level> {
    Level::new(3 - height as i8)
}

#[cfg(test)]
mod tests;
