//! A kernel with a linear map on the simulated machine: its pages are the pool's, its platform is a CPU. Each program has a map of its own, or all
//! of them have one under a lock.

use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::marker::PhantomData;
use std::ops::Range;
use std::rc::Rc;

use linearmap::{Calls, Context, Embedder, Leaves, LinearMap, Lock, Map, NotParked, Pages, Refused, State, Wanted};
use machine::syndrome::AccessKind;
use pagetable::{Change, El1, Licence, Tolerance};
use vmsa::{BbmLevel, Granule, PhysAddr, VirtAddr};

use crate::calling::Calling;
use crate::content::ends;
use crate::cpu::Cpu;
use crate::edited::Edited;
use crate::omission::Omission;
use crate::request::{Reply, Request, Software};
use crate::scenario::{Scenario, window};

/// What is asked of a linear map: where, what (nothing is to heal), from where.
pub(crate) type Asked<'a> = (&'a [Range<VirtAddr>], Option<Wanted>, Context);

/// Where programs have what a map's lock guards, if they have it in common: whoever needs the map first puts it there.
pub(crate) type Place = Rc<RefCell<Option<Rc<dyn Any>>>>;

thread_local! {
    /// Where the next map has its state in common with others, if it does: a lock is made of nothing but what it guards.
    static COMMON: RefCell<Option<Place>> = const { RefCell::new(None) };
}

/// What a map's lock guards. Who excludes whom is the ledger's: `Kernel::outside`.
#[derive(Debug)]
pub struct Guarded<T>(Rc<RefCell<T>>);

impl<T: 'static> Lock for Guarded<T> {
    type Held = T;

    fn new(held: T) -> Self {
        let held = Rc::new(RefCell::new(held));
        let Some(place) = COMMON.take() else { return Self(held) };
        let common = Rc::clone(place.borrow_mut().get_or_insert(held));
        Self(common.downcast().expect("all programs of a scenario have one granule"))
    }

    fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        body(&mut self.0.borrow_mut())
    }
}

/// One CPU's kernel.
pub(crate) struct Kernel<'s, 'y, G> {
    cpu: &'s Cpu<'y>,
    number: usize,
    scenario: &'s Scenario,
    /// Who takes back a table that came free.
    free: fn(&Cpu<'_>, PhysAddr),
    /// Tables that were asked for so far.
    asked: Cell<usize>,
    granule: PhantomData<G>,
}

impl<G: Granule> Kernel<'_, '_, G> {
    fn call(&self, what: Calling) -> u64 {
        match self.cpu.software(Software::Calling(what)) {
            Reply::Word(word) => word,
            Reply::Done | Reply::Refused(_) => 0,
        }
    }

    /// Runs `deed` under the map's lock. Between two times that a map takes its lock in one call nothing happens that others could
    /// see, but for what is [`Self::outside`]: so the lock is taken once for the call.
    fn locked<T>(&self, deed: impl FnOnce() -> T) -> T {
        self.between([Software::Lock, Software::Unlock], deed)
    }

    /// Runs `deed` in a call of the map's, without the lock.
    fn outside<T>(&self, deed: impl FnOnce() -> T) -> T {
        self.between([Software::Unlock, Software::Lock], deed)
    }

    /// A map that is nobody else's has no lock to take.
    fn between<T>(&self, [before, after]: [Software; 2], deed: impl FnOnce() -> T) -> T {
        let tell = |what| {
            if self.scenario.is_shared {
                self.cpu.software(what);
            }
        };
        tell(before);
        let done = deed();
        tell(after);
        done
    }

    /// Whether a CPU tolerates that a live leaf changes size.
    fn is_tolerant(&self, cpu: usize) -> bool {
        self.scenario.parameters.bbm.of(cpu) >= 2
    }
}

impl<G: Granule> Pages for Kernel<'_, '_, G> {
    fn allocate(&self) -> Option<PhysAddr> {
        let asked = self.asked.replace(self.asked.get() + 1);
        self.outside(|| match self.cpu.software(Software::Take) {
            Reply::Word(page) if self.scenario.fails_at == Some(asked) => {
                self.cpu.software(Software::Give(page));
                None
            }
            Reply::Word(page) => Some(PhysAddr::new(page)),
            Reply::Done | Reply::Refused(_) => None,
        })
    }

    fn free(&self, table: PhysAddr) {
        self.outside(|| (self.free)(self.cpu, table));
    }
}

impl<G: Granule> Calls for Kernel<'_, '_, G> {
    fn in_window(&self, change: &mut dyn FnMut(&Licence<'_>)) {
        // Tables are reached by their physical addresses here.
        change(&Licence::break_before_make(self.cpu));
    }

    /// As `kerncore::parking` has it: those park that do not tolerate the change, if this CPU does, or all others.
    fn park(&self, change: &mut dyn FnMut(&Licence<'_>)) -> Result<(), NotParked> {
        let walking = self.call(Calling::Walking);
        let walks = |cpu: &usize| walking >> cpu & 1 == 1;
        let spares = |cpu: usize| self.is_tolerant(self.number) && self.is_tolerant(cpu);
        let all = 0..self.scenario.parameters.cpus;
        let asked = all.clone().filter(walks).filter(|cpu| *cpu != self.number && !spares(*cpu));
        let mut asked = asked.fold(0_u8, |bits, cpu| bits | 1 << cpu);
        if self.scenario.omitted == Some(Omission::OneCall) {
            asked &= asked.wrapping_sub(1);
        }
        let conflicts = all.filter(walks).any(|cpu| self.scenario.parameters.bbm.of(cpu) == 2);
        let level = match conflicts {
            _ if !self.is_tolerant(self.number) => BbmLevel::Level0,
            true => BbmLevel::Level2,
            false => BbmLevel::Level3,
        };
        self.call(Calling::Call(asked));
        if self.scenario.omitted != Some(Omission::Awaiting) {
            self.call(Calling::Await(asked));
        }
        if self.scenario.omitted == Some(Omission::Keeping) {
            self.call(Calling::LetGo(asked));
        }
        change(&Licence::parked(self.cpu, Tolerance::new(level, true)));
        self.call(Calling::LetGo(asked));
        Ok(())
    }
}

impl<'y, G: Granule> Embedder for Kernel<'_, 'y, G> {
    type Granule = G;
    type Platform = Cpu<'y>;
    type Lock = Guarded<State<G>>;

    fn platform(&self) -> &Cpu<'y> {
        self.cpu
    }
}

/// The page table as a linear map, as one program uses it.
pub(crate) struct Linear<'s, 'y, G: Granule> {
    cpu: &'s Cpu<'y>,
    number: usize,
    scenario: &'s Scenario,
    place: Place,
    free: fn(&Cpu<'_>, PhysAddr),
    /// Once it is needed.
    map: OnceCell<LinearMap<Kernel<'s, 'y, G>>>,
}

impl<'s, 'y, G: Granule> Linear<'s, 'y, G> {
    pub(crate) fn new(
        cpu: &'s Cpu<'y>,
        number: usize,
        scenario: &'s Scenario,
        place: &Place,
        free: fn(&Cpu<'_>, PhysAddr),
    ) -> Self {
        Self { cpu, number, scenario, place: Rc::clone(place), free, map: OnceCell::new() }
    }

    /// What is to be known of a CPU.
    fn cpu(&self, number: usize) -> linearmap::Cpu {
        let level = match self.scenario.omitted {
            Some(Omission::Level) if self.scenario.off >> number & 1 == 1 => Tolerance::new(BbmLevel::Level3, true),
            _ => self.scenario.parameters.tolerance(number),
        };
        linearmap::Cpu { tolerance: level, tlb: self.scenario.parameters.tlb }
    }

    /// The map of the page table at `root`.
    fn map(&self, root: PhysAddr) -> Result<&LinearMap<Kernel<'s, 'y, G>>, Refused> {
        let Self { cpu, number, scenario, free, .. } = *self;
        if let Some(map) = self.map.get() {
            return Ok(map);
        }
        let parameters = &scenario.parameters;
        let geometry = El1::geometry::<G>(parameters).expect("the page table has this geometry");
        let base = geometry.base();
        let range = base.into()..base.wrapping_add(geometry.input_bytes()).into();
        let (regime, memory_bytes) = (El1::of(parameters), geometry.input_bytes());
        let map = Map { root, geometry, regime, range, leaves: Leaves::Largest, memory_bytes };
        let is_first = !scenario.is_shared || self.place.borrow().is_none();
        if scenario.is_shared {
            COMMON.set(Some(Rc::clone(&self.place)));
        }
        let kernel = Kernel { cpu, number, scenario, free, asked: Cell::new(0), granule: PhantomData };
        let map = LinearMap::new(kernel, map, self.cpu(0))?;
        if is_first {
            let walking = scenario.walking();
            (1..parameters.cpus).filter(|cpu| walking >> cpu & 1 == 1).for_each(|cpu| map.admit(self.cpu(cpu)));
            let (has_others, is_settled) = scenario.boot;
            if has_others {
                map.start_others();
            }
            if is_settled {
                map.settle();
            }
        }
        Ok(self.map.get_or_init(|| map))
    }

    /// The region becomes what is wanted of it: all of it or, after an error, nothing.
    pub(crate) fn make(
        &self,
        root: PhysAddr,
        region: usize,
        changes: &[Change<El1>],
        asked: Asked<'_>,
    ) -> Result<(), Refused> {
        let is_new = self.map.get().is_none();
        let map = self.map(root)?;
        let kernel = map.embedder();
        if is_new {
            kernel.locked(|| map.set_reserve(self.scenario.reserve));
        }
        let mut made = self.try_once(map, region, changes, &asked);
        let is_refused =
            matches!(made, Err(Refused::OutOfTables(_) | Refused::ReserveDry(_))) && self.has_failed(kernel);
        if is_refused || self.scenario.omitted == Some(Omission::Refusing) {
            // Nothing has changed, and there is memory again.
            self.cpu.software(Software::Withdraw(region));
            self.look(region, changes);
            kernel.locked(|| map.refill());
            made = self.try_once(map, region, changes, &asked);
        }
        self.cpu.software(Software::Settle(region));
        made
    }

    fn try_once(
        &self,
        map: &LinearMap<Kernel<'s, 'y, G>>,
        region: usize,
        changes: &[Change<El1>],
        (ranges, wanted, context): &Asked<'_>,
    ) -> Result<(), Refused> {
        let parameters = &self.scenario.parameters;
        let windows = changes.iter().map(|it| window(&self.scenario.regions[region], it, parameters.page_size));
        let around = windows.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
        let level = |cpu| parameters.bbm.of(cpu);
        // Where others are parked, nobody sees the window.
        let has_window = parameters.cpus == 1 && level(0) < 2;
        // Whoever is not parked tolerates the change, as this CPU does.
        let is_abrupt = level(self.number) >= 2 && (0..parameters.cpus).any(|cpu| level(cpu) == 2);
        self.cpu.software(Software::Begin {
            region,
            window: around.filter(|_| has_window),
            conflict: around.filter(|_| is_abrupt),
        });
        map.embedder().locked(|| match wanted {
            Some(wanted) => map.change(ranges, *wanted, *context),
            None => {
                map.heal_all();
                Ok(())
            }
        })
    }

    /// Whether there was no memory for a table.
    fn has_failed(&self, kernel: &Kernel<'_, '_, G>) -> bool {
        self.scenario.fails_at.is_some_and(|at| kernel.asked.get() > at)
    }

    /// Looks where a change was to be.
    fn look(&self, region: usize, changes: &[Change<El1>]) {
        for change in changes {
            let address = ends(change).0;
            for kind in [AccessKind::Read, AccessKind::Write] {
                self.cpu.ask(Request::Access { region, address, kind });
            }
        }
    }

    /// Has the map count this CPU: it walks the page table from then on.
    pub(crate) fn count(&self, root: PhysAddr) -> Result<(), Refused> {
        let map = self.map(root)?;
        let kernel = map.embedder();
        let count = || {
            if self.scenario.omitted != Some(Omission::Counting) {
                map.admit(self.cpu(self.number));
                kernel.call(Calling::Counted);
            }
        };
        match self.scenario.omitted {
            Some(Omission::Locking) => count(),
            _ => kernel.locked(count),
        }
        Ok(())
    }

    /// Every table that nobody uses goes back, if this program has used any.
    pub(crate) fn end(&self) {
        if let (Some(map), true) = (self.map.get(), self.scenario.edits(self.number)) {
            map.embedder().locked(|| map.set_reserve(0));
        }
    }
}
