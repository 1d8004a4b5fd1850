//! The machine: memory, CPUs, what their TLBs may hold, and what the rules found so far. One method per event; events
//! happen one at a time, in the order of the calls, and nothing is random here. What walkers and TLBs may do in between
//! is not an event: it is folded into the may-TLB.

mod access;
mod barriers;
mod context;
mod maintenance;
mod ownership;
mod release;
mod returned;
mod stores;
mod unknown;

use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

pub use access::{Answer, Outcome, Update, Way};
pub(crate) use maintenance::Effect;
use returned::NamedRoot;
pub use unknown::{Link, Piece};

use crate::context::Regime;
use crate::event::{Event, Level};
use crate::finding::{Finding, Rule};
use crate::memory::Memory;
use crate::registers::{Ets, Features, Register, Registers};
use crate::seed::Digest;
use crate::tlb::entry::{Entry, SpaceId};
use crate::tlb::holders::Cpus;
use crate::tlb::late::Late;
use crate::tlb::may::May;
use crate::tlb::space::Space;

/// A CPU of the machine.
#[derive(Clone, Debug)]
pub struct Cpu {
    pub(crate) features: Features,
    /// As of the last context synchronization event.
    pub(crate) registers: Registers,
    /// Writes since then; each of them may or may not have taken effect.
    pub(crate) written: Vec<(Register, u64)>,
    level: Level,
    /// Page tables it may walk, with their ASID (or `GLOBAL`) and TTBR.CnP.
    pub(crate) contexts: Vec<(SpaceId, u32, bool)>,
    /// Event of the last context synchronization event.
    pub(crate) synchronized: u64,
    /// Events of its last load and store.
    pub(crate) loaded: u64,
    pub(crate) stored: u64,
    /// What was settled by then comes before its TLBIs: a DSB is between.
    pub(crate) behind: u64,
    /// Event at which it took a lock last, and the one of them that its last DSB came after.
    pub(crate) locked: u64,
    pub(crate) behind_lock: u64,
    /// TLBIs of this CPU that no DSB has completed: the widest scope is what matters to the lint.
    pub(crate) has_open_tlbis: bool,
    /// Input addresses it cannot do without.
    pub(crate) needs: Vec<(u64, u64)>,
    /// A conflict abort that is not resolved yet.
    pub(crate) conflict: bool,
    /// At EL2, and walks of EL1&0 that were begun before are over.
    pub(crate) is_above: bool,
}

impl Cpu {
    /// What its ID registers announce.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// Registers with every write in effect.
    pub fn newest_registers(&self) -> Registers {
        let mut registers = self.registers;
        for (register, value) in &self.written {
            registers.set(*register, *value);
        }
        registers
    }

    /// True when it is sure of what its own TLBI did to `entry` only after a context synchronization event. At EL2 it uses
    /// nothing of EL1&0 before it returns there, and that is one. (RBLDZX)
    pub(crate) fn keeps(&self, entry: &Entry) -> bool {
        let is_used = self.level != Level::El2 || entry.tag.regime != Regime::El10;
        is_used && entry.lingers(self.features.ets != Ets::None, self.level)
    }

    /// The exception level it runs at.
    pub fn level(&self) -> Level {
        self.level
    }
}

/// The simulated machine.
#[derive(Clone, Debug)]
pub struct Machine {
    may: May,
    cpus: Vec<Cpu>,
    event: u64,
    findings: Vec<Finding>,
    named: Vec<NamedRoot>,
    /// Report work that was not needed.
    is_linting: bool,
    /// Report frames that are given away while they are linked.
    is_strict: bool,
    /// At EL2 no walk of EL1&0 is begun.
    stops_walks: bool,
}

impl Machine {
    /// A machine with one CPU for each of `features`, at most 64; all registers and memory zero, all TLBs empty.
    pub fn new(features: &[Features]) -> Self {
        assert!((1..=64).contains(&features.len()), "a machine has 1 to 64 CPUs");
        let cpu = |features: &Features| Cpu {
            features: *features,
            registers: Registers::default(),
            written: Vec::new(),
            level: Level::El1,
            contexts: Vec::new(),
            synchronized: 0,
            loaded: 0,
            stored: 0,
            behind: 0,
            locked: 0,
            behind_lock: 0,
            has_open_tlbis: false,
            needs: Vec::new(),
            conflict: false,
            is_above: false,
        };
        Self {
            may: May::default(),
            cpus: features.iter().map(cpu).collect(),
            event: 0,
            findings: Vec::new(),
            named: Vec::new(),
            is_linting: false,
            is_strict: false,
            stops_walks: false,
        }
    }

    /// The same with this in memory, which every walker sees.
    pub fn with_memory(features: &[Features], memory: Memory) -> Self {
        let mut machine = Self::new(features);
        machine.may.memory = memory;
        machine
    }

    /// Stores settle: once one is ordered by a barrier of its CPU, or observed by another CPU, the DSB of whoever comes after it
    /// counts too, and so does a TLBI behind that. This is all that the architecture promises. Without it, as here by
    /// default, software must have the DSB of the CPU that stored (RSPVBD), which is what the rules are to hold it to, or
    /// a lock between the two CPUs ([`Machine::unlock`], [`Machine::lock`]).
    pub fn settle_stores(&mut self) {
        self.may.visible.settles = true;
    }

    /// A CPU at EL2 begins no walk of EL1&0, and behind a DSB there those it had begun are over. (RNRJPP, RLFHQG, IQVPYJ) By
    /// default such a CPU may walk on, so that what it stores wrongly is found at the store, and not when it returns.
    pub fn stop_walks_at_el2(&mut self) {
        self.stops_walks = true;
    }

    /// Computes every answer afresh, from what is written and what TLBs may have kept: slower, and the same.
    pub fn remember_nothing(&mut self) {
        self.may.remember_nothing();
    }

    /// Also reports work that was not needed.
    pub fn lint(&mut self) {
        self.is_linting = true;
    }

    /// A 64-bit load by physical address: always the newest value, for explicit accesses are in order here.
    pub fn load(&mut self, cpu: u8, address: u64) -> u64 {
        self.event += 1;
        self.see(cpu, address);
        self.word(address)
    }

    /// The word at a physical address; no event.
    pub fn word(&self, address: u64) -> u64 {
        self.may.memory.word(address)
    }

    /// True when no walk of any CPU reads the word, now or through what it kept: a store to it concerns nobody else.
    pub fn is_plain(&self, address: u64) -> bool {
        self.may.index.is_plain(address)
    }

    /// The address of a table that some page table uses at too many places, if there is one: it leads to itself, or its
    /// tables to each other, by many of their slots. No walk finds anything from then on, and no rule says anything that
    /// counts.
    pub fn overrun(&self) -> Option<u64> {
        self.may.overrun
    }

    /// How many words, entries and places were looked at so far: what time is spent on, the same on every host.
    pub fn effort(&self) -> u64 {
        self.may.effort.total()
    }

    /// What could be cached.
    pub fn may(&self) -> &May {
        &self.may
    }

    /// The CPUs.
    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    /// Number of events so far.
    pub fn events(&self) -> u64 {
        self.event
    }

    /// What was found so far, oldest first.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Takes what was found so far.
    pub fn take_findings(&mut self) -> Vec<Finding> {
        core::mem::take(&mut self.findings)
    }

    /// Every CPU.
    pub(crate) fn all_cpus(&self) -> Cpus {
        Cpus::MAX >> (64 - self.cpus.len())
    }

    /// Lowest BBM level of `cpus`.
    pub(crate) fn bbm(&self, cpus: Cpus) -> u8 {
        let levels = self.cpus.iter().enumerate().filter(|(cpu, _)| cpus >> cpu & 1 == 1);
        levels.map(|(_, cpu)| cpu.features.bbm).min().unwrap_or_default()
    }

    pub(crate) fn is_linting(&self) -> bool {
        self.is_linting
    }

    pub(crate) fn cpu_mut(&mut self, cpu: u8) -> &mut Cpu {
        &mut self.cpus[cpu as usize]
    }

    pub(crate) fn may_mut(&mut self) -> &mut May {
        &mut self.may
    }

    pub(crate) fn report(&mut self, finding: Finding) {
        // What one event makes visible too early, in however many page tables, is one mistake.
        let is_told = |it: &Finding| (it.rule, it.event, it.rule) == (finding.rule, finding.event, Rule::NotVisible);
        if !self.findings.last().is_some_and(is_told) {
            self.findings.push(finding);
        }
    }

    /// Lets `event` happen on `cpu`. Accesses and exchanges have answers: call their own methods for them.
    pub fn apply(&mut self, cpu: u8, event: &Event) {
        match *event {
            Event::Store { address, value, is_release: false } => self.store(cpu, address, value),
            Event::Store { address, value, is_release: true } => self.store_release(cpu, address, value),
            Event::CompareExchange { address, expected, value } => {
                let _ = self.compare_exchange(cpu, address, expected, value);
            }
            Event::Exchange { address, value } => {
                self.exchange(cpu, address, value);
            }
            Event::Unlock => self.unlock(cpu),
            Event::Lock => self.lock(cpu),
            Event::Barrier(barrier) => self.barrier(cpu, barrier),
            Event::Tlbi { opcode, operand } => self.tlbi(cpu, opcode, operand),
            Event::Write { register, value } => self.write_register(cpu, register, value),
            Event::Enter(level) => self.enter(cpu, level),
            Event::Access { address, kind } => {
                self.access(cpu, address, kind);
            }
            Event::ConflictAbort => self.conflict_abort(cpu),
            Event::Release { address, size_bytes, owned } => self.release(cpu, address, size_bytes, owned),
            Event::ReuseAsid { tag, asid } => self.reuse_asid(cpu, tag, asid),
            Event::ReuseVmid(vmid) => self.reuse_vmid(cpu, vmid),
            Event::Revoked { tag, asid, first, last, allowed } => self.revoked(cpu, tag, asid, first, last, allowed),
            Event::Needs { first, last } => self.needs(cpu, first, last),
            Event::NeedsNothing => self.needs_nothing(cpu),
        }
    }

    /// A number that equal states share: for pruning an exploration. Findings, event numbers and how an entry came to be
    /// are no part of the state, and page tables count by what they are, not by the order in which they were met.
    pub fn digest(&self) -> u64 {
        let mut state = Digest::new();
        let may = &self.may;
        let mut order: Vec<(Space, SpaceId)> = may.spaces().map(|(id, it)| (it.space, id)).collect();
        order.sort_unstable();
        let rank = |id: SpaceId| order.iter().position(|(_, other)| *other == id).unwrap_or_default() as SpaceId;
        may.memory.digest().hash(&mut state);
        may.visible.hash(&mut state);
        (&may.loose, &may.unseen).hash(&mut state);
        for (space, id) in &order {
            let it = may.space(*id);
            if it.is_used() {
                (space, &it.live, &it.kept.holders, &it.kept.marks, &it.kept.passed, &it.hidden).hash(&mut state);
            }
        }
        for (entry, record) in may.stale.iter() {
            let mut entry = *entry;
            entry.space = rank(entry.space);
            (entry, &record.holders, &record.marks, &record.passed).hash(&mut state);
        }
        let (pieces, links) = may.freed.state();
        pieces.for_each(|it| it.hash(&mut state));
        links.for_each(|it| it.hash(&mut state));
        self.named.iter().for_each(|it| (it.cpu, it.register, it.freed).hash(&mut state));
        let unset = may.unset.iter().map(|(word, it)| (word, it.is_swept));
        unset.for_each(|it| it.hash(&mut state));
        self.late().for_each(|(word, _, cpus)| (word, cpus).hash(&mut state));
        // Of a moment only this counts: what was settled by then.
        let counts = |word| may.visible.counts(word) || may.unset.contains_key(&word);
        let unseen = self.unseen().filter(|(word, _)| counts(*word));
        let filled = may.loose.iter().map(|(key, (_, it))| (key, it)).chain(&may.unseen);
        let all = unseen.chain(filled.map(|(key, it)| (key.1, it.settled)));
        let settled: Vec<(u64, u64)> = all.filter_map(|(word, settled)| Some((word, settled?))).collect();
        for sweep in &may.sweeps {
            (sweep.issuer, sweep.selector, sweep.walkers, sweep.word, sweep.ends_unset).hash(&mut state);
            let its = settled.iter().filter(|(word, _)| *word == sweep.word);
            its.for_each(|(_, settled)| (*settled <= sweep.until).hash(&mut state));
        }
        for cpu in &self.cpus {
            (cpu.registers, &cpu.written, cpu.level, &cpu.needs, cpu.conflict, cpu.is_above).hash(&mut state);
            for moment in [cpu.behind, cpu.loaded, cpu.stored, cpu.locked, cpu.behind_lock] {
                settled.iter().for_each(|(_, settled)| (*settled <= moment).hash(&mut state));
            }
        }
        state.finish()
    }

    /// Late faults that some CPU may still take: the word, since when the store behind it is settled, and who.
    fn late(&self) -> impl Iterator<Item = (u64, u64, Cpus)> + '_ {
        let is_left = |late: &Late, cpu: u8| late.is_left_to(cpu, self.cpus[cpu as usize].synchronized);
        let cpus = move |late: &Late| {
            (0..self.cpus.len() as u8).filter(|cpu| is_left(late, *cpu)).fold(0, |all, cpu| all | 1 << cpu)
        };
        let all = self.may.late.iter().map(move |(word, late)| (word, late.settled, cpus(late)));
        all.filter(|(.., cpus)| *cpus != 0)
    }

    /// Words with a value that a walk may still miss, and since when the store of the newest is settled: what decides about
    /// [`Way::settled`] and [`Machine::tlbi_after`].
    pub fn unseen(&self) -> impl Iterator<Item = (u64, Option<u64>)> + '_ {
        let old = self.may.visible.words().flat_map(|(word, old)| old.iter().map(move |it| (word, it.settled)));
        let late = self.late().map(|(word, settled, _)| (word, Some(settled)));
        let unset = self.may.unset.iter().map(|(word, it)| (*word, Some(it.stored)));
        old.chain(late).chain(unset)
    }
}
