//! A kernel with a linear map on the simulated machine: its pages are the pool's, its platform is a CPU.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::Range;

use linearmap::{Calls, Context, Embedder, Leaves, LinearMap, Lock, Map, Pages, Refused, State, Wanted};
use pagetable::{El1, Licence};
use vmsa::{Geometry, Granule, PhysAddr, VirtAddr};

use crate::cpu::Cpu;
use crate::edited::Edited;
use crate::parameters::Parameters;
use crate::request::{Reply, Software};

/// Tables that are kept for atomic context: enough for what a workload asks of one CPU.
const RESERVE: usize = 4;

/// What is asked of a linear map: where, what (nothing is to heal), from where.
pub(crate) type Asked<'a> = (&'a [Range<VirtAddr>], Option<Wanted>, Context);

/// One CPU's kernel.
pub(crate) struct Kernel<'s, 'y, G> {
    cpu: &'s Cpu<'y>,
    /// Who takes back a table that came free.
    free: fn(&Cpu<'_>, PhysAddr),
    granule: PhantomData<G>,
}

/// Nobody else has it: each CPU holds a map of its own, and changes its own part of the page table.
#[derive(Debug)]
pub struct Own<T>(RefCell<T>);

impl<T> Lock for Own<T> {
    type Held = T;

    fn new(held: T) -> Self {
        Self(RefCell::new(held))
    }

    fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        body(&mut self.0.borrow_mut())
    }
}

impl<G: Granule> Pages for Kernel<'_, '_, G> {
    fn allocate(&self) -> Option<PhysAddr> {
        match self.cpu.software(Software::Take) {
            Reply::Word(page) => Some(PhysAddr::new(page)),
            Reply::Done | Reply::Refused(_) => None,
        }
    }

    fn free(&self, table: PhysAddr) {
        (self.free)(self.cpu, table);
    }
}

impl<G: Granule> Calls for Kernel<'_, '_, G> {
    fn in_window(&self, change: &mut dyn FnMut(&Licence<'_>)) {
        // Tables are reached by their physical addresses here.
        change(&Licence::break_before_make(self.cpu));
    }
}

impl<'y, G: Granule> Embedder for Kernel<'_, 'y, G> {
    type Granule = G;
    type Platform = Cpu<'y>;
    type Lock = Own<State<G>>;

    fn platform(&self) -> &Cpu<'y> {
        self.cpu
    }
}

/// The page table at `root` as a linear map that every CPU walks.
pub(crate) fn map<'s, 'y, G: Granule>(
    cpu: &'s Cpu<'y>,
    parameters: &Parameters,
    (geometry, root): (Geometry<G>, PhysAddr),
    free: fn(&Cpu<'_>, PhysAddr),
) -> Result<LinearMap<Kernel<'s, 'y, G>>, Refused> {
    let regime = El1::of(parameters);
    let base = geometry.base();
    let range = base.into()..base.wrapping_add(geometry.input_bytes()).into();
    let map = Map { root, geometry, regime, range, leaves: Leaves::Largest, memory_bytes: geometry.input_bytes() };
    let that = |number| linearmap::Cpu { tolerance: parameters.tolerance(number), tlb: parameters.tlb };
    let map = LinearMap::new(Kernel { cpu, free, granule: PhantomData }, map, that(0))?;
    (1..parameters.cpus).for_each(|number| map.admit(that(number)));
    map.settle();
    map.set_reserve(RESERVE);
    Ok(map)
}
