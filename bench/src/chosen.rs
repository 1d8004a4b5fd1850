//! The granule compiled in, and chosen at run time: the same operations, called by name or through a pointer.
//!
//! Neither is laid out inline, so that the two differ in how a call finds its code, and in nothing else.

use std::hint::black_box;

use vmsa::{Granule4K, Granule16K, Granule64K, PageSize};

use crate::contender::{Contender, Found};
use crate::memory::Silent;
use crate::ours::Ours;

/// The operations of one granule.
pub(crate) trait Operations {
    fn map(&mut self, from: u64, bytes: u64, to: u64, leaf_bytes: u64);
    fn protect(&mut self, page: u64, is_read_only: bool);
    fn translate(&self, inputs: &[u64]) -> u64;
    fn unmap(&mut self, from: u64, bytes: u64, leaf_bytes: u64);
    fn collapse(&mut self, from: u64, bytes: u64);
    fn find(&self, input: u64) -> Option<Found>;
}

impl<C: Contender> Operations for C {
    #[inline(never)]
    fn map(&mut self, from: u64, bytes: u64, to: u64, leaf_bytes: u64) {
        Contender::map(self, from, bytes, to, leaf_bytes);
    }

    #[inline(never)]
    fn protect(&mut self, page: u64, is_read_only: bool) {
        Contender::protect(self, page, is_read_only);
    }

    #[inline(never)]
    fn translate(&self, inputs: &[u64]) -> u64 {
        Contender::translate(self, inputs)
    }

    #[inline(never)]
    fn unmap(&mut self, from: u64, bytes: u64, leaf_bytes: u64) {
        Contender::unmap(self, from, bytes, leaf_bytes);
    }

    #[inline(never)]
    fn collapse(&mut self, from: u64, bytes: u64) {
        Contender::collapse(self, from, bytes);
    }

    #[inline(never)]
    fn find(&self, input: u64) -> Option<Found> {
        Contender::find(self, input)
    }
}

/// Compiled for 4K: a call names its code.
pub(crate) type Fixed = Through<Ours<Granule4K, Silent>>;
/// Chosen at run time: a call finds its code in a table of pointers that was chosen once.
pub(crate) type Chosen = Through<dyn Operations>;

/// A page table whose operations are called as `O` has them called.
pub(crate) struct Through<O: Make + ?Sized>(Box<O>);

/// How the page table is made.
pub(crate) trait Make: Operations {
    /// An empty page table.
    fn make() -> Box<Self>;
}

impl Make for Ours<Granule4K, Silent> {
    fn make() -> Box<Self> {
        Box::new(Self::new())
    }
}

impl Make for dyn Operations {
    fn make() -> Box<Self> {
        match black_box(PageSize::Size4K) {
            PageSize::Size4K => Box::new(Ours::<Granule4K, Silent>::new()),
            PageSize::Size16K => Box::new(Ours::<Granule16K, Silent>::new()),
            PageSize::Size64K => Box::new(Ours::<Granule64K, Silent>::new()),
        }
    }
}

impl<O: Make + ?Sized> Contender for Through<O> {
    fn new() -> Self {
        Self(O::make())
    }

    fn map(&mut self, from: u64, bytes: u64, to: u64, leaf_bytes: u64) {
        Operations::map(&mut *self.0, from, bytes, to, leaf_bytes);
    }

    fn protect(&mut self, page: u64, is_read_only: bool) {
        Operations::protect(&mut *self.0, page, is_read_only);
    }

    fn translate(&self, inputs: &[u64]) -> u64 {
        Operations::translate(&*self.0, inputs)
    }

    fn unmap(&mut self, from: u64, bytes: u64, leaf_bytes: u64) {
        Operations::unmap(&mut *self.0, from, bytes, leaf_bytes);
    }

    fn collapse(&mut self, from: u64, bytes: u64) {
        Operations::collapse(&mut *self.0, from, bytes);
    }

    fn find(&self, input: u64) -> Option<Found> {
        Operations::find(&*self.0, input)
    }
}
