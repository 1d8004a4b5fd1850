//! What the kernel knows about its machine, as plain values of fixed size.

use crate::list::List;
use crate::range::PhysicalRange;
use crate::text::Text;

/// Banks of memory that are kept; more are a finding and ignored.
pub const MAX_BANKS: usize = 64;
/// Reservations that are kept; more are a fatal finding, because to ignore one would hand out memory that is in use.
pub const MAX_RESERVATIONS: usize = 64;
/// CPUs that are kept; more are a finding and stay off.
pub const MAX_CPUS: usize = 8;
/// Redistributor regions of a GICv3 that are kept; more are a finding and ignored.
pub const MAX_REDISTRIBUTORS: usize = 8;

/// Everything boot needs from the device tree. About 4.5 KiB: keep it in a static, and have `devicetree::read` fill it in place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MachineDescription<'a> {
    /// RAM, sorted, disjoint, none empty, all below 2^52; touching banks stay apart.
    pub banks: List<PhysicalRange, MAX_BANKS>,
    /// What of it is not ours: `/memreserve/` first, then the children of `/reserved-memory`, in the blob's order.
    pub reservations: List<Reservation<'a>, MAX_RESERVATIONS>,
    /// The kernel's command line, `/chosen/bootargs`; empty if there is none.
    pub bootargs: &'a str,
    /// The initial RAM disk; wholly inside the banks.
    pub initrd: Option<PhysicalRange>,
    /// Where to print: the `stdout-path` of `/chosen` if it is a PL011, else the first PL011.
    pub console: Option<Console<'a>>,
    /// The CPUs, in the blob's order, failed ones left out; perhaps without the one that booted.
    pub cpus: List<Cpu, MAX_CPUS>,
    /// How CPUs are started.
    pub psci: Option<Psci>,
    /// The root of the interrupt tree.
    pub interrupt_controller: Option<InterruptController>,
    /// The generic timer's interrupts.
    pub timer: Timer,
}

impl MachineDescription<'_> {
    /// A machine of which nothing is known.
    pub const fn new() -> Self {
        Self {
            banks: List::new(PhysicalRange::EMPTY),
            reservations: List::new(Reservation { range: PhysicalRange::EMPTY, no_map: false, name: Text(&[]) }),
            bootargs: "",
            initrd: None,
            console: None,
            cpus: List::new(Cpu { affinity: 0, enable_method: EnableMethod::Psci, status: Status::Okay }),
            psci: None,
            interrupt_controller: None,
            timer: Timer::USUAL,
        }
    }

    /// Whether RAM covers all of `range`, be it by several touching banks.
    pub fn has_memory(&self, range: &PhysicalRange) -> bool {
        // Banks are sorted, so one pass climbs from each to the one that touches it.
        let climb = |reached, bank: &PhysicalRange| if bank.contains(reached) { bank.end } else { reached };
        self.banks.iter().fold(range.start, climb) >= range.end
    }
}

impl Default for MachineDescription<'_> {
    fn default() -> Self {
        Self::new()
    }
}

/// Memory that somebody else uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation<'a> {
    /// Byte-granular.
    pub range: PhysicalRange,
    /// It must not be mapped at all, lest speculation reads it.
    pub no_map: bool,
    /// The node's name; empty for an entry of `/memreserve/`.
    pub name: Text<'a>,
}

/// A UART to print to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Console<'a> {
    /// The node's most specific `compatible`.
    pub compatible: Text<'a>,
    /// Its registers.
    pub registers: PhysicalRange,
}

/// A CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Aff3, Aff2, Aff1 and Aff0 where MPIDR_EL1 has them: bits 39:32 and 23:0.
    pub affinity: u64,
    /// How it is started.
    pub enable_method: EnableMethod,
    /// Whether it is ready to be.
    pub status: Status,
}

/// How a CPU is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnableMethod {
    /// By PSCI's CPU_ON.
    Psci,
    /// By a way that this kernel does not know, or by none that the tree names.
    Other,
}

/// A CPU's `status`; one that failed is not listed at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// `okay`, or nothing said.
    Okay,
    /// `disabled`: quiescent, may be started by its enable method (Devicetree Specification 0.4, 3.8.1).
    Disabled,
}

/// The firmware's power interface (Arm DEN 0022).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Psci {
    /// How it is called.
    pub conduit: Conduit,
    /// The newest version it says it is compatible with.
    pub version: PsciVersion,
    /// The function identifier of CPU_ON: the standard's 0xc4000003, or what the tree of a version 0.1 says.
    pub cpu_on: u32,
}

/// The instruction that calls firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conduit {
    /// To EL2.
    Hvc,
    /// To EL3.
    Smc,
}

/// Versions of PSCI with a `compatible` of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PsciVersion {
    /// `arm,psci`: function identifiers are in the tree.
    V0_1,
    /// `arm,psci-0.2`.
    V0_2,
    /// `arm,psci-1.0`, and later ones.
    V1_0,
}

/// A Generic Interrupt Controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptController {
    /// `arm,gic-v3`.
    GicV3 {
        /// The distributor's registers.
        distributor: PhysicalRange,
        /// Regions of redistributors' registers, one after another within each.
        redistributors: List<PhysicalRange, MAX_REDISTRIBUTORS>,
        /// Bytes from one redistributor to the next where the tree says so.
        redistributor_stride: Option<u64>,
    },
    /// `arm,cortex-a15-gic`, `arm,gic-400`: a GICv2.
    GicV2 {
        /// The distributor's registers.
        distributor: PhysicalRange,
        /// The CPU interface's registers.
        cpu_interface: PhysicalRange,
    },
}

/// Interrupt identifiers (INTID) of the generic timer, 16 to 31 as they are private to each CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    /// The non-secure EL1 physical timer.
    pub physical_interrupt: u32,
    /// The EL1 virtual timer.
    pub virtual_interrupt: u32,
}

impl Timer {
    /// What the Base System Architecture (Arm DEN 0094) recommends, and what QEMU has.
    pub const USUAL: Self = Self { physical_interrupt: 30, virtual_interrupt: 27 };
}
