//! The orderings of the protocol's accesses: two CPUs in the orders that loom knows of weak memory. Walks and changes are accesses to a
//! cell, which panics where nothing orders them. Each ordering that is left out is missed.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kerncore::parking::{self, Others, Parking};
use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{self, Acquire, Relaxed, Release},
};
use loom::thread;

/// An access that orders nothing, against the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Weak {
    None,
    /// The request is stored ahead of the tickets.
    Request,
    /// It is taken behind them.
    Take,
    /// What a CPU did before it has parked comes behind the change, as the one that changes does not acquire that,
    Seen,
    /// or as the CPU does not release it.
    Says,
    /// What it finds when it is let go comes ahead of that.
    LetGo,
}

/// Why one that is asked would never park.
const NO_TICKET: &str = "a request is taken, and has no ticket";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Load,
    Store,
    Take,
}

/// A word, and its access that orders nothing.
struct Word(AtomicU64, Option<Access>);

impl Word {
    fn order(&self, access: Access, order: Ordering) -> Ordering {
        if self.1 == Some(access) { Relaxed } else { order }
    }
}

impl parking::Word for Word {
    fn load(&self, order: Ordering) -> u64 {
        self.0.load(self.order(Access::Load, order))
    }

    fn store(&self, value: u64, order: Ordering) {
        self.0.store(value, self.order(Access::Store, order));
    }

    fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
        self.0.fetch_or(bits, order)
    }

    fn fetch_and(&self, bits: u64, order: Ordering) -> u64 {
        self.0.fetch_and(bits, self.order(Access::Take, order))
    }
}

struct Kernel {
    parking: Parking<Word>,
    board: [[Word; 2]; 2],
    /// What each CPU walks.
    tables: [UnsafeCell<()>; 2],
    map: AtomicBool,
    /// CPUs that are through.
    through: AtomicUsize,
}

impl Others for Kernel {
    type Word = Word;

    fn line(&self, cpu: usize) -> [&Word; 2] {
        self.board[cpu].each_ref()
    }

    fn call(&self) {}

    fn wait(&self) -> bool {
        thread::yield_now();
        true
    }

    fn wake(&self) {}
}

impl Kernel {
    fn new(weak: Weak) -> Self {
        let word = |access: Option<Access>| Word(AtomicU64::new(0), access);
        let of = |of: Weak, access| (weak == of).then_some(access);
        let requested = of(Weak::Request, Access::Store).or(of(Weak::Take, Access::Take));
        let line = || {
            [word(of(Weak::LetGo, Access::Store)), word(of(Weak::Seen, Access::Load).or(of(Weak::Says, Access::Store)))]
        };
        let parking = Parking::new(word(None), word(None), word(None), word(requested), word(None), word(None));
        (0..2).for_each(|cpu| parking.note(cpu, None));
        let tables = [UnsafeCell::new(()), UnsafeCell::new(())];
        Self { parking, board: [line(), line()], tables, map: AtomicBool::new(false), through: AtomicUsize::new(0) }
    }

    fn walk(&self, cpu: usize) {
        self.tables[cpu].with(|_| ());
    }

    fn answer(&self, cpu: usize) {
        if !self.parking.is_requested() || !self.parking.take_request(cpu) {
            return;
        }
        let [ticket, seen] = &self.board[cpu];
        // Nobody's patience is out here, so that a request is taken before its round ends.
        assert_ne!(ticket.0.load(Relaxed), 0, "{NO_TICKET}");
        loop {
            // As the branch that depends on the word has it, and the ISB behind that.
            let asked = ticket.0.load(Acquire);
            if asked == 0 {
                return self.walk(cpu);
            }
            // As the STLR has it.
            parking::Word::store(seen, asked, Release);
            thread::yield_now();
        }
    }

    fn change(&self, cpu: usize) {
        while self.map.compare_exchange(false, true, Acquire, Relaxed).is_err() {
            self.answer(cpu);
            thread::yield_now();
        }
        let made = self.parking.run(cpu, self, || self.tables[1 - cpu].with_mut(|_| ()));
        assert_eq!(made, Ok(()));
        self.map.store(false, Release);
    }

    /// A CPU makes so many changes, and takes calls until both are through.
    fn run(&self, cpu: usize, changes: usize) {
        self.walk(cpu);
        (0..changes).for_each(|_| self.change(cpu));
        self.through.fetch_add(1, Relaxed);
        while self.through.load(Relaxed) < 2 {
            self.answer(cpu);
            thread::yield_now();
        }
    }
}

fn explore(changes: [usize; 2], weak: Weak) {
    // Of more than one change there are too many orders: those with three preemptions at most.
    let mut builder = Builder::new();
    builder.preemption_bound = if changes == [1, 0] { None } else { Some(3) };
    builder.check(move || {
        let kernel = Arc::new(Kernel::new(weak));
        let other = Arc::clone(&kernel);
        let thread = thread::spawn(move || other.run(1, changes[1]));
        kernel.run(0, changes[0]);
        thread.join().expect("a CPU comes to its end");
    });
}

#[test]
fn what_is_walked_is_ordered_with_what_changes() {
    for changes in [[1, 0], [2, 0], [1, 1]] {
        explore(changes, Weak::None);
    }
}

#[test]
fn each_ordering_is_missed() {
    for (weak, expected) in [
        (Weak::Request, NO_TICKET),
        (Weak::Take, NO_TICKET),
        (Weak::Seen, "Causality violation"),
        (Weak::Says, "Causality violation"),
        (Weak::LetGo, "Causality violation"),
    ] {
        // Any other panic, such as loom's own at its limits, says nothing of the ordering.
        let found = [[1, 0], [2, 0]].iter().find_map(|changes| {
            let what = catch_unwind(AssertUnwindSafe(|| explore(*changes, weak))).err()?;
            let text = what.downcast_ref::<&str>().map(|text| (*text).to_owned());
            Some(what.downcast::<String>().map_or(text, |text| Some(*text)).unwrap_or_default())
        });
        let found = found.unwrap_or_else(|| panic!("{weak:?} is not noticed"));
        assert!(found.contains(expected), "{weak:?}: {found}");
    }
}
