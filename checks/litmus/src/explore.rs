//! Every interleaving of a test's threads with everything that walkers and TLBs may do, each state once.

use std::collections::HashSet;

use a64::interpreter::State;
use machine::finding::{Finding, Rule};
use machine::machine::Outcome;

use crate::test::{Profile, Quantifier, Test};

/// One step on the way to a final state: CPU, address of the instruction, and what its access came to where it could
/// have come to something else.
pub type Taken = (usize, u64, Option<Outcome>);

/// Steps to a state at most: a test that goes on for longer has a loop that never comes to a state which it was in.
const LONGEST_PATH: usize = 400;

/// What an exploration found.
#[derive(Clone, Debug, Default)]
pub struct Explored {
    /// States that were met.
    pub states: u64,
    /// Different final states.
    pub finals: u64,
    /// Final states that say nothing, because a thread took an exception for which there is no handler.
    pub lost: u64,
    /// A way to a final state that fulfils the condition.
    pub holds: Option<Vec<Taken>>,
    /// A way to a final state that does not.
    pub fails: Option<Vec<Taken>>,
    /// A store that breaks the break-before-make rules.
    pub unbroken: Option<Finding>,
    /// There were more states than the limit, or one that takes more than `LONGEST_PATH` steps.
    pub is_cut: bool,
}

struct Explorer<'a> {
    test: &'a Test,
    limit: u64,
    seen: HashSet<u128>,
    path: Vec<Taken>,
    explored: Explored,
}

/// Explores `test` on CPUs of `profile`, at most `limit` states.
pub fn explore(test: &Test, profile: Profile, limit: u64) -> Explored {
    let mut explorer = Explorer { test, limit, seen: HashSet::new(), path: Vec::new(), explored: Explored::default() };
    explorer.visit(test.state(profile));
    explorer.explored
}

impl Explorer<'_> {
    fn visit(&mut self, mut state: State) {
        self.note_findings(&mut state);
        if self.explored.states >= self.limit || self.path.len() >= LONGEST_PATH {
            self.explored.is_cut = true;
            return;
        }
        if !self.seen.insert(state.digest()) {
            return;
        }
        self.explored.states += 1;
        if state.is_final() {
            return self.end(&state);
        }
        for cpu in 0..state.cores().len() {
            let place = state.cores()[cpu].place();
            for next in state.step(cpu, &self.test.code) {
                self.path.push((cpu, place, next.way));
                self.visit(next.state);
                self.path.pop();
            }
        }
    }

    fn end(&mut self, state: &State) {
        if self.test.is_lost(state) {
            self.explored.lost += 1;
            if self.test.quantifier == Quantifier::Forall {
                self.explored.fails.get_or_insert_with(|| self.path.clone());
            }
            return;
        }
        self.explored.finals += 1;
        let holds = self.test.holds(state);
        let known = if holds { &mut self.explored.holds } else { &mut self.explored.fails };
        known.get_or_insert_with(|| self.path.clone());
    }

    fn note_findings(&mut self, state: &mut State) {
        let is_unbroken = |rule| matches!(rule, Rule::BreakExpected | Rule::Overlap | Rule::Contiguous);
        let finding = state.take_findings().into_iter().find(|it| is_unbroken(it.rule));
        self.explored.unbroken = self.explored.unbroken.take().or(finding);
    }
}
