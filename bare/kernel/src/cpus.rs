//! The CPUs: what each is, and starting those that boot did not.

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

use hardware::per_cpu::{self, MAX_CPUS};
use hardware::psci::PsciError;
use hardware::secondary::{self, Call, Refusal, Requirements, Start};
use hardware::translation::Translation;
use hardware::{interrupts, registers, timer};
use kerncore::devicetree::{Cpu, EnableMethod, Psci};
use pagetable::TlbFeatures;
use vmsa::registers::TranslationControl;
use vmsa::{IdRegisters, Layout, Midr, PageSize};

use crate::console::say;
use crate::handover::Facts;
use crate::high::page_size;
use crate::lock::Lock;
use crate::stacks::{self, Kind, MakeError};
use crate::tables::Shape;
use crate::{calls, early};

/// What a CPU says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    pub(crate) affinity: u64,
    pub(crate) midr: Midr,
    pub(crate) id: IdRegisters,
}

static IDENTITIES: Lock<[Option<Identity>; MAX_CPUS]> = Lock::new([None; MAX_CPUS]);
/// A bit for each CPU that runs.
static RUNNING: AtomicU32 = AtomicU32::new(0);

/// Seconds that a CPU gets to announce itself.
const PATIENCE: u64 = 5;

/// A bit for each CPU that runs.
pub(crate) fn running() -> u32 {
    RUNNING.load(Ordering::Acquire)
}

/// The CPUs that run, by number.
pub(crate) fn identities() -> impl Iterator<Item = (usize, Identity)> {
    let identities = IDENTITIES.with(|identities| *identities);
    (0..).zip(identities).filter_map(|(index, identity)| Some((index, identity?)))
}

/// Notes what this CPU is, and that it runs.
pub(crate) fn note_this(index: usize) {
    let identity = Identity {
        affinity: registers::read_affinity(),
        midr: Midr::new(registers::read_midr() as u32),
        id: registers::read_id_registers(),
    };
    IDENTITIES.with(|identities| identities[index] = Some(identity));
    RUNNING.fetch_or(1 << index, Ordering::Release);
}

/// What the TLB maintenance of every CPU that runs can do.
pub(crate) fn tlb_features() -> TlbFeatures {
    let all = TlbFeatures { range: true, level_hints: true, repeat: false };
    identities().fold(all, |features, (_, cpu)| TlbFeatures {
        range: features.range && cpu.id.has_range_invalidation(),
        level_hints: features.level_hints && cpu.id.has_level_hints(),
        repeat: features.repeat || cpu.midr.must_repeat_tlbi(),
    })
}

/// Starts every CPU of the device tree, one after the other.
pub(crate) fn start_all(facts: &Facts) {
    let Some(psci) = facts.psci.filter(|_| calls::is_possible()) else { return };
    let boot = registers::read_affinity();
    let others = facts.cpus.iter().filter(|cpu| cpu.affinity != boot);
    for (index, cpu) in (1..MAX_CPUS).zip(others) {
        if let Err(reason) = start(&psci, index, cpu, facts) {
            say!("warning: cpu {index} (affinity {:#x}) stays off: {reason}", cpu.affinity);
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
    let call = Call { conduit: early::conduit(psci), cpu_on: psci.cpu_on, affinity: cpu.affinity };
    // SAFETY: this is the high half, and `Translation::read` is what it runs by. The stacks were just mapped. The CPU
    // started before has announced itself, refused, or was given up when it did not answer for long.
    let called = unsafe { secondary::start(call, facts.load_address, Translation::read(), requirements(facts), start) };
    let answer = called.map_err(NotStarted::Firmware).and_then(|()| wait_for(index));
    if answer.as_ref().is_err_and(NotStarted::is_off) {
        stacks::unmake(index, frames);
    }
    answer
}

/// What a CPU must have to translate as the boot CPU does.
fn requirements(facts: &Facts) -> Requirements {
    let shape = Shape::chosen(&facts.choice);
    let is_lpa2 = shape.layout == Layout::Lpa2;
    let (granule_shift, granule_min) = match shape.page_size {
        PageSize::Size4K => (28, is_lpa2.into()),
        PageSize::Size16K => (20, 1 + u64::from(is_lpa2)),
        PageSize::Size64K => (24, 0),
    };
    let is_lva = shape.page_size == PageSize::Size64K && shape.upper_bits > 48;
    let control = TranslationControl::decode(Translation::read().tcr);
    let pa_range_min = control.map_or(0, |control| control.output_range.into());
    Requirements { granule_shift, granule_min, granule_max: 7, pa_range_min, va_range_min: is_lva.into() }
}

fn wait_for(index: usize) -> Result<(), NotStarted> {
    let end = timer::read_counter() + PATIENCE * timer::read_frequency();
    while running() & 1 << index == 0 {
        if let Some(refusal) = secondary::read_refusal() {
            return Err(NotStarted::Refused(refusal));
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
    match calls::start_this_cpu() {
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
    Refused(Refusal),
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
            Self::Refused(Refusal { midr, mmfr0, mmfr2 }) => {
                let midr = Midr::new(*midr as u32);
                write!(f, "{midr} lacks what was chosen (ID_AA64MMFR0_EL1 {mmfr0:#x}, ID_AA64MMFR2_EL1 {mmfr2:#x})")
            }
            Self::Silent => write!(f, "it was started but said nothing for {PATIENCE} s"),
        }
    }
}
