//! One thread, and which one runs on this CPU.

use crate::fallible::{Arc, NoMemory};
use crate::locks::{Lock, order};
use alloc::boxed::Box;
use core::any::Any;
use core::cell::{Cell, UnsafeCell};
use core::ops::AddAssign;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use hardware::user::Simd;
use hardware::{per_cpu, thread, timer};

/// Of the ticks that a thread has run: it runs now.
const RUNS: u64 = 1 << 63;

/// What a thread runs. It does not come back.
pub(crate) type Body = Box<dyn FnOnce() + Send>;

/// What becomes of a thread that has left its stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leaving {
    /// It goes on when others have had their turn.
    Ready,
    /// It goes on when it is woken, or the counter has come so far.
    Parked(Option<u64>),
    /// It has ended.
    Ended,
}

/// What threads have used together.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Spent {
    /// Ticks of the counter.
    pub(crate) ticks: u64,
    /// Faults that the address space has mended.
    pub(crate) faults: u64,
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.ticks += other.ticks;
        self.faults += other.faults;
    }
}

/// Whose thread it is, as the dispatcher and those who wait ask.
pub(crate) trait Owner: Any {
    /// Whether a wait has to end, whatever it is for.
    fn is_interrupted(&self) -> bool;
    /// Whether the thread is to end as soon as it looks.
    fn is_dying(&self) -> bool;
    /// Whether the thread may not go on for now. It is woken when it may.
    fn is_held(&self) -> bool;
    /// The thread goes on, on this CPU. Exceptions are masked.
    fn enter(&self);
    /// The thread leaves its CPU. Exceptions are masked.
    fn leave(&self);
    /// The thread of this number runs, and its time is over, or something is due. Exceptions are open.
    fn tick(&self, number: i32);
    /// It has left its CPU, which the dispatcher has. Exceptions are open.
    fn has_run(&self, number: i32);
    /// The thread has ended and left its stack, which nobody needs any more.
    fn end(&self);
}

/// A thread.
pub(crate) struct Thread {
    /// The thread's number, which is the program's too; it changes where the thread is the one that its process goes on with.
    number: AtomicI32,
    pub(crate) owner: Box<dyn Owner>,
    /// What the queue knows of it; under the queue's lock.
    pub(crate) is_parked: Cell<bool>,
    pub(crate) is_woken: Cell<bool>,
    pub(crate) deadline: Cell<Option<u64>>,
    /// Of one that is ready: which turn it has, and who is behind it.
    pub(super) turn: Cell<u64>,
    pub(super) next: Cell<Option<Arc<Thread>>>,
    /// Written by the CPU that runs it, read by the one that goes on with it.
    saved: UnsafeCell<u64>,
    pub(crate) leaving: Cell<Leaving>,
    body: Lock<Option<Body>>,
    /// What EL0 has in SIMD registers and TPIDR_EL0, while the thread does not run.
    pub(crate) simd: Lock<Simd>,
    pub(crate) thread_pointer: Cell<u64>,
    /// x0 of a call that a signal has interrupted and that may be made again.
    pub(crate) interrupted: Cell<Option<u64>>,
    /// The number of the call that it made last, plus 1; 0 for none.
    pub(crate) call: AtomicU32,
    /// Ticks of the counter that it has run; while it runs, [`RUNS`], and what the counter has to be added to.
    ticks: AtomicU64,
    /// Faults that its address space has mended.
    faults: AtomicU64,
    /// A bit for each CPU that it may run on.
    pub(crate) cpus: AtomicU32,
}

// SAFETY: the cells are the running thread's or, while it does not run, the queue's, whose lock orders the two.
unsafe impl Sync for Thread {}
// SAFETY: as above.
unsafe impl Send for Thread {}

impl Thread {
    /// A thread that does not run yet; it starts at `begin`, which is the dispatcher's.
    ///
    /// # Safety
    ///
    /// The stack that ends at `stack_end` is in no other use until [`Owner::end`].
    pub(crate) unsafe fn new(
        number: i32,
        owner: Box<dyn Owner>,
        stack_end: u64,
        begin: extern "C" fn(u64) -> !,
        thread_pointer: u64,
        body: Body,
    ) -> Result<Arc<Self>, NoMemory> {
        let thread = Arc::try_new(Self {
            number: AtomicI32::new(number),
            owner,
            is_parked: Cell::new(false),
            is_woken: Cell::new(false),
            deadline: Cell::new(None),
            turn: Cell::new(0),
            next: Cell::new(None),
            saved: UnsafeCell::new(0),
            leaving: Cell::new(Leaving::Ready),
            body: Lock::new(order::BODY, Some(body)),
            simd: Lock::new(order::SIMD, Simd::ZERO),
            thread_pointer: Cell::new(thread_pointer),
            interrupted: Cell::new(None),
            call: AtomicU32::new(0),
            ticks: AtomicU64::new(0),
            faults: AtomicU64::new(0),
            cpus: AtomicU32::new(u32::MAX),
        })?;
        // SAFETY: the caller's promise.
        let saved = unsafe { thread::prepare(stack_end, begin, 0) };
        // SAFETY: nobody else knows of the thread.
        unsafe { *thread.saved.get() = saved };
        Ok(thread)
    }

    /// Runs it on this CPU until it leaves. `back` is where the dispatcher's stack pointer goes.
    ///
    /// # Safety
    ///
    /// Exceptions are masked, this is the dispatcher, and no other CPU runs the thread.
    pub(crate) unsafe fn go_on(&self, back: *mut u64) {
        let before = self.ticks.load(Ordering::Relaxed);
        self.ticks.store(before.wrapping_sub(timer::read_counter()) | RUNS, Ordering::Relaxed);
        // SAFETY: written when it left or was made.
        let saved = unsafe { *self.saved.get() };
        // SAFETY: the caller's promise.
        unsafe { thread::switch(back, saved) };
        self.ticks.store(self.ticks(), Ordering::Relaxed);
    }

    pub(crate) fn number(&self) -> i32 {
        self.number.load(Ordering::Relaxed)
    }

    /// Gives it another number; it runs.
    pub(crate) fn set_number(&self, number: i32) {
        self.number.store(number, Ordering::Relaxed);
    }

    fn ticks(&self) -> u64 {
        let ticks = self.ticks.load(Ordering::Relaxed);
        if ticks & RUNS != 0 { ticks.wrapping_add(timer::read_counter()) & !RUNS } else { ticks }
    }

    /// What it has used.
    pub(crate) fn spent(&self) -> Spent {
        Spent { ticks: self.ticks(), faults: self.faults.load(Ordering::Relaxed) }
    }

    /// Its address space has mended a fault.
    pub(crate) fn count_fault(&self) {
        self.faults.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether it may run on this CPU.
    pub(super) fn may_run_here(&self) -> bool {
        self.may_run_on() >> per_cpu::index() & 1 != 0
    }

    /// A bit for each CPU that it may run on.
    pub(super) fn may_run_on(&self) -> u32 {
        self.cpus.load(Ordering::Relaxed)
    }

    /// Whether a CPU runs it.
    pub(super) fn runs(&self) -> bool {
        self.ticks.load(Ordering::Relaxed) & RUNS != 0
    }

    /// Where its stack pointer goes when it leaves.
    pub(super) fn place(&self) -> *mut u64 {
        self.saved.get()
    }

    /// What it runs, once.
    pub(super) fn take_body(&self) -> Option<Body> {
        self.body.with(Option::take)
    }
}

/// Which thread each CPU runs.
struct Current([UnsafeCell<Option<Arc<Thread>>>; per_cpu::MAX_CPUS]);

// SAFETY: each place is touched by its own CPU alone.
unsafe impl Sync for Current {}

static CURRENT: Current = Current([const { UnsafeCell::new(None) }; per_cpu::MAX_CPUS]);

/// The thread that runs here, if this is none of the dispatcher's.
pub(crate) fn try_current() -> Option<Arc<Thread>> {
    // SAFETY: a thread does not change its CPU between the two, for it leaves it of its own accord alone.
    unsafe { (*CURRENT.0[per_cpu::index()].get()).clone() }
}

/// The thread that runs here.
pub(crate) fn current() -> Arc<Thread> {
    try_current().expect("threads ask, not the dispatcher")
}

/// Makes it this CPU's.
pub(super) fn set_current(thread: Option<Arc<Thread>>) -> Option<Arc<Thread>> {
    // SAFETY: the dispatcher alone writes, on its own CPU.
    let place = unsafe { &mut *CURRENT.0[per_cpu::index()].get() };
    core::mem::replace(place, thread)
}
