//! A process that makes no invalid call.

use std::sync::atomic::Ordering;

use libc::*;

use super::attacker::Attacker;
use super::attacks::attack;
use super::random::Random;
use super::{ALIVE, Choice, attempt, watch};
use crate::call;
use crate::machine::{exit, long};

/// SIGCHLD as a set.
static CHILD: u64 = 1 << (SIGCHLD - 1);

/// What an honest process has.
pub struct Model {
    /// The numbers.
    pub random: Random,
    /// Bytes that one scene may use.
    pub budget: u64,
    /// Where it counts.
    pub counter: u64,
    pub(super) choice: &'static Choice,
}

impl Model {
    /// With what may be used of memory.
    pub fn new(random: Random, choice: &'static Choice, counter: u64) -> Self {
        Self { random, budget: (watch::memory().0 / 24).next_power_of_two() / 2, counter, choice }
    }

    /// Shows that this process gets on, and counts it.
    pub fn get_on(&self) {
        for at in [self.counter, self.counter + ALIVE] {
            long(at).fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A child that attacks its copy of an area, until it ends or is killed.
    pub fn attack_in_child(&mut self, area: (u64, u64)) {
        match call(SYS_clone, &[SIGCHLD as u64, 0]) {
            Ok(0) => {
                watch::be_silent();
                // A signal to its group is not to reach its parent.
                attempt(SYS_setpgid, &[0, 0]);
                let random = Random::new(self.random.draw(), 7);
                attack(&mut Attacker::new(random, self.choice, self.counter, &[area; 8], &[]), 24);
                exit(0)
            }
            Ok(child) => {
                // Not for ever: whoever attacks may have come to wait.
                let limit = [0, 50_000_000u64];
                attempt(SYS_rt_sigtimedwait, &[(&raw const CHILD) as u64, 0, limit.as_ptr() as u64, 8]);
                attempt(SYS_kill, &[child, SIGKILL as u64]);
                attempt(SYS_wait4, &[child, 0, 0, 0]);
            }
            Err(_) => {}
        }
    }
}
