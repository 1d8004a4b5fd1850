//! The CPUs: starting those that boot did not.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};

use hardware::per_cpu::{self, MAX_CPUS};
use hardware::psci::PsciError;
use hardware::secondary::{self, Call, Said, Start};
use hardware::translation::Translation;
use hardware::{interrupts, registers, timer};
use kerncore::choice::{Lack, Requirement};
use kerncore::devicetree::{Cpu, EnableMethod, Psci};
use vmsa::registers::TranslationControl;
use vmsa::{IdRegisters, Midr};

use crate::console::say;
use crate::cpus::stacks::{self, Kind, MakeError};
use crate::cpus::walkers::{self, Identity};
use crate::cpus::{calls, firmware, parking};
use crate::facts::{Facts, facts, page_size};
use crate::memory::linear_map;

/// Seconds that a CPU gets to announce itself.
const PATIENCE: u64 = 5;

/// What this CPU is.
pub(crate) fn this(index: usize) -> Identity {
    Identity {
        affinity: registers::read_affinity(),
        midr: Midr::new(registers::read_midr() as u32),
        id: facts().options.cpus[index].believe(registers::read_id_registers()),
    }
}

/// Starts the CPUs of the device tree, one after the other, but those that are to come late. Each time one waits at the gate,
/// `meanwhile` is called.
pub(crate) fn start_all(facts: &Facts, meanwhile: &mut dyn FnMut()) {
    let late = facts.options.late_cpus.unwrap_or(0) as usize;
    let others = others(facts).count();
    if late > others {
        say!(
            "warning: command line: vellum.late={late}: there are {others} other CPUs, expected no more; all come late"
        );
    }
    linear_map::get().start_others();
    start_from(facts, 0, others.saturating_sub(late), meanwhile);
    linear_map::get().settle();
}

/// Starts the CPUs that were held back; gives how many there are, or nothing the second time.
pub(crate) fn start_late(facts: &Facts) -> Option<usize> {
    static WERE_STARTED: AtomicBool = AtomicBool::new(false);
    if WERE_STARTED.swap(true, Ordering::Relaxed) {
        return None;
    }
    let late = others(facts).count().min(facts.options.late_cpus.unwrap_or(0) as usize);
    start_from(facts, others(facts).count() - late, late, &mut || {});
    Some(late)
}

/// The CPUs that boot did not start, with their numbers.
fn others(facts: &Facts) -> impl Iterator<Item = (usize, &Cpu)> {
    let boot = registers::read_affinity();
    (1..MAX_CPUS).zip(facts.cpus.iter().filter(move |cpu| cpu.affinity != boot))
}

fn start_from(facts: &Facts, first: usize, count: usize, meanwhile: &mut dyn FnMut()) {
    let Some(psci) = facts.psci.filter(|_| calls::is_possible()) else { return };
    for (index, cpu) in others(facts).skip(first).take(count) {
        if let Err(reason) = start(&psci, index, cpu, facts, meanwhile) {
            let what = if reason.is_off() { "stays off" } else { "is given up" };
            say!("warning: cpu {index} (affinity {:#x}) {what}: {reason}", cpu.affinity);
        }
    }
}

fn start(psci: &Psci, index: usize, cpu: &Cpu, facts: &Facts, meanwhile: &mut dyn FnMut()) -> Result<(), NotStarted> {
    if cpu.enable_method != EnableMethod::Psci {
        return Err(NotStarted::Method);
    }
    let frames = stacks::make(index)?;
    let stack = |kind| stacks::range(index, kind, page_size()).end;
    let start = Start {
        entry: main,
        argument: index as u64,
        stack: stack(Kind::Thread),
        exception_stack: stack(Kind::Exception),
        per_cpu: per_cpu::prepare(index, stack(Kind::Emergency), facts.conflict_patience()),
    };
    let call = Call { index, conduit: firmware::conduit(psci), cpu_on: psci.cpu_on, affinity: cpu.affinity };
    // SAFETY: this is the high half, and `Translation::read` is what it runs by. The stacks were just mapped, for this number
    // alone. Each number is started once.
    let called = unsafe { secondary::start(call, facts.load_address, Translation::read(), start) };
    let said = called.map_err(NotStarted::Firmware).and_then(|()| wait_for_answer(index));
    let said = said.inspect_err(|_| {
        // It is off, or will be as soon as it comes.
        secondary::turn_away(index);
        stacks::unmake(index, frames);
    })?;
    meanwhile();
    admit(index, cpu.affinity, &said);
    wait_for_voice(index)
}

/// Lets a CPU that waits at the gate walk the kernel's tables: first it counts, then the gate opens.
fn admit(index: usize, affinity: u64, said: &Said) {
    let midr = Midr::new(said.midr as u32);
    let walker = Identity { affinity, midr, id: believed(index, said) }.walker(index);
    linear_map::get().admit(walker);
    // Under the map's lock: no change is in flight, and from the next one on the CPU is among those that park.
    linear_map::get().with_standing(&mut |_| {
        parking::note(index, walker.tolerance);
        // SAFETY: it has been started, waits, and counts; what it translates by is as it was.
        unsafe { secondary::open_gate(index) };
    });
}

/// What a CPU has said of itself before its MMU was on, as it is to be believed.
fn believed(index: usize, said: &Said) -> IdRegisters {
    let Said { isar0, mmfr0, mmfr2, .. } = *said;
    facts().options.cpus[index].believe(IdRegisters { isar0, mmfr0, mmfr2, ..IdRegisters::default() })
}

/// What a CPU must have to translate as the boot CPU does.
fn requirement(facts: &Facts) -> Requirement {
    let control = TranslationControl::decode(Translation::read().tcr);
    Requirement::new(&facts.choice, control.map_or(0, |control| control.output_range))
}

/// Waits until a CPU has come to the gate, and sees whether it may pass.
fn wait_for_answer(index: usize) -> Result<Said, NotStarted> {
    let said = wait(|| secondary::read_answer(index)).ok_or(NotStarted::Absent)?;
    match requirement(facts()).missing(&believed(index, &said)) {
        Some(lack) => Err(NotStarted::Refused(said, lack)),
        None => Ok(said),
    }
}

/// Waits until a CPU that walks the kernel's tables says that it runs.
fn wait_for_voice(index: usize) -> Result<(), NotStarted> {
    wait(|| (walkers::running() & 1 << index != 0).then_some(())).ok_or(NotStarted::Silent)
}

/// What `ready` gives within [`PATIENCE`].
fn wait<T>(mut ready: impl FnMut() -> Option<T>) -> Option<T> {
    let end = timer::read_counter() + PATIENCE * timer::read_frequency();
    loop {
        let found = ready();
        if found.is_some() || timer::read_counter() > end {
            return found;
        }
        interrupts::pause();
    }
}

/// Entered from assembly, with the MMU on and on the CPU's own stack.
extern "C" fn main(index: u64) -> ! {
    hardware::cache::note_this_cpu();
    // A test wants nothing to be known of it.
    let is_silent = facts().options.cpus[index as usize].is_silent == Some(true);
    match calls::start_this_cpu() {
        Ok(()) if is_silent => {}
        Ok(()) => walkers::note(index as usize, this(index as usize)),
        Err(problem) => {
            say!("warning: cpu {index}: {problem}");
            // No call reaches it: nobody is to wait for it to park.
            parking::leave(index as usize);
        }
    }
    calls::idle()
}

/// Why a CPU does not run.
enum NotStarted {
    Method,
    Stacks(MakeError),
    Firmware(PsciError),
    Refused(Said, Lack),
    /// It has not come to the gate. Should it come, it is turned away.
    Absent,
    /// It has passed the gate.
    Silent,
}

impl NotStarted {
    /// Whether the CPU is known not to walk the kernel's tables, now or ever.
    fn is_off(&self) -> bool {
        !matches!(self, Self::Silent)
    }
}

impl From<MakeError> for NotStarted {
    fn from(error: MakeError) -> Self {
        Self::Stacks(error)
    }
}

impl fmt::Display for NotStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Method => f.write_str("its enable-method is not psci"),
            Self::Stacks(error) => write!(f, "no stacks: {error}"),
            Self::Firmware(error) => write!(f, "CPU_ON: {error}"),
            Self::Refused(Said { midr, mmfr0, mmfr2, .. }, lack) => {
                let midr = Midr::new(*midr as u32);
                write!(
                    f,
                    "{lack} ({midr}, ID_AA64MMFR0_EL1 {mmfr0:#x}, ID_AA64MMFR2_EL1 {mmfr2:#x}); its MMU was never on"
                )
            }
            Self::Absent => {
                write!(f, "it was started but said nothing for {PATIENCE} s; its MMU stays off")
            }
            Self::Silent => {
                write!(f, "it passed the gate but said nothing for {PATIENCE} s; it may walk the kernel's tables")
            }
        }
    }
}
