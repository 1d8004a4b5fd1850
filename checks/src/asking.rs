//! Programs that ask for each of their steps: real code, which is run anew for all that it was told, as far as the first step of which it was not
//! told. What they were told is a tree, so that where a program stands is one number.
//!
//! ```text
//! CPU 1, part 2 ── load: 0 ──┬── or: 0 ── …       a node for all answers up to here,
//!                            └── or: 4 ── …       with what the program asks for next
//! ```

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use machine::seed::Digest;

/// A CPU that runs a program.
#[derive(Debug)]
pub struct Cpu<Ask, Told> {
    told: Vec<Told>,
    count: Cell<usize>,
    asked: RefCell<Option<Ask>>,
}

impl<Ask, Told: Copy> Cpu<Ask, Told> {
    /// Makes a step. What came of it.
    ///
    /// # Panics
    /// Where the program was not told: it is abandoned there.
    pub fn ask(&self, what: Ask) -> Told {
        let Some(answer) = self.told.get(self.count.get()) else {
            *self.asked.borrow_mut() = Some(what);
            resume_unwind(Box::new(()))
        };
        self.count.set(self.count.get() + 1);
        *answer
    }

    /// How many answers it has had.
    pub fn mark(&self) -> usize {
        self.count.get()
    }
}

/// The part of a CPU from one of its steps on.
pub type Part<'a, Ask, Told> = &'a dyn Fn(&Cpu<Ask, Told>, usize, usize);

/// Where a program stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Node(u32);

/// What led to a node, and what the program asks for there, unless it is at its end.
#[derive(Clone, Copy, Debug)]
struct Past<Ask, Told> {
    cpu: usize,
    step: usize,
    /// The last answer, behind those of another node; none where the part begins.
    last: Option<(Node, Told)>,
    count: usize,
    ask: Option<Ask>,
}

/// All that was told.
#[expect(missing_debug_implementations, reason = "a program is a closure")]
pub struct Tree<'a, Ask, Told> {
    run: Part<'a, Ask, Told>,
    past: Vec<Past<Ask, Told>>,
    begun: HashMap<(usize, usize), Node>,
    behind: HashMap<(Node, Told), Node>,
}

impl<'a, Ask: Copy, Told: Copy + Eq + Hash + Debug> Tree<'a, Ask, Told> {
    /// Nothing was told yet.
    pub fn new(run: Part<'a, Ask, Told>) -> Self {
        Self { run, past: Vec::new(), begun: HashMap::new(), behind: HashMap::new() }
    }

    fn past(&self, node: Node) -> &Past<Ask, Told> {
        &self.past[node.0 as usize]
    }

    /// From which of its steps on it runs.
    pub fn step(&self, node: Node) -> usize {
        self.past(node).step
    }

    /// What it asks for next, unless it is at its end.
    pub fn ask(&self, node: Node) -> Option<Ask> {
        self.past(node).ask
    }

    /// Where a CPU stands that begins a step.
    ///
    /// # Errors
    /// What it panics with on the way to the next one that it asks for.
    pub fn begin(&mut self, cpu: usize, step: usize) -> Result<Node, String> {
        if let Some(node) = self.begun.get(&(cpu, step)) {
            return Ok(*node);
        }
        let node = self.add(cpu, step, None)?;
        self.begun.insert((cpu, step), node);
        Ok(node)
    }

    /// Where it stands once it was told this.
    ///
    /// # Errors
    /// What it panics with on the way to the next step that it asks for.
    pub fn tell(&mut self, node: Node, told: Told) -> Result<Node, String> {
        if let Some(next) = self.behind.get(&(node, told)) {
            return Ok(*next);
        }
        let Past { cpu, step, .. } = *self.past(node);
        let next = self.add(cpu, step, Some((node, told)))?;
        self.behind.insert((node, told), next);
        Ok(next)
    }

    fn add(&mut self, cpu: usize, step: usize, last: Option<(Node, Told)>) -> Result<Node, String> {
        let mut told: Vec<_> = last.map(|(_, told)| told).into_iter().collect();
        told.extend(last.into_iter().flat_map(|(before, _)| self.since(before, 0)));
        told.reverse();
        let ask = next_ask(&told, |it| (self.run)(it, cpu, step));
        let ask = ask.map_err(|what| format!("{what}: CPU {cpu}, step {step}, told {told:x?}"))?;
        self.past.push(Past { cpu, step, last, count: told.len(), ask });
        Ok(Node(self.past.len() as u32 - 1))
    }

    /// Where it stood when it had had so many answers.
    pub fn back(&self, mut node: Node, count: usize) -> Node {
        while let Past { last: Some((before, _)), count: its, .. } = self.past(node)
            && *its > count
        {
            node = *before;
        }
        node
    }

    /// What it was told since it had had so many answers, the last first.
    pub fn since(&self, node: Node, count: usize) -> impl Iterator<Item = Told> {
        let mut at = self.past(node);
        std::iter::from_fn(move || {
            let (before, told) = at.last.filter(|_| at.count > count)?;
            at = self.past(before);
            Some(told)
        })
    }
}

/// What a program asks for that was told so much, if it has not come to its end.
///
/// # Errors
/// What it panics with.
pub fn next_ask<Ask, Told: Copy>(told: &[Told], run: impl FnOnce(&Cpu<Ask, Told>)) -> Result<Option<Ask>, String> {
    let cpu = Cpu { told: told.to_vec(), count: Cell::new(0), asked: RefCell::new(None) };
    let ended = catch_unwind(AssertUnwindSafe(|| run(&cpu)));
    match (cpu.asked.into_inner(), ended) {
        (None, Err(what)) => {
            let text = what.downcast_ref::<&str>().map(|text| (*text).to_owned());
            Err(what.downcast::<String>().map_or(text.unwrap_or_else(|| "it panics".into()), |text| *text))
        }
        (asked, _) => Ok(asked),
    }
}

/// What tells a state from all others: of a million two agree in these 128 bits by a chance of one in 10^26.
pub fn fingerprint(state: &impl Hash) -> u128 {
    let half = |salt: u64| {
        let mut digest = Digest::new();
        digest.write_u64(salt);
        state.hash(&mut digest);
        u128::from(digest.finish())
    };
    half(0) << 64 | half(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that counts down from what it is told first, and then asks for the sum of the rest.
    fn count_down(cpu: &Cpu<u64, u64>, _: usize, step: usize) {
        let first = cpu.ask(step as u64);
        assert!(first < 3, "too many");
        let sum = (0..first).map(|number| cpu.ask(10 + number)).sum();
        cpu.ask(sum);
    }

    #[test]
    fn a_program_stands_where_it_was_told_to() {
        let mut tree = Tree::new(&count_down);
        let begun = tree.begin(1, 7).unwrap();
        assert_eq!((tree.ask(begun), tree.step(begun)), (Some(7), 7));
        let two = tree.tell(begun, 2).unwrap();
        let last = [5, 6].into_iter().fold(two, |node, told| tree.tell(node, told).unwrap());
        assert_eq!((tree.ask(two), tree.ask(last)), (Some(10), Some(11)));
        assert_eq!(Vec::from_iter(tree.since(last, 1)), [6, 5]);
        assert_eq!((tree.back(last, 1), tree.back(last, 0), tree.back(two, 3)), (two, begun, two));
        let ended = tree.tell(last, 0).unwrap();
        assert_eq!(tree.ask(ended), None);
        assert_eq!((tree.begin(1, 7), tree.tell(begun, 2)), (Ok(begun), Ok(two)));
        let panics = tree.tell(begun, 3).unwrap_err();
        assert_eq!(panics, "too many: CPU 1, step 7, told [3]");
    }

    #[test]
    fn a_fingerprint_tells_lengths_and_values() {
        let all =
            [vec![], vec![0], vec![0, 0], vec![1], vec![0, 1], vec![1, 0]].map(|words: Vec<u64>| fingerprint(&words));
        assert!((1..all.len()).all(|end| !all[..end].contains(&all[end])), "{all:x?}");
    }
}
