//! A process that attacks, and what it does with calls of the table: one, many alike, three beside each other, in a child.

use std::sync::atomic::Ordering;
use std::thread::Builder;

use libc::*;

use super::attempt;
use super::random::Random;
use super::table::{self, Row, TOGETHER};
use super::values::Actor;
use super::{ALIVE, Choice, DOING};
use crate::machine::{exit, fail_allocation, long};
use crate::{Answer, call};

/// Generations of children.
const DEPTH: u64 = 3;

/// What an attacking process has.
pub struct Attacker {
    /// Values of arguments.
    pub actor: Actor,
    /// Which scenes and calls.
    pub choice: &'static Choice,
    /// Where it counts operations, and behind that its signs of life.
    pub counter: u64,
}

impl Attacker {
    /// With objects of its own, and these.
    pub fn new(random: Random, choice: &'static Choice, counter: u64, areas: &[(u64, u64)], files: &[u64]) -> Self {
        Self { actor: Actor::new(random, areas, files), choice, counter }
    }

    /// Shows that this process gets on.
    pub fn get_on(&self) {
        long(self.counter + ALIVE).fetch_add(1, Ordering::Relaxed);
    }

    /// Makes a call, and leaves word of it.
    fn make(&self, row: &Row, arguments: &[u64; 6]) -> Answer {
        long(self.counter + DOING + 64).store(row.0, Ordering::Relaxed);
        call(row.0 as c_long, arguments)
    }

    /// ITIMER_REAL every 20 ms.
    pub(super) fn set_alarm(&self) {
        let values = [0u64, 20_000, 0, 20_000];
        attempt(SYS_setitimer, &[0, values.as_ptr() as u64, 0]);
    }

    /// A row of the table, and arguments.
    fn drawn(&mut self) -> (&'static Row, [u64; 6]) {
        let family = self.actor.random.below(self.choice.rows.len() as u64) as usize;
        let rows = &self.choice.rows[family];
        let row = rows[self.actor.random.below(rows.len() as u64) as usize];
        (row, self.actor.arguments(row))
    }

    /// One that may be made many times.
    fn drawn_to_repeat(&mut self) -> Option<(&'static Row, [u64; 6])> {
        (0..16).map(|_| self.drawn()).find(|(row, _)| !matches!(row.2, b'x' | b'p'))
    }

    /// One call; ends of processes are rare.
    pub(super) fn one_call(&mut self) {
        let (row, arguments) = self.drawn();
        if row.2 == b'x' && !self.actor.random.once_in(8) {
            return;
        }
        let answer = self.make(row, &arguments);
        if self.actor.keep(row, &arguments, answer) {
            self.be_child();
        }
    }

    /// Calls in a child, at whose end this ends.
    fn be_child(&mut self) -> ! {
        self.actor.depth += 1;
        self.actor.random = Random::new(self.actor.random.draw(), self.actor.depth);
        if self.actor.depth < DEPTH {
            for _ in 0..32 {
                self.get_on();
                self.one_call();
            }
        }
        exit(0)
    }

    /// One call, its arguments always the same, up to 8,192 times.
    pub(super) fn flood(&mut self) {
        let Some((row, arguments)) = self.drawn_to_repeat() else { return };
        for round in 0..1u64 << self.actor.random.below(14) {
            let answer = self.make(row, &arguments);
            self.actor.keep(row, &arguments, answer);
            if round % 16 == 0 {
                self.get_on();
            }
        }
    }

    /// One call, its arguments always the same: each time another of its allocations fails, until none does.
    pub(super) fn lacking(&mut self) {
        const MOST: u64 = 4096;
        let Some((row, arguments)) = self.drawn_to_repeat() else { return };
        for count in 1..MOST {
            if fail_allocation(count).is_none() {
                return;
            }
            let answer = self.make(row, &arguments);
            let left = fail_allocation(0);
            self.actor.keep(row, &arguments, answer);
            self.get_on();
            if left != Some(0) {
                return;
            }
        }
    }

    /// Three threads, each of which makes one call again and again, all of the same objects.
    pub(super) fn race(&mut self) {
        self.actor.focus(true);
        let named = self.actor.random.one(&TOGETHER);
        let is_free = self.actor.random.once_in(2);
        let calls = named.map(|name| match table::named(name) {
            Some(row) if !is_free && self.choice.rows.iter().flatten().any(|one| one.0 == row.0) => {
                Some((row, self.actor.arguments(row)))
            }
            _ => self.drawn_to_repeat(),
        });
        self.actor.focus(false);
        let times = 1u64 << (4 + self.actor.random.below(7));
        let counter = self.counter;
        let threads = calls.into_iter().flatten().filter_map(|(row, arguments)| {
            let body = move || {
                for _ in 0..times {
                    attempt(row.0 as c_long, &arguments);
                    long(counter + ALIVE).fetch_add(1, Ordering::Relaxed);
                }
            };
            Builder::new().stack_size(1 << 16).spawn(body).ok()
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }

    /// A child that calls, shares this or that, and is killed in the middle.
    pub(super) fn descend(&mut self) {
        if self.actor.depth >= DEPTH {
            return;
        }
        let shared = [0, 0, CLONE_FILES, CLONE_FS, CLONE_FILES | CLONE_FS, CLONE_PARENT, CLONE_VM | CLONE_VFORK];
        let flags = SIGCHLD as u64 | self.actor.random.one(&shared) as u64;
        match call(SYS_clone, &[flags, 0]) {
            Ok(0) => self.be_child(),
            Ok(child) => {
                for _ in 0..self.actor.random.below(32) {
                    self.one_call();
                }
                attempt(SYS_kill, &[child, SIGKILL as u64]);
                // Whoever is a sibling is waited for by the verdict.
                attempt(SYS_wait4, &[child, 0, 0, 0]);
            }
            Err(_) => {}
        }
    }
}
