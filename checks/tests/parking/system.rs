//! CPUs of a kernel that parks: the protocol is the real one, the way off the tables and the locks are as the kernel has them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use kerncore::parking::{self, Others, Parking};
use vmsa::BbmLevel;

use crate::explorer::{Ask, Cpu, Patience, System};

/// What a CPU does with exceptions masked. Between steps, and behind the last, it takes interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// It changes the map, as [`Parking::run`] has it.
    Change,
    /// The same under somebody else's spin lock.
    ChangeUnderLock,
    /// It changes what nobody tolerates, as [`Parking::run_alone`] has it.
    ChangeAlone,
    /// It takes the spin lock, and drops that.
    Spin,
    /// It spins until somebody has come to [`Self::Tell`].
    SpinUntilTold,
    Tell,
    /// It lets this CPU walk the tables.
    Admit(usize),
    /// It waits with its MMU off until it is admitted.
    Arrive,
    /// It comes to its end, and tells: it walks the tables on, and does not park.
    Leave,
    /// It answers nobody any more.
    FallSilent,
}

/// An obligation of the kernel's that it does not keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mistake {
    None,
    /// A masked wait for a lock does not answer.
    LockDoesNotAnswer,
    /// No other masked wait does.
    LoopDoesNotAnswer,
    /// Who is asked says so while it is on the tables.
    SeesTooEarly,
    /// It goes back before it is let go.
    LeavesTooEarly,
    /// Those who are let go have their event before they see that.
    EventComesEarly,
    /// Two change the map at once.
    MapIsNotLocked,
    /// The gate opens while a change is in flight.
    GateDoesNotWait,
}

/// A kernel with so many CPUs.
pub(crate) struct Kernel<'a> {
    pub(crate) parts: &'a [&'a [Step]],
    /// At which each tolerates a leaf that changes size.
    pub(crate) levels: &'a [Option<BbmLevel>],
    pub(crate) patience: Patience,
    pub(crate) mistake: Mistake,
    /// CPUs that have not parked when they had to, of all orders.
    pub(crate) named: RefCell<BTreeSet<usize>>,
}

/// Who tolerates a change, to whom conflicts come, and the last ticket.
const LOCKED: u64 = 1 << 1 | 1 << 2 | 1 << 4;
const REQUESTED: usize = 3;
const MAP: usize = 5;
const SPIN: usize = 6;
const TOLD: usize = 7;
const GATES: usize = 8;
const LEFT: usize = 9;
const BOARD: usize = 10;

/// Makes a step. What it finds.
fn ask(cpu: &Cpu, what: Ask) -> u64 {
    cpu.ask(what).value
}

/// A word of all CPUs', as one of them has it.
struct Word<'c>(&'c Cpu, usize);

impl parking::Word for Word<'_> {
    fn load(&self, _: Ordering) -> u64 {
        ask(self.0, Ask::Load(self.1))
    }

    fn store(&self, value: u64, _: Ordering) {
        ask(self.0, Ask::Store(self.1, value));
    }

    fn fetch_or(&self, bits: u64, _: Ordering) -> u64 {
        ask(self.0, Ask::Or(self.1, bits))
    }

    fn fetch_and(&self, bits: u64, _: Ordering) -> u64 {
        ask(self.0, Ask::And(self.1, bits))
    }
}

/// The board, as one CPU has it.
struct Board<'c> {
    cpu: &'c Cpu,
    lines: Vec<[Word<'c>; 2]>,
    patience: Patience,
    mistake: Mistake,
}

impl<'c> Others for Board<'c> {
    type Word = Word<'c>;

    fn line(&self, cpu: usize) -> [&Word<'c>; 2] {
        self.lines[cpu].each_ref()
    }

    fn call(&self) {}

    fn wait(&self) -> bool {
        // The loop has loaded two words.
        let mark = self.cpu.mark() - 2;
        ask(self.cpu, if self.patience == Patience::Never { Ask::Wait(mark) } else { Ask::WaitOrGiveUp(mark) });
        false
    }

    fn wake(&self) {
        if self.mistake != Mistake::EventComesEarly {
            ask(self.cpu, Ask::Complete);
        }
        ask(self.cpu, Ask::Send);
    }
}

impl Kernel<'_> {
    /// Every state that can be reached: how many, or what is wrong in one.
    pub(crate) fn explore(&self) -> Result<usize, String> {
        let cpus = self.parts.len();
        let late = (0..cpus).filter(|cpu| self.parts[*cpu].first() == Some(&Step::Arrive));
        let off = late.fold(0, |off, cpu| off | 1 << cpu);
        let system = System {
            words: BOARD + 2 * cpus,
            locked: if self.mistake == Mistake::None { LOCKED } else { 0 },
            cpus,
            off,
            patience: self.patience,
            boot: &|cpu| {
                let parking = Running::new(self, cpu, 0).parking;
                let early = (0..cpus).filter(|cpu| off >> cpu & 1 == 0);
                early.for_each(|cpu| parking.note(cpu, self.levels[cpu]));
            },
            run: &|cpu, this, step| Running::new(self, cpu, this).run(step),
            rests: REQUESTED,
            may_end: &|cpu, step, is_off| match self.parts[cpu].get(step) {
                None | Some(Step::FallSilent) => !is_off,
                Some(step) => *step == Step::Leave,
            },
        };
        system.explore()
    }
}

/// A CPU that runs.
struct Running<'k, 'c> {
    kernel: &'k Kernel<'k>,
    cpu: &'c Cpu,
    this: usize,
    parking: Parking<Word<'c>>,
    board: Board<'c>,
}

impl<'k, 'c> Running<'k, 'c> {
    fn new(kernel: &'k Kernel<'k>, cpu: &'c Cpu, this: usize) -> Self {
        let word = |number| Word(cpu, number);
        let lines = (0..kernel.parts.len()).map(|cpu| [word(BOARD + 2 * cpu), word(BOARD + 2 * cpu + 1)]).collect();
        let parking = Parking::new(word(0), word(1), word(2), word(REQUESTED), word(4), word(LEFT));
        Self {
            kernel,
            cpu,
            this,
            parking,
            board: Board { cpu, lines, patience: kernel.patience, mistake: kernel.mistake },
        }
    }

    fn run(&self, first: usize) {
        let part = self.kernel.parts[self.this];
        for (number, step) in part.iter().enumerate().skip(first) {
            self.take_interrupt(*step);
            self.make(*step);
            ask(self.cpu, Ask::Begin(number + 1));
        }
        self.wait_until(|| false, true);
    }

    fn take_interrupt(&self, next: Step) {
        if next != Step::Arrive && self.answer() {
            ask(self.cpu, Ask::Again(0));
        }
    }

    fn make(&self, step: Step) {
        let (cpu, bit) = (self.cpu, |cpu: usize| 1 << cpu);
        let is_careless = self.kernel.mistake == Mistake::LoopDoesNotAnswer;
        match step {
            Step::Change => self.with_map(Mistake::MapIsNotLocked, || self.change(false)),
            Step::ChangeAlone => self.with_map(Mistake::MapIsNotLocked, || self.change(true)),
            Step::ChangeUnderLock => {
                self.with_lock(SPIN, || self.with_map(Mistake::MapIsNotLocked, || self.change(false)));
            }
            Step::Spin => self.with_lock(SPIN, || {}),
            Step::SpinUntilTold => self.wait_until(|| ask(cpu, Ask::Load(TOLD)) != 0, !is_careless),
            Step::Tell => _ = ask(cpu, Ask::Store(TOLD, 1)),
            Step::Admit(late) => self.with_map(Mistake::GateDoesNotWait, || {
                self.parking.note(late, self.kernel.levels[late]);
                ask(cpu, Ask::Or(GATES, bit(late)));
            }),
            Step::Arrive => {
                self.wait_until(|| ask(cpu, Ask::Load(GATES)) & bit(self.this) != 0, false);
                ask(cpu, Ask::Off(false));
            }
            Step::Leave => {
                self.parking.leave(self.this);
                ask(cpu, Ask::Store(TOLD, 1));
                self.wait_until(|| false, false);
            }
            Step::FallSilent => self.wait_until(|| false, false),
        }
    }

    /// A loop that ends once `is_met` is true.
    fn wait_until(&self, mut is_met: impl FnMut() -> bool, answers: bool) {
        let mark = self.cpu.mark();
        while !is_met() {
            let has_parked = answers && self.answer();
            ask(self.cpu, if has_parked { Ask::Again(mark) } else { Ask::Wait(mark) });
        }
    }

    fn with_lock(&self, lock: usize, body: impl FnOnce()) {
        let answers = self.kernel.mistake != Mistake::LockDoesNotAnswer;
        self.wait_until(|| ask(self.cpu, Ask::Or(lock, 1)) == 0, answers);
        body();
        ask(self.cpu, Ask::Store(lock, 0));
    }

    fn with_map(&self, mistake: Mistake, body: impl FnOnce()) {
        if self.kernel.mistake == mistake { body() } else { self.with_lock(MAP, body) }
    }

    /// As `hardware::parking` and its assembly: whether it has parked.
    fn answer(&self) -> bool {
        if !self.parking.is_requested() || !self.parking.take_request(self.this) {
            return false;
        }
        let [ticket, seen] = &self.board.lines[self.this];
        let early = (self.kernel.mistake == Mistake::SeesTooEarly).then(|| ask(self.cpu, Ask::Load(ticket.1)));
        early.into_iter().for_each(|asked| _ = ask(self.cpu, Ask::Store(seen.1, asked)));
        ask(self.cpu, Ask::Off(true));
        let mark = self.cpu.mark();
        loop {
            let asked = ask(self.cpu, Ask::Load(ticket.1));
            if asked == 0 {
                break;
            }
            ask(self.cpu, Ask::Store(seen.1, asked));
            if self.kernel.mistake == Mistake::LeavesTooEarly {
                break;
            }
            ask(self.cpu, Ask::WaitForEvent(mark));
        }
        ask(self.cpu, Ask::Off(false));
        true
    }

    /// It changes what other CPUs must not walk, but for those that tolerate what the change does.
    fn change(&self, is_alone: bool) {
        let Kernel { levels, patience, named, .. } = self.kernel;
        let level = if is_alone { BbmLevel::Level0 } else { self.parking.tolerated(self.this) };
        let bears = |cpu: usize| level >= BbmLevel::Level2 && levels[cpu] >= Some(level);
        let is_in_window = level == BbmLevel::Level0;
        assert!(is_in_window || bears(self.this), "it changes by {level:?}, which it does not tolerate itself");
        let must =
            (0..levels.len()).filter(|cpu| *cpu != self.this && !bears(*cpu)).fold(0, |must, cpu| must | 1 << cpu);
        let has_begun = Cell::new(false);
        let body = || {
            has_begun.set(true);
            ask(self.cpu, Ask::Change(must));
            ask(self.cpu, Ask::Change(0));
        };
        let made = match is_alone {
            true => self.parking.run_alone(self.this, &self.board, body),
            false => self.parking.run(self.this, &self.board, body),
        };
        assert_eq!(has_begun.get(), made.is_ok(), "it changes, or says who does not park: {made:?}");
        let is_left = made.is_err_and(|cpu| self.kernel.parts[cpu].contains(&Step::Leave));
        assert!(made.is_ok() || is_left || *patience != Patience::Never, "it gives up: {made:?}");
        named.borrow_mut().extend(made.err());
    }
}
