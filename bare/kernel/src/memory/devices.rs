//! Device registers in the high half: each region apart, at the same offset from 2 MiB as in physical memory.

use core::ops::Range;

use hardware::gic;
use hardware::per_cpu::MAX_CPUS;
use kerncore::devicetree::{InterruptController, MachineDescription};
use kerncore::list::List;
use kerncore::range::PhysicalRange;
use vmsa::PageSize;

use crate::facts::{Devices, Gic};
use crate::memory::layout::DEVICES;

/// The most that a redistributor takes: four frames of 64 KiB (GICv4). Whatever a tree tells, no more than this is mapped.
const REDISTRIBUTOR_BYTES: u64 = 256 << 10;
/// The same for a distributor.
const DISTRIBUTOR_BYTES: u64 = 64 << 10;
/// The same for the CPU interface of a GICv2, whose second page some machines have 64 KiB after the first.
const CPU_INTERFACE_BYTES: u64 = 128 << 10;
const ALIGNMENT: u64 = 2 << 20;

/// Gives each region its place.
pub(crate) struct Placement {
    next: u64,
    /// How far above what the device tree tells devices are: a realm's are its host's.
    away: u64,
    page_size: PageSize,
    /// Physical range, whole pages, and where it goes.
    regions: List<(PhysicalRange, u64), 3>,
}

impl Placement {
    /// Places the devices of a machine, which are so far above where its device tree has them.
    pub(crate) fn new(machine: &MachineDescription, page_size: PageSize, away: u64) -> (Self, Devices) {
        let mut placement =
            Self { next: DEVICES.start, away, page_size, regions: List::new((PhysicalRange::EMPTY, 0)) };
        let first = |range: PhysicalRange, most| PhysicalRange::from_size(range.start, range.size_bytes().min(most));
        let console = machine.console.map(|console| placement.place(console.registers));
        let gic = match machine.interrupt_controller {
            None => None,
            Some(InterruptController::GicV3 { distributor, redistributors, .. }) => {
                // Those of as many CPUs as may run: a machine with more has them further on.
                let redistributors = first(redistributors[0], MAX_CPUS as u64 * REDISTRIBUTOR_BYTES);
                Some(Gic::V3 {
                    distributor: placement.place(first(distributor, DISTRIBUTOR_BYTES)),
                    redistributors: placement.place(redistributors),
                })
            }
            Some(InterruptController::GicV2 { distributor, cpu_interface }) => Some(Gic::V2 {
                distributor: placement.place(first(distributor, DISTRIBUTOR_BYTES)),
                cpu_interface: placement.place(first(cpu_interface, CPU_INTERFACE_BYTES)),
            }),
        };
        (placement, Devices { console, gic })
    }

    /// What is to be mapped where.
    pub(crate) fn regions(&self) -> impl Iterator<Item = (Range<u64>, u64)> {
        self.regions.iter().map(|(range, at)| (self.away + range.start.bits()..self.away + range.end.bits(), *at))
    }

    fn place(&mut self, registers: PhysicalRange) -> u64 {
        let pages = whole_pages(registers, self.page_size);
        let at = self.next + pages.start.bits() % ALIGNMENT;
        self.next = (at + pages.size_bytes()).next_multiple_of(ALIGNMENT);
        self.regions.push((pages, at)).expect("a console and two regions of an interrupt controller");
        at + (registers.start - pages.start)
    }
}

/// The pages that hold a range.
pub(crate) fn whole_pages(range: PhysicalRange, page_size: PageSize) -> PhysicalRange {
    let end = range.end.align_up(page_size.size_bytes()).unwrap_or(range.end);
    PhysicalRange::new(range.start.align_down(page_size.size_bytes()), end)
}

/// The driver of the interrupt controller at these addresses.
///
/// # Safety
///
/// They are mapped as [`Placement`] says, for ever, and this is called once.
pub(crate) unsafe fn interrupt_controller(place: Gic) -> Result<gic::InterruptController, gic::GicProblem> {
    match place {
        Gic::V3 { distributor, redistributors } => {
            // SAFETY: the caller's promise; the device tree says what is there.
            unsafe { gic::InterruptController::new_v3(distributor as usize, redistributors as usize) }
        }
        Gic::V2 { distributor, cpu_interface } => {
            // SAFETY: the caller's promise; the device tree says what is there.
            unsafe { gic::InterruptController::new_v2(distributor as usize, cpu_interface as usize) }
        }
    }
}
