//! What the lock of a map guards.

use pagetable::{El1, PageTable, Platform, Refusal, Reserve, Retired, Slot};
use vmsa::{Descriptor, Granule, Maintenance};

use crate::counters::Counters;
use crate::healing::Healing;
use crate::reserve;
use crate::shape::Map;
use crate::standing::{Cpu, Standing};

/// No machine: what a page table is of that is to be of another ([`PageTable::over`]).
#[derive(Debug)]
struct Nowhere;

impl Platform for Nowhere {
    fn load(&self, _: Slot) -> Descriptor {
        Descriptor::INVALID
    }

    fn store(&self, _: Slot, _: Descriptor) {}

    fn exchange(&self, _: Slot, _: Descriptor, _: Descriptor) -> Result<(), Descriptor> {
        Err(Descriptor::INVALID)
    }

    fn maintain(&self, _: Maintenance) {}
}

/// What the lock guards.
#[derive(Debug)]
pub struct State<G: Granule> {
    pub(crate) map: Map<G>,
    /// The page table, as its CPUs are now: what each change would check again.
    table: PageTable<'static, G, El1, Nowhere>,
    pub(crate) standing: Standing,
    pub(crate) reserve: Reserve,
    pub(crate) reserve_target: usize,
    /// Tables for changes that may wait, so that what heals and splits in turn asks nobody for any: [`reserve::SPARE`] at most.
    pub(crate) spare: Reserve,
    pub(crate) healing: Healing,
    pub(crate) counters: Counters,
}

impl<G: Granule> State<G> {
    /// A map that the CPU `first` alone walks. Refused if no TTBR can hold its root, or the range is not in it.
    pub(crate) fn new(map: Map<G>, first: Cpu) -> Result<Self, Refusal> {
        let standing = Standing::new(first);
        let table = page_table(&map, &standing)?;
        let Some((start, end)) = map.geometry.offsets(map.range.start.bits(), map.range.end.bits()) else {
            return Err(Refusal::OutOfRange(map.range.start.bits()));
        };
        Ok(Self {
            table,
            standing,
            reserve: Reserve::new(),
            spare: Reserve::new(),
            reserve_target: reserve::target(&map),
            healing: Healing::new::<G>(start..end, map.leaves),
            counters: Counters::default(),
            map,
        })
    }

    /// A CPU walks the map from now on.
    pub(crate) fn admit(&mut self, cpu: Cpu) {
        self.standing.admit(cpu);
        // The root was looked at when the map was made.
        self.table = page_table(&self.map, &self.standing).expect("a TTBR holds the root");
    }

    /// The page table on this platform.
    #[inline(always)]
    pub(crate) const fn table<'p, P: Platform>(&self, platform: &'p P) -> PageTable<'p, G, El1, P> {
        self.table.over(platform)
    }

    /// The reserve is not what it was.
    pub(crate) const fn note_reserve(&mut self) {
        self.counters.reserve = self.reserve.count() as u64;
    }

    /// Tables that the reserve lacks.
    pub(crate) fn lacking(&self) -> usize {
        self.reserve_target.saturating_sub(self.reserve.count())
    }

    /// The same, and what lacks of spare ones.
    pub(crate) fn lacking_in_all(&self) -> usize {
        self.lacking() + self.most_spare().saturating_sub(self.spare.count())
    }

    /// A map without a reserve has nothing to spare.
    fn most_spare(&self) -> usize {
        reserve::SPARE.min(self.reserve_target)
    }

    /// Takes in what lacks, out of `supply`: of the reserve first.
    pub(crate) fn stock<P: Platform>(&mut self, platform: &P, supply: &mut Reserve) {
        while self.lacking_in_all() > 0
            && let Some(table) = supply.take(platform)
        {
            self.place(supply).add(platform, table);
        }
        self.note_reserve();
    }

    /// Takes out what there is too many.
    pub(crate) fn spill<P: Platform>(&mut self, platform: &P, excess: &mut Reserve) {
        let most_spare = self.most_spare();
        for (tables, most) in [(&mut self.reserve, self.reserve_target), (&mut self.spare, most_spare)] {
            while tables.count() > most
                && let Some(table) = tables.take(platform)
            {
                excess.add(platform, table);
            }
        }
        self.note_reserve();
    }

    /// Tables came free: those that lack are kept, the rest goes to `excess`.
    pub(crate) fn recycle<P: Platform>(&mut self, platform: &P, mut retired: Retired, excess: &mut Reserve) {
        while let Some(table) = retired.take(platform) {
            self.place(excess).add(platform, table);
        }
        self.note_reserve();
    }

    /// Where a table goes that nobody uses.
    fn place<'t>(&'t mut self, excess: &'t mut Reserve) -> &'t mut Reserve {
        match (self.lacking(), self.lacking_in_all()) {
            (1.., _) => &mut self.reserve,
            (0, 1..) => &mut self.spare,
            (0, 0) => excess,
        }
    }
}

fn page_table<G: Granule>(map: &Map<G>, standing: &Standing) -> Result<PageTable<'static, G, El1, Nowhere>, Refusal> {
    let regime = El1 { tlb: standing.tlb(), ..map.regime };
    Ok(PageTable::live(&Nowhere, map.geometry, regime, map.root)?.with_largest(map.leaves.largest()))
}
