//! Processes, and all of them by number.

use crate::fallible::{Arc, NoMemory};
use crate::locks::{Lock, OpenLock, order};
use alloc::boxed::Box;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

use kerncore::stops::Stops;
use userspace::{Limits, Map};

use super::image::Image;
use super::life::{Life, Threads};
use super::resources::Resources;
use super::signals::{Action, Pending, SIGNALS};
use super::space::Space;
use super::users::Users;
use super::wishes::Wishes;
use crate::errno::{ESRCH, Errno};
use crate::files::descriptors::{Files, Table};
use crate::files::inode::Inode;
use crate::threads::queue;
use crate::threads::thread::{Spent, Thread};
use crate::threads::waiters::Waiters;

/// A process.
pub(crate) struct Process {
    pub(crate) number: i32,
    /// None once it is over.
    pub(crate) space: Lock<Option<Arc<dyn Space>>>,
    pub(crate) files: Files,
    pub(crate) folder: Arc<Lock<Arc<Inode>>>,
    pub(crate) umask: AtomicU32,
    pub(crate) actions: Arc<Lock<Box<[Action; SIGNALS]>>>,
    pub(crate) pending: Pending,
    pub(crate) life: Lock<Life>,
    pub(crate) image: Lock<Image>,
    is_ending: AtomicBool,
    pub(crate) stops: Stops,
    /// Held while this process is told of the end of a child, and while it looks for one.
    pub(crate) telling: OpenLock<()>,
    /// Who waits for children, for a stop, or for this process to leave its parent's address space.
    pub(crate) waiters: Waiters,
    /// Its parent waits until it runs a program, or is over: mostly it has the parent's address space.
    pub(crate) is_borrowing: AtomicBool,
    pub(crate) limits: Lock<Resources>,
    pub(crate) wishes: Lock<Wishes>,
    pub(crate) users: Lock<Users>,
    pub(crate) dumpable: AtomicU32,
    /// When it began, as the counter has it.
    pub(crate) begun: u64,
    /// Processes below it whose parents are over become its children.
    pub(crate) is_reaper: AtomicBool,
    /// The number of the next alarm that it makes.
    pub(crate) next_alarm: AtomicI32,
    /// The signal that it is told its parent's end by; 0 for none.
    pub(crate) death_signal: AtomicU32,
}

static ALL: Lock<Map<i32, Arc<Process>>> = Lock::new(order::ALL, Map::new());
/// Processes that were ever begun.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// The number of the first process.
pub(crate) const INIT: i32 = 1;
/// All processes, those that are over but not waited for among them, in order of their numbers. Those that begin meanwhile may be among
/// them.
pub(crate) fn all() -> impl Iterator<Item = Arc<Process>> {
    let mut last = i32::MIN;
    core::iter::from_fn(move || next(&mut last))
}

/// The process beyond the number that was last.
#[inline(never)]
fn next(last: &mut i32) -> Option<Arc<Process>> {
    ALL.with(|all| {
        let (number, process) = all.beyond(last)?;
        *last = *number;
        Some(process.clone())
    })
}

/// How many there are.
pub(crate) fn count() -> usize {
    ALL.with(|all| all.len())
}

#[inline(never)]
pub(crate) fn find(number: i32) -> Result<Arc<Process>, Errno> {
    ALL.with(|all| all.get(&number).cloned()).ok_or(ESRCH)
}

/// Gives back what the table has of the heap, if there is no process any more.
pub(super) fn forget_empty() {
    drop(ALL.with(|all| if all.is_empty() { core::mem::take(all) } else { Map::new() }));
}

/// Processes that were ever begun.
pub(crate) fn begun() -> u64 {
    BEGUN.load(Ordering::Relaxed)
}

/// What a new process has.
pub(crate) struct New {
    pub(crate) number: i32,
    pub(crate) space: Arc<dyn Space>,
    pub(crate) files: Arc<Table>,
    pub(crate) folder: Arc<Lock<Arc<Inode>>>,
    pub(crate) actions: Arc<Lock<Box<[Action; SIGNALS]>>>,
    pub(crate) image: Image,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    pub(crate) end_signal: i32,
    pub(crate) wishes: Wishes,
    pub(crate) users: Users,
}

impl Process {
    /// A process without threads; in the table from now on.
    pub(crate) fn new(new: New, umask: u32, limits: Resources) -> Result<Arc<Self>, NoMemory> {
        let New { number, space, files, folder, actions, image, parent, group, session, end_signal, wishes, users } =
            new;
        let life = Life::new([parent, group, session], end_signal);
        let process = Arc::try_new(Self {
            number,
            space: Lock::new(order::PROCESS_SPACE, Some(space)),
            files: Files::new(files),
            folder,
            umask: AtomicU32::new(umask),
            actions,
            pending: Pending::new(),
            life: Lock::new(order::LIFE, life),
            image: Lock::new(order::IMAGE, image),
            is_ending: AtomicBool::new(false),
            stops: Stops::default(),
            telling: OpenLock::new(order::TELLING, ()),
            waiters: Waiters::new(),
            is_borrowing: AtomicBool::new(false),
            limits: Lock::new(order::LIMITS, limits),
            wishes: Lock::new(order::WISHES, wishes),
            users: Lock::new(order::USERS, users),
            dumpable: AtomicU32::new(1),
            begun: hardware::timer::read_counter(),
            is_reaper: AtomicBool::new(false),
            next_alarm: AtomicI32::new(0),
            death_signal: AtomicU32::new(0),
        })?;
        BEGUN.fetch_add(1, Ordering::Relaxed);
        ALL.with(|all| all.insert(number, process.clone()))?;
        Ok(process)
    }

    /// Takes it out of the table.
    pub(crate) fn forget(&self) {
        self.pending.retain(&|_, _| false);
        // Another may have the number by now.
        let is_own = |found: &Arc<Self>| core::ptr::eq(&**found, self);
        let gone = ALL.with(|all| all.get(&self.number).is_some_and(is_own).then(|| all.remove(&self.number)));
        drop(gone);
    }

    /// Whether this thread is the one whose wait it ends.
    pub(crate) fn claim(&self) -> bool {
        self.life.with(Life::claim)
    }

    pub(crate) fn is_claimed(&self) -> bool {
        self.life.with(|life| life.is_claimed)
    }

    /// Its address space; its own threads may ask.
    pub(crate) fn space(&self) -> Arc<dyn Space> {
        self.try_space().expect("a process has a space for as long as it has threads")
    }

    /// Its address space, unless it is over.
    pub(crate) fn try_space(&self) -> Option<Arc<dyn Space>> {
        self.space.with(|space| space.clone())
    }

    /// Whether this is its address space.
    pub(crate) fn has_space(&self, one: &Arc<dyn Space>) -> bool {
        self.space.with(|space| space.as_ref().is_some_and(|space| Arc::ptr_eq(space, one)))
    }

    /// How much of memory it may have.
    pub(crate) fn limits_of_memory(&self) -> Limits {
        let is_root = self.users.with(|users| users.is_root());
        self.limits.with(|limits| limits.of_memory(is_root))
    }

    /// Has its address space keep to that.
    pub(crate) fn limit_memory(&self) {
        if let Some(space) = self.try_space() {
            space.set_limits(self.limits_of_memory());
        }
    }

    pub(crate) fn folder(&self) -> Arc<Inode> {
        self.folder.with(|folder| folder.clone())
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }

    /// Has all its threads end, with this status, unless they end already. Whether they did not.
    pub(crate) fn end(&self, status: i32) -> bool {
        let is_first = self.life.with(|life| {
            life.status.get_or_insert(status);
            !self.is_ending.swap(true, Ordering::AcqRel)
        });
        wake(self.threads());
        is_first
    }

    /// The thread of this number, if it is one of its own.
    pub(crate) fn thread(&self, number: i32) -> Option<Arc<Thread>> {
        self.life.with(|life| life.threads.get(&number).cloned())
    }

    #[inline(never)]
    pub(crate) fn threads(&self) -> Threads<'_> {
        Threads::of(&self.life)
    }

    /// The first of its threads.
    pub(crate) fn first_thread(&self) -> Option<Arc<Thread>> {
        self.life.with(|life| life.threads.first().map(|(_, thread)| thread.clone()))
    }

    pub(crate) fn parent(&self) -> i32 {
        self.life.with(|life| life.parent)
    }

    /// What its threads have used.
    pub(crate) fn spent(&self) -> Spent {
        Life::spent_of(&self.life)
    }

    /// Nanoseconds that it has run.
    pub(crate) fn nanoseconds(&self) -> u64 {
        crate::clock::nanoseconds(self.spent().ticks)
    }
}

/// Has threads look at what is new: parked ones go on, running ones leave EL0.
#[inline(never)]
pub(crate) fn wake(threads: impl Iterator<Item = Arc<Thread>>) {
    threads.for_each(|thread| queue::wake(&thread));
    crate::cpus::calls::interrupt_others();
}
