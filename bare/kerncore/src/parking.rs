//! The protocol of parking: CPUs wait off the kernel's tables while one of them changes what the others do not tolerate.
//!
//! ```text
//! initiator   tickets ── request ── call ── wait until each has seen its ticket ── change, TLBIs, DSB ── tickets 0, wake
//! other       called, or waits for a lock ── takes its request ── off the tables, seen = ticket ── ticket 0? ── on
//! ```
//! One parks at a time: who holds the lock of the linear map. Every wait for a lock with interrupts masked looks for a request
//! ([`Parking::is_requested`]), so that nobody who waits for that lock, or for one that the initiator holds, keeps the initiator waiting.

use core::iter;
use core::sync::atomic::{AtomicU64, Ordering};

use vmsa::BbmLevel;

/// A word that CPUs share.
pub trait Word {
    /// See [`AtomicU64::load`].
    fn load(&self, order: Ordering) -> u64;
    /// See [`AtomicU64::store`].
    fn store(&self, value: u64, order: Ordering);
    /// See [`AtomicU64::fetch_or`].
    fn fetch_or(&self, bits: u64, order: Ordering) -> u64;
    /// See [`AtomicU64::fetch_and`].
    fn fetch_and(&self, bits: u64, order: Ordering) -> u64;
}

impl Word for AtomicU64 {
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }

    fn store(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }

    fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
        self.fetch_or(bits, order)
    }

    fn fetch_and(&self, bits: u64, order: Ordering) -> u64 {
        self.fetch_and(bits, order)
    }
}

/// How the CPU that parks reaches others.
pub trait Others {
    /// What they share.
    type Word: Word;

    /// A CPU's line of the board: the ticket that it parks by, 0 for none, and the ticket that it has seen off the tables.
    fn line(&self, cpu: usize) -> [&Self::Word; 2];

    /// Interrupts every other CPU, which takes its request then.
    fn call(&self);

    /// Waits a moment for others; `false` once it has waited long enough.
    fn wait(&self) -> bool;

    /// Wakes those who are parked, as their tickets have changed.
    fn wake(&self);
}

/// Who walks the tables, who of them tolerates a change, and who is asked to park: a bit for each of the CPUs 0 to 63.
#[derive(Debug)]
pub struct Parking<W> {
    walking: W,
    /// Those that tolerate a live leaf that changes size.
    tolerant: W,
    /// Those of them to which TLB conflict aborts may come of that.
    conflicting: W,
    requested: W,
    /// Of the last round.
    ticket: W,
    /// Those that have come to their end. They walk the tables on, and need not park.
    left: W,
}

const fn bit(cpu: usize) -> u64 {
    1 << cpu
}

fn each(mut set: u64) -> impl Iterator<Item = usize> {
    iter::from_fn(move || {
        let cpu = set.trailing_zeros() as usize;
        set &= set.checked_sub(1)?;
        Some(cpu)
    })
}

impl<W> Parking<W> {
    /// Nobody walks the tables. The words are zeros: who walks, who tolerates a change, to whom conflicts come of one, who is asked,
    /// the last ticket, and who has left.
    pub const fn new(walking: W, tolerant: W, conflicting: W, requested: W, ticket: W, left: W) -> Self {
        Self { walking, tolerant, conflicting, requested, ticket, left }
    }
}

impl<W: Word> Parking<W> {
    /// A CPU walks the tables from now on. It tolerates a live leaf that changes size at this level, or not at all. Under the map's lock:
    /// no change is in flight.
    pub fn note(&self, cpu: usize, tolerated: Option<BbmLevel>) {
        if let Some(level) = tolerated {
            self.tolerant.fetch_or(bit(cpu), Ordering::Relaxed);
            if level < BbmLevel::Level3 {
                self.conflicting.fetch_or(bit(cpu), Ordering::Relaxed);
            }
        }
        self.walking.fetch_or(bit(cpu), Ordering::Relaxed);
    }

    /// A CPU comes to its end: it walks the tables on, and need not park any more. Nobody waits for it, and what it does not tolerate is not
    /// changed again.
    pub fn leave(&self, cpu: usize) {
        self.left.fetch_or(bit(cpu), Ordering::Relaxed);
    }

    /// Whether a CPU tolerates a live leaf that changes size.
    fn is_tolerant(&self, cpu: usize) -> bool {
        self.tolerant.load(Ordering::Relaxed) & bit(cpu) != 0
    }

    /// What is tolerated by every CPU that walks the tables while `this` one changes them by [`Self::run`].
    pub fn tolerated(&self, this: usize) -> BbmLevel {
        match self.conflicting.load(Ordering::Relaxed) {
            _ if !self.is_tolerant(this) => BbmLevel::Level0,
            0 => BbmLevel::Level3,
            _ => BbmLevel::Level2,
        }
    }

    /// Runs `change` while CPUs are parked: those that do not tolerate it, if `this` one does, or all others. One that does not come is
    /// named, and nothing is changed. The lock of the map is held, so that one parks at a time.
    pub fn run(&self, this: usize, others: &impl Others<Word = W>, change: impl FnOnce()) -> Result<(), usize> {
        self.run_without(self.asked_by(this), others, change)
    }

    /// Whom `this` one asks to park by [`Self::run`]: a bit for each.
    pub fn asked_by(&self, this: usize) -> u64 {
        let spared = if self.is_tolerant(this) { self.tolerant.load(Ordering::Relaxed) } else { 0 };
        self.walking.load(Ordering::Relaxed) & !bit(this) & !spared
    }

    /// Runs `body` while all other CPUs are parked, in the same way.
    pub fn run_alone(&self, this: usize, others: &impl Others<Word = W>, body: impl FnOnce()) -> Result<(), usize> {
        self.run_without(self.walking.load(Ordering::Relaxed) & !bit(this), others, body)
    }

    fn run_without(&self, set: u64, others: &impl Others<Word = W>, change: impl FnOnce()) -> Result<(), usize> {
        let parked = self.park(set, others);
        if parked.is_ok() {
            change();
        }
        // Who has not taken the request finds none; who takes it at this moment finds no ticket.
        self.requested.store(0, Ordering::Relaxed);
        // Behind the change: who finds no ticket finds what was changed.
        each(set).for_each(|cpu| others.line(cpu)[0].store(0, Ordering::Release));
        others.wake();
        parked
    }

    /// Asks CPUs to park, and waits for each.
    fn park(&self, set: u64, others: &impl Others<Word = W>) -> Result<(), usize> {
        let ticket = self.ticket.load(Ordering::Relaxed) + 1;
        self.ticket.store(ticket, Ordering::Relaxed);
        each(set).for_each(|cpu| others.line(cpu)[0].store(ticket, Ordering::Relaxed));
        // Behind the tickets: a CPU that takes its request finds one.
        self.requested.store(set, Ordering::Release);
        others.call();
        for cpu in each(set) {
            // What the CPU did before it has parked comes before the change.
            while others.line(cpu)[1].load(Ordering::Acquire) != ticket {
                if self.left.load(Ordering::Relaxed) & bit(cpu) != 0 || !others.wait() {
                    return Err(cpu);
                }
            }
        }
        Ok(())
    }

    /// Whether anybody is asked to park.
    #[inline]
    pub fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed) != 0
    }

    /// Takes the request of this CPU, if it is one of those that are asked: it goes off the tables then, for as long as its ticket is
    /// not 0. The call that comes for it later finds nothing to do.
    pub fn take_request(&self, this: usize) -> bool {
        // Ahead of the ticket.
        self.requested.fetch_and(!bit(this), Ordering::Acquire) & bit(this) != 0
    }
}
