//! The report of an exception that nothing expected. It ends the machine.

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

use hardware::exception::{Exception, Kind, Origin};
use hardware::platform::Hardware;
use hardware::{conflict, per_cpu, registers};
use vmsa::ptdump::memory_name;
use vmsa::registers::MemoryTypes;
use vmsa::{Access, AddressHalf, FaultStatus, Meaning, Stage1Attributes, VirtAddr};

use crate::console::write_last_line;
use crate::facts::known_facts;
use crate::memory::place::Place;
use crate::memory::tables::{AnyTable, CAUTIOUS};
use crate::report::finish::{Status, claim_the_end, finish, is_ending};

/// How many reports were begun. Loads and stores alone: this must work with the MMU off.
static REPORTS: AtomicU32 = AtomicU32::new(0);

/// Prints a line of the report.
macro_rules! tell {
    ($($argument:tt)*) => { write_last_line(format_args!($($argument)*)) };
}

/// Called by the vectors.
pub(crate) fn report(exception: &Exception) -> ! {
    claim_the_end();
    // A report that faults is reported too, once; what goes wrong even then ends the machine at once.
    let reports = REPORTS.load(Ordering::Relaxed);
    REPORTS.store(reports + 1, Ordering::Relaxed);
    if is_ending() || reports > 1 {
        finish(Status::Failed);
    }
    let frame = exception.frame;
    let syndrome = exception.syndrome();
    match exception.kind {
        Kind::Synchronous => tell!("exception: {syndrome} (ESR_EL1 {:#018x})", frame.syndrome),
        kind => tell!("exception: {kind:?} (ESR_EL1 {:#018x})", frame.syndrome),
    }
    match exception.origin {
        Origin::Thread => tell!("  on cpu {}, in kernel code", per_cpu::index()),
        Origin::Lower => tell!("  on cpu {}, from EL0", per_cpu::index()),
        Origin::Handler(stack) => {
            let place = Place(VirtAddr::new(stack));
            tell!("  on cpu {}, in an exception handler, stack pointer {stack:#018x}: {place}", per_cpu::index());
        }
    }
    if syndrome.fault() == Some(FaultStatus::TlbConflict) {
        let times = conflict::repeats();
        tell!("  it has come again {times} times, though each time this CPU forgot everything");
    }
    let instruction = VirtAddr::new(frame.return_address);
    tell!("  instruction   {instruction}: {}", Place(instruction));
    tell!("  stack pointer {:#018x}: {}", frame.stack_pointer, Place(VirtAddr::new(frame.stack_pointer)));
    if syndrome.fault().is_some() && !syndrome.is_address_unknown() {
        let address = VirtAddr::new(frame.fault_address);
        tell!("  address       {address}: {}", Place(address));
        tell_walk(address);
    }
    for (number, four) in (0..).step_by(4).zip(frame.registers.chunks(4)) {
        tell!("  x{number:<2} {}", Words(four));
    }
    tell!("  SPSR_EL1 {:#018x}", frame.status);
    finish(Status::Failed)
}

/// The walk of an address, level by level.
fn tell_walk(address: VirtAddr) {
    let half = if address.bits() >> 55 & 1 == 0 { AddressHalf::Lower } else { AddressHalf::Upper };
    let offset = known_facts().map_or(0, |facts| facts.linear.offset());
    // SAFETY: for reading alone. Before the high half every table is at its physical address, later in the linear map.
    let hardware = unsafe { Hardware::new(offset) };
    if registers::read_sctlr() & 1 == 0 {
        return tell!("  the MMU is off");
    }
    let Some(table) = AnyTable::read_current(hardware, half, CAUTIOUS) else {
        return tell!("  no walk: TCR_EL1 {:#x} is not this kernel's", registers::read_tcr());
    };
    let mut is_walked = false;
    table.walk(address, &mut |lookup| {
        is_walked = true;
        let descriptor = lookup.descriptor.bits();
        let said = Said { meaning: lookup.meaning, descriptor };
        tell!("    {} at {}: {descriptor:#018x} {said}", lookup.level, lookup.slot.address());
    });
    if !is_walked {
        tell!("    outside the addresses that the tables translate");
    }
}

/// What a descriptor says, in words.
struct Said {
    meaning: Meaning,
    descriptor: u64,
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (to, is_contiguous) = match self.meaning {
            Meaning::Invalid => return f.write_str("nothing"),
            Meaning::Reserved => return f.write_str("a reserved encoding"),
            Meaning::Table(table) => return write!(f, "table at {table}"),
            Meaning::Leaf(to, is_contiguous) => (to, is_contiguous),
        };
        let attributes = Stage1Attributes::from_bits_retain(self.descriptor);
        let access = match attributes.access() {
            Access::ReadWrite => "read-write",
            Access::UserReadWrite => "read-write for EL0 too",
            Access::ReadOnly => "read-only",
            Access::UserReadOnly => "read-only for EL0 too",
        };
        let execute = if attributes.contains(Stage1Attributes::PXN) { "not executable" } else { "executable" };
        let memory = memory_name(MemoryTypes::WITHOUT_TAGS.get(attributes.memory_index())).unwrap_or("other memory");
        write!(f, "leads to {to}, {access}, {execute}, {memory}")?;
        f.write_str(if is_contiguous { ", contiguous" } else { "" })
    }
}

/// Register values in a row.
struct Words<'a>(&'a [u64]);

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|word| write!(f, " {word:016x}"))
    }
}
