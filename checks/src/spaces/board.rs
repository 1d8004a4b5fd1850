//! CPUs that run one after the other: each is a thread, of which one has the turn. With every event the turn may pass to another,
//! as the seed says, so that the same seed is the same run.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

use machine::event::{Event, Owned};
use machine::finding::{Finding, Rule};
use machine::machine::Machine;
use machine::seed::Seed;
use userspace::{Lock, PARTS};

use super::LockError;
use crate::program::poison;

/// The turn passes with one event in so many.
const STEPS_IN_TURN: u64 = 6;

thread_local! {
    static CPU: Cell<u8> = const { Cell::new(0) };
    static IS_FORKING: Cell<bool> = const { Cell::new(false) };
    static IS_CHECKING: Cell<bool> = const { Cell::new(false) };
    static BOARD: RefCell<Option<Arc<Board>>> = const { RefCell::new(None) };
}

/// What all CPUs share.
#[derive(Debug)]
pub(super) struct Board {
    turn: Mutex<Turn>,
    passed: Condvar,
    /// What locks do wrong.
    lock_error: Option<LockError>,
}

/// The machine, and what programs know of it.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) machine: Machine,
    pub(super) seed: Seed,
    /// Who has the turn.
    cpu: u8,
    /// CPUs that have not ended.
    running: Vec<u8>,
    /// References to each frame that is taken.
    pub(super) frames: BTreeMap<u64, usize>,
    pool: Vec<u64>,
    page_bytes: u64,
    /// Folios that were made.
    pub(super) folios: u64,
    /// How often a block of zeros was asked for.
    pub(super) zeros: u64,
    /// Forks under way: until one is complete, a parent may write what its child shares.
    pub(super) forks: usize,
    /// What went wrong first.
    pub(super) failure: Option<String>,
}

impl Board {
    pub(super) fn new(
        machine: Machine,
        seed: Seed,
        pool: Vec<u64>,
        page_bytes: u64,
        lock_error: Option<LockError>,
    ) -> Self {
        let (running, frames, failure) = (vec![0], BTreeMap::new(), None);
        let (folios, zeros, forks) = (0, 0, 0);
        let turn = Turn { machine, seed, cpu: 0, running, frames, pool, page_bytes, folios, zeros, forks, failure };
        Self { turn: Mutex::new(turn), passed: Condvar::new(), lock_error }
    }

    /// CPUs 0 to `cpus` run from now on, and the first has the turn.
    pub(super) fn start(&self, cpus: u8) {
        let mut turn = self.now();
        (turn.running, turn.cpu) = ((0..cpus).collect(), 0);
    }

    /// This thread is CPU `cpu` from now on, and has its turn: what it reads without an event would depend on when threads begin.
    pub(super) fn enter(self: &Arc<Self>, cpu: u8) {
        CPU.set(cpu);
        BOARD.set(Some(Arc::clone(self)));
        drop(self.my_turn(false));
    }

    /// This CPU has ended.
    pub(super) fn leave(&self) {
        let mut turn = self.now();
        let cpu = CPU.get();
        turn.running.retain(|running| *running != cpu);
        turn.pass(cpu);
        BOARD.set(None);
        self.passed.notify_all();
    }

    /// Whether this CPU is in a fork from now on.
    pub(super) fn set_forking(is_forking: bool) {
        IS_FORKING.set(is_forking);
    }

    /// Whether this CPU is in a fork.
    pub(super) fn is_forking() -> bool {
        IS_FORKING.get()
    }

    /// Runs `check`, whose loads are no events: no other CPU has its turn meanwhile.
    pub(super) fn checking<T>(check: impl FnOnce() -> T) -> T {
        IS_CHECKING.set(true);
        let result = check();
        IS_CHECKING.set(false);
        result
    }

    /// Whether this CPU is in a check.
    pub(super) fn is_checking() -> bool {
        IS_CHECKING.get()
    }

    /// What is now, without a turn.
    pub(super) fn now(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something when it is this CPU's turn, and judges it.
    pub(super) fn step<T>(&self, deed: impl FnOnce(&mut Turn, u8) -> T) -> T {
        let mut turn = self.my_turn(false);
        let done = deed(&mut turn, CPU.get());
        turn.judge();
        drop(turn);
        self.passed.notify_all();
        done
    }

    /// Ends this CPU, which tells what is wrong.
    fn end(&self, wrong: &str) -> ! {
        self.step(|turn, _| turn.fail(String::from(wrong)));
        panic!("{wrong}");
    }

    /// An event of this CPU.
    pub(super) fn event(&self, event: Event) {
        self.step(|turn, cpu| turn.machine.apply(cpu, &event));
    }

    /// Waits for this CPU's turn; with `yields` after another had it, if there is another.
    fn my_turn(&self, yields: bool) -> MutexGuard<'_, Turn> {
        let (cpu, mut turn) = (CPU.get(), self.now());
        if turn.cpu == cpu && (yields || turn.seed.one_in(STEPS_IN_TURN)) {
            turn.pass(cpu);
            self.passed.notify_all();
        }
        while turn.cpu != cpu && turn.failure.is_none() {
            turn = self.passed.wait(turn).unwrap_or_else(PoisonError::into_inner);
        }
        if turn.failure.is_some() {
            drop(turn);
            panic!("another CPU has failed");
        }
        turn
    }
}

impl Turn {
    /// Gives the turn to another CPU than `cpu`, if there is one.
    fn pass(&mut self, cpu: u8) {
        let others: Vec<u8> = self.running.iter().copied().filter(|other| *other != cpu).collect();
        if !others.is_empty() {
            self.cpu = *self.seed.pick(&others);
        }
    }

    fn judge(&mut self) {
        // A page that another CPU is about to map may fault yet: who takes that fault finds it mapped.
        let is_wrong = |finding: &Finding| !finding.is_lint() && finding.rule != Rule::NotVisible;
        if let Some(finding) = self.machine.take_findings().into_iter().find(is_wrong) {
            self.fail(finding.to_string());
        }
    }

    pub(super) fn fail(&mut self, text: String) {
        self.failure.get_or_insert(text);
    }

    pub(super) const fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    pub(super) fn free_pages(&self) -> u64 {
        self.pool.len() as u64
    }

    /// A free page.
    pub(super) fn take(&mut self) -> Option<u64> {
        self.pool.pop()
    }

    /// Free pages side by side, aligned to their size.
    pub(super) fn take_run(&mut self, pages: u64) -> Option<u64> {
        let bytes = pages * self.page_bytes;
        let run = |first: u64| (first..first + bytes).step_by(self.page_bytes as usize);
        let is_free = |first: &u64| first.is_multiple_of(bytes) && run(*first).all(|page| self.pool.contains(&page));
        let first = self.pool.iter().copied().find(is_free)?;
        self.pool.retain(|page| !(first..first + bytes).contains(page));
        Some(first)
    }

    /// A page is free: nobody may reach it, and whoever has it next writes what it likes.
    pub(super) fn free(&mut self, cpu: u8, address: u64, owned: Owned) {
        self.machine.apply(cpu, &Event::Release { address, size_bytes: self.page_bytes, owned });
        for slot in [0, 1, 7] {
            self.machine.store(cpu, address + 8 * slot, poison(slot));
        }
        self.pool.push(address);
    }
}

/// A lock for which a CPU waits by passing its turn. Parts are side by side: who has one goes on with its turns while others have theirs.
pub(super) struct Gate<T> {
    is_taken: [Mutex<bool>; PARTS],
    held: RwLock<T>,
}

impl<T> Gate<T> {
    fn take(&self, board: &Board, part: usize) {
        let is_taken = || std::mem::replace(&mut *relock(&self.is_taken[part]), true);
        while is_taken() {
            drop(board.my_turn(true));
        }
    }

    fn give_back(&self, part: usize) {
        *relock(&self.is_taken[part]) = false;
    }
}

impl<T> Lock<T> for Gate<T> {
    fn new(held: T) -> Self {
        Self { is_taken: [const { Mutex::new(false) }; PARTS], held: RwLock::new(held) }
    }

    fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        let board = this_board();
        drop(board.my_turn(false));
        let parts = (0..PARTS).filter(|part| board.lock_error != Some(LockError::Forgets(*part)));
        parts.clone().for_each(|part| self.take(&board, part));
        let result = body(&mut self.held.try_write().unwrap_or_else(|_| board.end(BESIDE)));
        parts.for_each(|part| self.give_back(part));
        result
    }

    fn with_part<R>(&self, part: usize, body: impl FnOnce(&T) -> R) -> R {
        let board = this_board();
        drop(board.my_turn(false));
        let part = if board.lock_error == Some(LockError::PartOfCpu) { CPU.get().into() } else { part };
        self.take(&board, part);
        let result = body(&self.held.try_read().unwrap_or_else(|_| board.end(BESIDE)));
        self.give_back(part);
        result
    }
}

/// What is wrong where somebody has the whole, and somebody a part.
const BESIDE: &str = "a CPU has the whole of a space while another has a part of it";

fn relock(lock: &Mutex<bool>) -> MutexGuard<'_, bool> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

fn this_board() -> Arc<Board> {
    BOARD.with_borrow(Clone::clone).expect("a thread that is a CPU")
}
