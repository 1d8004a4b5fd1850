//! The CPUs' stacks. Each has a slot of its own and lies at its upper end; the rest of the slot is never mapped.
//!
//! ```text
//! |      guard, at least 64 KiB      |  stack  |      guard      |  stack  | ...
//! slot of CPU 0's thread stack                 slot of its exception stack
//! ```

use core::fmt;
use core::ops::Range;

use common::supply::ChangeError;
use pagetable::Change;
use vmsa::{PageSize, PhysAddr, VirtAddr};

use crate::facts::page_size;
use crate::memory::tables::{READ_WRITE, map_pages};
use crate::memory::{kernel_table, layout, pages};

/// What a stack is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Kernel code (SP_EL0).
    Thread,
    /// Exception handlers (SP_EL1).
    Exception,
    /// Exceptions in exception handlers.
    Emergency,
}

impl Kind {
    /// Every kind.
    pub(crate) const ALL: [Self; 3] = [Self::Thread, Self::Exception, Self::Emergency];

    /// Bytes, but at least a page.
    pub(crate) fn size_bytes(self, page_size: PageSize) -> u64 {
        let bytes = match self {
            Self::Thread => 64 << 10,
            Self::Exception => 16 << 10,
            Self::Emergency => 8 << 10,
        };
        page_size.size_bytes().max(bytes)
    }

    /// log2 of the pages.
    pub(crate) fn order(self, page_size: PageSize) -> usize {
        (self.size_bytes(page_size) / page_size.size_bytes()).ilog2() as usize
    }
}

/// Bytes of a slot: twice the largest stack there is.
const SLOT: u64 = 128 << 10;

/// The stack of a CPU.
pub(crate) fn range(cpu: usize, kind: Kind, page_size: PageSize) -> Range<u64> {
    let number = cpu * Kind::ALL.len() + kind as usize;
    let end = layout::STACKS.start + (number as u64 + 1) * SLOT;
    end - kind.size_bytes(page_size)..end
}

/// A place in the area of stacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) cpu: usize,
    pub(crate) kind: Kind,
    /// Below the stack, where nothing is mapped.
    pub(crate) is_guard: bool,
}

/// What is at an address of the area of stacks.
pub(crate) fn find(address: VirtAddr, page_size: PageSize) -> Option<Place> {
    let address = address.bits();
    if !layout::STACKS.contains(&address) {
        return None;
    }
    let number = ((address - layout::STACKS.start) / SLOT) as usize;
    let (cpu, kind) = (number / Kind::ALL.len(), Kind::ALL[number % Kind::ALL.len()]);
    let is_guard = address < range(cpu, kind, page_size).start;
    (cpu < hardware::per_cpu::MAX_CPUS).then_some(Place { cpu, kind, is_guard })
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Thread => "thread",
            Kind::Exception => "exception",
            Kind::Emergency => "emergency",
        };
        let guard = if self.is_guard { "the guard below " } else { "" };
        write!(f, "{guard}the {kind} stack of cpu {}", self.cpu)
    }
}

/// Why a CPU has no stacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MakeError {
    NoMemory,
    Table(ChangeError),
}

impl fmt::Display for MakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMemory => f.write_str("no memory"),
            Self::Table(error) => error.fmt(f),
        }
    }
}

/// The memory of a CPU's stacks, in the order of [`Kind::ALL`].
pub(crate) type Frames = [PhysAddr; Kind::ALL.len()];

/// Makes the stacks of a CPU that does not run.
pub(crate) fn make(cpu: usize) -> Result<Frames, MakeError> {
    let page_size = page_size();
    let mut frames = [PhysAddr::new(0); Kind::ALL.len()];
    for (number, kind) in Kind::ALL.into_iter().enumerate() {
        match pages::allocate(kind.order(page_size)) {
            Some(frame) => frames[number] = frame,
            None => {
                free(&frames[..number]);
                return Err(MakeError::NoMemory);
            }
        }
    }
    let changes = Kind::ALL.map(|kind| {
        let frame = frames[kind as usize].bits();
        map_pages(frame..frame + kind.size_bytes(page_size), range(cpu, kind, page_size).start, READ_WRITE)
    });
    kernel_table::change(&changes, false).map_err(|error| {
        free(&frames);
        MakeError::Table(error)
    })?;
    Ok(frames)
}

/// Takes back the stacks of a CPU that is off.
pub(crate) fn unmake(cpu: usize, frames: Frames) {
    let changes = Kind::ALL.map(|kind| {
        let Range { start, end } = range(cpu, kind, page_size());
        Change::Unmap { from: VirtAddr::new(start)..VirtAddr::new(end) }
    });
    if kernel_table::change(&changes, false).is_ok() {
        free(&frames);
    }
}

fn free(frames: &[PhysAddr]) {
    for (frame, kind) in frames.iter().zip(Kind::ALL) {
        pages::free(*frame, kind.order(page_size()));
    }
}
