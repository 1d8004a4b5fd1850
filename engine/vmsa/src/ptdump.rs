//! Page tables as text, in the line format of the arm64 `kernel_page_tables` file that existing eyes and scripts know.
//!
//! ```text
//! ---[ Linear Mapping start ]---
//! 0xffff000000000000-0xffff000000200000           2M PMD       RW NX SHD AF        BLK UXN    MEM/NORMAL-TAGGED
//! ```
//! A [`Ptdump`] is fed every entry in order, empty ones included, and merges runs that differ in nothing it prints. Where bits
//! do not say what they permit, its words are for what registers make of them. An entry that no walk takes for a leaf is `F`:
//! what it holds is software's, and is printed as a number, without bits that nothing here prints.

use core::fmt;

use crate::fields::STAGE1_LEAF;
use crate::registers::{MemoryType, MemoryTypes};
use crate::{
    Bits, Descriptor, Layout, Level, Meaning, PageSize, Permissions, Rights, Stage1Attributes, permission_index,
};

/// A line such as `---[ Linear Mapping start ]---`, printed when the dump reaches `address`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marker<'a> {
    /// The first address that follows the line.
    pub address: u64,
    /// What stands between the brackets.
    pub name: &'a str,
}

/// What a dump must know of the regime to name attributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Naming {
    /// The granule: what is reserved at a level depends on it.
    pub page_size: PageSize,
    /// The level of the root table: it is called PGD.
    pub start: Level,
    /// How descriptors hold their output address.
    pub layout: Layout,
    /// MAIR_EL1.
    pub memory: MemoryTypes,
    /// With LPA2, the shareability of every leaf, from TCR_EL1.SH0 or SH1.
    pub shareability: u8,
    /// The regime has one privilege (EL2 without E2H, EL3): XN is bit 54, and there is no EL0 and no ASID.
    pub has_one_privilege: bool,
}

/// Merges entries into lines and writes them to `out`.
///
/// ```
/// use vellum_vmsa::ptdump::{Naming, Ptdump};
/// use vellum_vmsa::{Descriptor, Layout, Level, PageSize, registers::MemoryTypes};
///
/// let naming = Naming {
///     page_size: PageSize::Size4K,
///     start: Level::L1,
///     layout: Layout::Bits48,
///     memory: MemoryTypes::COMMON,
///     shareability: 3,
///     has_one_privilege: false,
/// };
/// let mut dump = Ptdump::new(String::new(), naming, &[]);
/// dump.entry(0, Level::L1, Descriptor::INVALID)?;
/// dump.entry(0x4000_0000, Level::L1, Descriptor::new(0x0060_0000_4000_0701))?;
/// let text = dump.finish(0x8000_0000)?;
/// assert!(text.ends_with("1G PGD       RW NX SHD AF        BLK UXN    MEM/NORMAL\n"));
/// # Ok::<(), std::fmt::Error>(())
/// ```
pub struct Ptdump<'a, W: fmt::Write> {
    out: W,
    naming: Naming,
    markers: &'a [Marker<'a>],
    run: Option<Run>,
}

/// Where the words for permissions come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Permitted {
    /// The descriptor's bits say them.
    ByBits,
    /// Registers say them: this is what they permit. What the words cannot say is added behind them.
    ByRegisters(Permissions),
    /// Registers say them that nobody knows.
    Unknown,
}

/// Neighbours that print alike.
#[derive(Clone, Copy)]
struct Run {
    start: u64,
    level: Level,
    printed: Bits,
    added: Added,
}

/// What stands behind the words of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Added {
    Nothing,
    Held,
    Reserved,
    Permissions(Permissions),
    Index(u8),
}

/// The bits that are printed; neighbours that differ in others alone share a line.
const PRINTED: Bits = Descriptor::TYPE
    | Descriptor::CONTIGUOUS
    | STAGE1_LEAF.the("AttrIndx").mask()
    | Stage1Attributes::USER
        .union(Stage1Attributes::READ_ONLY)
        .union(Stage1Attributes::INNER_SHAREABLE)
        .union(Stage1Attributes::AF)
        .union(Stage1Attributes::NOT_GLOBAL)
        .union(Stage1Attributes::GUARDED)
        .union(Stage1Attributes::NO_EXECUTE)
        .bits();

/// Those of them that are about permissions, but where registers say them.
const PERMISSIONS: Bits =
    Stage1Attributes::USER.union(Stage1Attributes::READ_ONLY).union(Stage1Attributes::NO_EXECUTE).bits();

/// What has no meaning where there is one privilege: neither EL0 nor an ASID.
const OF_TWO_PRIVILEGES: Bits =
    Stage1Attributes::USER.union(Stage1Attributes::UXN).union(Stage1Attributes::NOT_GLOBAL).bits();

/// The bits that would permit the same, and whether they would permit it exactly.
fn as_bits(permissions: Permissions) -> (Bits, bool) {
    let Permissions { privileged, unprivileged } = permissions;
    let data = unprivileged & (Rights::DATA | Rights::STACK);
    let mut bits = Stage1Attributes::empty();
    bits.set(Stage1Attributes::USER, !data.is_empty());
    bits.set(Stage1Attributes::READ_ONLY, !privileged.contains(Rights::WRITE));
    bits.set(Stage1Attributes::PXN, !privileged.contains(Rights::EXECUTE));
    bits.set(Stage1Attributes::UXN, !unprivileged.contains(Rights::EXECUTE));
    let is_like_bits = privileged.contains(Rights::READ) && !privileged.contains(Rights::STACK);
    (bits.bits(), is_like_bits && (data.is_empty() || data == privileged & Rights::DATA))
}

impl<'a, W: fmt::Write> Ptdump<'a, W> {
    /// A dump that writes to `out`. `markers` ascend by address.
    pub const fn new(out: W, naming: Naming, markers: &'a [Marker<'a>]) -> Self {
        Self { out, naming, markers, run: None }
    }

    /// The entry at `address`: a leaf, or whatever is not a table (an all-zero descriptor is a hole).
    pub fn entry(&mut self, address: u64, level: Level, descriptor: Descriptor) -> fmt::Result {
        self.entry_that(Permitted::ByBits, address, level, descriptor)
    }

    /// The same for an entry that permits this.
    pub fn entry_that(
        &mut self,
        permits: Permitted,
        address: u64,
        level: Level,
        descriptor: Descriptor,
    ) -> fmt::Result {
        let (printed, added) = self.printed(descriptor, level, permits);
        let is_like = |run: &Run| run.level == level && run.printed == printed && run.added == added;
        match self.run {
            Some(run) if is_like(&run) && !self.is_marker_due(address) => return Ok(()),
            Some(run) => self.line(run, address)?,
            None => {}
        }
        self.print_markers(address)?;
        self.run = Some(Run { start: address, level, printed, added });
        Ok(())
    }

    /// Prints what is pending; `end` is the address after the last entry (0 for the end of the upper half).
    pub fn finish(mut self, end: u64) -> Result<W, fmt::Error> {
        if let Some(run) = self.run.take() {
            self.line(run, end)?;
        }
        self.print_markers(if end == 0 { u64::MAX } else { end })?;
        Ok(self.out)
    }

    fn printed(&self, descriptor: Descriptor, level: Level, permits: Permitted) -> (Bits, Added) {
        match descriptor.meaning(self.naming.page_size, self.naming.layout, level) {
            Meaning::Leaf(..) => {}
            Meaning::Reserved => return (0, Added::Reserved),
            _ => {
                let is_hole = descriptor == Descriptor::INVALID;
                return (descriptor.bits() & PRINTED, if is_hole { Added::Nothing } else { Added::Held });
            }
        }
        let bits = self.without_output(descriptor);
        let (bits, added) = match permits {
            Permitted::ByRegisters(permissions) => {
                let (like, is_exact) = as_bits(permissions);
                let added = if is_exact { Added::Nothing } else { Added::Permissions(permissions) };
                (bits & !PERMISSIONS | like, added)
            }
            Permitted::Unknown => (bits & !PERMISSIONS, Added::Index(permission_index(descriptor))),
            Permitted::ByBits if self.naming.has_one_privilege => {
                let execute_never = Stage1Attributes::UXN.bits();
                let like = if bits & execute_never == 0 { 0 } else { Stage1Attributes::PXN.bits() };
                (bits & !Stage1Attributes::PXN.bits() | like, Added::Nothing)
            }
            Permitted::ByBits => (bits, Added::Nothing),
        };
        (if self.naming.has_one_privilege { bits & !OF_TWO_PRIVILEGES } else { bits }, added)
    }

    fn without_output(&self, descriptor: Descriptor) -> Bits {
        let bits = descriptor.bits() & PRINTED;
        if self.naming.layout != Layout::Lpa2 {
            return bits;
        }
        // With LPA2 bits 9:8 are output-address bits, and shareability comes from TCR_EL1 (D8.3.1).
        let shareability = Bits::from(self.naming.shareability) << 8;
        bits & !Stage1Attributes::INNER_SHAREABLE.bits() | shareability & Stage1Attributes::INNER_SHAREABLE.bits()
    }

    fn is_marker_due(&self, address: u64) -> bool {
        self.markers.first().is_some_and(|marker| marker.address <= address)
    }

    fn print_markers(&mut self, address: u64) -> fmt::Result {
        while let [marker, rest @ ..] = self.markers
            && marker.address <= address
        {
            writeln!(self.out, "---[ {} ]---", marker.name)?;
            self.markers = rest;
        }
        Ok(())
    }

    fn line(&mut self, run: Run, end: u64) -> fmt::Result {
        let (size, unit) = scale(end.wrapping_sub(run.start));
        let level = level_name(run.level, self.naming.start);
        write!(self.out, "{:#018x}-{end:#018x}   {size:>9}{unit} {level}", run.start)?;
        match (run.printed, run.added) {
            (_, Added::Reserved) => self.out.write_str(" F reserved")?,
            (held, Added::Held) => write!(self.out, " F held {held:#018x}")?,
            (0, _) => {}
            _ => self.attributes(run)?,
        }
        self.out.write_char('\n')
    }

    fn attributes(&mut self, run: Run) -> fmt::Result {
        let bits = Stage1Attributes::from_bits_retain(run.printed);
        let is_block = run.level != Level::L3 && run.printed & Descriptor::TYPE == 0b01;
        let is_unknown = matches!(run.added, Added::Index(_));
        let permits = |flag, set: &'static str, clear| match is_unknown {
            true => (true, &"?  "[..set.len()], clear),
            false => (bits.contains(flag), set, clear),
        };
        let words = [
            permits(Stage1Attributes::USER, "USR", "   "),
            permits(Stage1Attributes::READ_ONLY, "ro", "RW"),
            permits(Stage1Attributes::PXN, "NX", "x "),
            (bits.contains(Stage1Attributes::INNER_SHAREABLE), "SHD", "   "),
            (bits.contains(Stage1Attributes::AF), "AF", "  "),
            (bits.contains(Stage1Attributes::NOT_GLOBAL), "NG", "  "),
            (run.printed & Descriptor::CONTIGUOUS != 0, "CON", "   "),
            (is_block, "BLK", "   "),
            permits(Stage1Attributes::UXN, "UXN", "   "),
            (bits.contains(Stage1Attributes::GUARDED), "GP", "  "),
        ];
        self.out.write_str("  ")?;
        for (is_set, set, clear) in words {
            write!(self.out, " {}", if is_set { set } else { clear })?;
        }
        if let Some(name) = memory_name(self.naming.memory.get(bits.memory_index())) {
            write!(self.out, " {name}")?;
        }
        match run.added {
            Added::Nothing | Added::Held | Added::Reserved => Ok(()),
            // Where there is one privilege, nobody else is told of.
            Added::Permissions(of) if self.naming.has_one_privilege => {
                write!(self.out, " privileged {}", of.privileged)
            }
            Added::Permissions(Permissions { privileged, unprivileged }) => {
                write!(self.out, " privileged {privileged}, EL0 {unprivileged}")
            }
            Added::Index(index) => write!(self.out, " PIIndex {index}"),
        }
    }
}

/// The name that Linux gives the table of a level. The root is the PGD, wherever lookup starts.
pub fn level_name(level: Level, start: Level) -> &'static str {
    match level.number() {
        _ if level == start => "PGD",
        0 => "P4D",
        1 => "PUD",
        2 => "PMD",
        _ => "PTE",
    }
}

/// The name of a memory type, or `None` for the types that the format has no word for.
pub fn memory_name(memory: MemoryType) -> Option<&'static str> {
    Some(match memory {
        MemoryType::NORMAL => "MEM/NORMAL",
        MemoryType::NORMAL_TAGGED => "MEM/NORMAL-TAGGED",
        MemoryType::NORMAL_NC => "MEM/NORMAL-NC",
        MemoryType::DEVICE_NGNRNE => "DEVICE/nGnRnE",
        MemoryType::DEVICE_NGNRE => "DEVICE/nGnRE",
        MemoryType::DEVICE_GRE => "DEVICE/GRE",
        _ => return None,
    })
}

/// A number of bytes in the largest unit that leaves no fraction, from KiB up.
pub fn scale(bytes: u64) -> (u64, char) {
    let mut size = bytes >> 10;
    let mut units = ['K', 'M', 'G', 'T', 'P', 'E'].into_iter().peekable();
    let mut unit = units.next().unwrap_or('K');
    while size & 1023 == 0 && size != 0 {
        let Some(larger) = units.next() else { break };
        (size, unit) = (size >> 10, larger);
    }
    (size, unit)
}

#[cfg(test)]
mod tests;
