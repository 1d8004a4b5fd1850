//! What boot found, chose and built: plain values, known to all once the high half begins.

use core::sync::atomic::{AtomicU8, Ordering};

use hardware::conflict::PATIENCE;
use kerncore::choice::Choice;
use kerncore::command_line::{Conflicts, Options, Rodata};
use kerncore::devicetree::{Cpu, MAX_CPUS, Psci};
use kerncore::linear::Linear;
use kerncore::list::List;
use kerncore::range::PhysicalRange;
use linearmap::Leaves;
use spin::Once;
use vmsa::{PageSize, PhysAddr};

/// Where the registers of each device are, in virtual memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Devices {
    /// The PL011.
    pub(crate) console: Option<u64>,
    pub(crate) gic: Option<Gic>,
}

/// The registers of the interrupt controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gic {
    V3 { distributor: u64, redistributors: u64 },
    V2 { distributor: u64, cpu_interface: u64 },
}

/// What boot found, chose and built.
#[derive(Clone, Copy)]
pub(crate) struct Facts {
    /// The exception level of entry.
    pub(crate) exception_level: u64,
    /// This is a realm.
    pub(crate) realm: Option<Realm>,
    /// Our monitor is beneath.
    pub(crate) has_monitor: bool,
    /// A TLB conflict abort is sure to end when EL1 forgets everything, so that CPUs of level 2 are used in place.
    pub(crate) handles_conflicts: bool,
    /// The image's physical address.
    pub(crate) load_address: PhysAddr,
    /// The page size of the first identity map.
    pub(crate) early_page_size: PageSize,
    pub(crate) choice: Choice,
    pub(crate) linear: Linear,
    /// How large the leaves of the linear map may be.
    pub(crate) leaves: Leaves,
    pub(crate) workshop: Workshop,
    pub(crate) parking: Parking,
    /// Where device registers are mapped.
    pub(crate) devices: Devices,
    pub(crate) cpus: List<Cpu, MAX_CPUS>,
    pub(crate) psci: Option<Psci>,
    /// The virtual timer's interrupt.
    pub(crate) timer_interrupt: u32,
    /// The initial RAM disk; empty if there is none.
    pub(crate) initrd: PhysicalRange,
    /// The kernel's command line, in the device tree.
    pub(crate) command_line: PhysicalRange,
    pub(crate) options: Options,
}

/// A realm: the top bit of its addresses tells what its host sees from what is its own.
#[derive(Clone, Copy)]
pub(crate) struct Realm {
    /// Bits of its addresses.
    pub(crate) address_bits: u32,
}

impl Realm {
    /// Where unprotected addresses begin: devices, and what is shared.
    pub(crate) fn unprotected(self) -> u64 {
        1 << (self.address_bits - 1)
    }
}

/// A map of all memory but text and constants, in the lower half, for windows alone: see [`crate::memory::window`].
#[derive(Clone, Copy)]
pub(crate) struct Workshop {
    /// The value of TTBR0_EL1.
    pub(crate) ttbr0: u64,
    /// Its root.
    pub(crate) root: PhysAddr,
    /// Virtual minus physical address.
    pub(crate) offset: u64,
}

/// Where CPUs park: see [`hardware::parking`].
#[derive(Clone, Copy)]
pub(crate) struct Parking {
    /// The physical address of the board.
    pub(crate) board: PhysAddr,
    /// The value of TTBR0_EL1: the identity text and the board.
    pub(crate) ttbr0: u64,
    /// The value of TTBR1_EL1: nothing.
    pub(crate) ttbr1: u64,
}

impl Facts {
    /// How often a TLB conflict abort may come again at the same place.
    pub(crate) fn conflict_patience(&self) -> u64 {
        match self.options.conflicts.unwrap_or_default() {
            Conflicts::Survive => PATIENCE,
            Conflicts::Report => 0,
        }
    }
}

static FACTS: Once<Facts> = Once::new();
/// The page size of them: every fault asks for it.
static PAGE_SIZE: AtomicU8 = AtomicU8::new(u8::MAX);

/// The facts are these from now on.
pub(crate) fn set(facts: Facts) -> &'static Facts {
    PAGE_SIZE.store(facts.choice.page_size as u8, Ordering::Relaxed);
    FACTS.call_once(|| facts)
}

/// What boot found, chose and built. Not before the high half.
pub(crate) fn facts() -> &'static Facts {
    FACTS.get().expect("the high half begins with the facts")
}

/// The facts, for who may be asked before there are any.
pub(crate) fn known_facts() -> Option<&'static Facts> {
    FACTS.get()
}

/// Whether text and constants of the image cannot be written, at either of their addresses.
pub(crate) fn is_read_only() -> bool {
    facts().options.rodata.unwrap_or_default() != Rodata::Off
}

/// Whether what is read-only in an area of virtual addresses is so in the linear map too.
pub(crate) fn protects_aliases() -> bool {
    facts().options.rodata.unwrap_or_default() == Rodata::On
}

/// The page size of the kernel.
pub(crate) fn page_size() -> PageSize {
    if cfg!(feature = "fixed-4k") {
        return PageSize::Size4K;
    }
    match PAGE_SIZE.load(Ordering::Relaxed) {
        0 => PageSize::Size4K,
        1 => PageSize::Size16K,
        2 => PageSize::Size64K,
        _ => panic!("the high half begins with the facts"),
    }
}
