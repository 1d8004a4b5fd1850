//! Decides what of a guest's stores and instructions the machine is shown, and in which order.
//!
//! ```text
//! MSR, TLBI ──wait until it is sure that they did not trap──┐
//! DSB, ISB, exception ──unless nothing hangs on it──────────┼──▶ Machine::apply ──▶ findings
//! store to a table ──a table it links is learnt first───────┘
//! ```

mod happen;
mod tables;
mod visible;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use machine::barrier::{Accesses, Barrier, Domain};
use machine::event::{Event, Level, Owned};
use machine::finding::Rule;
use machine::machine::Machine;
use machine::registers::{Features, HCR_E2H, Register};
use machine::trace::{Act, HEAD};
use serde_json::{Value, json};

use crate::frames::Frames;
use crate::fresh::Span;
use crate::instruction::{RESETS, Store, System};
use crate::record::{Log, Record};
use crate::registers;
use crate::report::{self, Told};

/// The guest, as far as the auditor asks.
pub trait Guest {
    /// Reads words from a physical address on; false where no memory is.
    fn read(&self, address: u64, words: &mut [u64]) -> bool;
    /// Instructions that were executed so far, by all CPUs.
    fn instructions(&self) -> u64;
    /// Addresses of the calls that led here, innermost first.
    fn chain(&self) -> Vec<u64>;
    /// Tells something.
    fn tell(&self, message: &Value);
}

/// What of one CPU the machine need not know.
#[derive(Clone, Debug)]
struct Cpu {
    level: Level,
    /// It has done something that a DSB, or a context synchronization event, may be for.
    awaits_dsb: bool,
    awaits_sync: bool,
    /// What it marked frames with at its last DSB.
    finished: u32,
    /// What it made valid for its kernel since its last DSB, and what before that, since it synchronized last.
    mapped: BTreeSet<Span>,
    finished_map: BTreeSet<Span>,
}

impl Cpu {
    const NEW: Self = Self {
        level: Level::El1,
        awaits_dsb: false,
        awaits_sync: false,
        finished: 0,
        mapped: BTreeSet::new(),
        finished_map: BTreeSet::new(),
    };
}

/// An instruction that was about to be executed, and may yet turn out to have trapped.
#[derive(Clone, Copy, Debug)]
struct Pending {
    place: u64,
    what: Waiting,
}

#[derive(Clone, Copy, Debug)]
enum Waiting {
    Event(Event),
    /// A block is zeroed where a table is.
    Zero {
        address: u64,
        bytes: u64,
    },
    /// Firmware is asked to reset the machine.
    Reset,
}

/// How much of what was seen.
#[derive(Clone, Copy, Default, Debug)]
struct Seen {
    stores: u64,
    tlbis: u64,
    barriers: u64,
    registers: u64,
    tables: u64,
    frees: u64,
}

/// Everything that is known of the guest.
pub struct Auditor<'f> {
    machine: Machine,
    /// Of machines before it was reset.
    past_events: u64,
    frames: &'f Frames,
    cpus: Vec<Cpu>,
    /// By CPU.
    pending: Vec<Option<Pending>>,
    log: Log,
    told: Vec<Told>,
    /// Places of `told`, by rule, instruction, cause, and for memory that is given away the calls that led there.
    index: BTreeMap<(Rule, u64, u64, Vec<u64>), usize>,
    forgotten: BTreeSet<u64>,
    /// Barriers and TLBIs that the machine was shown, by place, and how often.
    sites: BTreeMap<u64, (String, u64)>,
    trace: Option<Box<dyn Write + Send>>,
    seen: Seen,
    cut: Option<String>,
}

/// Events between two words of progress.
const EVENTS_A_WORD: u64 = 4096;

impl<'f> Auditor<'f> {
    /// Nothing has happened yet. Instructions at `forgotten` are taken not to have been executed.
    pub fn new(
        features: &[Features],
        frames: &'f Frames,
        forgotten: BTreeSet<u64>,
        trace: Option<Box<dyn Write + Send>>,
    ) -> Self {
        let mut auditor = Self {
            machine: Machine::new(features),
            frames,
            past_events: 0,
            cpus: vec![Cpu::NEW; features.len()],
            pending: vec![None; features.len()],
            log: Log::default(),
            told: Vec::new(),
            index: BTreeMap::new(),
            forgotten,
            sites: BTreeMap::new(),
            trace,
            seen: Seen::default(),
            cut: None,
        };
        auditor.trace(format_args!("{HEAD}"));
        for (cpu, it) in features.iter().enumerate() {
            auditor.trace(format_args!("cpu {cpu} {}", registers::fields(it)));
        }
        auditor
    }

    /// `cpu` is about to execute an instruction; `operand` is its Xt.
    pub fn system(&mut self, guest: &dyn Guest, cpu: u8, place: u64, system: System, operand: u64) {
        self.commit(guest, cpu);
        if self.forgotten.contains(&place) {
            return;
        }
        match system {
            System::Write(name, _) => {
                let hcr = self.machine.cpus()[usize::from(cpu)].newest_registers().get(Register::HcrEl2);
                let is_host = self.cpus[usize::from(cpu)].level == Level::El2 && hcr & HCR_E2H != 0;
                let event = Event::Write { register: name.register(is_host), value: operand };
                self.wait(cpu, place, Waiting::Event(event));
            }
            System::Tlbi(opcode, _) => {
                self.wait(cpu, place, Waiting::Event(Event::Tlbi { opcode, operand }));
            }
            System::Barrier(barrier) => self.barrier(guest, cpu, place, barrier),
            System::Call if RESETS.contains(&(operand & 0xffff_ffff)) => self.wait(cpu, place, Waiting::Reset),
            System::Return | System::ZeroBlock(_) | System::Call => {}
        }
    }

    /// `cpu` has taken an exception at `place`, or returns from one there.
    pub fn enter(&mut self, guest: &dyn Guest, cpu: u8, place: u64, level: Level, is_trap: bool) {
        self.pending[usize::from(cpu)].take_if(|it| is_trap && it.place == place);
        self.commit(guest, cpu);
        let it = &mut self.cpus[usize::from(cpu)];
        it.level = level;
        let crosses = |one: Level, other: Level| (one == Level::El2) != (other == Level::El2);
        if it.awaits_sync || crosses(level, self.machine.cpus()[usize::from(cpu)].level()) {
            self.happen(guest, Record::of(cpu, place, Event::Enter(level)));
        }
    }

    /// The registers of a CPU as they are, where it may have been reset.
    pub fn refresh(&mut self, guest: &dyn Guest, cpu: u8, level: Level, values: &[(Register, u64)]) {
        self.commit(guest, cpu);
        self.cpus[usize::from(cpu)].level = level;
        let newest = self.machine.cpus()[usize::from(cpu)].newest_registers();
        let is_changed = |it: &&(Register, u64)| newest.get(it.0) != it.1;
        let is_switch =
            |it: &&(Register, u64)| matches!(it.0, Register::SctlrEl1 | Register::SctlrEl2 | Register::HcrEl2);
        let switches: Vec<_> = values.iter().filter(is_changed).filter(is_switch).copied().collect();
        let others: Vec<_> = values.iter().filter(is_changed).filter(|it| !is_switch(it)).copied().collect();
        // Translation is off meanwhile: no walk is to see half of it.
        let off = switches.iter().map(|(register, _)| (*register, 0)).collect();
        for writes in [off, others, switches] {
            for (register, value) in &writes {
                self.write(guest, cpu, 0, *register, *value);
            }
            if !writes.is_empty() {
                self.happen(guest, Record::of(cpu, 0, Event::Enter(level)));
            }
        }
    }

    /// `cpu` has stored to a frame where a table is.
    pub fn store(&mut self, guest: &dyn Guest, cpu: u8, place: u64, how: Store, address: u64, bytes: u64) {
        self.commit(guest, cpu);
        let mut word = address & !7;
        while word < address + bytes {
            self.store_word(guest, cpu, place, how, word);
            word += 8;
        }
    }

    /// `cpu` is about to zero a block where a table is.
    pub fn zero(&mut self, guest: &dyn Guest, cpu: u8, place: u64, address: u64, bytes: u64) {
        self.commit(guest, cpu);
        self.wait(cpu, place, Waiting::Zero { address, bytes });
    }

    /// `cpu` has read `value`, about to exchange it: hardware may have written that.
    pub fn saw(&mut self, guest: &dyn Guest, cpu: u8, place: u64, address: u64, value: u64) {
        self.commit(guest, cpu);
        self.note_hardware(guest, cpu, place, address & !7, value);
    }

    /// `cpu` has taken a lock.
    pub fn lock(&mut self, guest: &dyn Guest, cpu: u8, place: u64) {
        self.commit(guest, cpu);
        self.frames.locks.take(cpu);
        self.happen(guest, Record::of(cpu, place, Event::Lock));
    }

    /// `cpu` is about to give a lock away.
    pub fn unlock(&mut self, guest: &dyn Guest, cpu: u8, place: u64) {
        self.commit(guest, cpu);
        self.frames.locks.give(cpu);
        self.happen(guest, Record::of(cpu, place, Event::Unlock));
    }

    /// `cpu` gives memory away, which somebody else may have from now on.
    pub fn free(&mut self, guest: &dyn Guest, cpu: u8, place: u64, address: u64, size_bytes: u64) {
        self.commit(guest, cpu);
        self.seen.frees += 1;
        self.happen(guest, Record::of(cpu, place, Event::Release { address, size_bytes, owned: Owned::Frame }));
    }

    /// Bytes of a page where the kernel of `cpu` is.
    pub fn page_bytes(&self, cpu: u8) -> u64 {
        let registers = self.machine.cpus()[usize::from(cpu)].newest_registers();
        [4, 16, 4, 64][(registers.get(Register::TcrEl1) >> 30 & 3) as usize] << 10
    }

    /// Says how far the guest is.
    pub fn tell_progress(&self, guest: &dyn Guest) {
        let findings = self.told.iter().map(|it| it.count).sum();
        guest.tell(&report::progress(guest.instructions(), self.past_events + self.machine.events(), findings));
    }

    /// The guest has ended.
    pub fn end(&mut self, guest: &dyn Guest) {
        (0..self.cpus.len()).for_each(|cpu| self.commit(guest, cpu as u8));
        if let Some(trace) = &mut self.trace
            && let Err(error) = trace.flush()
        {
            self.cut.get_or_insert(format!("the trace: {error}"));
        }
        let Seen { stores, tlbis, barriers, registers, tables, frees } = self.seen;
        let seen = json!({
            "stores": stores, "tlbis": tlbis, "barriers": barriers, "registers": registers, "tables": tables,
            "frees": frees,
        });
        let sites = self.sites.iter().map(|(place, (what, count))| json!([place, what, count])).collect();
        let (instructions, events) = (guest.instructions(), self.past_events + self.machine.events());
        guest.tell(&report::end(instructions, events, &self.told, seen, sites, self.cut.as_deref()));
    }

    fn wait(&mut self, cpu: u8, place: u64, what: Waiting) {
        self.pending[usize::from(cpu)] = Some(Pending { place, what });
    }

    /// What waited for the next event of `cpu` did not trap.
    fn commit(&mut self, guest: &dyn Guest, cpu: u8) {
        let Some(Pending { place, what }) = self.pending[usize::from(cpu)].take() else { return };
        match what {
            Waiting::Event(Event::Write { register, value }) => self.write(guest, cpu, place, register, value),
            Waiting::Event(event) => {
                self.seen.tlbis += 1;
                self.happen(guest, Record::of(cpu, place, event));
            }
            Waiting::Zero { address, bytes } => {
                let words = (address..address + bytes).step_by(8);
                words.for_each(|word| self.store_word(guest, cpu, place, Store::default(), word));
            }
            Waiting::Reset => self.reset(),
        }
    }

    /// The machine begins anew: nothing is in any TLB, as when it began first, and where tables were there is memory.
    fn reset(&mut self) {
        let features: Vec<Features> = self.machine.cpus().iter().map(|it| *it.features()).collect();
        self.past_events += self.machine.events();
        self.machine = Machine::new(&features);
        self.log = Log::default();
        self.pending.fill(None);
        for (number, cpu) in (0..).zip(&mut self.cpus) {
            // What was stored before is in memory by now.
            *cpu = Cpu { finished: self.frames.now(number), ..Cpu::NEW };
            self.frames.order(number);
        }
        self.publish();
        self.trace(format_args!("# the machine was reset: what follows is not in this trace"));
        if let Some(mut trace) = self.trace.take()
            && let Err(error) = trace.flush()
        {
            self.cut.get_or_insert(format!("the trace: {error}"));
        }
    }

    fn write(&mut self, guest: &dyn Guest, cpu: u8, place: u64, register: Register, value: u64) {
        self.seen.registers += 1;
        self.settle_level(guest, cpu, place);
        let mut links = self.machine.links_by(cpu, register, value);
        links.retain(|link| !self.machine.is_live(link));
        self.learn(guest, cpu, links, tables::By::Register);
        self.happen(guest, Record::of(cpu, place, Event::Write { register, value }));
    }

    fn barrier(&mut self, guest: &dyn Guest, cpu: u8, place: u64, barrier: Barrier) {
        let it = &mut self.cpus[usize::from(cpu)];
        let is_awaited = match barrier {
            Barrier::Isb => it.awaits_sync,
            Barrier::Dsb { accesses: Accesses::Loads, .. } | Barrier::Dmb { .. } => false,
            Barrier::Dsb { .. } => it.awaits_dsb,
        };
        if let Barrier::Dsb { accesses, .. } | Barrier::Dmb { accesses, .. } = barrier
            && accesses != Accesses::Loads
        {
            if let Barrier::Dsb { domain, .. } = barrier {
                it.finished = self.frames.now(cpu);
                if domain != Domain::NonShareable {
                    self.frames.locks.finish(cpu);
                }
            }
            self.frames.order(cpu);
        }
        if is_awaited {
            self.seen.barriers += 1;
            self.happen(guest, Record::of(cpu, place, Event::Barrier(barrier)));
        }
    }

    /// The machine's CPU is at the level where the guest's is, if that was not told yet.
    fn settle_level(&mut self, guest: &dyn Guest, cpu: u8, place: u64) {
        let level = self.cpus[usize::from(cpu)].level;
        if self.machine.cpus()[usize::from(cpu)].level() != level {
            self.happen(guest, Record::of(cpu, place, Event::Enter(level)));
        }
    }

    fn happen(&mut self, guest: &dyn Guest, record: Record) {
        if self.cut.is_some() {
            return;
        }
        if !matches!(record.act, Act::Event(Event::Enter(_))) {
            self.settle_level(guest, record.cpu, record.place);
        }
        let before = self.machine.events();
        self.apply(&record);
        let now = self.machine.events();
        self.log.add(now, record);
        if let Act::Event(Event::Barrier(_) | Event::Tlbi { .. }) = record.act {
            let what = || record.act.to_string().split(" 0x").next().unwrap_or_default().to_owned();
            self.sites.entry(record.place).or_insert_with(|| (what(), 0)).1 += 1;
        }
        self.trace(format_args!("{record} # {:#x}", record.place));
        for finding in self.machine.take_findings() {
            self.find(guest, &record, &finding);
        }
        if let Some(table) = self.machine.overrun() {
            self.cut = Some(format!("the table at {table:#x} is reached by too many ways; what follows is not judged"));
        }
        if before / EVENTS_A_WORD != now / EVENTS_A_WORD {
            self.tell_progress(guest);
        }
    }

    /// A trace that cannot be written any more ends there.
    fn trace(&mut self, line: std::fmt::Arguments<'_>) {
        if let Some(trace) = &mut self.trace
            && let Err(error) = writeln!(trace, "{line}")
        {
            self.trace = None;
            self.cut.get_or_insert(format!("the trace: {error}"));
        }
    }
}
