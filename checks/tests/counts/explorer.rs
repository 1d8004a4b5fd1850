//! Programs that share the words of pages, one step at a time, in every order there is.
//!
//! A program is real code, which asks for each access (`checks::asking`).

use std::collections::HashSet;

use checks::asking::{self, Node, fingerprint, next_ask};

/// More states than anything here has: a program that turns in circles ends here.
const MOST_STATES: usize = 3_000_000;

/// What a program asks for. It is told what was found, or whether it was done.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Ask {
    Load(usize),
    Store(usize, u32),
    Add(usize, u32),
    /// The word becomes this, if it is that.
    Exchange(usize, u32, u32),
    /// It has each of so many pages from one on, one more or less often.
    Has(usize, usize, i8),
    /// Each of them is free, and nobody has it any more.
    Free(usize, usize),
    /// It takes so many pages from one on, if all are free.
    Allocate(usize, usize),
    /// It finds that it has a page alone.
    Alone(usize),
    /// It goes on with this step of its part: of what it was told before it knows nothing.
    Begin(usize),
}

pub(crate) type Cpu = asking::Cpu<Ask, u32>;
type Tree<'a> = asking::Tree<'a, Ask, u32>;

/// Where a program stands.
#[derive(Clone, Hash, Debug)]
struct Thread {
    node: Node,
    /// How often it has each page.
    has: Vec<i8>,
}

#[derive(Clone, Hash, Debug)]
struct State {
    words: Vec<u32>,
    is_free: Vec<bool>,
    threads: Vec<Thread>,
}

/// What runs.
pub(crate) struct System<'a> {
    pub(crate) pages: usize,
    pub(crate) cpus: usize,
    /// What is done before any CPU runs, and how often each has each page then.
    pub(crate) boot: &'a dyn Fn(&Cpu),
    pub(crate) has: i8,
    /// The part of a CPU from a step on.
    pub(crate) run: &'a dyn Fn(&Cpu, usize, usize),
    /// How many have a page, by its word and others, when all is over.
    pub(crate) holders: &'a dyn Fn(&[u32], usize) -> u32,
}

impl System<'_> {
    /// Every state that can be reached: how many, or what is wrong in one.
    pub(crate) fn explore(&self) -> Result<usize, String> {
        let mut tree = Tree::new(self.run);
        let mut open = vec![self.first(&mut tree)?];
        let mut seen = HashSet::from([fingerprint(&open[0])]);
        while let Some(state) = open.pop() {
            let asks = state.threads.iter().map(|thread| tree.ask(thread.node)).enumerate();
            let asks: Vec<_> = asks.filter_map(|(cpu, ask)| Some((cpu, ask?))).collect();
            if asks.is_empty() {
                self.check_end(&state).map_err(|what| format!("{what}: {state:x?}"))?;
            }
            for (cpu, ask) in asks {
                let mut next = state.clone();
                let told = next.make(cpu, ask).map_err(|what| format!("{what}: {ask:x?} of {cpu}: {state:x?}"))?;
                let node = tree.tell(state.threads[cpu].node, told).map_err(|what| format!("{what}: {state:x?}"))?;
                next.threads[cpu].node = begun(&mut tree, cpu, node)?;
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

    fn first(&self, tree: &mut Tree<'_>) -> Result<State, String> {
        let thread = |cpu| {
            let node = tree.begin(cpu, 0)?;
            Ok(Thread { node: begun(tree, cpu, node)?, has: vec![self.has; self.pages] })
        };
        let threads = (0..self.cpus).map(thread).collect::<Result<_, String>>()?;
        let mut state = State { words: vec![0; self.pages], is_free: vec![false; self.pages], threads };
        let mut told = Vec::new();
        while let Some(ask) = next_ask(&told, self.boot)? {
            told.push(state.make(0, ask)?);
        }
        Ok(state)
    }

    /// What nobody has is free, and nothing else; all others are counted.
    fn check_end(&self, state: &State) -> Result<(), String> {
        for page in 0..self.pages {
            let have = state.have(page);
            if state.is_free[page] != (have == 0) {
                return Err(format!("page {page}, which {have} have, is lost or free"));
            }
            let told = (self.holders)(&state.words, page);
            if have > 0 && told as usize != have {
                return Err(format!("{have} have page {page}, and {told} are told"));
            }
        }
        Ok(())
    }
}

impl State {
    fn have(&self, page: usize) -> usize {
        self.threads.iter().map(|thread| thread.has[page] as usize).sum()
    }

    /// Does what a program asks for. What it is told.
    fn make(&mut self, cpu: usize, ask: Ask) -> Result<u32, String> {
        Ok(match ask {
            Ask::Load(page) => self.words[page],
            Ask::Store(page, value) => std::mem::replace(&mut self.words[page], value),
            Ask::Add(page, value) => {
                let found = self.words[page];
                self.words[page] = found.wrapping_add(value);
                found
            }
            Ask::Exchange(page, from, to) => {
                let is_so = self.words[page] == from;
                if is_so {
                    self.words[page] = to;
                }
                is_so.into()
            }
            Ask::Has(first, count, more) => {
                self.threads[cpu].has[first..first + count].iter_mut().for_each(|has| *has += more);
                0
            }
            Ask::Free(first, count) => {
                let mut pages = first..first + count;
                if self.is_free[pages.clone()].iter().any(|is_free| *is_free) {
                    return Err("a page is free twice".into());
                }
                if pages.any(|page| self.have(page) > 0) {
                    return Err("a page is free that somebody has".into());
                }
                self.is_free[first..first + count].fill(true);
                0
            }
            Ask::Allocate(first, count) => {
                let is_there = self.is_free[first..first + count].iter().all(|is_free| *is_free);
                if is_there {
                    self.is_free[first..first + count].fill(false);
                    self.threads[cpu].has[first..first + count].fill(1);
                }
                is_there.into()
            }
            Ask::Alone(page) if self.have(page) != 1 => return Err("it has a page alone, and others have it".into()),
            Ask::Alone(_) | Ask::Begin(_) => 0,
        })
    }
}

/// Where a CPU stands that has begun the next step of its part, which nobody else notices.
fn begun(tree: &mut Tree<'_>, cpu: usize, mut node: Node) -> Result<Node, String> {
    while let Some(Ask::Begin(step)) = tree.ask(node) {
        node = tree.begin(cpu, step)?;
    }
    Ok(node)
}
