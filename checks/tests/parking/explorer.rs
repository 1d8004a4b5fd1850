//! Programs that share words, one step at a time, in every order there is.
//!
//! A program is real code, which asks for each step (`checks::asking`).

use std::collections::HashSet;

use checks::asking::{self, Node, fingerprint, next_ask};

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

/// An answer: what these bits of a word were.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Told {
    pub(crate) value: u64,
    word: usize,
    bits: u64,
}

pub(crate) type Cpu = asking::Cpu<Ask, Told>;
type Tree<'a> = asking::Tree<'a, Ask, Told>;

/// When patience is out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Patience {
    Never,
    /// Once nobody else can make a step.
    Long,
    /// At any moment.
    Short,
}

/// Where a CPU stands.
#[derive(Clone, Hash, Debug)]
struct Thread {
    node: Node,
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

impl System<'_> {
    /// Every state that can be reached: how many, or what is wrong in one.
    pub(crate) fn explore(&self) -> Result<usize, String> {
        let mut tree = Tree::new(self.run);
        let first = self.first(&mut tree)?;
        let (mut open, mut seen) = (Vec::new(), HashSet::from([fingerprint(&first)]));
        open.push(first);
        while let Some(state) = open.pop() {
            for next in self.nexts(&mut tree, &state).map_err(|what| format!("{what}: {state:x?}"))? {
                if next.must & !next.off != 0 {
                    return Err(format!("a CPU walks what changes: {next:x?}"));
                }
                if seen.insert(fingerprint(&next)) {
                    open.push(next);
                }
            }
            if seen.len() > MOST_STATES {
                return Err(format!("more than {MOST_STATES} states: {state:x?}"));
            }
        }
        Ok(seen.len())
    }

    /// What may be next.
    fn nexts(&self, tree: &mut Tree<'_>, state: &State) -> Result<Vec<State>, String> {
        let asks = state.threads.iter().map(|thread| tree.ask(thread.node).ok_or("it has ended"));
        let asks = asks.enumerate().map(|(cpu, ask)| Ok((cpu, ask?))).collect::<Result<Vec<_>, String>>()?;
        // What nobody else notices is done at once.
        let private = asks.iter().position(|(_, ask)| self.is_private(*ask));
        let steps = private.map_or(&asks[..], |cpu| &asks[cpu..=cpu]);
        let mut nexts = Vec::new();
        for (cpu, ask) in steps {
            nexts.extend(state.after(tree, *cpu, *ask, self.locked)?);
        }
        if private.is_none() {
            nexts.extend((0..self.cpus).filter_map(|cpu| state.seen(cpu)));
        }
        if self.patience == Patience::Short || self.patience == Patience::Long && nexts.is_empty() {
            for (cpu, _) in asks.iter().filter(|(_, ask)| matches!(ask, Ask::WaitOrGiveUp(_))) {
                nexts.push(state.answered(tree, *cpu)?);
            }
        }
        match nexts.is_empty() && !(0..self.cpus).all(|cpu| self.is_through(tree, state, cpu)) {
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

    fn first(&self, tree: &mut Tree<'_>) -> Result<State, String> {
        let mut words = vec![0; self.words];
        let mut told = Vec::new();
        while let Some(ask) = next_ask(&told, self.boot)? {
            let (word, bits, after) = match ask {
                Ask::Load(word) => (word, !0, words[word]),
                Ask::Store(word, value) => (word, 0, value),
                Ask::Or(word, bits) => (word, bits, words[word] | bits),
                Ask::And(word, bits) => (word, !bits, words[word] & bits),
                _ => return Err("boot waits".into()),
            };
            told.push(Told { value: words[word] & bits, word, bits });
            words[word] = after;
        }
        let begin = |cpu| Ok(Thread { node: tree.begin(cpu, 0)?, late: Vec::new() });
        let threads = (0..self.cpus).map(begin).collect::<Result<_, String>>()?;
        Ok(State { words, threads, off: self.off, must: 0, events: 0 })
    }

    fn is_through(&self, tree: &Tree<'_>, state: &State, cpu: usize) -> bool {
        let step = tree.step(state.threads[cpu].node);
        state.words[self.rests] == 0 && (self.may_end)(cpu, step, state.off >> cpu & 1 == 1)
    }
}

impl State {
    /// What is after a step of `cpu`, if it can make that. Of `locked` words no other CPU notices when they are stored.
    fn after(&self, tree: &mut Tree<'_>, cpu: usize, ask: Ask, locked: u64) -> Result<Option<Self>, String> {
        let is_all_seen = self.threads[cpu].late.is_empty();
        Ok(Some(match ask {
            Ask::Load(word) => self.told(tree, cpu, Told { value: self.found(cpu, word), word, bits: !0 })?,
            Ask::Store(word, value) if locked >> word & 1 == 1 => self.stored(tree, cpu, word, 0, value)?,
            Ask::Store(word, value) => {
                let mut next = self.answered(tree, cpu)?;
                next.threads[cpu].late.push((word, value));
                next
            }
            Ask::Or(word, _) | Ask::And(word, _) if !is_all_seen && locked >> word & 1 == 0 => return Ok(None),
            Ask::Complete if !is_all_seen => return Ok(None),
            Ask::WaitForEvent(_) if self.events >> cpu & 1 == 0 => return Ok(None),
            Ask::Or(word, bits) => self.stored(tree, cpu, word, bits, self.words[word] | bits)?,
            Ask::And(word, bits) => self.stored(tree, cpu, word, !bits, self.words[word] & bits)?,
            Ask::Wait(mark) | Ask::WaitOrGiveUp(mark) if !self.is_news(tree, cpu, mark) => return Ok(None),
            Ask::Again(mark) | Ask::Wait(mark) | Ask::WaitOrGiveUp(mark) => {
                self.at(cpu, tree.back(self.threads[cpu].node, mark))
            }
            Ask::Complete => self.answered(tree, cpu)?,
            Ask::Send => Self { events: (1 << self.threads.len()) - 1, ..self.answered(tree, cpu)? },
            Ask::WaitForEvent(mark) => {
                let next = self.at(cpu, tree.back(self.threads[cpu].node, mark));
                Self { events: self.events & !(1 << cpu), ..next }
            }
            Ask::Begin(step) => self.at(cpu, tree.begin(cpu, step)?),
            Ask::Off(is_off) => {
                Self { off: self.off & !(1 << cpu) | u64::from(is_off) << cpu, ..self.answered(tree, cpu)? }
            }
            Ask::Change(must) => Self { must, ..self.answered(tree, cpu)? },
        }))
    }

    /// Whether `cpu` would find anything else than since `mark`.
    fn is_news(&self, tree: &Tree<'_>, cpu: usize, mark: usize) -> bool {
        tree.since(self.threads[cpu].node, mark).any(|told| self.found(cpu, told.word) & told.bits != told.value)
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

    fn at(&self, cpu: usize, node: Node) -> Self {
        let mut next = self.clone();
        next.threads[cpu].node = node;
        next
    }

    fn answered(&self, tree: &mut Tree<'_>, cpu: usize) -> Result<Self, String> {
        self.told(tree, cpu, Told { value: 0, word: 0, bits: 0 })
    }

    fn told(&self, tree: &mut Tree<'_>, cpu: usize, told: Told) -> Result<Self, String> {
        Ok(self.at(cpu, tree.tell(self.threads[cpu].node, told)?))
    }

    /// The answer is what `bits` of the word were.
    fn stored(&self, tree: &mut Tree<'_>, cpu: usize, word: usize, bits: u64, value: u64) -> Result<Self, String> {
        let mut next = self.told(tree, cpu, Told { value: self.words[word] & bits, word, bits })?;
        next.words[word] = value;
        Ok(next)
    }
}
