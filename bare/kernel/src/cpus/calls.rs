//! Calls between CPUs: a function that every CPU runs, each in its interrupt handler.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, Ordering};

use hardware::gic::{self, InterruptController};
use hardware::lock::Pause;
use hardware::{interrupts, parking, per_cpu, registers, timer};
use spin::mutex::SpinMutex;

use crate::console::say;
use crate::cpus::walkers;
use crate::facts::{Facts, facts};
use crate::locks::{Lock, order};
use crate::memory::devices;

static CONTROLLER: Lock<Option<InterruptController>> = Lock::new(order::CONTROLLER, None);

/// What is called, with the number of the CPU that runs it.
type Function<'a> = &'a (dyn Fn(usize) + Sync);

/// A function for every CPU, and who has yet to run it.
struct Board {
    /// Only who holds `caller` writes it, while no CPU is pending.
    function: UnsafeCell<Option<Function<'static>>>,
    /// A bit for each CPU that has yet to run the function.
    pending: AtomicU32,
    /// One call at a time. Held with interrupts open: who waits here must answer the call it waits for.
    caller: SpinMutex<(), Pause>,
}

// SAFETY: the function is written while `pending` is 0 and read by CPUs whose bit in it is set; the bit's release and acquire order
// the two.
unsafe impl Sync for Board {}

/// What CPUs run in their interrupt handlers.
static CALLS: Board = Board::new();
/// What CPUs run as soon as they have nothing else to do, with interrupts open.
static WORK: Board = Board::new();

/// Seconds after which a CPU that does not answer is given up, with the machine.
const PATIENCE: u64 = 20;

/// Sets up the interrupt controller and the boot CPU's part of it. Without one, the other CPUs stay off.
pub(crate) fn start(facts: &Facts) {
    let Some(place) = facts.devices.gic else { return };
    // SAFETY: the kernel map has the registers where `Placement` put them, and boot comes here once.
    let controller = match unsafe { devices::interrupt_controller(place) } {
        Ok(controller) => controller,
        Err(problem) => return say!("warning: interrupt controller: {problem}; only the boot CPU runs"),
    };
    CONTROLLER.with(|slot| slot.insert(controller).set_up());
    if let Err(problem) = start_this_cpu() {
        CONTROLLER.with(|slot| *slot = None);
        say!("warning: interrupt controller: {problem}; only the boot CPU runs");
    }
}

/// Whether CPUs can be called.
pub(crate) fn is_possible() -> bool {
    CONTROLLER.with(|controller| controller.is_some())
}

/// Sets up this CPU's part of the interrupt controller and takes calls from now on.
pub(crate) fn start_this_cpu() -> Result<(), gic::GicProblem> {
    let affinity = registers::read_affinity();
    CONTROLLER.with(|slot| {
        let Some(controller) = slot.as_mut() else { return Ok(()) };
        controller.set_up_cpu(affinity)?;
        controller.enable_private(facts().timer_interrupt, affinity)
    })?;
    // SAFETY: vectors and stacks are set up, and so is the interrupt controller.
    unsafe { interrupts::unmask() };
    // A request that came before interrupts did.
    parking::answer();
    Ok(())
}

/// Runs `function` on every CPU that runs, this one included, and returns when all have. The others run it in their interrupt
/// handlers, and must come to an end soon.
pub(crate) fn on_every_cpu(function: Function) {
    CALLS.run(function, Some(PATIENCE));
}

/// The same for work that may take its time: the others do it where they idle, with interrupts open.
pub(crate) fn while_idle_on_every_cpu(function: Function) {
    WORK.run(function, None);
}

/// Does the work that comes, for ever.
pub(crate) fn idle() -> ! {
    loop {
        // Masked from the look to the wait: an interrupt that came in between would be gone, and its work would wait for the next.
        let masks = interrupts::mask();
        if !WORK.is_pending() {
            interrupts::wait();
        }
        interrupts::restore(masks);
        WORK.answer();
    }
}

/// Interrupts every other CPU, which looks at what there is for it to do.
pub(crate) fn interrupt_others() {
    CONTROLLER.with(|controller| {
        if let Some(controller) = controller {
            controller.call_others();
        }
    });
}

impl Board {
    const fn new() -> Self {
        Self { function: UnsafeCell::new(None), pending: AtomicU32::new(0), caller: SpinMutex::new(()) }
    }

    fn run(&self, function: Function, patience: Option<u64>) {
        let _caller = self.caller.lock();
        let this = per_cpu::index();
        let others = walkers::running() & !(1 << this);
        if others != 0 {
            // SAFETY: only the lifetime changes; this function does not return before every CPU has let go of it.
            let function = unsafe { core::mem::transmute::<Function<'_>, Function<'static>>(function) };
            // SAFETY: this CPU holds the caller's lock and no CPU is pending.
            unsafe { *self.function.get() = Some(function) };
            self.pending.store(others, Ordering::Release);
            interrupt_others();
        }
        function(this);
        self.wait_for_others(patience);
    }

    fn wait_for_others(&self, patience: Option<u64>) {
        let end = patience.map(|seconds| timer::read_counter() + seconds * timer::read_frequency());
        while self.pending.load(Ordering::Acquire) != 0 {
            if end.is_some_and(|end| timer::read_counter() > end) {
                panic!("cpus {:#b} do not answer a call", self.pending.load(Ordering::Relaxed));
            }
            interrupts::pause();
        }
    }

    /// Whether this CPU has yet to run the function.
    fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Acquire) & 1 << per_cpu::index() != 0
    }

    /// Runs the function if this CPU is meant.
    fn answer(&self) {
        if !self.is_pending() {
            return;
        }
        let this = per_cpu::index();
        // SAFETY: this CPU's bit is set, so the caller has written it and will not again before the bit is clear.
        if let Some(function) = unsafe { *self.function.get() } {
            function(this);
        }
        self.pending.fetch_and(!(1 << this), Ordering::Release);
    }
}

/// The interrupt that this CPU is to handle now.
pub(super) fn take_interrupt() -> Option<u32> {
    CONTROLLER.with(|controller| controller.as_mut()?.take_interrupt())
}

/// Does what this CPU was called for, with interrupts masked.
pub(super) fn answer() {
    parking::answer();
    CALLS.answer();
}
