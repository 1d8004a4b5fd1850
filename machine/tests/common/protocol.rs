//! Editors that unmap, release and reuse frames, each with its own page, and sometimes leave out or weaken a step. As long
//! as the rules are silent, no access may reach a frame that its page does not own; once they are not, some do.
#![allow(missing_docs, unreachable_pub)]

use machine::barrier::{Accesses, Barrier, Domain};
use machine::concrete::Concrete;
use machine::event::{Event, Owned};
use machine::finding::{Finding, Rule};
use machine::machine::Outcome;
use machine::registers::Features;
use machine::seed::Seed;
use machine::syndrome::AccessKind;
use machine::tlbi::Opcode;

use super::*;

const FRAMES: u64 = 0x8000_0000;
const PAGES: u64 = 8;

/// What the runs did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub events: u64,
    pub machines: u64,
    pub silent_machines: u64,
    pub accesses_while_silent: u64,
    pub wrong_after_a_finding: u64,
}

struct Run {
    concrete: Concrete,
    seed: Seed,
    owner: Vec<Option<u64>>,
    errors: u64,
}

impl Run {
    fn violation(&self) -> Option<&Finding> {
        let findings = self.concrete.machine().findings();
        findings.iter().find(|it| !it.is_lint() && it.rule != Rule::NotVisible)
    }

    fn access(&mut self, tally: &mut Tally) {
        let cpu = self.seed.below(self.concrete.machine().cpus().len() as u64) as u8;
        let page = self.seed.below(PAGES);
        let Outcome::Translated(output) = self.concrete.access(cpu, page << 12, AccessKind::Read) else { return };
        let frame = (output.wrapping_sub(FRAMES) >> 12) as usize;
        let is_right = self.owner.get(frame) == Some(&Some(page));
        match self.violation() {
            Some(_) => tally.wrong_after_a_finding += u64::from(!is_right),
            None => {
                tally.accesses_while_silent += 1;
                assert!(is_right, "CPU {cpu} at page {page} reached {output:#x} and no rule was broken");
            }
        }
    }

    /// A step, which once in a while is left out.
    fn step(&mut self, cpu: u8, event: Event, tally: &mut Tally) {
        if self.errors == 0 || !self.seed.one_in(self.errors) {
            self.concrete.step(cpu, &event);
            tally.events += 1;
            let stray = self.concrete.stray();
            assert!(stray.is_none(), "after {event:x?}: {stray:x?}");
        }
        while self.seed.one_in(2) {
            self.access(tally);
            tally.events += 1;
        }
    }

    fn barrier(&mut self) -> Barrier {
        let weak = self.errors != 0 && self.seed.one_in(self.errors);
        match self.seed.below(3) {
            _ if !weak => Barrier::DSB_ISH,
            0 => Barrier::DSB_ISHST,
            1 => Barrier::DSB_NSH,
            _ => Barrier::Dsb { domain: Domain::Inner, accesses: Accesses::Loads, is_nxs: false },
        }
    }

    fn tlbi(&mut self, page: u64) -> (Opcode, u64) {
        let wrong = self.errors != 0 && self.seed.one_in(self.errors);
        let asid = 1 << 48;
        match self.seed.below(4) {
            _ if !wrong => {
                *self.seed.pick(&[(VAE1IS, asid | page), (VALE1IS, asid | page), (VAALE1IS, page), (VMALLE1IS, 0)])
            }
            0 => (VAE1, asid | page),
            1 => (VALE1IS, 2 << 48 | page),
            2 => (VALE1IS, asid | 0b0110 << 44 | page),
            _ => (VALE1IS, asid | (page + 1)),
        }
    }

    /// Some CPU takes the lock that `cpu` gives away, and goes on.
    fn hand_over(&mut self, cpu: u8, tally: &mut Tally) -> u8 {
        let next = self.seed.below(self.concrete.machine().cpus().len() as u64) as u8;
        self.step(cpu, Event::Unlock, tally);
        self.step(next, Event::Lock, tally);
        next
    }

    /// Moves one page to another frame: break, TLBI, release, make.
    fn move_page(&mut self, tally: &mut Tally) {
        let mut cpu = self.seed.below(self.concrete.machine().cpus().len() as u64) as u8;
        let page = self.seed.below(PAGES);
        let word = L3 + page * 8;
        let old = self.owner.iter().position(|it| *it == Some(page));
        if let Some(frame) = old {
            self.step(cpu, Event::Store { address: word, value: 0, is_release: false }, tally);
            if self.seed.one_in(3) {
                cpu = self.hand_over(cpu, tally);
            }
            let barrier = self.barrier();
            self.step(cpu, Event::Barrier(barrier), tally);
            let (opcode, operand) = self.tlbi(page);
            self.step(cpu, Event::Tlbi { opcode, operand }, tally);
            let barrier = self.barrier();
            self.step(cpu, Event::Barrier(barrier), tally);
            self.step(cpu, Event::Barrier(Barrier::Isb), tally);
            let address = FRAMES | (frame as u64) << 12;
            // If the break was left out the page is still mapped: no rule of TLBs, but of the program.
            if self.concrete.machine().word(word) != 0 {
                return;
            }
            self.concrete.step(cpu, &Event::Release { address, size_bytes: 4096, owned: Owned::Frame });
            self.owner[frame] = None;
        }
        let free: Vec<usize> = (0..self.owner.len()).filter(|it| self.owner[*it].is_none()).collect();
        let frame = *self.seed.pick(&free);
        self.owner[frame] = Some(page);
        let global = if self.seed.one_in(2) { NON_GLOBAL } else { 0 };
        let value = PAGE | global | FRAMES | (frame as u64) << 12;
        self.step(cpu, Event::Store { address: word, value, is_release: false }, tally);
        if self.concrete.machine().word(word) == 0 {
            self.owner[frame] = None;
        }
        let barrier = self.barrier();
        self.step(cpu, Event::Barrier(barrier), tally);
    }
}

pub fn run(seed: u64, events: u64) -> Tally {
    let mut tally = Tally::default();
    let mut seed = Seed::new(seed);
    while tally.events < events {
        let cpus = 1 + seed.below(4) as usize;
        let machine = el1(cpus, Features::full(seed.below(4) as u8));
        let mut concrete = Concrete::new(machine, Seed::new(seed.bits()), 8);
        concrete.speculate_on(&(0..PAGES).map(|page| page << 12).collect::<Vec<_>>());
        let errors = *seed.pick(&[0, 60, 20]);
        let mut run = Run { concrete, seed: Seed::new(seed.bits()), owner: vec![None; 12], errors };
        for _ in 0..30 {
            run.move_page(&mut tally);
        }
        tally.machines += 1;
        tally.silent_machines += u64::from(run.violation().is_none());
        assert!(errors != 0 || run.violation().is_none(), "{}", run.violation().unwrap());
    }
    tally
}
