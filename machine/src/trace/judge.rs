//! A trace happens again on the simulated machine, line by line, and the rules watch.
//!
//! Words that the trace reads before it writes them hold from the start what it found there. What hardware writes by itself
//! (access flag, dirty state) shows as a difference in those bits alone, and is made up for.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use super::line::{Act, Of};
use super::text::{Line, Malformed, Trace};
use crate::context::{self, Tag};
use crate::event::{Event, Level};
use crate::finding::Finding;
use crate::machine::{Machine, Outcome};
use crate::memory::KnownMemory;
use crate::registers::{HCR_E2H, HCR_VM, Register};
use crate::syndrome::Fault;
use crate::tlb::holders::Cpus;

const ACCESS_FLAG: u64 = 1 << 10;
/// AP\[2\] of stage 1, S2AP\[1\] of stage 2: what hardware changes when it sets the dirty state.
const WRITE: u64 = 1 << 7;
const DBM: u64 = 1 << 51;
/// Concatenated root tables of a stage 2 at most. (D8.2.2)
const CONCATENATED: u64 = 16;

/// One word of memory, as the trace tells it.
#[derive(Clone, Debug, Default)]
struct Word {
    /// Every value since the start: a load may be logged later than a store that it did not see.
    values: Vec<u64>,
    /// The lines that wrote it.
    writers: Vec<usize>,
}

/// A trace and how far it has been judged.
#[derive(Clone, Debug)]
pub struct Judge<'t> {
    trace: &'t Trace<'t>,
    machine: Machine,
    next: usize,
    /// The machine's event count after each line so far.
    ends: Vec<u64>,
    /// What memory held before the first event.
    initial: KnownMemory,
    /// What was written since.
    words: BTreeMap<u64, Word>,
    /// CPUs that have begun: of the others the trace tells what registers held before.
    begun: Cpus,
    faults: Vec<(usize, Fault)>,
}

impl<'t> Judge<'t> {
    /// The machine as it is before the first event. `is_linting` finds work that was not needed, too.
    pub fn new(trace: &'t Trace<'t>, is_linting: bool) -> Self {
        let initial = initial(trace);
        let mut machine = Machine::with_memory(&trace.cpus, initial.memory().clone());
        if is_linting {
            machine.lint();
        }
        let (words, ends, faults) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { trace, machine, next: 0, ends, initial, words, begun: 0, faults }
    }

    /// Finds frames, too, that are freed while a live descriptor still maps them.
    pub fn be_strict(&mut self) {
        self.machine.be_strict();
    }

    /// Computes every answer afresh: see [`Machine::remember_nothing`].
    pub fn remember_nothing(&mut self) {
        self.machine.remember_nothing();
    }

    /// Lets the next line happen; false at the end.
    ///
    /// # Errors
    /// A line that cannot have happened after those before it.
    pub fn step(&mut self) -> Result<bool, Malformed> {
        let Some(line) = self.trace.lines.get(self.next).copied() else { return Ok(false) };
        let what = self.happen(&line).and_then(|()| self.machine.overrun().map_or(Ok(()), too_many_ways));
        what.map_err(|what| Malformed { line: line.number, what })?;
        self.next += 1;
        self.ends.push(self.machine.events());
        Ok(true)
    }

    /// How many lines have happened.
    pub fn steps(&self) -> usize {
        self.trace.lines[..self.next].chunk_by(|one, next| one.number == next.number).count()
    }

    /// True when every line has happened.
    pub fn is_over(&self) -> bool {
        self.next == self.trace.lines.len()
    }

    /// The machine as it is now.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// What was found so far, oldest first.
    pub fn findings(&self) -> &[Finding] {
        self.machine.findings()
    }

    /// Accesses that can only fault, by their lines: no findings, for many a kernel maps on demand.
    pub fn faults(&self) -> &[(usize, Fault)] {
        &self.faults
    }

    /// The number of the line that an event of the machine belongs to; `None` before the first.
    pub fn line_of(&self, event: u64) -> Option<usize> {
        let at = self.ends.partition_point(|end| *end < event);
        self.trace.lines.get(at).filter(|_| event > 0).map(|line| line.number)
    }

    /// The trace.
    pub(super) fn trace(&self) -> &'t Trace<'t> {
        self.trace
    }

    /// The last line before `line` that wrote the word at `address`.
    pub(super) fn writer(&self, address: u64, line: usize) -> Option<usize> {
        let writers = &self.words.get(&address)?.writers;
        writers.iter().rev().copied().find(|it| *it < line)
    }

    fn happen(&mut self, line: &Line) -> Result<(), String> {
        let cpu = line.cpu;
        match line.act {
            Act::Load { address, value } => self.load(cpu, address, value, line.number),
            Act::Holds { address, value } => self.learn(address, value, line.number),
            Act::Data { address } if self.machine.forget_unreached(address) => Ok(()),
            Act::Data { address } => {
                Err(alloc::format!("walks may read a table at {address:#x}, expected `data` where none do any more"))
            }
            Act::Exchange { address, expected, value, found, is_release } if expected == found => {
                self.reconcile(cpu, address, found, line.number)?;
                self.note(address, value, line.number);
                if is_release {
                    self.machine.make_release(cpu);
                }
                self.machine.exchange(cpu, address, value);
                Ok(())
            }
            Act::Exchange { address, found, .. } => self.load(cpu, address, found, line.number),
            Act::Unknown { value, level, .. } => {
                if self.has_begun(cpu) && self.level(cpu) < level {
                    self.machine.refuse(cpu, None, value, level);
                }
                Ok(())
            }
            Act::FreeAsid(asid) => {
                let tag = self.tag(cpu);
                self.machine.reuse_asid(cpu, tag, asid);
                Ok(())
            }
            Act::Revoked { first, last, allowed, of } => {
                let (tag, asid) = match of {
                    Of::Everyone => (self.tag(cpu), None),
                    Of::Asid(asid) => (self.tag(cpu), Some(asid)),
                    Of::Stage2(vmid) => (Tag::stage2(vmid), None),
                };
                self.machine.revoked(cpu, tag, asid, first, last, allowed);
                Ok(())
            }
            Act::Event(event) => self.apply(cpu, &event, line.number),
        }
    }

    fn apply(&mut self, cpu: u8, event: &Event, number: usize) -> Result<(), String> {
        if let Event::Store { address, value, .. } = *event {
            self.note(address, value, number);
        }
        if let (Event::Write { register, value }, None) = (*event, self.needed_level(cpu, event)) {
            self.check_register(cpu, register, value)?;
        }
        match (self.needed_level(cpu, event), *event) {
            (Some(level), Event::Tlbi { opcode, operand }) => self.machine.refuse(cpu, opcode.decode(), operand, level),
            (Some(level), Event::Write { value, .. }) => self.machine.refuse(cpu, None, value, level),
            (_, Event::Access { address, kind }) => {
                let outcomes = self.machine.access(cpu, address, kind).outcomes;
                let is_fault = |it: &Outcome| matches!(it, Outcome::Fault(_));
                if let (Some(Outcome::Fault(fault)), true) = (outcomes.first(), outcomes.iter().all(is_fault)) {
                    self.faults.push((number, *fault));
                }
            }
            _ => self.machine.apply(cpu, event),
        }
        if !matches!(event, Event::Write { .. } | Event::Barrier(_)) {
            self.begun |= 1 << cpu;
        }
        Ok(())
    }

    /// The exception level that an instruction needs, if `cpu` is below it: there it is UNDEFINED.
    fn needed_level(&self, cpu: u8, event: &Event) -> Option<Level> {
        let is_of_el2 = match event {
            Event::Tlbi { opcode, .. } => opcode.fields().0 == 4,
            Event::Write { register, .. } if self.has_begun(cpu) => register.is_of_el2(),
            _ => return None,
        };
        let needed = if is_of_el2 { Level::El2 } else { Level::El1 };
        (self.level(cpu) < needed).then_some(needed)
    }

    fn level(&self, cpu: u8) -> Level {
        self.machine.cpus()[usize::from(cpu)].level()
    }

    fn has_begun(&self, cpu: u8) -> bool {
        self.begun >> cpu & 1 == 1
    }

    fn note(&mut self, address: u64, value: u64, number: usize) {
        let word = self.words.entry(address).or_default();
        word.values.push(value);
        word.writers.push(number);
    }

    /// A load that saw `value`: what is there now, what was there before, or that with a bit more from hardware.
    fn load(&mut self, cpu: u8, address: u64, value: u64, number: usize) -> Result<(), String> {
        let was_there = self.initial.get(address) == Some(value)
            || self.words.get(&address).is_some_and(|word| word.values.contains(&value));
        if !was_there {
            self.reconcile(cpu, address, value, number)?;
        }
        self.machine.load(cpu, address);
        Ok(())
    }

    /// What somebody stored there is not in the trace, and long over.
    fn learn(&mut self, address: u64, value: u64, number: usize) -> Result<(), String> {
        if !self.machine.learn(address, value) {
            let what = "walks read the word at";
            return Err(alloc::format!("{what} {address:#x}, expected `holds` of one that none reads yet, or `store`"));
        }
        self.note(address, value, number);
        Ok(())
    }

    /// Memory must hold `found`, or become that by what hardware writes.
    fn reconcile(&mut self, cpu: u8, address: u64, found: u64, number: usize) -> Result<(), String> {
        let now = self.machine.word(address);
        if now == found {
            return Ok(());
        }
        if !self.is_hardware_update(now, found) {
            let who = match self.words.get(&address).and_then(|word| word.writers.last()) {
                Some(writer) => alloc::format!("since line {writer}"),
                None => String::from("since before the trace"),
            };
            return Err(alloc::format!(
                "{found:#x} was found at {address:#x}, expected {now:#x}, which is there {who}: a store is missing from \
                 the trace, or lines are out of order"
            ));
        }
        self.note(address, found, number);
        self.machine.exchange(cpu, address, found);
        Ok(())
    }

    /// Whether hardware may have made `new` of a valid descriptor by setting the access flag or the dirty state.
    fn is_hardware_update(&self, old: u64, new: u64) -> bool {
        let has = |able: fn(&crate::registers::Features) -> bool| self.trace.cpus.iter().any(able);
        let changed = old ^ new;
        old & 1 == 1
            && changed & !(ACCESS_FLAG | WRITE) == 0
            && (changed & ACCESS_FLAG == 0 || new & ACCESS_FLAG != 0 && has(|it| it.access_flag))
            && (changed & WRITE == 0 || old & DBM != 0 && has(|it| it.dirty_state))
    }

    /// The regime and VMID whose ASIDs and input addresses `cpu` means now.
    fn tag(&self, cpu: u8) -> Tag {
        let it = &self.machine.cpus()[usize::from(cpu)];
        let registers = it.newest_registers();
        match it.level() {
            Level::El2 if registers.get(Register::HcrEl2) & HCR_E2H != 0 => Tag::EL20,
            Level::El2 => Tag::EL2,
            _ if context::is_host(&registers) => Tag::EL20,
            _ => Tag::el10(context::current_vmid(&registers, it.features())),
        }
    }

    /// A root that stage 2 cannot have would be walked for ever.
    fn check_register(&self, cpu: u8, register: Register, value: u64) -> Result<(), String> {
        // HCR_EL2 without its VM bit asks for no stage 2, whatever VTCR_EL2 holds.
        let asks = register == Register::VtcrEl2 || register == Register::HcrEl2 && value & HCR_VM != 0;
        if !asks {
            return Ok(());
        }
        let it = &self.machine.cpus()[usize::from(cpu)];
        let mut registers = it.newest_registers();
        registers.set(register, value);
        registers.set(Register::HcrEl2, HCR_VM);
        let Some(stage2) = context::stage2(&registers, it.features()) else { return Ok(()) };
        let tables = stage2.geometry.root_bytes() >> stage2.geometry.granule.shift();
        if tables <= CONCATENATED {
            return Ok(());
        }
        Err(alloc::format!("VTCR_EL2 asks for {tables} root tables side by side, expected {CONCATENATED} at most"))
    }
}

fn too_many_ways(table: u64) -> Result<(), String> {
    Err(alloc::format!(
        "from here on the table at {table:#x} is reached by too many ways, expected few more than there are tables: \
         tables lead to themselves or each other by many of their slots, and what follows is not judged"
    ))
}

/// What memory holds before the first event: what the trace says, and what it finds in words that it did not write.
fn initial(trace: &Trace<'_>) -> KnownMemory {
    let mut memory = trace.memory.clone();
    let mut written = BTreeSet::new();
    for line in &trace.lines {
        match line.act {
            Act::Load { address, value: found } | Act::Exchange { address, found, .. }
                if !written.contains(&address) =>
            {
                memory.learn(address, found)
            }
            Act::Event(Event::Store { address, .. }) | Act::Holds { address, .. } => written.insert(address),
            _ => false,
        };
    }
    memory
}
