//! `vellum.stress-kind=conflicts`: leaves change size while every CPU uses them, in threads, in exception handlers and under locks, so
//! that TLB conflict aborts come wherever they may.
//!
//! ```text
//! changer   announce ── open the round ── the leaf changes size ── all have used it? ── close ── uses it itself ── announce the end
//! others                     └──────────────── use its pages, one after the other ─┘
//! ```
//! The changer holds the lock of the linear map meanwhile, so that its own conflicts are under a lock.

use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use hardware::per_cpu::{self, MAX_CPUS};
use hardware::{conflict, interrupts, parking, timer};
use linearmap::Wanted;
use vmsa::{Level, VirtAddr};

use super::arena::{Arena, PAGES, Use};
use crate::console::say;
use crate::cpus::{calls, monitor, walkers};
use crate::facts::page_size;
use crate::locks::{Lock, order};
use crate::memory::linear_map;

/// Where a conflict came.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Thread,
    Handler,
    Locked,
}

impl Place {
    const ALL: [Self; 3] = [Self::Thread, Self::Handler, Self::Locked];
}

/// Rounds for which CPUs stay where they are.
const ROUNDS_AT_ONCE: u32 = 28;
/// Milliseconds that a round stays open for who does not come.
const PATIENCE: u64 = 1000;

/// Of each use and each place.
static SURVIVED: [[AtomicU64; Place::ALL.len()]; Use::ALL.len()] =
    [const { [const { AtomicU64::new(0) }; Place::ALL.len()] }; Use::ALL.len()];
static WRONG: AtomicU64 = AtomicU64::new(0);
/// A lock for each CPU to hold.
static LOCKS: [Lock<()>; MAX_CPUS] = [const { Lock::new(order::STRESS, ()) }; MAX_CPUS];

/// A round: odd while it is open.
static ROUND: AtomicU64 = AtomicU64::new(0);
/// The arena of this round, its first page and the one behind the last, and how they are used.
static ARENA: AtomicPtr<Arena> = AtomicPtr::new(core::ptr::null_mut());
static FIRST: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);
static HOW: AtomicUsize = AtomicUsize::new(0);
/// A bit for each CPU that has used the pages of this round.
static DONE: AtomicU32 = AtomicU32::new(0);
/// CPUs go back to what they did.
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// Pages of a contiguous group.
fn group() -> usize {
    1 << page_size().contiguous_shift(Level::L3).unwrap_or(4)
}

/// Uses pages of this round, but for the last of each group, which is what changes.
fn use_pages(arena: &Arena, pages: Range<usize>, how: Use, place: Place) {
    let cpu = per_cpu::index();
    let count = pages.len();
    // Each CPU begins elsewhere, lest the first one meets all that is to be met.
    for page in (0..count).map(|step| pages.start + (step + cpu * 5) % count) {
        let last = group() - 1;
        if page % group() == last || how == Use::AcrossPages && page % group() + 1 == last {
            continue;
        }
        let before = conflict::counts();
        let is_right = arena.is_used(page, how, cpu);
        let after = conflict::counts();
        let came = after[0] + after[1] - before[0] - before[1];
        SURVIVED[how as usize][place as usize].fetch_add(came, Ordering::Relaxed);
        WRONG.fetch_add(u64::from(!is_right), Ordering::Relaxed);
    }
}

/// Hears of leaves that change size. The lock of the linear map is held.
fn watch(leaves: &[Range<VirtAddr>], resize: &mut dyn FnMut()) {
    // SAFETY: the arenas outlive the watch.
    let arena = unsafe { ARENA.load(Ordering::Relaxed).as_ref() };
    let (Some(arena), Some(leaf)) = (arena, leaves.first()) else { return resize() };
    let pages = arena.number(leaf.start)..arena.number(leaf.end);
    if pages.is_empty() {
        return resize();
    }
    FIRST.store(pages.start, Ordering::Relaxed);
    END.store(pages.end, Ordering::Relaxed);
    DONE.store(0, Ordering::Relaxed);
    ROUND.fetch_add(1, Ordering::Release);
    resize();
    let others = walkers::running() & !(1 << per_cpu::index());
    let end = timer::read_counter() + timer::read_frequency() * PATIENCE / 1000;
    while DONE.load(Ordering::Acquire) != others && timer::read_counter() < end {
        interrupts::pause();
    }
    ROUND.fetch_add(1, Ordering::Release);
    use_pages(arena, pages, Use::ALL[HOW.load(Ordering::Relaxed)], Place::Locked);
}

/// Uses what changes size until all is over.
fn follow(place: Place) {
    // One that is open already is used too.
    let mut seen = 0;
    while !IS_OVER.load(Ordering::Acquire) {
        let round = ROUND.load(Ordering::Acquire);
        if round == seen || round.is_multiple_of(2) {
            parking::answer();
            interrupts::pause();
            continue;
        }
        seen = round;
        // SAFETY: the arenas outlive the round.
        let Some(arena) = (unsafe { ARENA.load(Ordering::Relaxed).as_ref() }) else { continue };
        let pages = FIRST.load(Ordering::Relaxed)..END.load(Ordering::Relaxed);
        let how = Use::ALL[HOW.load(Ordering::Relaxed)];
        let cpu = per_cpu::index();
        match place {
            Place::Locked => LOCKS[cpu].with(|()| use_pages(arena, pages, how, place)),
            _ => use_pages(arena, pages, how, place),
        }
        DONE.fetch_or(1 << cpu, Ordering::Release);
    }
}

/// Splits every group of an arena, and heals it. Rounds that are left.
fn change(arena: &Arena, how: Use, left: &mut u32) -> bool {
    let (wanted, back) = match how {
        Use::Fetch => (Wanted::NotExecutable, Wanted::ReadOnlyExecutable),
        _ => (Wanted::ReadOnly, Wanted::Writable),
    };
    ARENA.store(core::ptr::from_ref(arena).cast_mut(), Ordering::Relaxed);
    HOW.store(how as usize, Ordering::Relaxed);
    let mut is_ok = true;
    let pages = || (group() - 1..PAGES).step_by(group());
    for page in pages() {
        is_ok &= arena.change(page..page + 1, wanted);
        *left = left.saturating_sub(1);
    }
    pages().for_each(|page| is_ok &= arena.change(page..page + 1, back));
    linear_map::get().heal_all();
    is_ok
}

/// Makes so many rounds; whether all was right, unless there is no memory.
pub(super) fn run(rounds: u32) -> Option<bool> {
    let (data, code) = (Arena::new(false)?, Arena::new(true)?);
    let (mut left, mut is_ok) = (rounds, true);
    let mut uses = Use::ALL.into_iter().filter(|how| how.is_possible()).cycle();
    let mut places = Place::ALL.into_iter().cycle();
    monitor::watch(Some(watch));
    while let Some(place) = places.next().filter(|_| left > 0) {
        IS_OVER.store(false, Ordering::Release);
        let (changer, left, is_ok) =
            (per_cpu::index(), Lock::new(order::STRESS_VALUES, &mut left), Lock::new(order::STRESS_VALUES, &mut is_ok));
        let uses = Lock::new(order::STRESS_VALUES, &mut uses);
        let work = |cpu: usize| {
            if cpu != changer {
                return follow(place);
            }
            let (mut rounds, mut is_right) = (left.with(|left| **left), true);
            let enough = rounds.saturating_sub(ROUNDS_AT_ONCE);
            while rounds > enough {
                let Some(how) = uses.with(Iterator::next) else { break };
                is_right &= change(if how == Use::Fetch { &code } else { &data }, how, &mut rounds);
            }
            left.with(|left| **left = rounds);
            is_ok.with(|is_ok| **is_ok &= is_right);
            IS_OVER.store(true, Ordering::Release);
        };
        match place {
            Place::Handler => calls::on_every_cpu(&work),
            _ => calls::while_idle_on_every_cpu(&work),
        }
    }
    monitor::watch(None);
    ARENA.store(core::ptr::null_mut(), Ordering::Relaxed);
    data.free();
    code.free();
    tell(is_ok);
    Some(is_ok && WRONG.load(Ordering::Relaxed) == 0)
}

fn tell(is_ok: bool) {
    let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    say!("stress: conflicts      in a thread  in a handler  under a lock");
    let (mut all, mut empty) = (0, 0);
    for how in Use::ALL {
        let [thread, handler, locked] = Place::ALL.map(|place| value(&SURVIVED[how as usize][place as usize]));
        say!("stress: {:<14}{thread:>12}{handler:>14}{locked:>14}", how.name());
        all += thread + handler + locked;
        empty += [thread, handler, locked].into_iter().filter(|count| *count == 0).count();
    }
    say!("stress: {all} conflicts survived, {empty} cells empty");
    let refused = if is_ok { "no" } else { "some" };
    say!("stress: {refused} changes refused; {} accesses wrong", value(&WRONG));
}
