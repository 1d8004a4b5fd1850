//! The CPUs: starting those that boot did not.

use core::fmt;

use hardware::per_cpu::{self, MAX_CPUS};
use hardware::psci::PsciError;
use hardware::secondary::{self, Call, NOT_CLAIMED, Refusal, Requirements, Start};
use hardware::translation::Translation;
use hardware::{interrupts, registers, timer};
use kerncore::choice::{GRANULE_MAX, Lack, Requirement};
use kerncore::devicetree::{Cpu, EnableMethod, Psci};
use vmsa::registers::TranslationControl;
use vmsa::{IdRegisters, Midr};

use crate::cpus::stacks::{self, Kind, MakeError};
use crate::cpus::walkers::{self, Identity};
use crate::cpus::{calls, firmware};
use crate::facts::{Facts, facts, page_size};
use crate::memory::kernel_table;
use crate::report::console::say;

/// Seconds that a CPU gets to announce itself.
const PATIENCE: u64 = 5;

/// Notes what this CPU is, and that it runs.
pub(crate) fn note_this(index: usize) {
    let identity = Identity {
        affinity: registers::read_affinity(),
        midr: Midr::new(registers::read_midr() as u32),
        id: facts().options.cpus[index].believe(registers::read_id_registers()),
    };
    walkers::note(index, identity);
}

/// Starts the CPUs of the device tree, one after the other, but those that are to come late.
pub(crate) fn start_all(facts: &Facts) {
    let late = facts.options.late_cpus.unwrap_or(0) as usize;
    let others = others(facts).count();
    if late > others {
        say!(
            "warning: command line: vellum.late={late}: there are {others} other CPUs, expected no more; all come late"
        );
    }
    start_from(facts, 0, others.saturating_sub(late));
}

/// Starts the CPUs that were held back; gives how many there are.
pub(crate) fn start_late(facts: &Facts) -> usize {
    let late = others(facts).count().min(facts.options.late_cpus.unwrap_or(0) as usize);
    start_from(facts, others(facts).count() - late, late);
    late
}

/// The CPUs that boot did not start, with their numbers.
fn others(facts: &Facts) -> impl Iterator<Item = (usize, &Cpu)> {
    let boot = registers::read_affinity();
    (1..MAX_CPUS).zip(facts.cpus.iter().filter(move |cpu| cpu.affinity != boot))
}

fn start_from(facts: &Facts, first: usize, count: usize) {
    let Some(psci) = facts.psci.filter(|_| calls::is_possible()) else { return };
    for (index, cpu) in others(facts).skip(first).take(count) {
        if let Err(reason) = start(&psci, index, cpu, facts) {
            let what = if reason.is_off() { "stays off" } else { "is given up" };
            say!("warning: cpu {index} (affinity {:#x}) {what}: {reason}", cpu.affinity);
        }
    }
}

fn start(psci: &Psci, index: usize, cpu: &Cpu, facts: &Facts) -> Result<(), NotStarted> {
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
        per_cpu: per_cpu::prepare(index, stack(Kind::Emergency)),
    };
    let call = Call { index, conduit: firmware::conduit(psci), cpu_on: psci.cpu_on, affinity: cpu.affinity };
    // Whatever becomes of it, it may be in the kernel's map from here on.
    kernel_table::admit(index);
    // SAFETY: this is the high half, and `Translation::read` is what it runs by. The stacks were just mapped, for this number
    // alone. Each number is started once.
    let called =
        unsafe { secondary::start(call, facts.load_address, Translation::read(), requirements(facts, index), start) };
    let answer = called.map_err(NotStarted::Firmware).and_then(|()| wait_for(index));
    if answer.as_ref().is_err_and(NotStarted::is_off) {
        walkers::dismiss(index);
        stacks::unmake(index, frames);
    }
    answer
}

/// What a CPU must have to translate as the boot CPU does.
fn requirement(facts: &Facts) -> Requirement {
    let control = TranslationControl::decode(Translation::read().tcr);
    Requirement::new(&facts.choice, control.map_or(0, |control| control.output_range))
}

/// The same as the numbers that CPU `index` compares, with what it is to believe of itself.
fn requirements(facts: &Facts, index: usize) -> Requirements {
    let requirement = requirement(facts);
    let belief = facts.options.cpus[index];
    let mmfr0 = belief.mmfr0();
    let is_claimed = belief.claims(requirement.page_size);
    Requirements {
        granule_shift: requirement.granule_shift.into(),
        granule_min: requirement.granule_min.into(),
        granule_max: GRANULE_MAX.into(),
        granule_claim: if is_claimed { requirement.granule_plain.into() } else { NOT_CLAIMED },
        mmfr0_clear: mmfr0.clear,
        mmfr0_set: mmfr0.set,
        pa_range_min: requirement.physical_range_min.into(),
        va_range_min: requirement.virtual_range_min.into(),
    }
}

fn wait_for(index: usize) -> Result<(), NotStarted> {
    let end = timer::read_counter() + PATIENCE * timer::read_frequency();
    while walkers::running() & 1 << index == 0 {
        if let Some(refusal) = secondary::read_refusal(index) {
            let read = IdRegisters { mmfr0: refusal.mmfr0, mmfr2: refusal.mmfr2, ..IdRegisters::default() };
            let believed = facts().options.cpus[index].believe(read);
            return Err(NotStarted::Refused(refusal, requirement(facts()).missing(&believed)));
        }
        if timer::read_counter() > end {
            return Err(NotStarted::Silent);
        }
        interrupts::pause();
    }
    Ok(())
}

/// Entered from assembly, with the MMU on and on the CPU's own stack.
extern "C" fn main(index: u64) -> ! {
    // A test wants nothing to be known of it.
    let is_silent = facts().options.cpus[index as usize].is_silent == Some(true);
    match calls::start_this_cpu() {
        Ok(()) if is_silent => {}
        Ok(()) => note_this(index as usize),
        Err(problem) => say!("warning: cpu {index}: {problem}"),
    }
    loop {
        interrupts::wait();
    }
}

/// Why a CPU does not run.
enum NotStarted {
    Method,
    Stacks(MakeError),
    Firmware(PsciError),
    Refused(Refusal, Option<Lack>),
    Silent,
}

impl NotStarted {
    /// Whether the CPU is known not to run.
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
            Self::Refused(Refusal { midr, mmfr0, mmfr2 }, lack) => {
                match lack {
                    Some(lack) => lack.fmt(f)?,
                    None => f.write_str("it lacks what was chosen")?,
                }
                let midr = Midr::new(*midr as u32);
                write!(f, " ({midr}, ID_AA64MMFR0_EL1 {mmfr0:#x}, ID_AA64MMFR2_EL1 {mmfr2:#x}); its MMU was never on")
            }
            Self::Silent => {
                write!(f, "it was started but said nothing for {PATIENCE} s; it may lack everything")
            }
        }
    }
}
