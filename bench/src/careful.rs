//! The plain loop that makes the same tests as the engine when it translates: is the address in range, which layout have
//! descriptors, is this one valid, reserved, a table, a leaf.

use std::marker::PhantomData;

use vmsa::{AddressHalf, Geometry, Granule, Layout};

use crate::contender::{Contender, Found};
use crate::memory::load;
use crate::naive::Naive;

/// What boot learns of a page table, and the naive one that builds it.
#[derive(Debug)]
pub(crate) struct Careful<G: Granule> {
    naive: Naive<G>,
    shape: Shape,
    granule: PhantomData<G>,
}

/// The shape, in values.
#[derive(Clone, Copy, Debug)]
struct Shape {
    root: u64,
    base: u64,
    input_bits: u8,
    start: i8,
    layout: Layout,
}

/// The whole answer: output address, level, whether it is one of a contiguous group, descriptor.
type Leaf = (u64, i8, bool, u64);

/// Bits `high` to `low` of a descriptor.
const fn field(descriptor: u64, high: u32, low: u32) -> u64 {
    descriptor & (!0 >> (63 - high)) & (!0 << low)
}

#[inline(always)]
const fn output(layout: Layout, descriptor: u64, shift: u32) -> u64 {
    match layout {
        Layout::Bits48 => field(descriptor, 47, shift),
        Layout::Lpa => field(descriptor, 47, shift) | field(descriptor, 15, 12) << 36,
        Layout::Lpa2 => field(descriptor, 49, shift) | field(descriptor, 9, 8) << 42,
    }
}

#[inline(always)]
fn descend<G: Granule>(shape: Shape, layout: Layout, offset: u64) -> Option<Leaf> {
    let mut table = shape.root;
    for level in -1..=3 {
        if level < shape.start {
            continue;
        }
        let shift = G::SHIFT + (3 - level) as u32 * G::INDEX_BITS;
        let index = offset >> shift & (G::ENTRIES as u64 - 1);
        let descriptor = load(table + index * 8);
        if descriptor & 1 == 0 {
            return None;
        }
        let is_table = descriptor & 2 != 0;
        if is_table && level < 3 {
            table = output(layout, descriptor, G::SHIFT);
            continue;
        }
        let level_name = vmsa::Level::new(level)?;
        if is_table != (level == 3) || !G::PAGE_SIZE.has_leaf(level_name, layout) {
            return None;
        }
        let contiguous = descriptor >> 52 & 1 != 0 && G::PAGE_SIZE.contiguous_shift(level_name).is_some();
        return Some((
            output(layout, descriptor, shift) + (offset & ((1 << shift) - 1)),
            level,
            contiguous,
            descriptor,
        ));
    }
    None
}

#[inline]
fn translate<G: Granule>(shape: Shape, input: u64) -> Option<Leaf> {
    let offset = input.wrapping_sub(shape.base);
    if offset >> shape.input_bits != 0 {
        return None;
    }
    match shape.layout {
        Layout::Bits48 => descend::<G>(shape, Layout::Bits48, offset),
        Layout::Lpa => descend::<G>(shape, Layout::Lpa, offset),
        Layout::Lpa2 => descend::<G>(shape, Layout::Lpa2, offset),
    }
}

impl<G: Granule> Contender for Careful<G> {
    fn new() -> Self {
        let naive = Naive::new();
        let geometry = Geometry::<G>::new(48, Layout::Bits48, AddressHalf::Lower).expect("48 bits");
        let shape = Shape {
            root: naive.root(),
            base: geometry.base(),
            input_bits: geometry.input_bits() as u8,
            start: geometry.start().number(),
            layout: geometry.layout(),
        };
        Self { naive, shape: std::hint::black_box(shape), granule: PhantomData }
    }

    fn map(&mut self, from: u64, bytes: u64, to: u64, leaf_bytes: u64) {
        self.naive.map(from, bytes, to, leaf_bytes);
    }

    fn protect(&mut self, page: u64, is_read_only: bool) {
        self.naive.protect(page, is_read_only);
    }

    fn translate(&self, inputs: &[u64]) -> u64 {
        let shape = self.shape;
        inputs.iter().fold(0, |mixed, &input| mixed ^ translate::<G>(shape, input).map_or(0, |(output, ..)| output))
    }

    fn unmap(&mut self, from: u64, bytes: u64, leaf_bytes: u64) {
        self.naive.unmap(from, bytes, leaf_bytes);
    }

    fn find(&self, input: u64) -> Option<Found> {
        self.naive.find(input)
    }
}
