//! Who is asked to park, whom the one that changes waits for, and who is named. What comes of it in every order of steps is in
//! `checks/tests/parking`.

use std::cell::{Cell, RefCell};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use kerncore::parking::{Others, Parking};
use vmsa::BbmLevel::{self, Level0, Level2, Level3};

const CPUS: usize = 64;

fn set(cpus: &[usize]) -> u64 {
    cpus.iter().fold(0, |set, cpu| set | 1 << cpu)
}

/// CPUs that park when they are called, but for some.
struct Kernel {
    parking: Parking<AtomicU64>,
    board: [[AtomicU64; 2]; CPUS],
    /// Those that take no call,
    deaf: u64,
    /// or take it when they have been waited for so often.
    slow: Cell<usize>,
    calls: Cell<usize>,
    waits: Cell<usize>,
    wakes: Cell<usize>,
    /// Who was off the tables when the change was made, each time.
    parked: RefCell<Vec<u64>>,
}

/// How often anybody is waited for.
const PATIENCE: usize = 5;

impl Kernel {
    fn new(walking: &[(usize, Option<BbmLevel>)], deaf: &[usize]) -> Self {
        let word = AtomicU64::default;
        let parking = Parking::new(word(), word(), word(), word(), word(), word());
        walking.iter().for_each(|(cpu, level)| parking.note(*cpu, *level));
        let board = std::array::from_fn(|_| [word(), word()]);
        let (deaf, [calls, waits, wakes, slow]) = (set(deaf), [0; 4].map(Cell::new));
        Self { parking, board, deaf, slow, calls, waits, wakes, parked: RefCell::default() }
    }

    fn lines(&self, word: usize) -> [u64; CPUS] {
        self.board.each_ref().map(|line| line[word].load(Relaxed))
    }

    /// Those with a ticket.
    fn ticketed(&self) -> u64 {
        let lines = self.lines(0);
        (0..CPUS).filter(|cpu| lines[*cpu] != 0).fold(0, |set, cpu| set | 1 << cpu)
    }

    /// Each CPU that hears takes its request, and says that it has seen its ticket.
    fn answer(&self) {
        for cpu in (0..CPUS).filter(|cpu| self.deaf >> cpu & 1 == 0) {
            if self.parking.is_requested() && self.parking.take_request(cpu) {
                let [ticket, seen] = &self.board[cpu];
                seen.store(ticket.load(Relaxed), Relaxed);
            }
        }
    }

    fn note_change(&self) {
        self.parked.borrow_mut().push(self.ticketed());
    }

    fn run(&self, this: usize) -> Result<(), usize> {
        self.parking.run(this, self, || self.note_change())
    }

    /// Nothing is left of a round.
    fn check_over(&self) {
        assert!(!self.parking.is_requested());
        assert_eq!(self.ticketed(), 0);
    }
}

impl Others for Kernel {
    type Word = AtomicU64;

    fn line(&self, cpu: usize) -> [&AtomicU64; 2] {
        self.board[cpu].each_ref()
    }

    fn call(&self) {
        self.calls.set(self.calls.get() + 1);
        if self.slow.get() == 0 {
            self.answer();
        }
    }

    fn wait(&self) -> bool {
        self.waits.set(self.waits.get() + 1);
        if self.waits.get() == self.slow.get() {
            self.answer();
        }
        self.waits.get() < PATIENCE
    }

    fn wake(&self) {
        // Who wakes finds no ticket.
        assert_eq!(self.ticketed(), 0);
        self.wakes.set(self.wakes.get() + 1);
    }
}

/// The CPUs, who changes the map, who parks for that, and what the change may be.
type Row = (&'static [(usize, Option<BbmLevel>)], usize, &'static [usize], BbmLevel);

#[test]
fn those_park_that_do_not_tolerate_what_the_one_that_changes_does_or_all() {
    let rows: [Row; 9] = [
        (&[(0, None)], 0, &[], Level0),
        (&[(0, Some(Level3))], 0, &[], Level3),
        (&[(0, Some(Level2))], 0, &[], Level2),
        (&[(0, Some(Level3)), (1, Some(Level3))], 1, &[], Level3),
        (&[(0, Some(Level3)), (1, Some(Level2)), (2, Some(Level3))], 2, &[], Level2),
        (&[(0, Some(Level3)), (1, None), (62, Some(Level2)), (63, None)], 0, &[1, 63], Level2),
        (&[(0, Some(Level3)), (1, None), (63, Some(Level3))], 63, &[1], Level3),
        (&[(0, None), (5, None), (6, Some(Level3)), (63, Some(Level2))], 5, &[0, 6, 63], Level0),
        (&[(0, None), (63, None)], 63, &[0], Level0),
    ];
    for (cpus, this, parked, tolerated) in rows {
        let kernel = Kernel::new(cpus, &[]);
        assert_eq!(kernel.parking.asked_by(this), set(parked), "{cpus:?}, CPU {this}");
        assert_eq!(kernel.parking.tolerated(this), tolerated, "{cpus:?}, CPU {this}");
        assert_eq!(kernel.run(this), Ok(()));
        assert_eq!(*kernel.parked.borrow(), [set(parked)], "{cpus:?}, CPU {this}");
        kernel.check_over();
        // What nobody tolerates.
        let others: Vec<usize> = cpus.iter().map(|(cpu, _)| *cpu).filter(|cpu| *cpu != this).collect();
        assert_eq!(kernel.parking.run_alone(this, &kernel, || kernel.note_change()), Ok(()));
        assert_eq!(kernel.parked.borrow()[1], set(&others), "{cpus:?}, CPU {this}");
        assert_eq!((kernel.calls.get(), kernel.waits.get(), kernel.wakes.get()), (2, 0, 2));
        kernel.check_over();
    }
}

#[test]
fn the_first_that_does_not_come_is_named_when_patience_is_out_and_nothing_is_changed() {
    let cpus = [(0, None), (1, None), (2, None), (3, None), (4, None)];
    for (deaf, named) in [(&[1][..], 1), (&[4], 4), (&[2, 3], 2)] {
        let kernel = Kernel::new(&cpus, deaf);
        assert_eq!(kernel.run(0), Err(named));
        assert_eq!((kernel.parked.borrow().len(), kernel.waits.get(), kernel.wakes.get()), (0, PATIENCE, 1));
        kernel.check_over();
    }
}

#[test]
fn who_comes_late_is_waited_for() {
    let kernel = Kernel::new(&[(0, None), (1, None), (2, None)], &[]);
    kernel.slow.set(PATIENCE - 1);
    assert_eq!(kernel.run(0), Ok(()));
    assert_eq!((kernel.parked.take(), kernel.waits.get()), (vec![set(&[1, 2])], PATIENCE - 1));
}

/// Its answer to one round is none to the next.
#[test]
fn who_has_parked_once_is_waited_for_the_next_time() {
    let kernel = Kernel::new(&[(0, None), (1, None)], &[]);
    assert_eq!(kernel.run(0), Ok(()));
    kernel.slow.set(3);
    assert_eq!(kernel.run(0), Ok(()));
    assert_eq!(kernel.waits.get(), 3);
    let deaf = Kernel { deaf: set(&[1]), ..kernel };
    deaf.slow.set(0);
    assert_eq!(deaf.run(0), Err(1));
}

#[test]
fn nobody_waits_for_who_has_come_to_its_end() {
    let cpus = [(0, None), (1, None), (2, None), (3, Some(Level3))];
    let kernel = Kernel::new(&cpus, &[2]);
    kernel.parking.leave(2);
    assert_eq!((kernel.run(0), kernel.waits.get()), (Err(2), 0));
    assert_eq!(kernel.run(1), Err(2));
    kernel.check_over();
    // It does not tolerate what the others do, and walks on.
    assert_eq!((kernel.run(3), kernel.waits.get()), (Err(2), 0));
    assert!(kernel.parked.borrow().is_empty());
    // Of others nothing is taken for granted: they are waited for.
    let kernel = Kernel::new(&cpus, &[]);
    kernel.parking.leave(3);
    kernel.slow.set(2);
    assert_eq!((kernel.parking.run(3, &kernel, || ()), kernel.waits.get()), (Ok(()), 2));
}

/// One that answers a call, and waits for a lock besides, parks once.
#[test]
fn a_request_is_taken_once_and_by_who_is_asked() {
    let kernel = Kernel::new(&[(0, None), (1, Some(Level3)), (2, None), (3, None)], &[0, 1, 2, 3]);
    let take = |cpu| kernel.parking.take_request(cpu);
    assert!(!kernel.parking.is_requested() && !take(2));
    let taken = kernel.parking.run_alone(1, &Taking(&kernel), || unreachable!("nobody has parked"));
    assert_eq!(taken, Err(0));
    assert!(!kernel.parking.is_requested() && !take(3));
}

/// What CPUs take while they are waited for.
struct Taking<'k>(&'k Kernel);

impl Others for Taking<'_> {
    type Word = AtomicU64;

    fn line(&self, cpu: usize) -> [&AtomicU64; 2] {
        self.0.line(cpu)
    }

    fn call(&self) {
        let (parking, tickets) = (&self.0.parking, self.0.lines(0));
        assert!(parking.is_requested());
        assert!(!parking.take_request(1) && parking.take_request(2) && !parking.take_request(2));
        assert!(parking.is_requested() && parking.take_request(0), "others are asked still");
        assert_eq!((tickets[1], tickets[0] != 0, tickets[0] == tickets[3]), (0, true, true));
    }

    fn wait(&self) -> bool {
        false
    }

    fn wake(&self) {}
}
