//! Address spaces on the simulated machine: up to three CPUs fault, fork, protect and unmap against each other in one space.
//!
//! ```text
//!   CPU 0 ─ program ─┐                                        whatever an access may come to is judged:
//!   CPU 1 ─ program ─┼─▶ AddressSpace ─▶ Board: one turn ─▶ machine    a frame that is taken, written by one owner alone;
//!   CPU 2 ─ program ─┘                                        and the machine's rules: no TLB leads to what is free
//! ```
//! Each CPU protects and unmaps pages of its own, and touches everybody's: some in a block of all CPUs', some in a block of its own, so that faults
//! come in one part and in several.

mod board;
mod done;
mod kernel;
mod programs;
mod text;

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::thread;

use machine::barrier::Barrier;
use machine::event::Level;
use machine::machine::Machine;
use machine::seed::Seed;
use pagetable::{Census, El1, TlbFeatures, Tolerance};
use userspace::{AddressSpace, Asids, Limits, Numbers, Shape};
use vmsa::{BbmLevel, Granule, Granule4K, Granule16K, Layout, Maintenance, PageSize, Stage1Attributes};

use crate::edited::Edited;
use crate::levels::Levels;
use crate::parameters::Parameters;
use crate::scenario::POOL;
use board::{Board, Gate};
pub use done::Done;
use kernel::Kernel;
use programs::Program;

/// A table of zeros, for CPUs that run nothing.
const EMPTY: u64 = 0x8_0000_0000;
/// Pages of the pool.
const PAGES: u64 = 96;

/// How programs are run.
#[derive(Clone, Copy, Debug)]
pub struct Orders {
    /// Calls of each CPU.
    pub calls: usize,
    /// What the space believes that each CPU tolerates, if that is not what is true.
    pub believed: Option<BbmLevel>,
    /// The space is capped at what is true.
    pub is_capped: bool,
    /// Programs have pages become clean and write to them, on CPUs of which the first marks nothing by itself and the others do.
    pub marks: bool,
    /// Pages of 4K in folios of a contiguous group, on two CPUs or three of these levels of FEAT_BBM.
    pub groups: Option<Levels>,
    /// The barriers and TLBIs that the space does not make, in a fork or elsewhere: a mutant.
    pub omits: fn(&Maintenance, bool) -> bool,
    /// What locks do wrong: a mutant too.
    pub lock_error: Option<LockError>,
}

impl Orders {
    /// Six calls, and nothing that is not as it should be.
    pub const PLAIN: Self = Self {
        calls: 6,
        believed: None,
        is_capped: false,
        marks: false,
        groups: None,
        omits: |_, _| false,
        lock_error: None,
    };
}

/// What a run came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ran {
    /// Events of the machine.
    pub events: u64,
    /// Folios that were made.
    pub folios: u64,
    /// How often a block of zeros was asked for.
    pub zeros: u64,
    /// What programs did.
    pub done: Done,
}

/// What locks do wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockError {
    /// Who takes the whole does not wait for this part.
    Forgets(usize),
    /// Who takes a part takes that of its own CPU, whichever is asked for.
    PartOfCpu,
}

/// What one CPU is like: the first do nothing by hardware, if CPUs differ in that.
fn of_cpu(parameters: &Parameters, cpu: usize, without_updates: usize) -> Parameters {
    let hardware = if cpu < without_updates { (false, false) } else { parameters.hardware };
    Parameters { hardware, ..*parameters }
}

/// What the machine of a seed is like.
fn parameters(seed: &mut Seed) -> Parameters {
    let page_size = *seed.pick(&[PageSize::Size4K, PageSize::Size4K, PageSize::Size16K]);
    let input_bits = *seed.pick(&[36, 39, 48, 52]);
    Parameters {
        page_size,
        layout: if input_bits > 48 { Layout::Lpa2 } else { Layout::Bits48 },
        input_bits,
        hardware: *seed.pick(&[(false, false), (true, false), (true, true)]),
        tlb: TlbFeatures { range: seed.one_in(2), level_hints: seed.one_in(2), repeat: seed.one_in(8) },
        is_global: false,
        cpus: 1 + seed.index(3),
        bbm: Levels::draw(seed),
        ..Parameters::PLAIN
    }
}

/// Runs random programs on every CPU of a machine, all drawn from `seed`; the error is what is wrong.
pub fn run(seed: u64, orders: &Orders) -> Result<Ran, String> {
    let mut seed = Seed::new(seed);
    let mut parameters = parameters(&mut seed);
    if orders.marks {
        (parameters.hardware, parameters.cpus) = ((true, true), 2);
    }
    if let Some(levels) = orders.groups {
        (parameters.page_size, parameters.bbm, parameters.cpus) = (PageSize::Size4K, levels, parameters.cpus.max(2));
    }
    match parameters.page_size {
        PageSize::Size16K => run_as::<Granule16K>(&parameters, seed, orders),
        _ => run_as::<Granule4K>(&parameters, seed, orders),
    }
    .map_err(|wrong| format!("{parameters}: {wrong}"))
}

fn run_as<G: Granule + Send + Sync>(parameters: &Parameters, mut seed: Seed, orders: &Orders) -> Result<Ran, String> {
    let without_updates = if seed.one_in(2) { seed.index(parameters.cpus) } else { usize::from(orders.marks) };
    let machine = enabled(parameters, without_updates);
    let seeds: Vec<Seed> = (0..parameters.cpus).map(|_| Seed::new(seed.bits())).collect();
    // With groups of more pages the pool would be a folio.
    let may_have_folios = G::PAGE_SIZE == PageSize::Size4K && !orders.marks && seed.one_in(2);
    let folio_order = if may_have_folios || orders.groups.is_some() { 4 } else { 0 };
    let board = board::<G>(machine, seed, orders.lock_error);
    let kernel = Kernel::<G>::new(&board, folio_order, census(parameters, orders.believed), orders.omits);
    let space = space(kernel, parameters)?;
    if orders.is_capped {
        // As if the CPUs were other walkers.
        (0..parameters.cpus).for_each(|cpu| space.share_with(parameters.tolerance(cpu)));
    }
    let asids = Asids::<Gate<Numbers>>::new(8, parameters.cpus).ok_or("no heap")?;
    if folio_order > 0 {
        Program::new(&board, parameters, &space, &asids, seeds[0]).map_around();
    }
    board.start(parameters.cpus as u8);
    let done: Done = thread::scope(|scope| {
        let run = |cpu: usize| {
            let (board, space, asids, seed) = (&board, &space, &asids, seeds[cpu]);
            scope.spawn(move || {
                board.enter(cpu as u8);
                let mut program = Program::new(board, parameters, space, asids, seed);
                // Who fails has said why; the others are abandoned.
                let _ = panic::catch_unwind(AssertUnwindSafe(|| program.run(cpu, orders)));
                board.leave();
                program.done
            })
        };
        let threads: Vec<_> = (0..parameters.cpus).map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_default()).fold(Done::default(), Done::with)
    });
    if let Some(failure) = board.now().failure.clone() {
        std::mem::forget(space);
        return Err(failure);
    }
    board.start(1);
    board.enter(0);
    drop(space);
    let now = board.now();
    match (&now.failure, now.frames.len(), now.free_pages()) {
        (Some(failure), ..) => Err(failure.clone()),
        (None, 0, PAGES) => Ok(Ran { events: now.machine.events(), folios: now.folios, zeros: now.zeros, done }),
        (None, frames, free) => Err(format!("{frames} frames are taken and {free} pages of {PAGES} free at the end")),
    }
}

/// A board with its pool, on which this thread is CPU 0.
fn board<G: Granule>(machine: Machine, seed: Seed, lock_error: Option<LockError>) -> Arc<Board> {
    let pool = (0..PAGES).rev().map(|page| POOL + page * G::SIZE_BYTES).collect();
    let board = Arc::new(Board::new(machine, seed, pool, G::SIZE_BYTES, lock_error));
    board.enter(0);
    board
}

/// A space that has nothing.
fn space<G: Granule>(kernel: Kernel<G>, parameters: &Parameters) -> Result<AddressSpace<Kernel<G>>, String> {
    let shape = Shape {
        geometry: El1::geometry(parameters).map_err(|_| "no such geometry")?,
        tlb: parameters.tlb,
        hardware_updates: parameters.hardware_updates(),
        memory: Stage1Attributes::memory(0),
        has_execute_only: false,
        lowest: 0,
        lowest_fixed: 0,
        highest: 1 << parameters.input_bits,
        guard_bytes: 0,
    };
    AddressSpace::new(kernel, shape, 1 << 38, Limits::USUAL).map_err(|it| it.to_string())
}

/// What the CPUs tolerate. Whoever meets a TLB conflict abort has its TLBs forget everything.
fn census(parameters: &Parameters, believed: Option<BbmLevel>) -> Census {
    let tolerance = |cpu| Tolerance::new(believed.unwrap_or(parameters.bbm.announced(cpu)), true);
    let mut census = Census::new(tolerance(0));
    (1..parameters.cpus).for_each(|cpu| census.admit(tolerance(cpu)));
    census
}

/// A machine whose CPUs run nothing yet.
fn enabled(parameters: &Parameters, without_updates: usize) -> Machine {
    let cpus: Vec<_> = (0..parameters.cpus).map(|cpu| of_cpu(parameters, cpu, without_updates)).collect();
    let features: Vec<_> = cpus.iter().enumerate().map(|(cpu, its)| its.features()[cpu]).collect();
    let mut machine = Machine::new(&features);
    machine.be_strict();
    for (cpu, parameters) in (0..).zip(&cpus) {
        machine.enter(cpu, Level::El1);
        for (register, value) in parameters.controls().into_iter().chain(parameters.roots(EMPTY, 0)) {
            machine.write_register(cpu, register, value);
        }
        machine.barrier(cpu, Barrier::Isb);
        for (register, value) in parameters.switches() {
            machine.write_register(cpu, register, value);
            machine.barrier(cpu, Barrier::Isb);
        }
    }
    machine
}
