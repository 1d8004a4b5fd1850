//! Programs that share words, one step at a time, in every order there is.
//!
//! A program is real code, which asks for each step. It runs anew for each state, from its last mark on, by what it was told since
//! then, as far as the first step of which it was not told.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// More states than anything here has: a program that turns in circles ends here.
const MOST_STATES: usize = 1_000_000;

/// What a program asks for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Ask {
    Load(usize),
    Store(usize, u64),
    Or(usize, u64),
    And(usize, u64),
    /// A loop begins anew, which has no state of its own: after so many answers.
    Again(usize),
    /// The same once a word is not what this one has found there since: until then it would find the same again.
    Wait(usize),
    /// The same, or an answer where patience is out.
    WaitOrGiveUp(usize),
    /// It goes on once others see all that it has stored (DSB).
    Complete,
    /// It sends every CPU an event (SEV).
    Send,
    /// As [`Self::Again`], once it has an event, which is used up (WFE).
    WaitForEvent(usize),
    /// It goes on with this step of its part, of which alone it knows.
    Begin(usize),
    /// It is off the tables, or on them.
    Off(bool),
    /// It changes what these CPUs must not walk, until that is nobody.
    Change(u64),
}

/// When patience is out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Patience {
    Never,
    /// Once nobody else can make a step.
    Long,
    /// At any moment.
    Short,
}

/// A CPU that runs a program.
pub(crate) struct Cpu {
    told: Vec<Told>,
    count: Cell<usize>,
    asked: RefCell<Option<Ask>>,
}

impl Cpu {
    pub(crate) fn ask(&self, what: Ask) -> u64 {
        let Some(answer) = self.told.get(self.count.get()) else {
            *self.asked.borrow_mut() = Some(what);
            resume_unwind(Box::new(()))
        };
        self.count.set(self.count.get() + 1);
        answer.value
    }

    /// How many answers it has had.
    pub(crate) fn mark(&self) -> usize {
        self.count.get()
    }
}

/// An answer: what these bits of a word were.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Told {
    value: u64,
    word: usize,
    bits: u64,
}

/// Where a program stands.
#[derive(Clone, Hash, Debug, Default)]
struct Thread {
    step: usize,
    told: Vec<Told>,
    /// What it asks for next, which the others tell.
    ask: Option<Ask>,
    /// Words that it has stored, in order, which no other CPU sees yet.
    late: Vec<(usize, u64)>,
}

#[derive(Clone, Hash, Debug)]
struct State {
    words: Vec<u64>,
    threads: Vec<Thread>,
    /// CPUs that are off the tables, and those that must be.
    off: u64,
    must: u64,
    /// CPUs that have an event.
    events: u64,
}

/// What runs, and what may come of it.
pub(crate) struct System<'a> {
    pub(crate) words: usize,
    /// Words that are used under a lock alone, a bit each: no other CPU notices when.
    pub(crate) locked: u64,
    pub(crate) cpus: usize,
    /// CPUs that begin off the tables.
    pub(crate) off: u64,
    pub(crate) patience: Patience,
    /// What is done before any CPU runs.
    pub(crate) boot: &'a dyn Fn(&Cpu),
    /// The part of a CPU from a step on: a failed assertion is a finding. It never returns.
    pub(crate) run: &'a dyn Fn(&Cpu, usize, usize),
    /// Whether a CPU may wait for ever at this step, off the tables or on them.
    pub(crate) may_end: &'a dyn Fn(usize, usize, bool) -> bool,
    /// A word that is 0 when all is over.
    pub(crate) rests: usize,
}

/// What each CPU at each step asks for, by what it was told.
type Asked = HashMap<(usize, usize), HashMap<Vec<Told>, Result<Ask, String>>>;

impl System<'_> {
    /// Every state that can be reached: how many, or what is wrong in one.
    pub(crate) fn explore(&self) -> Result<usize, String> {
        let (mut first, mut asked) = (self.first()?, Asked::new());
        for (cpu, thread) in first.threads.iter_mut().enumerate() {
            self.set_ask(&mut asked, thread, cpu)?;
        }
        let (mut open, mut seen) = (Vec::new(), HashSet::from([first.fingerprint()]));
        open.push(first);
        while let Some(state) = open.pop() {
            for (cpu, mut next) in self.nexts(&state).map_err(|what| format!("{what}: {state:x?}"))? {
                self.set_ask(&mut asked, &mut next.threads[cpu], cpu).map_err(|what| format!("{what}: {next:x?}"))?;
                if next.must & !next.off != 0 {
                    return Err(format!("a CPU walks what changes: {next:x?}"));
                }
                if seen.insert(next.fingerprint()) {
                    open.push(next);
                }
            }
            if seen.len() > MOST_STATES {
                return Err(format!("more than {MOST_STATES} states: {state:x?}"));
            }
        }
        Ok(seen.len())
    }

    /// What may be next, and who has made that step.
    fn nexts(&self, state: &State) -> Result<Vec<(usize, State)>, String> {
        let asks = || state.threads.iter().enumerate().filter_map(|(cpu, thread)| Some((cpu, thread.ask?)));
        // What nobody else notices is done at once.
        let private = asks().find(|(_, ask)| self.is_private(*ask));
        let steps = private.map_or_else(|| asks().collect(), |private| vec![private]);
        let after = |(cpu, ask)| Some((cpu, state.after(cpu, ask, self.locked)?));
        let mut nexts: Vec<_> = steps.into_iter().filter_map(after).collect();
        if private.is_none() {
            nexts.extend((0..self.cpus).filter_map(|cpu| Some((cpu, state.seen(cpu)?))));
        }
        if self.patience == Patience::Short || self.patience == Patience::Long && nexts.is_empty() {
            let waiting = asks().filter(|(_, ask)| matches!(ask, Ask::WaitOrGiveUp(_)));
            nexts.extend(waiting.map(|(cpu, _)| (cpu, state.answered(cpu))));
        }
        match nexts.is_empty() && !(0..self.cpus).all(|cpu| self.is_through(state, cpu)) {
            true => Err("all wait for ever".into()),
            false => Ok(nexts),
        }
    }

    fn is_private(&self, ask: Ask) -> bool {
        match ask {
            // Others see a store late.
            Ask::Begin(_) | Ask::Again(_) | Ask::Store(..) => true,
            Ask::Load(word) | Ask::Or(word, _) => self.locked >> word & 1 == 1,
            _ => false,
        }
    }

    fn first(&self) -> Result<State, String> {
        let threads = vec![Thread::default(); self.cpus];
        let mut first =
            State { words: vec![0; self.words], threads: threads.clone(), off: self.off, must: 0, events: 0 };
        while let Some(ask) = next_ask(&first.threads[0].told, self.boot)? {
            first = first.after(0, ask, !0).ok_or("boot waits")?;
        }
        Ok(State { threads, ..first })
    }

    fn is_through(&self, state: &State, cpu: usize) -> bool {
        state.words[self.rests] == 0 && (self.may_end)(cpu, state.threads[cpu].step, state.off >> cpu & 1 == 1)
    }

    fn set_ask(&self, asked: &mut Asked, thread: &mut Thread, cpu: usize) -> Result<(), String> {
        let Thread { step, told, .. } = &thread;
        let asked = asked.entry((cpu, *step)).or_default();
        let ask = match asked.get(&told[..]) {
            Some(ask) => ask.clone(),
            None => {
                let ask = next_ask(told, |it| (self.run)(it, cpu, *step));
                let ask = ask.and_then(|ask| ask.ok_or_else(|| "it has ended".into()));
                asked.insert(told.clone(), ask.clone());
                ask
            }
        };
        thread.ask = Some(ask?);
        Ok(())
    }
}

/// What a program asks for that was told so much, if it has not come to its end.
fn next_ask(told: &[Told], run: impl FnOnce(&Cpu)) -> Result<Option<Ask>, String> {
    let cpu = Cpu { told: told.to_vec(), count: Cell::new(0), asked: RefCell::new(None) };
    let ended = catch_unwind(AssertUnwindSafe(|| run(&cpu)));
    match (cpu.asked.into_inner(), ended) {
        (None, Err(what)) => Err(what.downcast::<String>().map_or_else(|_| "it panics".into(), |text| *text)),
        (asked, _) => Ok(asked),
    }
}

impl State {
    /// What tells it from all others: of a million states two agree in these 128 bits by a chance of one in 10^26.
    fn fingerprint(&self) -> u128 {
        let half = |salt: u64| {
            let mut hasher = DefaultHasher::new();
            (salt, self).hash(&mut hasher);
            u128::from(hasher.finish())
        };
        half(0) << 64 | half(1)
    }

    /// What is after a step of `cpu`, if it can make that. Of `locked` words no other CPU notices when they are stored.
    fn after(&self, cpu: usize, ask: Ask, locked: u64) -> Option<Self> {
        let is_all_seen = self.threads[cpu].late.is_empty();
        Some(match ask {
            Ask::Load(word) => self.told(cpu, Told { value: self.found(cpu, word), word, bits: !0 }),
            Ask::Store(word, value) if locked >> word & 1 == 1 => self.stored(cpu, word, 0, value),
            Ask::Store(word, value) => {
                let mut next = self.answered(cpu);
                next.threads[cpu].late.push((word, value));
                next
            }
            Ask::Or(word, _) | Ask::And(word, _) if !is_all_seen && locked >> word & 1 == 0 => return None,
            Ask::Complete if !is_all_seen => return None,
            Ask::WaitForEvent(_) if self.events >> cpu & 1 == 0 => return None,
            Ask::Or(word, bits) => self.stored(cpu, word, bits, self.words[word] | bits),
            Ask::And(word, bits) => self.stored(cpu, word, !bits, self.words[word] & bits),
            Ask::Wait(mark) | Ask::WaitOrGiveUp(mark) if !self.is_news(cpu, mark) => return None,
            Ask::Again(mark) | Ask::Wait(mark) | Ask::WaitOrGiveUp(mark) => {
                let mut next = self.clone();
                next.threads[cpu].told.truncate(mark);
                next
            }
            Ask::Complete => self.answered(cpu),
            Ask::Send => Self { events: (1 << self.threads.len()) - 1, ..self.answered(cpu) },
            Ask::WaitForEvent(mark) => {
                let mut next = Self { events: self.events & !(1 << cpu), ..self.clone() };
                next.threads[cpu].told.truncate(mark);
                next
            }
            Ask::Begin(step) => {
                let mut next = self.clone();
                let late = mem::take(&mut next.threads[cpu].late);
                next.threads[cpu] = Thread { step, late, ..Thread::default() };
                next
            }
            Ask::Off(is_off) => Self { off: self.off & !(1 << cpu) | u64::from(is_off) << cpu, ..self.answered(cpu) },
            Ask::Change(must) => Self { must, ..self.answered(cpu) },
        })
    }

    /// Whether `cpu` would find anything else than since `mark`.
    fn is_news(&self, cpu: usize, mark: usize) -> bool {
        self.threads[cpu].told[mark..].iter().any(|told| self.found(cpu, told.word) & told.bits != told.value)
    }

    /// What `cpu` finds in a word: what it has stored there itself, if others do not see that yet.
    fn found(&self, cpu: usize, word: usize) -> u64 {
        let late = self.threads[cpu].late.iter().rev().find(|late| late.0 == word);
        late.map_or(self.words[word], |late| late.1)
    }

    /// Others see the first of the stores of `cpu` that they have not seen.
    fn seen(&self, cpu: usize) -> Option<Self> {
        let (word, value) = *self.threads[cpu].late.first()?;
        let mut next = self.clone();
        next.threads[cpu].late.remove(0);
        next.words[word] = value;
        Some(next)
    }

    fn answered(&self, cpu: usize) -> Self {
        self.told(cpu, Told { value: 0, word: 0, bits: 0 })
    }

    fn told(&self, cpu: usize, told: Told) -> Self {
        let mut next = self.clone();
        next.threads[cpu].told.push(told);
        next
    }

    /// The answer is what `bits` of the word were.
    fn stored(&self, cpu: usize, word: usize, bits: u64, value: u64) -> Self {
        let mut next = self.told(cpu, Told { value: self.words[word] & bits, word, bits });
        next.words[word] = value;
        next
    }
}
