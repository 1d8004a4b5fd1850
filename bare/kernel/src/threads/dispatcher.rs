//! What each CPU does between threads.

use crate::fallible::Arc;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use hardware::{interrupts, parking, per_cpu, timer, user};
use spin::Once;

use super::queue::{self, Next};
use super::thread::{self, Leaving, Thread, try_current};
use crate::cpus::calls;
use crate::locks::checked;
use crate::memory::{failing, linear_map};

/// Slots of the linear map that an idle CPU looks at before it looks for threads again.
const SLOTS: usize = 8;
/// Milliseconds from one round of healing to the next, whichever CPU idles then, and however often.
const ROUND: u64 = 20;
/// Milliseconds that a thread runs while another waits.
const SLICE: u64 = 10;

struct Places([UnsafeCell<u64>; per_cpu::MAX_CPUS]);

// SAFETY: each place is its own CPU's.
unsafe impl Sync for Places {}

/// The stack pointer of each CPU's dispatcher while a thread runs.
static PLACES: Places = Places([const { UnsafeCell::new(0) }; per_cpu::MAX_CPUS]);
/// What there is to tell the thread that runs on each CPU: [`OVER`] and [`DYING`].
static NEWS: [AtomicU8; per_cpu::MAX_CPUS] = [const { AtomicU8::new(0) }; per_cpu::MAX_CPUS];
/// Its time is over.
const OVER: u8 = 1;
/// It is to end: it was when it was last looked at, at the start of its time or at the end.
const DYING: u8 = 2;
static SWITCHES: AtomicU64 = AtomicU64::new(0);
/// When [`World::fire`] is called next, in ticks of the counter.
static DUE: AtomicU64 = AtomicU64::new(u64::MAX);
/// Before this time, in ticks of the counter, no thread is interrupted for what is due.
static PAUSE_END: AtomicU64 = AtomicU64::new(0);
/// When the machine is given up, in ticks of the counter; `u64::MAX` for never.
static END: AtomicU64 = AtomicU64::new(u64::MAX);
/// Who gives it up.
static GIVE_UP: Once<fn()> = Once::new();
/// When the linear map heals next, in ticks of the counter.
static NEXT_ROUND: AtomicU64 = AtomicU64::new(0);

/// What the dispatcher asks of whoever has threads run.
pub(crate) trait World {
    /// Does what is due. Exceptions are open.
    fn fire(&self);
    /// Has this CPU forget the owner that it entered last. Whether it had one; exceptions are open for a while then.
    fn leave(&self) -> bool;
}

/// Something is due at this time, in ticks of the counter, and nothing before; `u64::MAX` for nothing. One at a time says so.
pub(crate) fn set_due(ticks: u64) {
    if ticks < DUE.swap(ticks, Ordering::AcqRel) {
        // Earlier than the timer is armed for: the thread that runs here looks at the time once more before it goes on.
        NEWS[per_cpu::index()].fetch_or(OVER, Ordering::Relaxed);
    }
}

/// Whether something is due by `now`. If so, the caller does it, and for all others it is due at `next`.
pub(crate) fn take_due(now: u64, next: u64) -> bool {
    DUE.fetch_update(Ordering::AcqRel, Ordering::Acquire, |due| (due <= now).then_some(next)).is_ok()
}

/// Who gives the machine up, on one CPU or several, with exceptions masked.
pub(crate) fn set_give_up(give_up: fn()) {
    GIVE_UP.call_once(|| give_up);
}

/// Has the machine given up unless within so many seconds this is called again, or no thread is left.
pub(crate) fn expect_end(seconds: u64) {
    END.store(timer::read_counter() + seconds * timer::read_frequency(), Ordering::Release);
}

/// When the machine is given up.
fn end() -> Option<u64> {
    Some(END.load(Ordering::Acquire)).filter(|end| *end != u64::MAX)
}

/// When something is due next, in ticks of the counter.
pub(crate) fn due() -> Option<u64> {
    Some(DUE.load(Ordering::Acquire)).filter(|due| *due != u64::MAX)
}

/// The same where a thread runs, whose turn may not be over yet.
pub(crate) fn due_here() -> Option<u64> {
    Some(due()?.max(PAUSE_END.load(Ordering::Relaxed)))
}

/// Threads that run are not interrupted before this time for what is due.
pub(crate) fn pause_until(ticks: u64) {
    PAUSE_END.store(ticks, Ordering::Relaxed);
}

/// Where every thread begins: exceptions are masked, as the dispatcher has them.
pub(crate) extern "C" fn begin(_: u64) -> ! {
    // SAFETY: the dispatcher runs with them open but for the switch.
    unsafe { interrupts::unmask() };
    if let Some(body) = thread::current().take_body() {
        body();
    }
    leave(Leaving::Ended);
    unreachable!("a thread that has ended is not gone on with")
}

/// Runs threads until there are none, or those that are left wait for what never comes.
pub(crate) fn run(world: &dyn World) {
    user::prepare_cpu();
    queue::serve(true);
    loop {
        world.fire();
        // Masked from the look to the wait: an interrupt in between would be gone, and what it told of would wait for the next.
        let masks = interrupts::mask();
        let next = queue::next();
        match next {
            Next::Run(thread) => dispatch(world, thread),
            Next::Again => {}
            Next::Idle(time) => {
                // Exceptions were open meanwhile: there is a new look.
                if world.leave() {
                    interrupts::restore(masks);
                    continue;
                }
                // Leaves that are whole again fold while nobody waits for this CPU.
                let time = time.into_iter().chain(due()).chain(heal()).chain(end()).min();
                time.map_or_else(timer::disarm, timer::arm);
                match calls::is_possible() {
                    true => interrupts::wait(),
                    false => interrupts::pause(),
                }
            }
            Next::Stuck if due().is_none() => break,
            Next::Stuck => {
                due().into_iter().chain(end()).min().map_or_else(timer::disarm, timer::arm);
                interrupts::wait();
            }
            Next::Done => {
                END.store(u64::MAX, Ordering::Release);
                break;
            }
        }
        interrupts::restore(masks);
    }
    timer::disarm();
    world.leave();
    // SAFETY: as they were when this began.
    unsafe { interrupts::unmask() };
    queue::serve(false);
    calls::interrupt_others();
}

/// Has the linear map heal, if its next round has come. When the one behind is, if there is anything to heal.
fn heal() -> Option<u64> {
    let (map, now, next) = (linear_map::get(), timer::read_counter(), NEXT_ROUND.load(Ordering::Relaxed));
    let after = now + timer::read_frequency() * ROUND / 1000;
    // One CPU has each round.
    if now >= next && NEXT_ROUND.compare_exchange(next, after, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        map.heal(SLOTS);
    }
    map.may_fold().then(|| NEXT_ROUND.load(Ordering::Relaxed))
}

/// Runs a thread until it leaves; exceptions are masked.
fn dispatch(world: &dyn World, thread: Arc<Thread>) {
    let cpu = per_cpu::index();
    SWITCHES.fetch_add(1, Ordering::Relaxed);
    NEWS[cpu].store(if thread.owner.is_dying() { DYING } else { 0 }, Ordering::Relaxed);
    thread.owner.enter();
    arm();
    thread.simd.with(|simd| user::restore_simd(simd));
    user::set_thread_pointer(thread.thread_pointer.get());
    thread::set_current(Some(thread));
    let place = PLACES.0[cpu].get();
    let running = thread::current();
    // SAFETY: masked; the queue gave the thread to this CPU alone.
    unsafe { running.go_on(place) };
    drop(running);
    let Some(thread) = thread::set_current(None) else { return };
    thread.simd.with(user::save_simd);
    thread.thread_pointer.set(user::read_thread_pointer());
    interrupts_open(|| thread.owner.has_run(thread.number()));
    if let Some(ended) = queue::left(thread) {
        // Not before its stack is left; and what drops with it may take its time.
        world.leave();
        interrupts_open(|| {
            ended.owner.end();
            drop(ended);
        });
    }
}

/// Runs what may wait for other CPUs, which must be answered meanwhile. For the dispatcher's own calls.
pub(crate) fn interrupts_open(body: impl FnOnce()) {
    // SAFETY: the dispatcher runs with them open but for a switch, which is over, or not yet.
    unsafe { interrupts::unmask() };
    body();
    let _masks = interrupts::mask();
}

/// Leaves the CPU. Comes back when it is this thread's turn again.
pub(crate) fn leave(leaving: Leaving) {
    let is_masked = interrupts::are_masked();
    let masks = interrupts::mask();
    let thread = thread::current();
    thread.leaving.set(leaving);
    thread.owner.leave();
    let place = thread.place();
    let fails = failing::exchange(0);
    // What this thread holds is as long as the thread.
    drop(thread);
    // SAFETY: the dispatcher of this CPU left its stack pointer there, and does not run.
    let dispatcher = unsafe { *PLACES.0[per_cpu::index()].get() };
    // SAFETY: masked. The thread is `CURRENT`'s until it has left.
    checked::sleep(is_masked, || unsafe { hardware::thread::switch(place, dispatcher) });
    failing::exchange(fails);
    interrupts::restore(masks);
    parking::answer();
}

/// Lets others run, if any wait.
pub(crate) fn give_way() {
    if queue::has_work() {
        leave(Leaving::Ready);
    }
}

/// Whether a thread runs here that is not about to end.
pub(crate) fn runs_a_thread() -> bool {
    try_current().is_some() && NEWS[per_cpu::index()].load(Ordering::Relaxed) & DYING == 0
}

/// Leaves a CPU that this thread may not run on any more.
pub(crate) fn leave_wrong_cpu() {
    while !thread::current().may_run_here() {
        leave(Leaving::Ready);
    }
}

/// The thread's time is over, or it has something new to look at.
pub(crate) fn is_over() -> bool {
    NEWS[per_cpu::index()].load(Ordering::Relaxed) & OVER != 0
}

/// Gives way if the time is over. A new slice begins.
pub(crate) fn give_way_if_over() {
    if !is_over() {
        return;
    }
    let thread = thread::current();
    thread.owner.tick(thread.number());
    drop(thread);
    // Behind the tick, after which something may be due earlier.
    NEWS[per_cpu::index()].fetch_and(!OVER, Ordering::Relaxed);
    arm();
    give_way();
}

/// A loop whose length a program chooses asks this in each round, where nothing is half done: others have their turn if the time is over.
/// Whether it goes on; not where the thread is to end. Where a spin lock is held, and between threads, it does, and nobody has a turn.
#[inline(always)]
pub(crate) fn goes_on() -> bool {
    NEWS[per_cpu::index()].load(Ordering::Relaxed) == 0 || attend()
}

#[cold]
#[inline(never)]
fn attend() -> bool {
    let thread = if interrupts::are_masked() { None } else { try_current() };
    let Some(thread) = thread else { return true };
    if is_over() {
        give_way_if_over();
        if thread.owner.is_dying() {
            NEWS[per_cpu::index()].fetch_or(DYING, Ordering::Relaxed);
        }
    }
    NEWS[per_cpu::index()].load(Ordering::Relaxed) & DYING == 0
}

/// Has this CPU interrupted when the thread's time is over, or an alarm is due.
fn arm() {
    let end = timer::read_counter() + timer::read_frequency() * SLICE / 1000;
    timer::arm(due_here().map_or(end, |due| due.min(end)));
}

/// The timer's interrupt, with interrupts masked.
pub(crate) fn tick() {
    timer::disarm();
    NEWS[per_cpu::index()].fetch_or(OVER, Ordering::Relaxed);
    if let Some(end) = end() {
        if end <= timer::read_counter() {
            GIVE_UP.get().inspect(|give_up| give_up());
        }
        // A thread that does not leave the kernel arms no timer.
        timer::arm(end);
    }
    queue::wake_who_is_due();
}

/// How often a CPU went on with a thread.
pub(crate) fn switches() -> u64 {
    SWITCHES.load(Ordering::Relaxed)
}
