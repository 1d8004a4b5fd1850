//! Lists of tables that no walker can reach: those waiting to be used, and those that came free.
//!
//! A list takes no memory of its own. It is threaded through its tables: the first descriptor of each holds the address of the
//! next, which reads as an invalid descriptor, because tables are aligned and bit 0 stays clear.
//!
//! ```text
//!  first ──▶ ┌────────┐     ┌────────┐     ┌────────┐
//!            │ next ──┼────▶│ next ──┼────▶│   ·    │      count = 3; the last link means nothing
//!            │ ······ │     │ ······ │     │ ······ │      what else a table holds is what was there before
//!            └────────┘     └────────┘     └────────┘
//! ```

use vmsa::{Descriptor, Layout, PhysAddr};

use crate::change::Refusal;
use crate::platform::{Platform, Slot};

/// A list of tables. `first` means something only while `count` is not 0.
#[derive(Debug, Default)]
pub(crate) struct TableList {
    first: PhysAddr,
    count: usize,
    /// No table in the list has an address above this one.
    highest: PhysAddr,
}

impl TableList {
    pub(crate) fn push<P: Platform>(&mut self, platform: &P, table: PhysAddr) {
        platform.store(Slot::new(table, 0), Descriptor::note(self.first));
        self.first = table;
        self.highest = self.highest.max(table);
        self.count += 1;
    }

    /// A table among the first `count` whose address has more than `bits` bits.
    pub(crate) fn find_wider<P: Platform>(&self, platform: &P, count: usize, bits: u32) -> Option<PhysAddr> {
        if self.highest.bits() >> bits == 0 {
            return None;
        }
        let next = |table: &PhysAddr| Some(platform.load(Slot::new(*table, 0)).noted());
        let mut tables = core::iter::successors(Some(self.first), next).take(count.min(self.count));
        tables.find(|table| table.bits() >> bits != 0)
    }

    pub(crate) fn pop<P: Platform>(&mut self, platform: &P) -> Option<PhysAddr> {
        self.count = self.count.checked_sub(1)?;
        let table = self.first;
        self.first = platform.load(Slot::new(table, 0)).noted();
        Some(table)
    }
}

/// Tables to build with. Their content does not matter: the engine writes every descriptor of a table before it links it.
#[derive(Debug, Default)]
#[must_use = "tables left in a reserve leak unless they are taken back"]
pub struct Reserve(pub(crate) TableList);

impl Reserve {
    /// A reserve without tables.
    pub const fn new() -> Self {
        Self(TableList { first: PhysAddr::new(0), count: 0, highest: PhysAddr::new(0) })
    }

    /// Adds the page at `table`: aligned to the granule, writable through `platform`, and in no other use from now on.
    pub fn add<P: Platform>(&mut self, platform: &P, table: PhysAddr) {
        self.0.push(platform, table);
    }

    /// Adds tables that came free.
    pub fn refill<P: Platform>(&mut self, platform: &P, mut retired: Retired) {
        while let Some(table) = retired.take(platform) {
            self.add(platform, table);
        }
    }

    /// Takes a table out again.
    pub fn take<P: Platform>(&mut self, platform: &P) -> Option<PhysAddr> {
        self.0.pop(platform)
    }

    /// How many tables it holds.
    pub const fn count(&self) -> usize {
        self.0.count
    }

    /// Whether it holds `count` tables that descriptors of this layout can lead to.
    #[inline(never)]
    pub(crate) fn check<P: Platform>(&self, platform: &P, count: usize, layout: Layout) -> Result<(), Refusal> {
        let lacking = count.saturating_sub(self.count());
        match self.0.find_wider(platform, count, layout.output_bits()) {
            _ if lacking > 0 => Err(Refusal::ReserveShortBy(lacking)),
            Some(table) => Err(Refusal::OutputTooWide(table)),
            None => Ok(()),
        }
    }

    /// The same tables, for use on a platform that keeps its stores to itself.
    #[cfg(feature = "alloc")]
    pub(crate) const fn alias(&self) -> Self {
        Self(TableList { ..self.0 })
    }
}

/// Tables that no TLB, walk cache or walker can reach any more, be it of hardware or a [`crate::View`]. Only [`crate::Gather::finish`] makes them.
#[derive(Debug, Default)]
#[must_use = "retired tables leak unless they go back to where tables come from"]
pub struct Retired(pub(crate) TableList);

impl Retired {
    /// How many tables there are.
    pub const fn count(&self) -> usize {
        self.0.count
    }

    /// Takes one. The page may be used for anything.
    pub fn take<P: Platform>(&mut self, platform: &P) -> Option<PhysAddr> {
        self.0.pop(platform)
    }
}
