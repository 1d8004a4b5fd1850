//! The machine's CPUs: which is on, where each starts, and what each says of itself.

use hardware::el2::boot::Translation;
use hardware::el2::exit::cpu_index;
use hardware::el2::guest::{self, Settings};
use hardware::el2::{identification, secondary};
use hardware::lock::Lock;
use hardware::psci::{Conduit, PsciError};
use hardware::registers;
use kerncore::devicetree::MachineDescription;
use kerncore::list::List;
use moncore::call;
use moncore::counts::Counts;
use moncore::identity::{Identity, Register};
use moncore::options::{MAX_CPUS, Options};
use spin::Once;
use vmsa::{BbmLevel, IdRegisters, Midr, PhysAddr};

use crate::memory;
use crate::stage2::Stage2Registers;

/// What every CPU's guest did.
pub(crate) static COUNTS: Counts = Counts::new();

/// Events of one kind and CPU that are reported; all are counted.
pub(crate) const REPORTED: u64 = 8;

/// Whether a CPU runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Off,
    /// Firmware was asked to start it.
    Starting,
    On,
}

#[derive(Clone, Copy, Debug)]
struct Cpu {
    affinity: u64,
    state: State,
    /// Where its guest starts, and with what in x0.
    entry: u64,
    argument: u64,
    /// How often its start is still to be denied.
    denials: u32,
}

const NO_CPU: Cpu = Cpu { affinity: 0, state: State::Off, entry: 0, argument: 0, denials: 0 };

/// The first is the one that booted, the others follow as the device tree has them.
static CPUS: Lock<List<Cpu, MAX_CPUS>> = Lock::new(List::new(NO_CPU));

/// What does not change once the guest runs.
struct Machine {
    identities: [Identity; MAX_CPUS],
    translation: Translation,
    stage2: Stage2Registers,
    traps_tlbi: bool,
    count: usize,
}

static MACHINE: Once<Machine> = Once::new();

fn machine() -> &'static Machine {
    MACHINE.get().expect("the CPUs are set up before any guest runs")
}

/// Notes the CPUs of the machine and all that they need.
pub(crate) fn set_up(
    machine: &MachineDescription,
    options: &Options,
    translation: Translation,
    stage2: Stage2Registers,
) {
    let boot = registers::read_affinity();
    let others = machine.cpus.iter().map(|cpu| cpu.affinity).filter(|affinity| *affinity != boot);
    let count = CPUS.with(|cpus| {
        for (affinity, identity) in core::iter::once(boot).chain(others).zip(options.cpus) {
            let denials = identity.is_late.into();
            cpus.push(Cpu { affinity, denials, ..NO_CPU }).expect("the list is as long as the options'");
        }
        cpus.len()
    });
    // Who is made to say level 2 may have TLB conflict aborts, whoever makes them.
    let may_conflict = |identity: &Identity| {
        let id = IdRegisters { mmfr2: identity.mmfr[2].value, ..IdRegisters::default() };
        id.bbm() == BbmLevel::Level2
    };
    let traps_tlbi = options.conflicts.is_some() || options.cpus[..count].iter().any(may_conflict);
    MACHINE.call_once(|| Machine { identities: options.cpus, translation, stage2, traps_tlbi, count });
}

/// Whether the guest's TLBIs come to the monitor.
pub(crate) fn traps_tlbi() -> bool {
    machine().traps_tlbi
}

/// How many CPUs there are; 0 before they are known.
pub(crate) fn count() -> usize {
    MACHINE.get().map_or(0, |machine| machine.count)
}

/// Starts the guest on the CPU that booted.
pub(crate) fn enter_first(entry: PhysAddr, argument: PhysAddr) -> ! {
    CPUS.with(|cpus| {
        if let Some(cpu) = cpus.first_mut() {
            *cpu = Cpu { state: State::On, entry: entry.bits(), argument: argument.bits(), ..*cpu };
        }
    });
    enter(0)
}

/// Entered from assembly on a CPU that [`switch_on`] has started.
pub(crate) fn secondary(index: usize) -> ! {
    CPUS.with(|cpus| cpus[index].state = State::On);
    enter(index)
}

fn enter(index: usize) -> ! {
    let Machine { identities, stage2, traps_tlbi, .. } = machine();
    let midr = identities[index].midr.unwrap_or_else(registers::read_midr);
    let settings = Settings { midr, vtcr: stage2.vtcr, vttbr: stage2.vttbr, traps_tlbi: *traps_tlbi };
    // SAFETY: stage 2 maps what `memory` gives the guest: nothing of the monitor's.
    unsafe { guest::configure(settings) };
    let (entry, argument) = CPUS.with(|cpus| (cpus[index].entry, cpus[index].argument));
    // SAFETY: configured just now; what this function has on its stack are plain values.
    unsafe { guest::enter(entry, argument) }
}

/// CPU_ON: starts a CPU's guest at `entry`. Gives PSCI's answer.
pub(crate) fn switch_on(affinity: u64, entry: u64, argument: u64) -> u64 {
    if !entry.is_multiple_of(4) || !memory::is_guests(PhysAddr::new(entry)) {
        return call::INVALID_ADDRESS;
    }
    CPUS.with(|cpus| {
        let Some(index) = cpus.iter().position(|cpu| cpu.affinity == affinity) else {
            return call::INVALID_PARAMETERS;
        };
        let cpu = &mut cpus[index];
        match cpu.state {
            State::On => return call::ALREADY_ON,
            State::Starting => return call::ON_PENDING,
            State::Off => {}
        }
        if let Some(left) = cpu.denials.checked_sub(1) {
            cpu.denials = left;
            return call::DENIED;
        }
        *cpu = Cpu { state: State::Starting, entry, argument, ..*cpu };
        // SAFETY: every CPU uses this translation. The CPU was off, and the lock keeps others from starting it; it reads
        // its record before it is on, and its entry and argument under this lock.
        match unsafe { secondary::start(index, affinity, machine().translation) } {
            Ok(()) => call::SUCCESS,
            Err(error) => {
                cpus[index].state = State::Off;
                answer(error)
            }
        }
    })
}

/// CPU_OFF: switches this CPU off. Returns only if firmware refuses, with PSCI's answer.
pub(crate) fn switch_off() -> u64 {
    let index = cpu_index();
    // From here on CPU_ON may ask firmware, which denies it until this CPU is really off.
    CPUS.with(|cpus| cpus[index].state = State::Off);
    let refused = Conduit::Smc.cpu_off();
    CPUS.with(|cpus| cpus[index].state = State::On);
    answer(refused)
}

/// AFFINITY_INFO: PSCI's answer for one CPU. What firmware says counts: a CPU on its way out is still on.
pub(crate) fn info(affinity: u64, level: u64) -> u64 {
    let is_known = CPUS.with(|cpus| cpus.iter().any(|cpu| cpu.affinity == affinity));
    if level != 0 || !is_known {
        return call::INVALID_PARAMETERS;
    }
    match Conduit::Smc.affinity_info(affinity) {
        Ok(state) => state,
        Err(error) => answer(error),
    }
}

fn answer(error: PsciError) -> u64 {
    match error {
        PsciError::InvalidParameters => call::INVALID_PARAMETERS,
        PsciError::Denied => call::DENIED,
        PsciError::AlreadyOn => call::ALREADY_ON,
        PsciError::OnPending => call::ON_PENDING,
        PsciError::InvalidAddress => call::INVALID_ADDRESS,
        _ => call::INTERNAL_FAILURE,
    }
}

/// What an ID register of group 3 reads as on this CPU.
pub(crate) fn id_register(register: Register) -> u64 {
    let Machine { identities, stage2, .. } = machine();
    let real = identification::read_id_register(register.crm, register.op2);
    identities[cpu_index()].seen(register, real, stage2.physical_range)
}

/// Whether this CPU never raises TLB conflict aborts, by what it says of itself: level 3 of FEAT_BBM, or a model that is known
/// for it.
pub(crate) fn is_immune() -> bool {
    let says = IdRegisters { mmfr2: id_register(Register::MMFR2), ..IdRegisters::default() };
    let midr = machine().identities[cpu_index()].midr.unwrap_or_else(registers::read_midr);
    says.bbm() == BbmLevel::Level3 || Midr::new(midr as u32).tolerates_resizing()
}

/// What REVIDR_EL1 reads as on this CPU.
pub(crate) fn revision() -> u64 {
    machine().identities[cpu_index()].revidr.unwrap_or_else(identification::read_revision)
}
