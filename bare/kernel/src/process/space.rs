//! Address spaces of programs, and which one each CPU runs.

use crate::fallible::Arc;
use crate::locks::{Lock, order};
use core::cell::UnsafeCell;

use hardware::platform::Hardware;
use hardware::{interrupts, per_cpu, registers, translation, user};
use pagetable::Census;
use spin::Once;
use userspace::{Asids, Context, Error, Limits, Numbers};

use crate::cpus::walkers;
use crate::facts::facts;
use crate::memory::tables::{Common, new_space};
use crate::memory::{current, folios, linear_map, poke, window};

pub(crate) use crate::memory::tables::Space;

/// A lock of few instructions.
struct Short(Lock<Numbers>);

impl userspace::Lock<Numbers> for Short {
    fn new(held: Numbers) -> Self {
        Self(Lock::new(order::ASIDS, held))
    }

    fn with<R>(&self, body: impl FnOnce(&mut Numbers) -> R) -> R {
        self.0.with(body)
    }
}

static ASIDS: Once<Asids<Short>> = Once::new();
static COMMON: Once<Common> = Once::new();
/// What TTBR0_EL1 has where no program runs: identity text alone.
static NOTHING: Once<u64> = Once::new();

/// The space whose root is in each CPU's TTBR0_EL1: it lives for as long.
struct Loaded([UnsafeCell<Option<Arc<dyn Space>>>; per_cpu::MAX_CPUS]);

// SAFETY: each place is touched by its own CPU alone, with exceptions masked.
unsafe impl Sync for Loaded {}

static LOADED: Loaded = Loaded([const { UnsafeCell::new(None) }; per_cpu::MAX_CPUS]);

/// CPUs that are none: they run the kernel's own maps of the lower half for ever, so that no program gets the ASIDs of those.
const OWN: [(usize, u16); 2] = [(per_cpu::MAX_CPUS, window::ASID), (per_cpu::MAX_CPUS + 1, poke::ASID)];

/// Programs can have address spaces from now on. Whether there was memory for it.
pub(crate) fn start() -> bool {
    let bits = walkers::identities().map(|(_, cpu)| cpu.id.asid_bits()).min().unwrap_or(8);
    let Some(asids) = Asids::new(bits, per_cpu::MAX_CPUS + OWN.len()) else { return false };
    for (cpu, expected) in OWN {
        // Those that are asked for first are 1, 2 and so on.
        let asid = asids.switch(&hardware(), cpu, &Context::default());
        debug_assert_eq!(asid, expected);
    }
    ASIDS.call_once(|| asids);
    NOTHING.call_once(registers::read_ttbr0);
    let (tlb, census) = (linear_map::tlb_features(), Census::new(linear_map::tolerance()));
    folios::start(facts().options.folios);
    let has_execute_only = walkers::identities().all(|(_, cpu)| user::has_execute_only(cpu.id.mmfr1));
    let shape = current::lower().shape();
    COMMON.call_once(|| Common { hardware: hardware(), shape, tlb, census, has_execute_only });
    true
}

fn hardware() -> Hardware {
    current::lower().hardware()
}

fn common() -> &'static Common {
    COMMON.get().expect("`start` comes before programs")
}

/// An address space that has nothing.
pub(crate) fn new(limits: Limits) -> Result<Arc<dyn Space>, Error> {
    new_space(common(), limits)
}

fn exchange(space: Option<Arc<dyn Space>>) -> Option<Arc<dyn Space>> {
    // SAFETY: exceptions are masked, and the place is this CPU's.
    let place = unsafe { &mut *LOADED.0[per_cpu::index()].get() };
    core::mem::replace(place, space)
}

/// Has this CPU translate by a space. What it had before is given back, to be dropped where exceptions are open.
pub(crate) fn enter(space: Arc<dyn Space>) -> Option<Arc<dyn Space>> {
    let masks = interrupts::mask();
    let before = exchange(None);
    if !before.as_ref().is_some_and(|before| Arc::ptr_eq(before, &space)) {
        let asids = ASIDS.get().expect("`start` comes before programs");
        let asid = asids.switch(&common().hardware, per_cpu::index(), space.context());
        // SAFETY: the space is held for as long as its root is there; the ASID is its own; nothing of the kernel is in the lower half.
        unsafe { translation::exchange_lower(space.ttbr0(asid)) };
    }
    exchange(Some(space));
    interrupts::restore(masks);
    before
}

/// Has this CPU translate by no space. What it had is given back, to be dropped where exceptions are open.
pub(crate) fn leave() -> Option<Arc<dyn Space>> {
    let masks = interrupts::mask();
    let before = exchange(None);
    if before.is_some() {
        let nothing = NOTHING.get().expect("`start` comes before programs");
        // SAFETY: it was there before the first program, and is not changed.
        unsafe { translation::exchange_lower(*nothing) };
        ASIDS.get().expect("as above").leave(per_cpu::index());
    }
    interrupts::restore(masks);
    before
}
