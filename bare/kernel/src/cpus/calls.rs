//! Calls between CPUs: a function that every CPU runs, each in its interrupt handler.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, Ordering};

use hardware::gic::{self, InterruptController};
use hardware::lock::{Lock, Pause};
use hardware::{interrupts, per_cpu, registers, timer};
use spin::mutex::SpinMutex;

use crate::cpus::walkers;
use crate::facts::Facts;
use crate::memory::devices;
use crate::report::console::say;

static CONTROLLER: Lock<Option<InterruptController>> = Lock::new(None);

/// What is called, with the number of the CPU that runs it.
type Function<'a> = &'a (dyn Fn(usize) + Sync);

/// The call under way. Only who holds `CALLER` writes it, while no CPU is pending.
struct Current(UnsafeCell<Option<Function<'static>>>);

// SAFETY: written while `PENDING` is 0 and read by CPUs whose bit in it is set; the bit's release and acquire order the
// two.
unsafe impl Sync for Current {}

static CURRENT: Current = Current(UnsafeCell::new(None));
/// A bit for each CPU that has yet to run the function.
static PENDING: AtomicU32 = AtomicU32::new(0);
/// One call at a time. Held with interrupts open: who waits here must answer the call it waits for.
static CALLER: SpinMutex<(), Pause> = SpinMutex::new(());

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
    CONTROLLER.with(|slot| slot.as_mut().map_or(Ok(()), |controller| controller.set_up_cpu(affinity)))?;
    // SAFETY: vectors and stacks are set up, and so is the interrupt controller.
    unsafe { interrupts::unmask() };
    Ok(())
}

/// Runs `function` on every CPU that runs, this one included, and returns when all have.
pub(crate) fn on_every_cpu(function: Function) {
    let _caller = CALLER.lock();
    let this = per_cpu::index();
    let others = walkers::running() & !(1 << this);
    if others != 0 {
        // SAFETY: only the lifetime changes; this function does not return before every CPU has let go of it.
        let function = unsafe { core::mem::transmute::<Function<'_>, Function<'static>>(function) };
        // SAFETY: this CPU holds the caller's lock and no CPU is pending.
        unsafe { *CURRENT.0.get() = Some(function) };
        PENDING.store(others, Ordering::Release);
        CONTROLLER.with(|controller| {
            if let Some(controller) = controller {
                controller.call_others();
            }
        });
    }
    function(this);
    wait_for_others();
}

fn wait_for_others() {
    let end = timer::read_counter() + PATIENCE * timer::read_frequency();
    while PENDING.load(Ordering::Acquire) != 0 {
        if timer::read_counter() > end {
            panic!("cpus {:#b} do not answer a call", PENDING.load(Ordering::Relaxed));
        }
        interrupts::pause();
    }
}

/// Runs the function if this CPU is meant.
fn answer() {
    let this = per_cpu::index();
    let bit = 1 << this;
    if PENDING.load(Ordering::Acquire) & bit == 0 {
        return;
    }
    // SAFETY: this CPU's bit is set, so the caller has written it and will not again before the bit is clear.
    if let Some(function) = unsafe { *CURRENT.0.get() } {
        function(this);
    }
    PENDING.fetch_and(!bit, Ordering::Release);
}

/// Called by the vectors, with interrupts masked.
pub(crate) fn handle_interrupt() {
    while let Some(interrupt) = CONTROLLER.with(|controller| controller.as_mut()?.take_interrupt()) {
        match gic::is_call(interrupt) {
            true => answer(),
            false => say!("warning: unexpected interrupt {interrupt}"),
        }
    }
}
