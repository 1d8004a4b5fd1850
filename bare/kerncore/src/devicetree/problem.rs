//! What can be wrong with a device tree.
//!
//! Damage to the blob's structure is fatal even where enough was read before it: the part that is lost may have reserved
//! memory that firmware uses, and a kernel that guesses corrupts it. A well-formed node that makes no sense is survived.

use core::fmt;

use crate::range::PhysicalRange;
use crate::severity::Severity;
use crate::text::Text;
use thiserror::Error;
use vmsa::PhysAddr;

use super::description::{MAX_BANKS, MAX_CPUS, MAX_RESERVATIONS};

/// One thing wrong with a device tree. Offsets are in bytes from the start of the blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each variant's line says what its fields are")]
pub enum Problem<'a> {
    // The blob as a whole: fatal.
    #[error("none was passed; expected its address in x0 at entry, so no memory is known")]
    Missing,
    #[error(
        "x0 was {address:#x} at entry, expected a blob of at most 2 MiB there, on a multiple of 8 and outside \
         the kernel, so no memory is known"
    )]
    NotATree { address: u64 },
    #[error("begins with {found:#010x}, expected 0xd00dfeed; not read")]
    BadMagic { found: u32 },
    #[error("version {version}, compatible down to {compatible}; expected to be readable as 17; not read")]
    BadVersion { version: u32, compatible: u32 },
    #[error("{size} bytes in all, expected at least the 40 of a header; not read")]
    BadSize { size: usize },
    #[error("header says {expected} bytes, but {found} are there; reservations may be missing")]
    Truncated { expected: u32, found: usize },
    #[error("{block} block of {size} bytes at offset {offset:#x}, expected it aligned and inside the blob")]
    BadBlock { block: &'static str, offset: u32, size: u32 },
    #[error("token {found:#x} at offset {offset:#x}, expected 1, 2, 3, 4 or 9; the rest is not read")]
    BadToken { offset: usize, found: u32 },
    #[error(
        "property at offset {offset:#x} has its name at {name_offset:#x}, expected it inside the strings \
         block; the rest is not read"
    )]
    BadPropertyName { offset: usize, name_offset: u32 },
    #[error("ends inside {within} at offset {offset:#x}, expected the end token; the rest is missing")]
    CutShort { offset: usize, within: &'static str },
    #[error("node ends and begins do not match at offset {offset:#x}; the rest is not read")]
    Unbalanced { offset: usize },
    #[error("property at offset {offset:#x} outside a node's head, expected before its subnodes; the rest is not read")]
    MisplacedProperty { offset: usize },
    #[error("the /memreserve/ list has no end, expected an entry of two zeros; reservations may be wrong")]
    UnterminatedReservations,
    // What the kernel cannot do without: fatal.
    #[error("no usable memory, expected a node /memory with device_type \"memory\" and a reg")]
    NoMemory,
    #[error("more than {} reservations, {at} would be lost; expected fewer; cannot go on", MAX_RESERVATIONS)]
    TooManyReservations { at: PhysicalRange },
    // Memory.
    #[error("memory bank at {address:#018x} has size 0, expected more; ignored")]
    EmptyBank { address: u64 },
    #[error(
        "memory bank of {size:#x} bytes at {address:#018x} goes beyond the address range, expected below 2^52; \
         the part beyond is ignored"
    )]
    BankBeyond { address: u64, size: u64 },
    #[error("memory bank {bank} overlaps {other}, expected them apart; taken as one")]
    BanksOverlap { bank: PhysicalRange, other: PhysicalRange },
    #[error("more than {} memory banks, expected fewer; {bank} is ignored", MAX_BANKS)]
    TooManyBanks { bank: PhysicalRange },
    // Nodes and properties.
    #[error("node {node} is nested too deep, expected 16 levels at most; ignored")]
    TooDeep { node: Text<'a> },
    #[error("node {node}: {cells} address or size cells, expected 0 to 4; the standard's default is used")]
    BadCells { node: Text<'a>, cells: u32 },
    #[error("node {node}: property {property} makes no sense, expected {expected}; {instead}")]
    BadProperty { node: Text<'a>, property: &'static str, expected: &'static str, instead: &'static str },
    #[error(
        "node {node}: address {address:#x} is in no window of the buses above it, expected `ranges` that reach \
         it; {instead}"
    )]
    Untranslatable { node: Text<'a>, address: u64, instead: &'static str },
    #[error("no {what}, expected {expected}; {instead}")]
    Absent { what: &'static str, expected: &'static str, instead: &'static str },
    // CPUs.
    #[error("{found} CPUs, expected {} at most; the later ones stay off", MAX_CPUS)]
    TooManyCpus { found: u32 },
    #[error("node {node}: affinity {affinity:#x} is taken, expected one CPU for each; ignored")]
    DuplicateCpu { node: Text<'a>, affinity: u64 },
    #[error(
        "no CPU of affinity {affinity:#x}, which booted, expected it among the first {}; it runs, with {} others at most",
        MAX_CPUS,
        MAX_CPUS - 1
    )]
    BootCpuAbsent { affinity: u64 },
    // Initrd.
    #[error("initrd from {start:#018x} up to {end:#018x}, expected the end after the start; ignored")]
    InitrdReversed { start: u64, end: u64 },
    #[error("initrd from {start:#018x} up to {end:#018x} is not wholly in memory, expected it inside; ignored")]
    InitrdOutside { start: u64, end: u64 },
    // Console.
    #[error("stdout-path \"{path}\" leads to no enabled node with an address, expected one; {instead}")]
    NoSuchConsole { path: Text<'a>, instead: &'static str },
    #[error("console {path} is {compatible}, expected arm,pl011; {instead}")]
    UnknownConsole { path: Text<'a>, compatible: Text<'a>, instead: &'static str },
    #[error("no PL011 is where it tells of a console, expected one; {}", where_to(guess))]
    NoConsole { guess: Option<PhysAddr> },
    // Interrupts.
    #[error(
        "node {node}: the interrupt parents from {phandle:#x} on go round in a circle, expected the GIC at their end; \
         {instead}"
    )]
    InterruptCycle { node: Text<'a>, phandle: u32, instead: &'static str },
    #[error("node {node}: interrupt parent {phandle:#x} is not the GIC, expected it to be; {instead}")]
    InterruptNowhere { node: Text<'a>, phandle: u32, instead: &'static str },
    #[error("node {node} is another interrupt controller, expected one GIC; ignored")]
    SecondController { node: Text<'a> },
}

/// What becomes of the output of a kernel whose tree tells of a console that is none.
fn where_to(guess: &Option<PhysAddr>) -> impl fmt::Display {
    fmt::from_fn(move |f| match guess {
        Some(guess) => write!(f, "that at {guess} is used"),
        None => f.write_str("nothing is seen"),
    })
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
}
