//! One machine that hardware could be: TLBs with actual contents. By a seed they fill, drop, split leaves into smaller
//! entries, act on a TLBI early or late, and where two entries hit use either, abort, or at BBM level 0 mix both.
//! Every entry must be in the may-TLB of the machine it runs beside; so a rule that was broken can be shown as a wrong
//! address, and a rule that was not must never lead to one.

mod lookup;
mod walk;

use alloc::vec::Vec;

use crate::barrier::{Accesses, Barrier, Domain};
use crate::event::{Event, Level};
use crate::machine::Machine;
use crate::seed::Seed;
use crate::tlb::entry::Entry;
use crate::tlb::holders::{Cpus, GLOBAL, Holders};
use crate::tlbi::Selector;

/// An entry in one TLB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cached {
    /// What it is.
    pub entry: Entry,
    /// The ASID it is tagged with, or `GLOBAL`.
    pub asid: u32,
    /// First input address that this copy translates: it may be a piece.
    pub first: u64,
    /// Last input address that this copy translates.
    pub last: u64,
    word: u64,
    /// A broadcast TLBI has passed it by, on a CPU where it takes two.
    passed: Option<Pass>,
}

/// Where it takes two TLBIs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pass {
    /// The first is passing.
    Now,
    /// It has passed.
    Before,
}

/// A TLBI on its way to one CPU.
#[derive(Clone, Copy, Debug)]
struct Underway {
    issuer: u8,
    selector: Selector,
    /// Completed for everybody else; the issuer itself still has to synchronize.
    awaits_sync: bool,
    /// It has acted before its DSB, and will not act again.
    has_acted: bool,
}

/// A machine with concrete TLBs.
#[derive(Clone, Debug)]
pub struct Concrete {
    machine: Machine,
    seed: Seed,
    tlbs: Vec<Vec<Cached>>,
    underway: Vec<Vec<Underway>>,
    addresses: Vec<u64>,
    capacity: usize,
    may_have_ended: bool,
    /// Per CPU: how many of its entries were found to be allowed.
    checked: Vec<usize>,
}

impl Concrete {
    /// Concrete TLBs for `machine`, which has walked nothing yet; each keeps at most `capacity` entries.
    pub fn new(machine: Machine, seed: Seed, capacity: usize) -> Self {
        let cpus = machine.cpus().len();
        Self {
            machine,
            seed,
            tlbs: alloc::vec![Vec::new(); cpus],
            underway: alloc::vec![Vec::new(); cpus],
            addresses: Vec::new(),
            capacity,
            may_have_ended: true,
            checked: alloc::vec![0; cpus],
        }
    }

    /// The machine that knows what may be.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The machine that knows what may be.
    pub fn machine_mut(&mut self) -> &mut Machine {
        &mut self.machine
    }

    /// What `cpu` holds now.
    pub fn cached(&self, cpu: u8) -> &[Cached] {
        &self.tlbs[cpu as usize]
    }

    /// Addresses that walkers speculate on.
    pub fn speculate_on(&mut self, addresses: &[u64]) {
        self.addresses.extend_from_slice(addresses);
    }

    /// One event, after which TLBs do as they please. Before it they must not: who asked for an exchange has been told what
    /// stands in the word.
    pub fn step(&mut self, cpu: u8, event: &Event) {
        let known = self.known_tlbi(cpu, event);
        let may_end =
            matches!(event, Event::Barrier(_) | Event::Enter(_) | Event::Write { .. } | Event::CompareExchange { .. });
        self.may_have_ended |= may_end;
        self.machine.apply(cpu, event);
        match *event {
            Event::Tlbi { .. } => self.send(cpu, known),
            Event::Barrier(Barrier::Dsb { domain, accesses: Accesses::All, is_nxs }) => {
                self.arrive(cpu, domain, is_nxs)
            }
            Event::Barrier(Barrier::Isb) | Event::Enter(_) => self.synchronize(cpu),
            _ => {}
        }
        self.misbehave();
    }

    /// Fills, drops, and lets TLBIs arrive that nobody waits for yet.
    fn misbehave(&mut self) {
        let cpu = self.seed.below(self.tlbs.len() as u64) as u8;
        match self.seed.below(8) {
            0..=3 if !self.addresses.is_empty() => {
                let address = *self.seed.pick(&self.addresses);
                let _ = self.walk(cpu, address);
            }
            4 if !self.tlbs[cpu as usize].is_empty() => {
                let at = self.seed.below(self.tlbs[cpu as usize].len() as u64) as usize;
                self.drop_at(cpu, at);
            }
            5 if !self.underway[cpu as usize].is_empty() => {
                let at = self.seed.below(self.underway[cpu as usize].len() as u64) as usize;
                self.underway[cpu as usize][at].has_acted = true;
                let arrived = self.underway[cpu as usize][at];
                self.invalidate(cpu, &arrived.selector, false);
            }
            _ => {}
        }
    }

    fn known_tlbi(&self, cpu: u8, event: &Event) -> Option<(Selector, Cpus)> {
        match *event {
            Event::Tlbi { opcode, operand } => self.machine.selector_of(cpu, opcode, operand),
            _ => None,
        }
    }

    fn send(&mut self, cpu: u8, known: Option<(Selector, Cpus)>) {
        let Some((selector, reached)) = known else { return };
        for (number, underway) in self.underway.iter_mut().enumerate() {
            if reached >> number & 1 == 1 {
                underway.push(Underway { issuer: cpu, selector, awaits_sync: false, has_acted: false });
            }
        }
    }

    /// A DSB of `cpu`: its TLBIs have arrived, except that it may itself go on with what it had.
    fn arrive(&mut self, cpu: u8, domain: Domain, is_nxs: bool) {
        for number in 0..self.underway.len() {
            let is_own = number == cpu as usize;
            for mut it in core::mem::take(&mut self.underway[number]) {
                let is_wide = it.selector.scope().is_within(domain);
                let is_done = it.issuer == cpu && (is_wide || is_own) && (!is_nxs || it.selector.operation().is_nxs);
                if !is_done {
                    self.underway[number].push(it);
                } else if it.has_acted {
                    self.sweep(number as u8, &it.selector);
                } else if is_own && self.seed.one_in(2) {
                    self.invalidate(cpu, &it.selector, true);
                    it.awaits_sync = true;
                    self.underway[number].push(it);
                } else {
                    self.pass_by(number, cpu, &it.selector);
                    self.invalidate(number as u8, &it.selector, false);
                }
            }
        }
    }

    /// Where it takes two TLBIs of another CPU, some entries may go on after the first.
    fn pass_by(&mut self, cpu: usize, issuer: u8, selector: &Selector) {
        if cpu == usize::from(issuer) || !self.machine.cpus()[cpu].features().repeat_tlbi {
            return;
        }
        for cached in &mut self.tlbs[cpu] {
            let holders = Holders::of(cached.asid, 1 << cpu);
            if cached.passed.is_none() && selector.select(&cached.entry, &holders).is_ok() && self.seed.one_in(2) {
                cached.passed = Some(Pass::Now);
            }
        }
    }

    fn synchronize(&mut self, cpu: u8) {
        for it in core::mem::take(&mut self.underway[cpu as usize]) {
            if it.issuer == cpu && it.awaits_sync {
                self.invalidate(cpu, &it.selector, false);
            } else {
                self.underway[cpu as usize].push(it);
            }
        }
    }

    /// The TLBI acts on `cpu`: what it selects goes, and nothing else. `is_unsynchronized` when that CPU issued
    /// it and has not synchronized since.
    fn invalidate(&mut self, cpu: u8, selector: &Selector, is_unsynchronized: bool) {
        let issuer = &self.machine.cpus()[cpu as usize];
        // Whoever is gone is no stray; who stays is where it was, or further to the front.
        self.checked[cpu as usize] = 0;
        self.tlbs[cpu as usize].retain_mut(|cached| {
            let holders = Holders::of(cached.asid, 1 << cpu);
            if cached.passed == Some(Pass::Now) {
                cached.passed = Some(Pass::Before);
                return true;
            }
            match selector.select(&cached.entry, &holders) {
                Err(_) => true,
                Ok(_) if is_unsynchronized && issuer.keeps(&cached.entry) => true,
                Ok((_, 0)) => false,
                Ok((_, holes)) => cached.entry.members(cached.first, cached.last) & holes == 0,
            }
        });
    }

    /// A TLBI that acted before its DSB: what came since by walks that missed a store which is ordered before the TLBI is not
    /// there, for no such walk is begun before the TLBI's end. (See `tlb::late`)
    fn sweep(&mut self, cpu: u8, selector: &Selector) {
        self.checked[cpu as usize] = 0;
        let mut kept = core::mem::take(&mut self.tlbs[cpu as usize]);
        kept.retain(|cached| {
            let holders = Holders::of(cached.asid, 1 << cpu);
            selector.select(&cached.entry, &holders).is_err() || self.is_allowed(cpu, cached)
        });
        self.tlbs[cpu as usize] = kept;
    }

    fn insert(&mut self, cpu: u8, cached: Cached) {
        let is_same = |it: &Cached| Cached { passed: None, ..*it } == cached;
        if self.tlbs[cpu as usize].iter().any(is_same) {
            return;
        }
        if self.tlbs[cpu as usize].len() >= self.capacity {
            let at = self.seed.below(self.capacity as u64) as usize;
            self.drop_at(cpu, at);
        }
        self.tlbs[cpu as usize].push(cached);
    }

    fn drop_at(&mut self, cpu: u8, at: usize) {
        let cpu = cpu as usize;
        self.tlbs[cpu].remove(at);
        if at < self.checked[cpu] {
            self.checked[cpu] -= 1;
        }
    }

    /// The self-check: an entry that the may-TLB does not allow, if there is one.
    /// Asks again only about what the last event could have ended, and about what was filled since: nothing but a
    /// barrier, an exception or a register write ends what may be cached.
    pub fn stray(&mut self) -> Option<(u8, Cached)> {
        for cpu in 0..self.tlbs.len() {
            let from = if self.may_have_ended { 0 } else { self.checked[cpu].min(self.tlbs[cpu].len()) };
            let stray = self.tlbs[cpu][from..].iter().find(|cached| !self.is_allowed(cpu as u8, cached));
            if let Some(stray) = stray {
                return Some((cpu as u8, *stray));
            }
            self.checked[cpu] = self.tlbs[cpu].len();
        }
        self.may_have_ended = false;
        None
    }

    fn is_allowed(&self, cpu: u8, cached: &Cached) -> bool {
        let may = self.machine.may();
        if may.holders(&cached.entry).exactly(cached.asid) >> cpu & 1 == 1 {
            return true;
        }
        // Members of a contiguous set may have been taken out of what is kept.
        may.stale().overlapping(cached.entry.tag, cached.first, cached.last).any(|(entry, record)| {
            Entry { holes: 0, ..*entry } == cached.entry
                && entry.members(cached.first, cached.last) & entry.holes == 0
                && record.holders.exactly(cached.asid) >> cpu & 1 == 1
        })
    }

    fn asid_key(entry: &Entry, asid: u32) -> u32 {
        if entry.is_global() { GLOBAL } else { asid }
    }

    fn is_user(&self, cpu: u8) -> bool {
        self.machine.cpus()[cpu as usize].level() == Level::El0
    }
}
