//! Areas: what a program was promised of a range of addresses, whether or not there is a page yet.

use core::ops::Range;

use bitflags::bitflags;

bitflags! {
    /// What a program may do.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Rights: u8 {
        /// PROT_READ.
        const READ = 1;
        /// PROT_WRITE.
        const WRITE = 2;
        /// PROT_EXEC.
        const EXECUTE = 4;
    }
}

bitflags! {
    /// What else an area is.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct AreaFlags: u16 {
        /// MAP_SHARED: what is written, all see who map the same.
        const SHARED = 1 << 0;
        /// MAP_GROWSDOWN: a stack, which grows where it is touched below its start.
        const GROWS_DOWN = 1 << 1;
        /// MAP_NORESERVE: nothing is promised.
        const NO_RESERVE = 1 << 2;
        /// MAP_LOCKED, mlock: its pages stay.
        const LOCKED = 1 << 3;
        /// MLOCK_ONFAULT, beside LOCKED: they stay once they are there.
        const LOCKED_ON_FAULT = 1 << 4;
        /// MADV_DONTFORK: a child has none of it.
        const DONT_FORK = 1 << 5;
        /// MADV_WIPEONFORK: a child finds zeros.
        const WIPE_ON_FORK = 1 << 6;
        /// MADV_DONTDUMP.
        const DONT_DUMP = 1 << 7;
        /// MADV_SEQUENTIAL.
        const SEQUENTIAL = 1 << 8;
        /// MADV_RANDOM.
        const RANDOM = 1 << 9;
        /// MADV_HUGEPAGE.
        const HUGE = 1 << 10;
        /// MADV_NOHUGEPAGE.
        const NOT_HUGE = 1 << 11;
        /// Its pages are promised: [`crate::Embedder::commit`] counted them.
        const ACCOUNTED = 1 << 12;
        /// Nobody but a program may reach it: `memfd_secret`.
        const SECRET = 1 << 13;
        /// MAP_DROPPABLE: its pages may go at any time, and are never locked.
        const DROPPABLE = 1 << 14;
    }
}

/// What stands behind an area.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Backing<F> {
    /// Zeros, until they are written. Areas side by side are one if their origins are: the address where each was mapped at first.
    Anonymous {
        /// The address that it was mapped at.
        origin: u64,
    },
    /// A file, from this offset on, in bytes.
    File {
        /// The file.
        file: F,
        /// Where in it the area begins: a whole number of pages.
        offset: u64,
    },
}

impl<F: Clone> Backing<F> {
    /// What stands `bytes` further on.
    pub(crate) fn after(&self, bytes: u64) -> Self {
        match self {
            Self::Anonymous { origin } => Self::Anonymous { origin: origin.wrapping_add(bytes) },
            Self::File { file, offset } => Self::File { file: file.clone(), offset: offset.wrapping_add(bytes) },
        }
    }
}

/// One area.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Area<F> {
    /// Its first address.
    pub start: u64,
    /// The address behind it.
    pub end: u64,
    /// What a program may do.
    pub rights: Rights,
    /// What it may be given by `mprotect`.
    pub most: Rights,
    /// What else it is.
    pub flags: AreaFlags,
    /// What stands behind it.
    pub backing: Backing<F>,
}

impl<F: Clone + PartialEq> Area<F> {
    /// Its addresses.
    pub fn range(&self) -> Range<u64> {
        self.start..self.end
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.end - self.start
    }

    /// Whether it is shared.
    pub fn is_shared(&self) -> bool {
        self.flags.contains(AreaFlags::SHARED)
    }

    /// Whether to lock it does nothing: what only programs may reach stays anyway, what may be dropped never does.
    pub(crate) fn never_locks(&self) -> bool {
        self.flags.intersects(AreaFlags::SECRET | AreaFlags::DROPPABLE)
    }

    /// Whether what is written there is promised by the kernel alone: private, and may be written.
    pub(crate) fn is_data(&self) -> bool {
        !self.is_shared() && self.rights.contains(Rights::WRITE)
    }

    /// The part from `start` to `end`, which it holds.
    pub(crate) fn part(&self, start: u64, end: u64) -> Self {
        Self { start, end, backing: self.backing.after(start - self.start), ..self.clone() }
    }

    /// Whether `next`, which begins where it ends, is the same but for where.
    pub(crate) fn joins(&self, next: &Self) -> bool {
        self.end == next.start
            && self.rights == next.rights
            && self.most == next.most
            && self.flags == next.flags
            && self.backing.after(self.bytes()) == next.backing
    }
}
