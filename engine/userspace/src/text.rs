//! The instruction that made a fault, read without a lock and without a walk of software's.
//!
//! ```text
//! translate: the MMU walks, by what it may hold ──▶ load, by the linear map ──▶ a hint
//!    └─▶ nothing is mapped                             └─▶ the page is hidden
//! ```
//! Between the two another CPU may unmap the page, free it and its tables, and use both anew: what is loaded may be anybody's. Tables need no
//! reader to be waited for, since none is freed before its TLBI and DSB, which wait for every walk of the MMU's.

use vmsa::PhysAddr;

use crate::access::{Access, Kind};

/// How a kernel reads a program's text. Each step may come to nothing.
pub trait Text {
    /// Where this CPU's MMU leads a read of `address` by the kernel (AT S1E1R), so that text which can only be executed is read too.
    fn translate(&self, address: u64) -> Option<PhysAddr>;

    /// The word there, by the linear map; `None` where the load faults, which ends it.
    fn load(&self, at: PhysAddr) -> Option<u32>;
}

impl Access {
    /// The same, made by the A64 instruction at `place`, as far as that can be told: a read may be an atomic's.
    #[inline]
    #[must_use]
    pub fn made_at(self, place: u64, text: &impl Text) -> Self {
        if self.kind != Kind::Read {
            return self;
        }
        let instruction = text.translate(place).and_then(|at| text.load(at));
        instruction.map_or(self, |instruction| self.made_by(instruction))
    }
}
