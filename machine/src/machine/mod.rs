//! The machine: memory, CPUs, what their TLBs may hold, and what the rules found so far. One method per event; events
//! happen one at a time, in the order of the calls, and nothing is random here. What walkers and TLBs may do in between
//! is not an event: it is folded into the may-TLB.

mod access;
mod barriers;
mod context;
mod maintenance;
mod ownership;
mod stores;

use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

pub use access::{Answer, Outcome, Update, Way};
pub(crate) use maintenance::Effect;

use crate::context::Regime;
use crate::event::{Event, Level};
use crate::finding::{Finding, Rule};
use crate::registers::{Ets, Features, Register, Registers};
use crate::seed::Digest;
use crate::tlb::entry::{Entry, SpaceId};
use crate::tlb::holders::Cpus;
use crate::tlb::may::{May, Space};
use crate::tlb::visible::Old;

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
    /// Event of the last DSB for loads and stores: what was settled by then comes before its TLBIs.
    pub(crate) completed: u64,
    /// TLBIs of this CPU that no DSB has completed: the widest scope is what matters to the lint.
    pub(crate) open_tlbis: u32,
    /// Input addresses it cannot do without.
    pub(crate) needs: Vec<(u64, u64)>,
    /// A conflict abort that is not resolved yet.
    pub(crate) conflict: bool,
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
        is_used && entry.lingers(self.features.ets != Ets::None)
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
    /// Report work that was not needed.
    is_linting: bool,
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
            completed: 0,
            open_tlbis: 0,
            needs: Vec::new(),
            conflict: false,
        };
        Self {
            may: May::default(),
            cpus: features.iter().map(cpu).collect(),
            event: 0,
            findings: Vec::new(),
            is_linting: false,
        }
    }

    /// Stores settle: once one is ordered by a barrier of its CPU, or observed by another CPU, the DSB of whoever comes after it
    /// counts too, and so does a TLBI behind that. This is all that the architecture promises. Without it, as here by
    /// default, software must have the DSB of the CPU that stored (RSPVBD), which is what the rules are to hold it to.
    pub fn settle_stores(&mut self) {
        self.may.visible.settles = true;
    }

    /// Also reports work that was not needed.
    pub fn lint(&mut self) {
        self.is_linting = true;
    }

    /// A 64-bit load by physical address: always the newest value, for explicit accesses are in order here.
    pub fn load(&mut self, cpu: u8, address: u64) -> u64 {
        self.event += 1;
        self.may.visible.observe(cpu, address & !7, self.event);
        self.word(address)
    }

    /// The word at a physical address; no event.
    pub fn word(&self, address: u64) -> u64 {
        self.may.memory.word(address)
    }

    /// True when no walk of any CPU reads the word, now or through what it kept: a store to it concerns nobody else.
    pub fn is_plain(&self, address: u64) -> bool {
        self.may.index.is_plain(address & !7)
    }

    /// The address of a table that some page table uses at too many places, if there is one: it leads to itself, or its
    /// tables to each other, by many of their slots. No walk finds anything from then on, and no rule says anything that
    /// counts.
    pub fn overrun(&self) -> Option<u64> {
        self.may.overrun
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
        if self.cpus.len() == 64 { !0 } else { (1 << self.cpus.len()) - 1 }
    }

    /// Lowest BBM level of `cpus`.
    pub(crate) fn bbm(&self, cpus: Cpus) -> u8 {
        let levels = self.cpus.iter().enumerate().filter(|(cpu, _)| cpus >> cpu & 1 == 1);
        levels.map(|(_, cpu)| cpu.features.bbm).min().unwrap_or(3)
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
        let rank = |id: SpaceId| order.iter().position(|(_, other)| *other == id).unwrap_or(0) as SpaceId;
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
        for (word, unset) in &may.unset {
            let is_before = |cpu: &Cpu| unset.stored <= cpu.completed;
            (word, unset.is_swept).hash(&mut state);
            self.cpus.iter().for_each(|cpu| is_before(cpu).hash(&mut state));
        }
        for sweep in &may.sweeps {
            let is_before = |it: &&Old| it.settled.is_some_and(|settled| settled <= sweep.event);
            let count = may.visible.old(sweep.word).iter().filter(is_before).count();
            (sweep.issuer, sweep.selector, sweep.word, sweep.ends_unset, count).hash(&mut state);
        }
        for cpu in &self.cpus {
            (cpu.registers, &cpu.written, cpu.level, &cpu.needs, cpu.conflict).hash(&mut state);
            for (word, late) in may.late.iter().filter(|(_, late)| late.event > cpu.synchronized) {
                (word, late.ending, late.settled <= cpu.completed).hash(&mut state);
            }
            for (_, old) in may.visible.words() {
                let count = |event| old.iter().filter(|it| it.settled.is_some_and(|settled| settled <= event)).count();
                count(cpu.completed).hash(&mut state);
            }
        }
        state.finish()
    }
}
