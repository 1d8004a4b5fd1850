//! A walk over a page table of any shape, in ascending order of input addresses, each table read once into a buffer.
//!
//! Memory may change under a live read, and an image may be hostile. So a walk never follows a table into itself, knows
//! the tables that it has seen (a uniform one is told as one span, others are walked again only so often), and treats
//! what cannot be read as a hole with a finding: it always ends.

use std::collections::HashMap;

use vmsa::{DESCRIPTOR_BYTES, Descriptor, Level, Meaning, PhysAddr, TableAttributes};

use crate::memory::{Memory, ReadError};
use crate::root::Root;

/// Equal neighbours that lead to no table: leaves, holes, whatever is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// The input address of the first.
    pub input: u64,
    /// Their level.
    pub level: Level,
    /// The descriptor that each of them is.
    pub descriptor: Descriptor,
    /// How many there are, at least one.
    pub count: u64,
    /// What the tables above them limit (hierarchical control), all levels together.
    pub inherited: TableAttributes,
}

/// A table that the walk enters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Table {
    /// The first input address that it translates.
    pub input: u64,
    /// Its level.
    pub level: Level,
    /// Where it is.
    pub address: PhysAddr,
    /// The descriptor that leads to it; all zeros for a root.
    pub parent: Descriptor,
    /// Whether the walk has met it before, under another input address.
    pub is_repeated: bool,
}

/// Why a table descriptor was not followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Obstacle {
    /// The table lies outside memory, or the source does not hold it.
    Outside,
    /// Stage 2 does not map the table.
    Unmapped,
    /// The table is one of those that lead to it.
    Loop,
    /// The table is shared so often that it was not walked again.
    Repeated,
}

/// What a walk meets. `table` comes before the spans of that table.
pub trait Visitor {
    /// Leaves, holes, or other descriptors that lead to no table.
    fn span(&mut self, span: &Span);

    /// A table and its descriptors.
    fn table(&mut self, _table: &Table, _descriptors: &[Descriptor]) {}

    /// A table that is not walked; it counts as a hole.
    fn obstacle(&mut self, _table: &Table, _obstacle: Obstacle) {}
}

/// How often a walk follows tables that it has seen before. Real kernels share few tables that are not uniform.
const MOST_REPEATS: u32 = 1 << 13;

/// A table all of whose leaves and holes are the same descriptor at the same level.
type Uniform = Option<(Level, Descriptor)>;

struct Walk<'a, V> {
    memory: &'a mut dyn Memory,
    root: &'a Root,
    visitor: &'a mut V,
    /// First and last input address of interest.
    wanted: (u64, u64),
    /// The tables that lead to the current one, by level.
    path: [Option<PhysAddr>; 5],
    /// One buffer a level, so that no table is allocated twice.
    buffers: [Vec<Descriptor>; 5],
    bytes: Vec<u8>,
    /// Tables walked whole, by address and level.
    seen: HashMap<u64, Uniform>,
    repeats_left: u32,
}

/// Walks what `root` translates of the input addresses `first` to `last`, both included.
pub fn walk<V: Visitor>(
    memory: &mut dyn Memory,
    root: &Root,
    first: u64,
    last: u64,
    visitor: &mut V,
) -> Result<(), ReadError> {
    let shape = root.shape;
    let wanted = (first.max(shape.base()), last.min(shape.last()));
    if wanted.0 > wanted.1 {
        return Ok(());
    }
    let mut walk = Walk {
        memory,
        root,
        visitor,
        wanted,
        path: [None; 5],
        buffers: Default::default(),
        bytes: Vec::new(),
        seen: HashMap::new(),
        repeats_left: MOST_REPEATS,
    };
    let table = Table {
        input: shape.base(),
        level: shape.start,
        address: root.address,
        parent: Descriptor::INVALID,
        is_repeated: false,
    };
    match walk.enter(table, TableAttributes::empty())? {
        Entered::Walked(_) => Ok(()),
        Entered::Blocked(obstacle) => {
            walk.visitor.obstacle(&table, obstacle);
            Ok(())
        }
    }
}

enum Entered {
    Walked(Uniform),
    Blocked(Obstacle),
}

/// The place of a level in arrays that hold one thing for each.
fn slot(level: Level) -> usize {
    (level.number() + 1) as usize
}

impl<V: Visitor> Walk<'_, V> {
    fn enter(&mut self, table: Table, inherited: TableAttributes) -> Result<Entered, ReadError> {
        let mut descriptors = std::mem::take(&mut self.buffers[slot(table.level)]);
        let read = self.read(&table, &mut descriptors);
        let entered = match read {
            Ok(()) => {
                self.path[slot(table.level)] = Some(table.address);
                self.visitor.table(&table, &descriptors);
                let uniform = self.descriptors(&table, &descriptors, inherited);
                self.path[slot(table.level)] = None;
                uniform.map(Entered::Walked)
            }
            Err(ReadError::Outside) => Ok(Entered::Blocked(Obstacle::Outside)),
            Err(ReadError::Unmapped) => Ok(Entered::Blocked(Obstacle::Unmapped)),
            Err(error) => Err(error),
        };
        self.buffers[slot(table.level)] = descriptors;
        entered
    }

    /// Reads a whole table at once, so that what a live machine changes is seen before or after, not both.
    fn read(&mut self, table: &Table, descriptors: &mut Vec<Descriptor>) -> Result<(), ReadError> {
        self.bytes.resize(self.root.shape.entries(table.level) * DESCRIPTOR_BYTES, 0);
        self.memory.read(table.address, &mut self.bytes)?;
        let is_big_endian = self.root.is_big_endian;
        descriptors.clear();
        descriptors.extend(self.bytes.chunks_exact(DESCRIPTOR_BYTES).map(|chunk| {
            let word = chunk.try_into().unwrap_or_default();
            if is_big_endian { Descriptor::from_be_bytes(word) } else { Descriptor::from_le_bytes(word) }
        }));
        Ok(())
    }

    /// The descriptors of a table that are wanted; says whether all of the table is the same.
    fn descriptors(
        &mut self,
        table: &Table,
        all: &[Descriptor],
        inherited: TableAttributes,
    ) -> Result<Uniform, ReadError> {
        let shift = self.root.shape.shift(table.level);
        let last_input = table.input + ((all.len() as u64 - 1) << shift);
        let from = (self.wanted.0.max(table.input) - table.input) >> shift;
        let to = (self.wanted.1.min(last_input) - table.input) >> shift;
        let (from, to) = (from as usize, to as usize);
        let mut uniform: Option<Uniform> = None;
        let mut index = from;
        while index <= to {
            let input = table.input + ((index as u64) << shift);
            let (count, this) = self.step(table, &all[index..=to], input, inherited)?;
            let same = uniform.is_none_or(|before| before == this);
            uniform = Some(if same { this } else { None });
            index += count;
        }
        let is_whole = from == 0 && to + 1 == all.len();
        Ok(if is_whole { uniform.flatten() } else { None })
    }

    /// The descriptors from `input` on that can be told at once: how many they are, and whether they are uniform.
    fn step(
        &mut self,
        table: &Table,
        rest: &[Descriptor],
        input: u64,
        inherited: TableAttributes,
    ) -> Result<(usize, Uniform), ReadError> {
        let shape = self.root.shape;
        let descriptor = rest[0];
        if let (Meaning::Table(next), Some(level)) =
            (descriptor.meaning(shape.page_size, shape.layout, table.level), table.level.next())
        {
            let next = Table { input, level, address: next, parent: descriptor, is_repeated: false };
            let limits = TableAttributes::from_bits_retain(descriptor.bits()) & TableAttributes::LIMITS;
            let inherited = inherited | limits;
            return Ok((1, self.follow(next, inherited)?));
        }
        let count = rest.iter().take_while(|other| **other == descriptor).count();
        self.visitor.span(&Span { input, level: table.level, descriptor, count: count as u64, inherited });
        Ok((count, Some((table.level, descriptor))))
    }

    /// Walks a table that a descriptor leads to, or tells a hole in its place.
    fn follow(&mut self, mut table: Table, inherited: TableAttributes) -> Result<Uniform, ReadError> {
        let above = Level::ALL[slot(table.level) - 1];
        let bytes = 1u64 << self.root.shape.shift(above);
        let obstacle = if self.path.contains(&Some(table.address)) {
            Obstacle::Loop
        } else {
            let key = table.address.bits() | slot(table.level) as u64;
            match self.seen.get(&key) {
                Some(Some((level, descriptor))) => {
                    let (level, descriptor) = (*level, *descriptor);
                    let count = bytes >> self.root.shape.shift(level);
                    self.visitor.span(&Span { input: table.input, level, descriptor, count, inherited });
                    return Ok(Some((level, descriptor)));
                }
                Some(None) if self.repeats_left == 0 => Obstacle::Repeated,
                seen => {
                    table.is_repeated = seen.is_some();
                    self.repeats_left -= u32::from(table.is_repeated);
                    match self.enter(table, inherited)? {
                        Entered::Walked(uniform) => {
                            self.seen.insert(key, uniform);
                            return Ok(uniform);
                        }
                        Entered::Blocked(obstacle) => obstacle,
                    }
                }
            }
        };
        self.visitor.obstacle(&table, obstacle);
        self.visitor.span(&Span {
            input: table.input,
            level: above,
            descriptor: Descriptor::INVALID,
            count: 1,
            inherited,
        });
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
