//! The map that a kernel holds: what may be asked of it, from which context.

use core::ops::Range;

use pagetable::{El1, Refusal, Reserve, Summary, View};
use vmsa::VirtAddr;

use crate::changing::Asked;
use crate::counters::Counters;
use crate::embedder::{Embedder, Lock};
use crate::refused::Refused;
use crate::shape::Map;
use crate::standing::{Cpu, Stage, Standing};
use crate::state::State;
use crate::supply;
use crate::wanted::{Context, Wanted};

/// A kernel's linear map.
#[derive(Debug)]
pub struct LinearMap<E: Embedder> {
    embedder: E,
    /// What never changes of it, so that who reads needs no lock.
    map: Map<E::Granule>,
    lock: E::Lock,
}

/// Slots that are healed while the lock is held once, where all of them are asked for.
const HEALED_AT_ONCE: usize = 64;

impl<E: Embedder> LinearMap<E> {
    /// The map that `map` tells of, which the CPU `first` alone walks. Refused if no TTBR can hold its root, or the range is not
    /// in it. The reserve is empty: see [`Self::refill`].
    pub fn new(embedder: E, map: Map<E::Granule>, first: Cpu) -> Result<Self, Refused> {
        let state = State::new(map.clone(), first)?;
        Ok(Self { embedder, map, lock: E::Lock::new(state) })
    }

    /// Makes pages what is wanted of them: every page of every range, or, after an error, none. The ranges are of whole pages,
    /// mapped or hidden throughout; they may overlap, and lie anywhere in the page table, so that memory and what else maps
    /// it change together. Not so for [`Wanted::Leading`], [`Wanted::Present`] and [`Wanted::Absent`], whose ranges are of the map and do not
    /// overlap; what the last two are for [`Self::add`] and [`Self::remove`] say.
    pub fn change(&self, ranges: &[Range<VirtAddr>], wanted: Wanted, context: Context) -> Result<(), Refused> {
        self.change_asked(&Asked { ranges, wanted, others: &[], context, within: &self.map.range })
    }

    /// The same where not all ranges are to be alike: each list of ranges becomes what is wanted of it, in this order, and every page of
    /// every list, or none. Until it returns some CPU may translate by what was, and another by what is to be.
    pub fn change_all(&self, all: &[(&[Range<VirtAddr>], Wanted)], context: Context) -> Result<(), Refused> {
        let Some(((ranges, wanted), others)) = all.split_first() else { return Ok(()) };
        self.change_asked(&Asked { ranges, wanted: *wanted, others, context, within: &self.map.range })
    }

    #[inline(always)]
    fn change_asked(&self, asked: &Asked<'_>) -> Result<(), Refused> {
        let context = asked.context;
        let mut supply = Reserve::new();
        let (changed, lacking) = loop {
            match self.lock.with(|state| (state.change(&self.embedder, asked, &mut supply), state.lacking())) {
                // Not under the lock: to allocate may wait, and what is allocated may have to be shown first.
                (Err(Refused::OutOfTables(lacking)), _) if self.fetch(&mut supply, lacking) => {}
                ended => break ended,
            }
        };
        self.give_back(supply);
        if let Err(refused) = changed {
            self.lock.with(|state| state.counters.note(refused));
        } else if context == Context::MayWait && lacking > 0 {
            self.refill_with(lacking);
        }
        changed
    }

    /// [`Wanted::ReadOnly`].
    pub fn set_memory_ro(&self, ranges: &[Range<VirtAddr>], context: Context) -> Result<(), Refused> {
        self.change(ranges, Wanted::ReadOnly, context)
    }

    /// [`Wanted::Writable`].
    pub fn set_memory_rw(&self, ranges: &[Range<VirtAddr>], context: Context) -> Result<(), Refused> {
        self.change(ranges, Wanted::Writable, context)
    }

    /// [`Wanted::Executable`].
    pub fn set_memory_x(&self, ranges: &[Range<VirtAddr>], context: Context) -> Result<(), Refused> {
        self.change(ranges, Wanted::Executable, context)
    }

    /// [`Wanted::NotExecutable`].
    pub fn set_memory_nx(&self, ranges: &[Range<VirtAddr>], context: Context) -> Result<(), Refused> {
        self.change(ranges, Wanted::NotExecutable, context)
    }

    /// [`Wanted::ReadOnlyExecutable`].
    pub fn set_memory_rox(&self, ranges: &[Range<VirtAddr>], context: Context) -> Result<(), Refused> {
        self.change(ranges, Wanted::ReadOnlyExecutable, context)
    }

    /// [`Wanted::Shown`] or [`Wanted::Hidden`].
    pub fn set_memory_valid(&self, ranges: &[Range<VirtAddr>], valid: bool, context: Context) -> Result<(), Refused> {
        self.change(ranges, if valid { Wanted::Shown } else { Wanted::Hidden }, context)
    }

    /// [`Wanted::Hidden`].
    pub fn set_direct_map_invalid(&self, ranges: &[Range<VirtAddr>], context: Context) -> Result<(), Refused> {
        self.change(ranges, Wanted::Hidden, context)
    }

    /// [`Wanted::Default`].
    pub fn set_direct_map_default(&self, ranges: &[Range<VirtAddr>], context: Context) -> Result<(), Refused> {
        self.change(ranges, Wanted::Default, context)
    }

    /// [`Self::set_memory_valid`].
    pub fn set_direct_map_valid(
        &self,
        ranges: &[Range<VirtAddr>],
        valid: bool,
        context: Context,
    ) -> Result<(), Refused> {
        self.set_memory_valid(ranges, valid, context)
    }

    /// Whether an address is mapped and not hidden. It needs no lock.
    pub fn is_present(&self, address: VirtAddr) -> bool {
        self.view().translate(address).is_some()
    }

    /// Folds what is uniform again, but for what has changed in the last four calls: `budget` slots of level 2 are looked at, at most. Says
    /// whether more is to be folded. To be called where memory is freed, and where the system idles, at most once in some milliseconds.
    pub fn heal(&self, budget: usize) -> bool {
        let due = self.lock.with(|state| state.healing.begin_round());
        self.heal_before(due, budget)
    }

    /// Folds all that is uniform again, whatever has changed lately. While others go on changing the map, some may be left.
    pub fn heal_all(&self) {
        let (due, slots) = self.lock.with(|state| state.healing.begin_drain());
        // As many looks as there was to look at: there may be no end of what others scatter meanwhile.
        for _ in 0..slots.div_ceil(HEALED_AT_ONCE as u64) {
            if !self.heal_before(due, HEALED_AT_ONCE) {
                break;
            }
        }
    }

    /// Whether anything may fold, be it in a later round of [`Self::heal`].
    pub fn may_fold(&self) -> bool {
        self.lock.with(|state| state.healing.has_any())
    }

    fn heal_before(&self, due: u64, budget: usize) -> bool {
        let mut excess = Reserve::new();
        let has_more = self.lock.with(|state| state.heal(&self.embedder, due, budget, &mut excess));
        self.give_back(excess);
        has_more
    }

    /// Fills the reserve for atomic context. Called from a context that may wait; [`Self::change`] does it there by itself. Says
    /// whether it is full.
    pub fn refill(&self) -> bool {
        self.refill_with(self.lock.with(|state| state.lacking_in_all()))
    }

    /// The same, where so many tables lack.
    fn refill_with(&self, lacking: usize) -> bool {
        let mut supply = Reserve::new();
        let is_full = self.fetch(&mut supply, lacking);
        if supply.count() > 0 {
            self.lock.with(|state| state.stock(self.embedder.platform(), &mut supply));
            self.give_back(supply);
        }
        is_full
    }

    /// The reserve holds so many tables from now on: what it has too many goes back, what it lacks is fetched. Says whether it
    /// is full.
    pub fn set_reserve(&self, tables: usize) -> bool {
        let mut excess = Reserve::new();
        self.lock.with(|state| {
            state.reserve_target = tables;
            state.spill(self.embedder.platform(), &mut excess);
        });
        self.give_back(excess);
        self.refill()
    }

    /// Other CPUs are about to be started.
    pub fn start_others(&self) {
        self.lock.with(|state| state.standing.reach(Stage::Starting));
    }

    /// All CPUs run that were to.
    pub fn settle(&self) {
        self.lock.with(|state| state.standing.reach(Stage::Settled));
    }

    /// A CPU walks the map from now on, be it late: no change is in flight, and from the next one on its level counts. It has
    /// walked nothing of the map before, and its TLB holds nothing of it.
    pub fn admit(&self, cpu: Cpu) {
        self.lock.with(|state| state.admit(cpu));
    }

    /// Runs `body` with where the system stands.
    pub fn with_standing<T>(&self, body: impl FnOnce(&Standing) -> T) -> T {
        self.lock.with(|state| body(&state.standing))
    }

    /// What was done so far.
    pub fn counters(&self) -> Counters {
        self.lock.with(|state| state.counters)
    }

    /// Where [`Self::counters`] are kept, for who reads them from outside, without the lock.
    pub fn counters_at(&self) -> *const Counters {
        self.lock.with(|state| &raw const state.counters)
    }

    /// Tables in the reserve for atomic context.
    pub fn reserve(&self) -> usize {
        self.counters().reserve as usize
    }

    /// Leaves by size and tables by level, of the whole page table.
    pub fn summary(&self) -> Result<Summary, Refusal> {
        let view = self.view();
        Summary::read(&view, view.range())
    }

    /// A reader of the page table. It needs no lock.
    pub fn view(&self) -> View<'_, E::Granule, El1, E::Platform> {
        View::new(self.embedder.platform(), self.map.geometry, self.map.regime, self.map.root)
    }

    /// What the kernel brought.
    pub const fn embedder(&self) -> &E {
        &self.embedder
    }

    /// Allocates `count` tables more, if there are so many.
    fn fetch(&self, supply: &mut Reserve, count: usize) -> bool {
        let layout = self.map.geometry.layout();
        supply::fetch(&self.embedder, self.embedder.platform(), layout, supply, count) == 0
    }

    #[inline(always)]
    fn give_back(&self, supply: Reserve) {
        // Mostly there is nothing to give.
        if supply.count() > 0 {
            supply::give_back(&self.embedder, self.embedder.platform(), supply);
        }
    }
}
