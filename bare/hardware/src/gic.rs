//! The interrupt controller, GICv3 or GICv2, as far as calls between CPUs need it: one software-generated interrupt,
//! group 1 (or, on a GICv2 without security, group 0), to every other CPU.

use core::fmt;
use core::ptr::NonNull;

use arm_gic::gicv2::{GicV2, SgiTarget as SgiTargetV2, SgiTargetListFilter};
use arm_gic::gicv3::registers::GicrSgi;
use arm_gic::gicv3::{GicCpuInterface, GicError, GicV3, HIGHEST_NS_PRIORITY, SgiTarget, SgiTargetGroup};
use arm_gic::{IntId, InterruptGroup, UniqueMmioPointer};
use vmsa::maintenance::{BarrierAccess, Domain};
use vmsa::{Barrier, Maintenance, VirtAddr};

use crate::maintenance::maintain;
use crate::per_cpu::MAX_CPUS;
use crate::probe::read_word;

/// The interrupt that calls a CPU.
const CALL: IntId = IntId::sgi(0);
/// A priority mask that lets every interrupt through.
const ALL_PRIORITIES: u8 = 0xff;

/// The interrupt controller of the machine.
#[derive(Debug)]
pub enum InterruptController {
    /// GICv3 or later.
    V3(GicV3<'static>),
    /// GICv2.
    V2(GicV2<'static>),
}

/// Why the interrupt controller cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GicProblem {
    /// An address is zero.
    NoAddress,
    /// What is at an address, if anything, does not say that it is a part of such a controller.
    NotThere(&'static str),
    /// The driver's own words.
    Driver(GicError),
    /// No redistributor belongs to the CPU with this affinity.
    NoRedistributor(u64),
    /// The call interrupt of a GICv2 cannot be enabled.
    NoCall,
}

impl fmt::Display for GicProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAddress => f.write_str("no address"),
            Self::NotThere(part) => write!(f, "no {part} answers where the device tree has one, expected one"),
            Self::Driver(error) => error.fmt(f),
            Self::NoRedistributor(affinity) => write!(f, "no redistributor for the CPU with affinity {affinity:#x}"),
            Self::NoCall => f.write_str("software-generated interrupt 0 cannot be enabled"),
        }
    }
}

/// GICD_PIDR2 and GICR_PIDR2 of a GICv3 (IHI 0069), and GICD_PIDR2 of a GICv2 (IHI 0048, ICPIDR2), from their frame.
const IDENTIFICATION_V3: usize = 0xffe8;
const IDENTIFICATION_V2: usize = 0xfe8;

/// ArchRev of an identification register; none where nothing answers.
///
/// # Safety
///
/// Reading the 4 bytes at `address` does no harm.
unsafe fn read_version(address: usize) -> Option<u32> {
    // SAFETY: the caller's promise.
    let word = unsafe { read_word(VirtAddr::new(address as u64)) };
    word.ok().map(|word| word >> 4 & 15)
}

impl InterruptController {
    /// A GICv3 whose registers are mapped at these addresses.
    ///
    /// # Safety
    ///
    /// If such registers are there, they are mapped as Device memory for ever and used by nobody else, and the
    /// redistributors, one after the other, end with one that says so.
    pub unsafe fn new_v3(distributor: usize, redistributors: usize) -> Result<Self, GicProblem> {
        for (part, base) in [("distributor", distributor), ("redistributor", redistributors)] {
            // SAFETY: reading an identification register has no side effect.
            let version = unsafe { read_version(base + IDENTIFICATION_V3) };
            version.filter(|version| *version >= 3).ok_or(GicProblem::NotThere(part))?;
        }
        let distributor = NonNull::new(distributor as *mut _).ok_or(GicProblem::NoAddress)?;
        let redistributors = NonNull::new(redistributors as *mut GicrSgi).ok_or(GicProblem::NoAddress)?;
        // SAFETY: the caller's promise.
        let distributor = unsafe { UniqueMmioPointer::new(distributor) };
        // SAFETY: the caller's promise. `find_redistributor` goes no further than the last one.
        let gic = unsafe { GicV3::new(distributor, redistributors, MAX_CPUS) };
        gic.map(Self::V3).map_err(GicProblem::Driver)
    }

    /// A GICv2 whose registers are mapped at these addresses.
    ///
    /// # Safety
    ///
    /// If such registers are there, they are mapped as Device memory for ever and used by nobody else.
    pub unsafe fn new_v2(distributor: usize, cpu_interface: usize) -> Result<Self, GicProblem> {
        if distributor == 0 || cpu_interface == 0 {
            return Err(GicProblem::NoAddress);
        }
        // SAFETY: reading an identification register has no side effect.
        let version = unsafe { read_version(distributor + IDENTIFICATION_V2) };
        version.filter(|version| *version == 2).ok_or(GicProblem::NotThere("distributor"))?;
        // SAFETY: reading the control register has no side effect.
        let control = unsafe { read_word(VirtAddr::new(cpu_interface as u64)) };
        control.map_err(|_| GicProblem::NotThere("CPU interface"))?;
        // SAFETY: the caller's promise.
        Ok(Self::V2(unsafe { GicV2::new(distributor as *mut _, cpu_interface as *mut _) }))
    }

    /// Sets up what all CPUs share. Once, before [`Self::set_up_cpu`].
    pub fn set_up(&mut self) {
        match self {
            Self::V3(gic) => gic.distributor().configure_default_settings(),
            Self::V2(_) => {}
        }
    }

    /// Sets up this CPU's part, and lets calls through.
    pub fn set_up_cpu(&mut self, affinity: u64) -> Result<(), GicProblem> {
        match self {
            Self::V3(gic) => set_up_cpu_v3(gic, affinity),
            Self::V2(gic) => set_up_cpu_v2(gic),
        }
    }

    /// Lets an interrupt of this CPU's own (INTID 16 to 31) through.
    pub fn enable_private(&mut self, interrupt: u32, affinity: u64) -> Result<(), GicProblem> {
        let interrupt = IntId::ppi(interrupt.saturating_sub(16) & 15);
        match self {
            Self::V3(gic) => {
                let index = find_redistributor(gic, affinity)?;
                let mut redistributor = gic.redistributor(index).map_err(GicProblem::Driver)?;
                redistributor.set_interrupt_priority(interrupt, HIGHEST_NS_PRIORITY).map_err(GicProblem::Driver)?;
                redistributor.enable_interrupt(interrupt, true).map_err(GicProblem::Driver)
            }
            Self::V2(gic) => gic.enable_interrupt(interrupt, true).map_err(|_| GicProblem::NoCall),
        }
    }

    /// Interrupts every CPU but this one.
    pub fn call_others(&mut self) {
        // The interrupt must not overtake the stores that say what is wanted.
        maintain(Maintenance::DSB_ISHST);
        match self {
            Self::V3(_) => {
                let sent = GicCpuInterface::send_sgi(CALL, SgiTarget::All, SgiTargetGroup::CurrentGroup1);
                debug_assert!(sent.is_ok());
                // The write to ICC_SGI1R_EL1 is done before anything waits for its effect.
                maintain(Maintenance::ISB);
            }
            Self::V2(gic) => gic.send_sgi(
                CALL,
                SgiTargetV2::List { target_list_filter: SgiTargetListFilter::ForwardOthersOnly, target_list: 0 },
            ),
        }
    }

    /// Takes the pending interrupt and ends it at once: the call is edge-triggered, and what it asks for is found
    /// elsewhere. Gives its number, or `None` if none was pending any more.
    pub fn take_interrupt(&mut self) -> Option<u32> {
        let interrupt = match self {
            Self::V3(_) => {
                let interrupt = GicCpuInterface::get_and_acknowledge_interrupt(InterruptGroup::Group1)?;
                // Nothing that the handler reads is older than the acknowledgement: what the call tells of would be missed.
                maintain(Maintenance::ISB);
                GicCpuInterface::end_interrupt(interrupt, InterruptGroup::Group1);
                interrupt
            }
            // Seen from the non-secure side these registers speak of group 1.
            Self::V2(gic) => {
                let interrupt = gic.get_and_acknowledge_interrupt(InterruptGroup::Group0)?;
                // As above, behind a load from the device.
                maintain(Maintenance::Barrier(Barrier::Dsb(Domain::FullSystem, BarrierAccess::Loads)));
                gic.end_interrupt(interrupt, InterruptGroup::Group0);
                interrupt
            }
        };
        // GICv2 tells the sender in bits 12:10.
        Some(u32::from(interrupt) & 0x3ff)
    }
}

/// Whether a number from [`InterruptController::take_interrupt`] is a call from another CPU.
pub fn is_call(interrupt: u32) -> bool {
    interrupt == u32::from(CALL)
}

fn set_up_cpu_v3(gic: &mut GicV3, affinity: u64) -> Result<(), GicProblem> {
    let index = find_redistributor(gic, affinity)?;
    GicCpuInterface::enable_system_register_el1();
    // The other ICC registers exist only once SRE has taken effect.
    maintain(Maintenance::ISB);
    gic.init_cpu(index);
    let mut redistributor = gic.redistributor(index).map_err(GicProblem::Driver)?;
    redistributor.configure_default_settings();
    redistributor.set_interrupt_priority(CALL, HIGHEST_NS_PRIORITY).map_err(GicProblem::Driver)?;
    redistributor.enable_interrupt(CALL, true).map_err(GicProblem::Driver)?;
    GicCpuInterface::set_priority_mask(ALL_PRIORITIES);
    GicCpuInterface::enable_group1(true);
    // Interrupts come from here on, not at some later time.
    maintain(Maintenance::ISB);
    Ok(())
}

fn find_redistributor(gic: &mut GicV3, affinity: u64) -> Result<usize, GicProblem> {
    for index in 0..MAX_CPUS {
        let description = gic.gicr_typer(index).map_err(GicProblem::Driver)?;
        if description.core_mpidr() == affinity {
            return Ok(index);
        }
        if description.last_redistributor() {
            break;
        }
    }
    Err(GicProblem::NoRedistributor(affinity))
}

fn set_up_cpu_v2(gic: &mut GicV2) -> Result<(), GicProblem> {
    gic.setup();
    // With security extensions the bit that this side sees enables group 1.
    gic.enable_group0(true);
    gic.set_priority_mask(ALL_PRIORITIES);
    gic.enable_interrupt(CALL, true).map_err(|_| GicProblem::NoCall)
}
