//! casemate's logs as traces: what it logs of stores, barriers, TLBIs and registers happens on the machine as it stands there.
//!
//! casemate logs an EL2 hypervisor with 4 KiB pages: EL2's stage 1 and a stage 2. Its locks and hints of ownership are rules of
//! its own, not the architecture's: they are counted, and not judged. `docs/trace-format.md` says what is assumed where a log
//! is silent.

mod record;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use machine::barrier::Barrier;
use machine::event::{Event, Level, Owned};
use machine::memory::KnownMemory;
use machine::registers::{Ets, Features, HCR_VM, Register, SCTLR_M};
use machine::trace::{
    Act, LARGEST_TABLE, Line, MEMORY_END, MOST_CPUS, Malformed, REGISTERS, Told, Trace, find, number, printable,
    set_features,
};

use record::{Log, Record};

/// T0SZ and TG0: all that casemate reads of TCR_EL2 and VTCR_EL2.
const READ_OF_TCR: u64 = 0b1100_0000_0011_1111;
/// TCR_EL2.PS and VTCR_EL2.PS = 48 bits.
const OUTPUT_48_BITS: u64 = 5 << 16;
/// VTCR_EL2.SL0 for a start level of 0 to 3, with 4 KiB pages.
const START_LEVELS: [u64; 4] = [2, 1, 0, 3];
/// What makes writes of registers take effect, and is no barrier of the log's that could be called needless.
const SYNCHRONIZED: Event = Event::Enter(Level::El2);
/// casemate's tables have one page each.
const TABLE_BYTES: u64 = 0x1000;

/// What is taken for granted of a machine whose log does not say it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Assumed {
    /// What the ID registers of every CPU announce.
    features: Features,
    /// Registers that hold this, whatever the log writes to them.
    given: BTreeMap<Register, u64>,
}

impl Default for Assumed {
    fn default() -> Self {
        let features = Features { ets: Ets::Ets2, range_tlbi: true, ttl: true, ..Features::plain() };
        Self { features, given: BTreeMap::new() }
    }
}

impl Assumed {
    /// The registers of EL2 that say how tables are read, and what they hold where a log never writes them: 4 KiB pages,
    /// 48 bits from level 0, Normal memory in the first attribute, translation on.
    const REGISTERS: [(Register, u64); 5] = [
        (Register::TcrEl2, 0x8080_0010 | OUTPUT_48_BITS),
        (Register::VtcrEl2, 0x8000_0090 | OUTPUT_48_BITS),
        (Register::MairEl2, 0xff),
        (Register::SctlrEl2, SCTLR_M),
        (Register::HcrEl2, HCR_VM),
    ];

    /// Sets fields of the ID registers: `bbm=2 ttl=0`, as in a `cpu` line of a trace.
    ///
    /// # Errors
    /// The word that makes no sense.
    pub(crate) fn set_features(&mut self, text: &str) -> Result<(), String> {
        set_features(&mut self.features, text)
    }

    /// Gives a register a value for the whole log: `vtcr_el2=0x50098`.
    ///
    /// # Errors
    /// What makes no sense.
    pub(crate) fn set_register(&mut self, text: &str) -> Result<(), String> {
        let expected = || format!("`{text}`, expected tcr_el2, vtcr_el2, mair_el2, sctlr_el2 or hcr_el2 =VALUE");
        let (name, value) = text.split_once('=').ok_or_else(expected)?;
        let register = find(&REGISTERS, name).map_err(|_| expected())?;
        if !Self::REGISTERS.iter().any(|(known, _)| *known == register) {
            return Err(expected());
        }
        self.given.insert(register, number(value)?);
        Ok(())
    }
}

/// True for the text of a casemate log: its first record, or casemate's own word, stands where a trace has its head.
pub(crate) fn is_casemate(text: &str) -> bool {
    matches!(without_mark(text).trim_start().bytes().next(), Some(b'(' | b'!'))
}

/// Without the byte order mark that some editors put first.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Reads a log; what it does not say of the machine is `assumed`.
pub(crate) fn read<'t>(text: &'t str, assumed: &Assumed) -> Result<Trace<'t>, Malformed> {
    let text = without_mark(text);
    let log = Log::read(text)?;
    let mut translation = Translation::new(text, assumed, &log.records);
    for mut record in log.records {
        let line = record.line;
        translation.record(&mut record).map_err(|what| Malformed::new(line, &what))?;
    }
    if translation.trace.cpus.is_empty() {
        return Err(Malformed::new(1, "a log without a record, expected `(mem-write (id 0) (tid 0) …)` or another"));
    }
    Ok(translation.finish(log.said))
}

/// A log on its way to be a trace.
struct Translation<'t, 'a> {
    trace: Trace<'t>,
    assumed: &'a Assumed,
    /// Registers that the log never writes, and that nobody gave: what they hold.
    silent: BTreeMap<Register, u64>,
    /// Every word met so far, and what it holds.
    words: BTreeMap<u64, u64>,
    /// Ranges that were initialised to zero.
    zeroed: Vec<(u64, u64)>,
    /// CPUs on which translation was turned on with the first write of VTTBR_EL2, and of TTBR0_EL2.
    turned_on: [u64; 2],
    /// CPUs that stored since their last DSB.
    unfinished: u64,
    locks: usize,
    hints: usize,
}

impl<'t, 'a> Translation<'t, 'a> {
    fn new(text: &'t str, assumed: &'a Assumed, records: &[Record<'t>]) -> Self {
        let told = text.lines().map(|_| Told::default()).collect();
        let trace = Trace {
            text: told,
            cpus: Vec::new(),
            memory: KnownMemory::default(),
            lines: Vec::new(),
            notes: Vec::new(),
        };
        let is_written = |register| {
            records.iter().filter(|it| it.name == "sysreg-write").any(|it| {
                let mut it = it.clone();
                let name = it.word("id").and_then(|_| it.word("tid")).and_then(|_| it.word("sysreg"));
                name.and_then(|name| find(&REGISTERS, name)) == Ok(register)
            })
        };
        let known = Assumed::REGISTERS.iter().copied();
        let silent = known.filter(|(it, _)| !assumed.given.contains_key(it) && !is_written(*it)).collect();
        let (words, zeroed) = (BTreeMap::new(), Vec::new());
        Self { trace, assumed, silent, words, zeroed, turned_on: [0; 2], unfinished: 0, locks: 0, hints: 0 }
    }

    fn record(&mut self, record: &mut Record<'t>) -> Result<(), String> {
        self.trace.text[record.line - 1] = Told { quote: record.quote.trim(), comment: record.source };
        record.decimal("id")?;
        let cpu = record.decimal("tid")?;
        if cpu >= MOST_CPUS as u64 {
            return Err(format!("thread {cpu}, expected one below {MOST_CPUS}"));
        }
        self.add_cpus(cpu as u8, record.line);
        self.act(cpu as u8, record)?;
        record.end()
    }

    /// CPUs up to `cpu`, each at EL2 with what its registers hold from the start.
    fn add_cpus(&mut self, cpu: u8, line: usize) {
        for new in self.trace.cpus.len() as u8..=cpu {
            self.trace.cpus.push(self.assumed.features);
            for register in [Register::TcrEl2, Register::VtcrEl2, Register::MairEl2] {
                if let Some(value) = self.held(register) {
                    self.push(new, line, Event::Write { register, value });
                }
            }
            self.push(new, line, SYNCHRONIZED);
        }
    }

    /// What a register holds whatever the log does, if it does.
    fn held(&self, register: Register) -> Option<u64> {
        self.assumed.given.get(&register).or_else(|| self.silent.get(&register)).copied()
    }

    fn push(&mut self, cpu: u8, number: usize, event: Event) {
        self.trace.lines.push(Line { number, cpu, act: Act::Event(event) });
    }

    fn act(&mut self, cpu: u8, record: &mut Record<'t>) -> Result<(), String> {
        let line = record.line;
        match record.name {
            "mem-write" => {
                let order = record.word("mem-order")?;
                let orders = [("plain", false), ("release", true)];
                let is_release = find(&orders, order)?;
                let (address, value) = (word_address(record)?, record.hexadecimal("value")?);
                self.store(cpu, line, address, value, is_release);
            }
            "mem-read" => {
                let (address, value) = (word_address(record)?, record.hexadecimal("value")?);
                self.load(cpu, line, address, value);
            }
            "mem-init" => {
                let (address, size) = range(record)?;
                self.zero(cpu, line, address, size);
            }
            "mem-set" => self.set(cpu, record)?,
            "mem-free" => {
                let (address, size_bytes) = range(record)?;
                limit(size_bytes)?;
                self.push(cpu, line, Event::Release { address, size_bytes, owned: Owned::Table });
            }
            "sysreg-write" => {
                let register = find(&REGISTERS, record.word("sysreg")?)?;
                let value = record.hexadecimal("value")?;
                self.register(cpu, line, register, value);
            }
            "barrier" => {
                let kind = record.word("dsb or isb")?;
                let is_limited = kind == "dsb" || kind == "dmb";
                let act = if is_limited { Act::read(&[kind, record.word("kind")?])? } else { Act::read(&[kind])? };
                let Act::Event(Event::Barrier(barrier)) = act else {
                    return Err(format!("`{kind}`, expected dsb, dmb or isb"));
                };
                self.unfinished &= !(u64::from(matches!(barrier, Barrier::Dsb { .. })) << cpu);
                self.push(cpu, line, Event::Barrier(barrier));
            }
            "tlbi" => {
                let name = record.word("name of a TLBI")?;
                let operand =
                    if record.is_read() { None } else { Some(format!("{:#x}", record.hexadecimal("value")?)) };
                let words: Vec<&str> = ["tlbi", name].into_iter().chain(operand.as_deref()).collect();
                self.trace.lines.push(Line { number: line, cpu, act: Act::read(&words)? });
            }
            "enter-context" => {
                let levels = [("0", Level::El0), ("1", Level::El1)];
                let level = find(&levels, record.word("el")?)?;
                self.push(cpu, line, Event::Enter(level));
            }
            "exit-context" => self.push(cpu, line, Event::Enter(Level::El2)),
            "lock" | "trylock" | "unlock" => {
                record.hexadecimal("address")?;
                self.locks += 1;
            }
            "hint" => self.hint(cpu, record)?,
            other => {
                let known = "mem-write, mem-read, mem-init, mem-set, mem-free, sysreg-write, barrier, tlbi, enter-context, \
                             exit-context, lock, trylock, unlock or hint";
                return Err(format!("`{other}`, expected {known}"));
            }
        }
        Ok(())
    }

    fn store(&mut self, cpu: u8, line: usize, address: u64, value: u64, is_release: bool) {
        self.words.insert(address, value);
        self.unfinished |= 1 << cpu;
        self.push(cpu, line, Event::Store { address, value, is_release });
    }

    fn load(&mut self, cpu: u8, line: usize, address: u64, value: u64) {
        let is_zeroed = self.zeroed.iter().any(|(first, last)| (*first..=*last).contains(&address));
        if !self.words.contains_key(&address) && is_zeroed {
            self.trace.memory.learn(address, 0);
        }
        self.words.insert(address, value);
        self.trace.lines.push(Line { number: line, cpu, act: Act::Load { address, value } });
    }

    /// Zeroes a range: words that hold something are stored to, the others are zero already.
    fn zero(&mut self, cpu: u8, line: usize, address: u64, size: u64) {
        let last = address + (size - 1);
        let full: Vec<u64> =
            self.words.range(address..=last).filter(|(_, value)| **value != 0).map(|(word, _)| *word).collect();
        full.into_iter().for_each(|word| self.store(cpu, line, word, 0, false));
        self.zeroed.push((address, last));
    }

    /// A byte written to each place of a range.
    fn set(&mut self, cpu: u8, record: &mut Record<'t>) -> Result<(), String> {
        let (address, size) = range(record)?;
        let byte = record.hexadecimal("value")?;
        let byte = u8::try_from(byte).map_err(|_| format!("`(value {byte:x})`, expected a byte"))?;
        if byte == 0 {
            self.zero(cpu, record.line, address, size);
            return Ok(());
        }
        limit(size)?;
        let value = u64::from_ne_bytes([byte; 8]);
        (address..address + size).step_by(8).for_each(|word| self.store(cpu, record.line, word, value, false));
        Ok(())
    }

    /// A write of a register, as far as the log decides it.
    fn register(&mut self, cpu: u8, line: usize, register: Register, logged: u64) {
        let value = self.assumed.given.get(&register).copied().unwrap_or_else(|| completed(register, logged));
        let write = Event::Write { register, value };
        let (at, switch) = match register {
            Register::VttbrEl2 => (0, Register::HcrEl2),
            Register::Ttbr0El2 => (1, Register::SctlrEl2),
            _ => return self.push(cpu, line, write),
        };
        match self.held(switch) {
            Some(value) if self.turned_on[at] >> cpu & 1 == 0 => {
                self.turned_on[at] |= 1 << cpu;
                let on = Event::Write { register: switch, value };
                // The log does not tell how translation was turned on: it is taken to have been done well.
                if self.unfinished >> cpu & 1 == 1 {
                    self.push(cpu, line, Event::Barrier(Barrier::DSB_SY));
                }
                [write, SYNCHRONIZED, on].into_iter().for_each(|event| self.push(cpu, line, event));
            }
            _ => self.push(cpu, line, write),
        }
    }

    /// A table that is released gets another owner; the other hints are about casemate's locks.
    fn hint(&mut self, cpu: u8, record: &mut Record<'t>) -> Result<(), String> {
        let kinds = [
            ("set_root_lock", false),
            ("set_owner_root", false),
            ("release_table", true),
            ("set_pte_thread_owner", false),
        ];
        let is_release = find(&kinds, record.word("kind")?)?;
        let location = record.hexadecimal("location")?;
        record.hexadecimal("value")?;
        if !is_release {
            self.hints += 1;
            return Ok(());
        }
        let address = aligned(location, "location")?;
        self.push(cpu, record.line, Event::Release { address, size_bytes: TABLE_BYTES, owned: Owned::Table });
        Ok(())
    }

    fn finish(mut self, said: Option<&str>) -> Trace<'t> {
        let name = |register: Register| REGISTERS.iter().find(|(_, it)| *it == register).map_or("", |(name, _)| *name);
        let assumed: Vec<String> =
            self.silent.iter().map(|(register, value)| format!("{} {value:#x}", name(*register))).collect();
        if !assumed.is_empty() {
            let note = format!("assumed, because the log never writes it: {}", assumed.join(", "));
            self.trace.notes.push(note);
        }
        let kinds = [(self.locks, "lock"), (self.hints, "ownership-hint")];
        let unjudged: Vec<String> =
            kinds.iter().filter(|(count, _)| *count != 0).map(|(count, kind)| format!("{count} {kind}")).collect();
        if !unjudged.is_empty() {
            let records = unjudged.join(" and ");
            let note = format!("not judged: {records} records; their rules are casemate's, not the architecture's");
            self.trace.notes.push(note);
        }
        if let Some(said) = said {
            let said: String = printable(said).collect();
            self.trace.notes.push(format!("casemate's own verdict there: {said}"));
        }
        self.trace
    }
}

/// What casemate's examples write to TCR_EL2 and VTCR_EL2 is T0SZ and TG0, because it reads nothing else: such a value gets
/// 48 bits of output and, in stage 2, the start level that casemate reads out of T0SZ.
fn completed(register: Register, logged: u64) -> u64 {
    let is_bare = logged & !READ_OF_TCR == 0;
    match register {
        Register::TcrEl2 if is_bare => logged | OUTPUT_48_BITS,
        Register::VtcrEl2 if is_bare => {
            let level = (logged & 0x3f).saturating_sub(16) as usize / 9;
            logged | OUTPUT_48_BITS | START_LEVELS[level.min(3)] << 6
        }
        _ => logged,
    }
}

fn word_address(record: &mut Record<'_>) -> Result<u64, String> {
    aligned(record.hexadecimal("address")?, "address")
}

fn aligned(address: u64, name: &str) -> Result<u64, String> {
    if address & 7 == 0 && address < MEMORY_END {
        return Ok(address);
    }
    Err(format!("`({name} {address:#x})`, expected a physical address below 2^52 that is a multiple of 8"))
}

/// `(address …) (size …)`, words that exist.
fn range(record: &mut Record<'_>) -> Result<(u64, u64), String> {
    let (address, size) = (word_address(record)?, record.hexadecimal("size")?);
    if size == 0 || size & 7 != 0 || size > MEMORY_END - address {
        return Err(format!("`(size {size:#x})`, expected a multiple of 8 that ends below 2^52"));
    }
    Ok((address, size))
}

/// More than any table has is a mistake, and would be long work.
fn limit(size: u64) -> Result<(), String> {
    if size <= LARGEST_TABLE {
        return Ok(());
    }
    Err(format!("`(size {size:#x})`, expected {LARGEST_TABLE:#x} at most"))
}
