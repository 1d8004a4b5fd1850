//! Signals: which there are, what a process does with each, and which wait to be taken.

use alloc::collections::VecDeque;
use core::sync::atomic::{AtomicU64, Ordering};

use kerncore::stops::News;

use super::queued::Charge;
use crate::errno::{EAGAIN, EINVAL, ENOMEM, EPERM, Errno};
use crate::fallible::NoMemory;
use crate::locks::{OpenLock, order};

/// How many signals there are.
pub(crate) const SIGNALS: usize = 64;

/// The first real-time signal, and how many signals may wait.
const FIRST_QUEUED: u8 = 32;
const MOST_QUEUED: usize = 16384;

/// A signal, from 1 on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Signal(u8);

macro_rules! signals {
    ($($name:ident = $number:literal,)*) => {
        $(pub(crate) const $name: Signal = Signal($number);)*
    };
}

signals! {
    SIGHUP = 1, SIGILL = 4, SIGTRAP = 5, SIGBUS = 7, SIGFPE = 8, SIGKILL = 9, SIGSEGV = 11, SIGPIPE = 13, SIGALRM = 14,
    SIGCHLD = 17, SIGCONT = 18, SIGSTOP = 19, SIGTSTP = 20, SIGTTIN = 21, SIGTTOU = 22, SIGURG = 23,
    SIGXCPU = 24, SIGXFSZ = 25, SIGVTALRM = 26, SIGPROF = 27, SIGWINCH = 28, SIGSYS = 31,
}

impl Signal {
    pub(crate) fn new(number: i32) -> Option<Self> {
        (1..=SIGNALS as i32).contains(&number).then_some(Self(number as u8))
    }

    pub(crate) fn number(self) -> i32 {
        self.0.into()
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0) - 1
    }

    pub(crate) const fn bit(self) -> u64 {
        1 << (self.0 - 1)
    }

    /// Those of a set.
    pub(crate) fn all(set: u64) -> impl Iterator<Item = Self> {
        (1..=SIGNALS as u8).map(Self).filter(move |signal| set & signal.bit() != 0)
    }

    /// Whether each one that is sent is taken.
    pub(crate) fn queues(self) -> bool {
        self.0 >= FIRST_QUEUED
    }

    /// Whether a process that says nothing of it goes on.
    fn is_harmless(self) -> bool {
        [SIGCHLD, SIGCONT, SIGURG, SIGWINCH].contains(&self)
    }
}

/// `sa_flags`.
pub(crate) const SA_NOCLDSTOP: u64 = 1;
pub(crate) const SA_NOCLDWAIT: u64 = 2;
pub(crate) const SA_SIGINFO: u64 = 4;
pub(crate) const SA_EXPOSE_TAGBITS: u64 = 0x800;
pub(crate) const SA_RESTORER: u64 = 0x0400_0000;
pub(crate) const SA_ONSTACK: u64 = 0x0800_0000;
pub(crate) const SA_RESTART: u64 = 0x1000_0000;
pub(crate) const SA_NODEFER: u64 = 0x4000_0000;
pub(crate) const SA_RESETHAND: u64 = 0x8000_0000;
/// All of them.
pub(crate) const SA_KNOWN: u64 = SA_NOCLDSTOP
    | SA_NOCLDWAIT
    | SA_SIGINFO
    | SA_EXPOSE_TAGBITS
    | SA_RESTORER
    | SA_ONSTACK
    | SA_RESTART
    | SA_NODEFER
    | SA_RESETHAND;

/// What a process does with a signal: `struct sigaction` of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Action {
    /// 0 for what is usual, 1 for nothing.
    pub(crate) handler: u64,
    pub(crate) flags: u64,
    pub(crate) restorer: u64,
    pub(crate) mask: u64,
}

impl Action {
    pub(crate) fn is_ignored(&self, signal: Signal) -> bool {
        self.handler == 1 || self.handler == 0 && signal.is_harmless()
    }

    pub(crate) fn is_handled(&self) -> bool {
        self.handler > 1
    }

    /// Whether a process ends by the signal.
    pub(crate) fn ends(&self, signal: Signal) -> bool {
        let stops = [SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU].contains(&signal);
        signal == SIGKILL || !self.is_handled() && !self.is_ignored(signal) && !stops
    }
}

/// An alternate stack: `stack_t`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stack {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) flags: u32,
}

/// `ss_flags`. SS_AUTODISARM: while a handler runs there is no alternate stack.
pub(crate) const SS_ONSTACK: u32 = 1;
pub(crate) const SS_DISABLE: u32 = 2;
pub(crate) const SS_AUTODISARM: u32 = 1 << 31;

impl Stack {
    pub(crate) const NONE: Self = Self { start: 0, bytes: 0, flags: SS_DISABLE };

    /// Where it begins, as it grows downwards; `None` if that is beyond all addresses.
    pub(crate) fn end(&self) -> Option<u64> {
        self.start.checked_add(self.bytes)
    }

    pub(crate) fn holds(&self, address: u64) -> bool {
        self.flags & (SS_DISABLE | SS_AUTODISARM) == 0 && address > self.start && address - self.start <= self.bytes
    }

    /// What a program wants instead, who stands at `pointer`.
    pub(crate) fn replaced_by(self, [start, flags, bytes]: [u64; 3], pointer: u64) -> Result<Self, Errno> {
        /// MINSIGSTKSZ.
        const LEAST: u64 = 5120;
        let flags = flags as u32;
        match flags & !SS_AUTODISARM {
            _ if self.holds(pointer) => Err(EPERM),
            0 | SS_ONSTACK if bytes < LEAST => Err(ENOMEM),
            0 | SS_ONSTACK => Ok(Self { start, bytes, flags: flags & SS_AUTODISARM }),
            SS_DISABLE => Ok(Self { flags, ..Self::NONE }),
            _ => Err(EINVAL),
        }
    }
}

/// What is told of a signal: `siginfo_t` from `si_code` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Info {
    pub(crate) code: i32,
    /// The words at offsets 16 and 24: an address; or process, user and status; or alarm, overruns and value.
    pub(crate) words: [u64; 2],
    /// Which of an alarm's times is told of.
    pub(crate) timer: Option<u64>,
}

/// `SI_TIMER`, `SI_TKILL`, `SI_KERNEL`.
pub(crate) const SI_TIMER: i32 = -2;
pub(crate) const SI_TKILL: i32 = -6;
pub(crate) const SI_KERNEL: i32 = 128;

impl Info {
    /// Sent by a process.
    pub(crate) fn of(code: i32, process: i32) -> Self {
        Self { code, words: [process as u32 as u64, 0], ..Self::default() }
    }

    /// Of SIGCHLD.
    pub(crate) fn of_child(process: i32, news: News) -> Self {
        let (code, status) = news.code();
        Self { code, words: [process as u32 as u64, status as u32 as u64], ..Self::default() }
    }

    /// Of the kernel's own accord.
    pub(crate) fn of_kernel() -> Self {
        Self { code: SI_KERNEL, ..Self::default() }
    }
}

/// Signals that wait to be taken.
pub(crate) struct Pending {
    set: AtomicU64,
    queue: OpenLock<Queue>,
}

/// What is known of signals that wait, as they came.
struct Queue {
    infos: VecDeque<(Signal, Info, Option<Charge>)>,
    /// Timers that tell by a signal here: the queue has room for one of each beside what others have sent.
    timers: usize,
}

impl Queue {
    /// Has room for one more, beside those of timers.
    fn reserve(&mut self) -> Result<(), NoMemory> {
        self.infos.try_reserve(1 + self.timers).map_err(|_| NoMemory)
    }

    fn holds(&self, signal: Signal) -> bool {
        self.infos.iter().any(|(one, ..)| *one == signal)
    }

    fn settle(&mut self) {
        if self.infos.is_empty() && self.timers == 0 {
            self.infos = VecDeque::new();
        }
    }
}

impl Pending {
    pub(crate) const fn new() -> Self {
        Self {
            set: AtomicU64::new(0),
            queue: OpenLock::new(order::PENDING, Queue { infos: VecDeque::new(), timers: 0 }),
        }
    }

    pub(crate) fn set(&self) -> u64 {
        self.set.load(Ordering::Acquire)
    }

    /// Adds one. A second of the same is the first, but of real-time signals, which queue, and of timers, each of which has one. Without
    /// memory, or a charge, it waits all the same, and nothing is known of it but its number: unless it queues, and is not of `kill`.
    pub(super) fn add(&self, signal: Signal, info: Info, charge: Option<Charge>) -> Result<(), Errno> {
        self.queue.with(|queue| {
            let is_first = self.set() & signal.bit() == 0;
            let is_timers = info.timer.is_some();
            let is_of_it = |(_, one, _): &&mut (Signal, Info, Option<Charge>)| {
                one.timer.is_some() && one.words[0] == info.words[0]
            };
            let known = if is_timers { queue.infos.iter_mut().find(is_of_it) } else { None };
            if let Some((_, told, _)) = known {
                *told = info;
            } else if is_timers || is_first || signal.queues() {
                // A timer's has room: see `reserve_timer`. The comparison leaves the compiler no way to a queue that grows.
                let may = |queue: &mut Queue| queue.infos.len() < MOST_QUEUED && queue.reserve().is_ok();
                let has_room = is_timers || charge.is_some() && may(queue);
                if has_room && queue.infos.len() < queue.infos.capacity() {
                    queue.infos.push_back((signal, info, charge));
                } else if signal.queues() && info.code != 0 {
                    return Err(EAGAIN);
                }
            }
            self.set.fetch_or(signal.bit(), Ordering::Release);
            Ok(())
        })
    }

    /// A timer tells by a signal here from now on, which takes no memory then.
    pub(crate) fn reserve_timer(&self) -> Result<(), NoMemory> {
        self.queue.with(|queue| {
            queue.reserve()?;
            queue.timers += 1;
            Ok(())
        })
    }

    /// A timer tells here no longer.
    pub(crate) fn release_timer(&self) {
        self.queue.with(|queue| {
            queue.timers = queue.timers.saturating_sub(1);
            queue.settle();
        });
    }

    /// Takes one of `set`, those of faults first.
    pub(crate) fn take(&self, set: u64) -> Option<(Signal, Info)> {
        const FAULTS: u64 = SIGSEGV.bit() | SIGBUS.bit() | SIGILL.bit() | SIGTRAP.bit() | SIGFPE.bit() | SIGSYS.bit();
        let there = self.set() & set;
        let first = if there & SIGKILL.bit() != 0 {
            SIGKILL.bit()
        } else if there & FAULTS != 0 {
            there & FAULTS
        } else {
            there
        };
        let signal = Signal::new(first.trailing_zeros() as i32 + 1)?;
        self.queue.with(|queue| {
            // Another thread may have taken it meanwhile.
            if self.set() & signal.bit() == 0 {
                return None;
            }
            let place = queue.infos.iter().position(|(one, ..)| *one == signal);
            let found = place.and_then(|place| queue.infos.remove(place));
            if !queue.holds(signal) {
                self.set.fetch_and(!signal.bit(), Ordering::AcqRel);
            }
            queue.settle();
            Some((signal, found.map_or_else(Info::default, |(_, info, _)| info)))
        })
    }

    /// Forgets some.
    pub(crate) fn retain(&self, stays: &dyn Fn(Signal, &Info) -> bool) {
        self.queue.with(|queue| {
            let unknown = (0..SIGNALS as u8).map(|index| Signal(index + 1));
            let unknown = unknown.filter(|signal| self.set() & signal.bit() != 0 && !queue.holds(*signal));
            let unknown = unknown.filter(|signal| stays(*signal, &Info::default())).fold(0, |all, one| all | one.bit());
            queue.infos.retain(|(signal, info, _)| stays(*signal, info));
            let known = queue.infos.iter().fold(0, |all, (signal, ..)| all | signal.bit());
            self.set.fetch_and(known | unknown, Ordering::AcqRel);
            queue.settle();
        });
    }
}
