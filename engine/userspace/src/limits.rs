//! How much a program may have.

/// How much a program may have, in bytes where nothing else is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// RLIMIT_AS.
    pub address_space: u64,
    /// RLIMIT_DATA.
    pub data: u64,
    /// RLIMIT_STACK.
    pub stack: u64,
    /// RLIMIT_MEMLOCK; `u64::MAX` for who may lock as much as there is.
    pub locked: u64,
    /// Areas: `vm.max_map_count`.
    pub areas: usize,
}

impl Limits {
    /// Those that Linux begins with, of a process that may do everything.
    pub const USUAL: Self =
        Self { address_space: u64::MAX, data: u64::MAX, stack: 8 << 20, locked: u64::MAX, areas: 65_530 };
}

/// What a program has, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// In areas.
    pub mapped: u64,
    /// The most that were in areas at once, and the most that were in tables.
    pub peak_mapped: u64,
    /// See `peak_mapped`.
    pub peak_resident: u64,
    /// In areas that are private and may be written.
    pub data: u64,
    /// In areas of stacks.
    pub stack: u64,
    /// In areas that may be executed and not written.
    pub text: u64,
    /// In areas that are locked.
    pub locked: u64,
    /// In tables, and the program's own.
    pub anonymous: u64,
    /// In tables, and a file's or shared memory's.
    pub file: u64,
    /// Tables.
    pub tables: u64,
    /// Promised.
    pub committed: u64,
}
