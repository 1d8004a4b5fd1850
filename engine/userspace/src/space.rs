//! An address space, as a kernel holds it: what may be asked of it. Every call takes the lock for itself, and a fault a part of it.

use core::ops::ControlFlow;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use pagetable::{PageTable, Reserve, Tolerance};
use vmsa::{Granule, PhysAddr};

use crate::access::Access;
use crate::area::{Area, AreaFlags};
use crate::context::Context;
use crate::current::Current;
use crate::embedder::{Embedder, Lock};
use crate::error::{Error, Fault, Short};
use crate::fault::{Found, Lacks};
use crate::folio::Placed;
use crate::limits::{Limits, Usage};
use crate::parts::{Part, part_of};
use crate::shape::Shape;
use crate::state::{Editing, State};

/// One address space: the user half of a process, whose threads share it.
///
/// To drop it ends it: no CPU has its root in a TTBR by then. Every frame and table goes back.
pub struct AddressSpace<E: Embedder> {
    embedder: E,
    shape: Shape<E::Granule>,
    context: Context,
    root: PhysAddr,
    /// Tables that were taken for it and have not gone back: a call that changes it may hold some more than there are.
    tables: AtomicU64,
    /// MADV_FREE may have left something to be taken.
    pub(crate) has_lazy: AtomicBool,
    lock: E::Lock<State<E>>,
}

impl<E: Embedder> AddressSpace<E> {
    /// A space that has nothing; `mmap` looks for room below `ceiling`, and below the highest address.
    pub fn new(embedder: E, shape: Shape<E::Granule>, ceiling: u64, limits: Limits) -> Result<Self, Error> {
        let context = Context::new();
        let platform = Current::new(embedder.platform(), &context);
        let mut supply = Reserve::new();
        supply.add(&platform, embedder.take_table().ok_or(Error::NoMemory)?);
        let made = PageTable::offline(&platform, shape.geometry, shape.regime(), &mut supply);
        let root = made.map(PageTable::detach);
        let state = root.ok().and_then(|root| State::new(root, shape.ceiling(ceiling), limits));
        match (root, state) {
            (Ok(root), Some(state)) => {
                let (root, tables, has_lazy) = (root.address(), AtomicU64::new(1), AtomicBool::new(false));
                Ok(Self { shape, root, context, tables, has_lazy, lock: E::Lock::new(state), embedder })
            }
            (Ok(root), None) => {
                embedder.release_table(root.address());
                Err(Error::NoMemory)
            }
            (Err(_), _) => {
                give_back(&embedder, &platform, supply);
                Err(Error::NoMemory)
            }
        }
    }

    /// What a TTBR0 holds, beside the ASID.
    pub const fn root(&self) -> PhysAddr {
        self.root
    }

    /// By which ASID TLBs know it.
    pub const fn context(&self) -> &Context {
        &self.context
    }

    /// What it has in common with others.
    pub const fn shape(&self) -> &Shape<E::Granule> {
        &self.shape
    }

    /// What the kernel brought.
    pub const fn embedder(&self) -> &E {
        &self.embedder
    }

    /// `mmap` looks for room below `ceiling` from now on.
    pub fn set_ceiling(&self, ceiling: u64) {
        self.with(|state| state.ceiling = self.shape.ceiling(ceiling));
    }

    /// `prlimit`.
    pub fn set_limits(&self, limits: Limits) {
        self.with(|state| state.limits = limits);
    }

    /// Has another walker translate by these tables from now on, an SMMU say, which tolerates so much. Where that is less than what every CPU
    /// tolerates ([`Embedder::licence`]) leaves are broken before they change size, here and in what is forked from here; it never
    /// becomes more again. The walker bears it that a leaf is invalid for a moment, and the platform's TLBIs reach it.
    pub fn share_with(&self, walker: Tolerance) {
        self.with(|state| state.walker = Some(state.walker.map_or(walker, |before| before.with(walker))));
    }

    /// Makes what an access lacks, or says why it cannot be made. Called with the lock of nothing held.
    pub fn fault(&self, access: Access) -> Result<(), Fault> {
        if self.touch_first(access) { Ok(()) } else { self.mend(access) }
    }

    /// The same, whatever lacks.
    #[inline(never)]
    fn mend(&self, access: Access) -> Result<(), Fault> {
        let part = part_of::<E::Granule>(access.address);
        let mut rounds = 0;
        loop {
            // Others change the space again and again: who is to end need not make the access.
            if rounds > 0 && !self.embedder.goes_on() {
                return Ok(());
            }
            rounds += 1;
            // Looked at where it is: what lacks is large, and to move it takes as long as to look.
            let mut found = Found::Whole;
            let looked =
                self.with_part_tables(part, |state, editing, supply| state.look(editing, access, supply, &mut found));
            let lacks = match &found {
                _ if looked.is_err() => return Err(Fault::OutOfMemory),
                Found::Whole => return Ok(()),
                Found::Fault(Fault::Unmapped) if self.grows_stack(access) => continue,
                Found::Fault(fault) => return Err(*fault),
                Found::Lacks(lacks) => lacks,
            };
            let made = lacks.make(&self.embedder).inspect_err(|_| lacks.let_go(&self.embedder))?;
            if lacks.is_executable() {
                made.frames::<E>().for_each(|frame| self.embedder.make_fetchable(frame));
            }
            // What the page holds is seen before the leaf is: another CPU would read what the frame held before, or lose what it
            // writes to the zeros that come late. No lock orders these stores.
            fence(Ordering::Release);
            let placed = if lacks.is_of_part() {
                self.with_part_tables(part, |state, editing, supply| state.place(editing, lacks, made, supply))
            } else {
                self.with_supply(|state, editing, supply| state.place(editing, lacks, made, supply))
            };
            self.follow(lacks, placed == Ok(Placed::Done));
            if placed == Ok(Placed::Done) {
                return Ok(());
            }
            lacks.unmake(&self.embedder, made);
            placed.map_err(|_| Fault::OutOfMemory)?;
        }
    }

    /// Has a stack grow to where an access was. Whether it can be looked at again.
    #[cold]
    fn grows_stack(&self, access: Access) -> bool {
        let page = access.address & !(E::Granule::SIZE_BYTES - 1);
        self.with(|state| state.grow_stack(&self.editing(), page))
    }

    /// What follows where something was placed, or was not.
    #[inline(never)]
    fn follow(&self, lacks: &Lacks<E::File>, is_placed: bool) {
        lacks.let_go(&self.embedder);
        if let Some(page) = lacks.read_of_file().filter(|_| is_placed) {
            self.map_around(page);
        }
    }

    /// `fork`: a child's space, in which all is as it is here.
    pub fn fork(&self) -> Result<Self, Error> {
        let (child, tables) = self.with_tables(|state, editing, supply| state.fork(editing, supply))?;
        self.tables.fetch_sub(tables, Ordering::Relaxed);
        let (embedder, context, root) = (self.embedder.clone(), Context::new(), child.root.address());
        let (tables, has_lazy) = (AtomicU64::new(tables), AtomicBool::new(self.has_lazy.load(Ordering::Relaxed)));
        Ok(Self { shape: self.shape, root, context, tables, has_lazy, lock: E::Lock::new(child), embedder })
    }

    /// Unmaps everything: before a new program is loaded.
    pub fn clear(&self) {
        let everything = 0..self.shape.geometry.input_bytes();
        self.with(|state| (state.heap, state.future) = (0..0, AreaFlags::empty()));
        // To remove all of every area takes no table and no heap.
        let _ = self.with_tables(|state, editing, supply| state.remove(editing, &everything, supply));
    }

    /// Gives `sink` every area, in order of address. The lock is held.
    pub fn areas(&self, mut sink: impl FnMut(&Area<E::File>)) {
        self.with(|state| {
            state.areas.iter().for_each(|area| {
                sink(area);
                let _ = self.embedder.goes_on();
            });
        });
    }

    /// Gives `sink` the areas that end above `start`, in order of address, until it breaks. The lock is held.
    pub fn areas_from(&self, start: u64, mut sink: impl FnMut(&Area<E::File>) -> ControlFlow<()>) {
        self.with(|state| {
            let _ = state.areas.within(&(start..u64::MAX)).try_for_each(|area| {
                let _ = self.embedder.goes_on();
                sink(area)
            });
        });
    }

    /// What it has.
    pub fn usage(&self) -> Usage {
        self.with(|state| state.usage(self.tables()))
    }

    /// Pages that it has: in tables, and tables. Takes as long for a large space as for a small one, and waits for no lock: nothing where
    /// a call edits areas.
    pub fn resident(&self) -> Option<u64> {
        let resident = self.lock.try_with(State::resident)?;
        Some(resident.own + resident.file + self.tables())
    }

    fn tables(&self) -> u64 {
        self.tables.load(Ordering::Relaxed)
    }

    /// Runs `body` under the lock of the whole, and compares areas with tables.
    pub(crate) fn with<T>(&self, body: impl FnOnce(&mut State<E>) -> T) -> T {
        self.lock.with(|state| {
            state.parts.forget_areas();
            let done = body(state);
            self.embedder.check(&|| state.find_stray(&self.editing()));
            done
        })
    }

    /// Runs `body` under the lock of a part.
    #[inline(always)]
    pub(crate) fn with_part<T>(&self, part: usize, body: impl FnOnce(&State<E>, &Part) -> T) -> T {
        self.lock.with_part(part, |state| body(state, state.parts.get(part)))
    }

    #[inline(always)]
    pub(crate) fn editing(&self) -> Editing<'_, E> {
        let platform = Current::new(self.embedder.platform(), &self.context);
        Editing { embedder: &self.embedder, shape: &self.shape, platform, walker: None }
    }

    /// Runs `step` under the lock, again with more tables for as long as it lacks some. Tables that are left go back.
    pub(crate) fn with_tables<T>(
        &self,
        step: impl FnMut(&mut State<E>, &Editing<'_, E>, &mut Reserve) -> Result<T, Short>,
    ) -> Result<T, Error> {
        self.with_supply(step).map_err(|short| match short {
            Short::Error(error) => error,
            Short::Tables(_) => Error::NoMemory,
        })
    }

    /// The same; who still lacks tables has got none.
    fn with_supply<T>(
        &self,
        mut step: impl FnMut(&mut State<E>, &Editing<'_, E>, &mut Reserve) -> Result<T, Short>,
    ) -> Result<T, Short> {
        self.supply(|editing, supply| {
            self.with(|state| {
                editing.walker = state.walker;
                step(state, editing, supply)
            })
        })
    }

    /// The same under the lock of a part.
    fn with_part_tables<T>(
        &self,
        part: usize,
        mut step: impl FnMut(&State<E>, &Editing<'_, E>, &mut Reserve) -> Result<T, Short>,
    ) -> Result<T, Short> {
        self.supply(|editing, supply| {
            self.with_part(part, |state, _| {
                editing.walker = state.walker;
                step(state, editing, supply)
            })
        })
    }

    /// Runs a step, again with more tables for as long as it lacks some and there are any.
    fn supply<'a, T>(
        &'a self,
        mut step: impl FnMut(&mut Editing<'a, E>, &mut Reserve) -> Result<T, Short>,
    ) -> Result<T, Short> {
        let (mut editing, mut supply) = (self.editing(), Reserve::new());
        loop {
            let done = step(&mut editing, &mut supply);
            let has_more = if let Err(Short::Tables(lacking)) = done {
                let fetched = (0..lacking).map_while(|_| self.take_table());
                fetched.map(|table| supply.add(&editing.platform, table)).count() == lacking
            } else {
                false
            };
            if !has_more {
                let gone = give_back(&self.embedder, &editing.platform, supply);
                self.tables.fetch_sub(gone, Ordering::Relaxed);
                return done;
            }
        }
    }
}

impl<E: Embedder> AddressSpace<E> {
    /// A page for a table that a descriptor can lead to.
    fn take_table(&self) -> Option<PhysAddr> {
        let table = self.embedder.take_table()?;
        if table.bits() >> self.shape.geometry.layout().output_bits() == 0 {
            self.tables.fetch_add(1, Ordering::Relaxed);
            return Some(table);
        }
        self.embedder.release_table(table);
        None
    }
}

/// Gives tables back; how many.
fn give_back<E: Embedder>(embedder: &E, platform: &Current<'_, E::Platform>, mut supply: Reserve) -> u64 {
    let count = supply.count();
    while let Some(table) = supply.take(platform) {
        embedder.release_table(table);
    }
    count as u64
}

impl<E: Embedder> Drop for AddressSpace<E> {
    fn drop(&mut self) {
        self.clear();
        self.embedder.release_table(self.root);
    }
}
