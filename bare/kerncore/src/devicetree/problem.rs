//! What can be wrong with a device tree.
//!
//! Damage to the blob's structure is fatal even where enough was read before it: the part that is lost may have reserved
//! memory that firmware uses, and a kernel that guesses corrupts it. A well-formed node that makes no sense is survived.

use core::fmt;

use crate::range::PhysicalRange;
use crate::severity::Severity;
use crate::text::Text;
use vmsa::PhysAddr;

use super::description::{MAX_BANKS, MAX_CPUS, MAX_RESERVATIONS};

/// One thing wrong with a device tree. Offsets are in bytes from the start of the blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each variant's line in Display says what its fields are")]
pub enum Problem<'a> {
    // The blob as a whole: fatal.
    Missing,
    NotATree { address: u64 },
    BadMagic { found: u32 },
    BadVersion { version: u32, compatible: u32 },
    BadSize { size: usize },
    Truncated { expected: u32, found: usize },
    BadBlock { block: &'static str, offset: u32, size: u32 },
    BadToken { offset: usize, found: u32 },
    BadPropertyName { offset: usize, name_offset: u32 },
    CutShort { offset: usize, within: &'static str },
    Unbalanced { offset: usize },
    MisplacedProperty { offset: usize },
    UnterminatedReservations,
    // What the kernel cannot do without: fatal.
    NoMemory,
    TooManyReservations { at: PhysicalRange },
    // Memory.
    EmptyBank { address: u64 },
    BankBeyond { address: u64, size: u64 },
    BanksOverlap { bank: PhysicalRange, other: PhysicalRange },
    TooManyBanks { bank: PhysicalRange },
    // Nodes and properties.
    TooDeep { node: Text<'a> },
    BadCells { node: Text<'a>, cells: u32 },
    BadProperty { node: Text<'a>, property: &'static str, expected: &'static str, instead: &'static str },
    Untranslatable { node: Text<'a>, address: u64, instead: &'static str },
    Absent { what: &'static str, expected: &'static str, instead: &'static str },
    // CPUs.
    TooManyCpus { found: u32 },
    DuplicateCpu { node: Text<'a>, affinity: u64 },
    BootCpuAbsent { affinity: u64 },
    // Initrd.
    InitrdReversed { start: u64, end: u64 },
    InitrdOutside { start: u64, end: u64 },
    // Console.
    NoSuchConsole { path: Text<'a>, instead: &'static str },
    UnknownConsole { path: Text<'a>, compatible: Text<'a>, instead: &'static str },
    NoConsole { guess: Option<PhysAddr> },
    // Interrupts.
    InterruptCycle { node: Text<'a>, phandle: u32, instead: &'static str },
    InterruptNowhere { node: Text<'a>, phandle: u32, instead: &'static str },
    SecondController { node: Text<'a> },
}

impl Problem<'_> {
    /// Whether the kernel can go on.
    pub fn severity(&self) -> Severity {
        use Problem::*;
        match self {
            Missing
            | NotATree { .. }
            | BadMagic { .. }
            | BadVersion { .. }
            | BadSize { .. }
            | Truncated { .. }
            | BadBlock { .. } => Severity::Fatal,
            BadToken { .. } | BadPropertyName { .. } | CutShort { .. } | Unbalanced { .. } => Severity::Fatal,
            MisplacedProperty { .. } | UnterminatedReservations => Severity::Fatal,
            NoMemory | TooManyReservations { .. } => Severity::Fatal,
            _ => Severity::Warning,
        }
    }

    fn fmt_structure(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Problem::*;
        match self {
            Missing => write!(f, "none was passed; expected its address in x0 at entry, so no memory is known"),
            NotATree { address } => write!(
                f,
                "x0 was {address:#x} at entry, expected a blob of at most 2 MiB there, on a multiple of 8 and outside \
                 the kernel, so no memory is known"
            ),
            BadMagic { found } => write!(f, "begins with {found:#010x}, expected 0xd00dfeed; not read"),
            BadVersion { version, compatible } => {
                write!(f, "version {version}, compatible down to {compatible}; expected to be readable as 17; not read")
            }
            BadSize { size } => write!(f, "{size} bytes in all, expected at least the 40 of a header; not read"),
            Truncated { expected, found } => {
                write!(f, "header says {expected} bytes, but {found} are there; reservations may be missing")
            }
            BadBlock { block, offset, size } => {
                write!(
                    f,
                    "{block} block of {size} bytes at offset {offset:#x}, expected it aligned and inside the blob"
                )
            }
            BadToken { offset, found } => {
                write!(f, "token {found:#x} at offset {offset:#x}, expected 1, 2, 3, 4 or 9; the rest is not read")
            }
            BadPropertyName { offset, name_offset } => write!(
                f,
                "property at offset {offset:#x} has its name at {name_offset:#x}, expected it inside the strings \
                 block; the rest is not read"
            ),
            CutShort { offset, within } => {
                write!(f, "ends inside {within} at offset {offset:#x}, expected the end token; the rest is missing")
            }
            Unbalanced { offset } => {
                write!(f, "node ends and begins do not match at offset {offset:#x}; the rest is not read")
            }
            MisplacedProperty { offset } => write!(
                f,
                "property at offset {offset:#x} outside a node's head, expected before its subnodes; the rest is not read"
            ),
            _ => {
                write!(f, "the /memreserve/ list has no end, expected an entry of two zeros; reservations may be wrong")
            }
        }
    }

    fn fmt_memory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Problem::*;
        match self {
            TooManyReservations { at } => {
                write!(f, "more than {MAX_RESERVATIONS} reservations, {at} would be lost; expected fewer; cannot go on")
            }
            EmptyBank { address } => write!(f, "memory bank at {address:#018x} has size 0, expected more; ignored"),
            BankBeyond { address, size } => write!(
                f,
                "memory bank of {size:#x} bytes at {address:#018x} goes beyond the address range, expected below 2^52; \
                 the part beyond is ignored"
            ),
            BanksOverlap { bank, other } => {
                write!(f, "memory bank {bank} overlaps {other}, expected them apart; taken as one")
            }
            TooManyBanks { bank } => {
                write!(f, "more than {MAX_BANKS} memory banks, expected fewer; {bank} is ignored")
            }
            InitrdReversed { start, end } => {
                write!(f, "initrd from {start:#018x} up to {end:#018x}, expected the end after the start; ignored")
            }
            InitrdOutside { start, end } => {
                write!(
                    f,
                    "initrd from {start:#018x} up to {end:#018x} is not wholly in memory, expected it inside; ignored"
                )
            }
            _ => write!(f, "no usable memory, expected a node /memory with device_type \"memory\" and a reg"),
        }
    }

    fn fmt_node(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Problem::*;
        match self {
            TooDeep { node } => write!(f, "node {node} is nested too deep, expected 16 levels at most; ignored"),
            BadCells { node, cells } => {
                write!(f, "node {node}: {cells} address or size cells, expected 0 to 4; the standard's default is used")
            }
            BadProperty { node, property, expected, instead } => {
                write!(f, "node {node}: property {property} makes no sense, expected {expected}; {instead}")
            }
            Untranslatable { node, address, instead } => write!(
                f,
                "node {node}: address {address:#x} is in no window of the buses above it, expected `ranges` that reach \
                 it; {instead}"
            ),
            Absent { what, expected, instead } => write!(f, "no {what}, expected {expected}; {instead}"),
            TooManyCpus { found } => write!(f, "{found} CPUs, expected {MAX_CPUS} at most; the later ones stay off"),
            DuplicateCpu { node, affinity } => {
                write!(f, "node {node}: affinity {affinity:#x} is taken, expected one CPU for each; ignored")
            }
            BootCpuAbsent { affinity } => write!(
                f,
                "no CPU of affinity {affinity:#x}, which booted, expected it among the first {MAX_CPUS}; it runs, with {} \
                 others at most",
                MAX_CPUS - 1
            ),
            NoSuchConsole { path, instead } => {
                write!(f, "stdout-path \"{path}\" leads to no enabled node with an address, expected one; {instead}")
            }
            UnknownConsole { path, compatible, instead } => {
                write!(f, "console {path} is {compatible}, expected arm,pl011; {instead}")
            }
            NoConsole { guess: Some(guess) } => {
                write!(f, "no PL011 is where it tells of a console, expected one; that at {guess} is used")
            }
            NoConsole { guess: None } => {
                write!(f, "no PL011 is where it tells of a console, expected one; nothing is seen")
            }
            InterruptCycle { node, phandle, instead } => write!(
                f,
                "node {node}: the interrupt parents from {phandle:#x} on go round in a circle, expected the GIC at their end; \
                 {instead}"
            ),
            InterruptNowhere { node, phandle, instead } => {
                write!(f, "node {node}: interrupt parent {phandle:#x} is not the GIC, expected it to be; {instead}")
            }
            SecondController { node } => {
                write!(f, "node {node} is another interrupt controller, expected one GIC; ignored")
            }
            _ => self.fmt_memory(f),
        }
    }
}

impl fmt::Display for Problem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Problem::*;
        match self {
            NoMemory | TooManyReservations { .. } => self.fmt_memory(f),
            _ if self.severity() == Severity::Fatal => self.fmt_structure(f),
            _ => self.fmt_node(f),
        }
    }
}
