//! Exception syndromes, ESR_ELx, in words (D17.2.37, ISS encodings).

use core::fmt;

use crate::Level;

/// The value of ESR_ELx.
///
/// ```
/// let syndrome = vellum_vmsa::Syndrome::new(0x9600_004f);
/// assert_eq!(syndrome.to_string(), "data abort, permission fault, level 3, on a write");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Syndrome(u64);

/// The exception classes from one table: the values of EC, the name where memory management meets the class, and its words.
macro_rules! classes {
    ($($($number:literal)|+ = $name:ident $words:literal;)* without_a_name: $($($other:literal)|+ = $rare:literal;)*) => {
        /// The exception classes that memory management meets; the rest by number.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum ExceptionClass {
            $(#[doc = concat!(stringify!($($number)|+), ": ", $words, ".")] $name,)*
            /// Any other value of EC.
            Other(u8),
        }

        impl ExceptionClass {
            #[inline]
            const fn decode(class: u8) -> Self {
                match class {
                    $($($number)|+ => Self::$name,)*
                    other => Self::Other(other),
                }
            }

            const fn words(self) -> Option<&'static str> {
                Some(match self {
                    $(Self::$name => $words,)*
                    $($(Self::Other($other))|+ => $rare,)*
                    Self::Other(_) => return None,
                })
            }
        }
    };
}

// D17.2.37, EC. What has no name is what memory management does not act on.
classes! {
    0x00 = Unknown "unknown reason (often an undefined instruction)";
    0x01 = TrappedWait "trapped WFI or WFE";
    0x07 = TrappedFloatingPoint "trapped SIMD or floating point";
    0x0d = BranchTarget "branch target exception";
    0x0e = IllegalState "illegal execution state";
    0x15 = SupervisorCall "SVC";
    0x16 = HypervisorCall "HVC";
    0x17 = SecureMonitorCall "SMC";
    0x18 = TrappedSystemInstruction "trapped system instruction";
    0x20 = InstructionAbortLowerEl "instruction abort from a lower exception level";
    0x21 = InstructionAbortSameEl "instruction abort";
    0x22 = PcAlignment "PC alignment fault";
    0x24 = DataAbortLowerEl "data abort from a lower exception level";
    0x25 = DataAbortSameEl "data abort";
    0x26 = SpAlignment "SP alignment fault";
    0x2f = SystemError "SError";
    0x30 | 0x31 = Breakpoint "breakpoint";
    0x32 | 0x33 = SoftwareStep "software step";
    0x34 | 0x35 = Watchpoint "watchpoint";
    0x3c = BreakpointInstruction "BRK instruction";
    without_a_name:
    0x03 | 0x05 = "trapped MCR or MRC (AArch32)";
    0x04 | 0x0c = "trapped MCRR or MRRC (AArch32)";
    0x06 = "trapped LDC or STC (AArch32)";
    0x08 = "trapped VMRS (AArch32)";
    0x09 = "trapped pointer authentication";
    0x0a = "trapped LD64B or ST64B, or others of its class";
    0x11 = "SVC (AArch32)";
    0x12 = "HVC (AArch32)";
    0x13 = "SMC (AArch32)";
    0x14 = "trapped 128-bit system register or instruction";
    0x19 = "trapped SVE";
    0x1a = "trapped ERET";
    0x1c = "pointer authentication failure";
    0x1d = "trapped SME";
    0x1e = "granule protection check";
    0x27 = "memory copy or set";
    0x28 = "floating point exception (AArch32)";
    0x2c = "floating point exception";
    0x2d = "guarded control stack";
    0x38 = "BKPT instruction (AArch32)";
    0x3a = "vector catch (AArch32)";
    0x3d = "profiling exception";
}

/// Why an abort was taken: DFSC or IFSC, ISS\[5:0\].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FaultStatus {
    /// An output address, table address or TTBR beyond the configured size.
    AddressSize(Level),
    /// No valid descriptor.
    Translation(Level),
    /// The access flag is clear and hardware does not set it.
    AccessFlag(Level),
    /// The permissions refuse the access.
    Permission(Level),
    /// A synchronous external abort, not on a walk.
    External,
    /// A synchronous external abort on the walk.
    ExternalOnWalk(Level),
    /// A granule protection fault (FEAT_RME), on the walk at a level or not on a walk.
    GranuleProtection(Option<Level>),
    /// An alignment fault.
    Alignment,
    /// More than one TLB entry matched.
    TlbConflict,
    /// A hardware update of the access flag or dirty state that the memory cannot do atomically.
    UnsupportedAtomicUpdate,
    /// Any other value.
    Other(u8),
}

impl FaultStatus {
    /// Decodes ISS\[5:0\] of a data or instruction abort.
    #[inline]
    pub const fn decode(status: u8) -> Self {
        match status & 0b11_1111 {
            0b10_1001 => Self::AddressSize(Level::MINUS_1),
            0b10_1011 => Self::Translation(Level::MINUS_1),
            0b01_0011 => Self::ExternalOnWalk(Level::MINUS_1),
            0b10_0011 => Self::GranuleProtection(Some(Level::MINUS_1)),
            status @ 0b00_0000..=0b00_0011 => Self::AddressSize(low_level(status)),
            status @ 0b00_0100..=0b00_0111 => Self::Translation(low_level(status)),
            status @ 0b00_1000..=0b00_1011 => Self::AccessFlag(low_level(status)),
            status @ 0b00_1100..=0b00_1111 => Self::Permission(low_level(status)),
            0b01_0000 => Self::External,
            status @ 0b01_0100..=0b01_0111 => Self::ExternalOnWalk(low_level(status)),
            status @ 0b10_0100..=0b10_0111 => Self::GranuleProtection(Some(low_level(status))),
            0b10_1000 => Self::GranuleProtection(None),
            0b10_0001 => Self::Alignment,
            0b11_0000 => Self::TlbConflict,
            0b11_0001 => Self::UnsupportedAtomicUpdate,
            other => Self::Other(other),
        }
    }

    /// The level the walk had reached, where the status tells one.
    pub const fn level(self) -> Option<Level> {
        match self {
            Self::AddressSize(level) | Self::Translation(level) | Self::AccessFlag(level) | Self::Permission(level) => {
                Some(level)
            }
            Self::ExternalOnWalk(level) | Self::GranuleProtection(Some(level)) => Some(level),
            _ => None,
        }
    }
}

/// The level in bits 1:0 of a status.
const fn low_level(status: u8) -> Level {
    match status & 0b11 {
        0 => Level::L0,
        1 => Level::L1,
        2 => Level::L2,
        _ => Level::L3,
    }
}

impl fmt::Display for FaultStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddressSize(level) => write!(f, "address size fault, {level}"),
            Self::Translation(level) => write!(f, "translation fault, {level}"),
            Self::AccessFlag(level) => write!(f, "access flag fault, {level}"),
            Self::Permission(level) => write!(f, "permission fault, {level}"),
            Self::External => f.write_str("synchronous external abort"),
            Self::ExternalOnWalk(level) => write!(f, "synchronous external abort on the walk, {level}"),
            Self::GranuleProtection(Some(level)) => write!(f, "granule protection fault on the walk, {level}"),
            Self::GranuleProtection(None) => f.write_str("granule protection fault"),
            Self::Alignment => f.write_str("alignment fault"),
            Self::TlbConflict => f.write_str("TLB conflict abort"),
            Self::UnsupportedAtomicUpdate => f.write_str("unsupported atomic hardware update"),
            Self::Other(status) => match rare_status(*status) {
                Some(name) => f.write_str(name),
                None => write!(f, "fault status {status:#04x}"),
            },
        }
    }
}

/// The statuses that memory management does not act on, in words.
const fn rare_status(status: u8) -> Option<&'static str> {
    Some(match status {
        0b01_0001 => "synchronous tag check fault",
        0b01_0010 => "synchronous external abort on the walk, level -2",
        0b01_1000 => "synchronous parity or ECC error",
        0b01_1011 => "synchronous parity or ECC error on the walk, level -1",
        0b01_1100 => "synchronous parity or ECC error on the walk, level 0",
        0b01_1101 => "synchronous parity or ECC error on the walk, level 1",
        0b01_1110 => "synchronous parity or ECC error on the walk, level 2",
        0b01_1111 => "synchronous parity or ECC error on the walk, level 3",
        0b10_0010 => "granule protection fault on the walk, level -2",
        0b10_1010 => "translation fault, level -2",
        0b10_1100 => "address size fault, level -2",
        0b11_0100 => "lockdown abort (IMPLEMENTATION DEFINED)",
        0b11_0101 => "unsupported exclusive or atomic access (IMPLEMENTATION DEFINED)",
        _ => return None,
    })
}

impl Syndrome {
    /// The syndrome with this value of ESR_ELx.
    pub const fn new(esr: u64) -> Self {
        Self(esr)
    }

    /// The value of ESR_ELx.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// EC, bits 31:26.
    #[inline]
    pub const fn class(self) -> ExceptionClass {
        ExceptionClass::decode((self.0 >> 26) as u8 & 0x3f)
    }

    /// ISS, bits 24:0.
    pub const fn specific(self) -> u32 {
        self.0 as u32 & 0x01ff_ffff
    }

    /// Whether it is a data abort.
    #[inline]
    pub const fn is_data_abort(self) -> bool {
        // EC 0x24 from a lower exception level, 0x25 from the same.
        self.0 >> 26 & 0b11_1110 == 0x24
    }

    /// Whether it is an instruction abort.
    #[inline]
    pub const fn is_instruction_abort(self) -> bool {
        // EC 0x20 from a lower exception level, 0x21 from the same.
        self.0 >> 26 & 0b11_1110 == 0x20
    }

    /// Why the abort was taken; `None` if it is not a data or instruction abort.
    #[inline]
    pub const fn fault(self) -> Option<FaultStatus> {
        if self.is_data_abort() || self.is_instruction_abort() {
            Some(FaultStatus::decode(self.0 as u8 & 0x3f))
        } else {
            None
        }
    }

    /// Whether the abort is a translation, access flag or permission fault at level 0 or below, as most are; to ask for
    /// [`Self::fault`] takes longer.
    #[inline]
    pub const fn is_of_descriptor(self) -> bool {
        (self.is_data_abort() || self.is_instruction_abort()) && matches!(self.0 as u8 & 0x3f, 0b00_0100..=0b00_1111)
    }

    /// WnR, ISS bit 6: the data abort was on a write. A read-modify-write that may not read reports a read.
    #[inline]
    pub const fn is_write(self) -> bool {
        self.is_data_abort() && self.0 & 1 << 6 != 0
    }

    /// CM, ISS bit 8: the data abort was on cache maintenance or address translation, for which WnR is always 1.
    #[inline]
    pub const fn is_maintenance(self) -> bool {
        self.is_data_abort() && self.0 & 1 << 8 != 0
    }

    /// S1PTW, ISS bit 7: the fault was at stage 2, on a stage-1 walk.
    pub const fn is_on_stage1_walk(self) -> bool {
        (self.is_data_abort() || self.is_instruction_abort()) && self.0 & 1 << 7 != 0
    }

    /// FnV, ISS bit 10: FAR_ELx does not hold the address.
    pub const fn is_address_unknown(self) -> bool {
        (self.is_data_abort() || self.is_instruction_abort()) && self.0 & 1 << 10 != 0
    }
}

impl fmt::Display for ExceptionClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.words(), self) {
            (None, Self::Other(class)) => write!(f, "exception class {class:#04x}"),
            (words, _) => f.write_str(words.unwrap_or_default()),
        }
    }
}

impl fmt::Display for Syndrome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.class())?;
        if let Some(fault) = self.fault() {
            write!(f, ", {fault}")?;
        }
        if self.is_data_abort() {
            f.write_str(match (self.is_maintenance(), self.is_write()) {
                (true, _) => ", on cache maintenance or address translation",
                (false, true) => ", on a write",
                (false, false) => ", on a read",
            })?;
        }
        f.write_str(if self.is_on_stage1_walk() { ", on a stage-1 walk" } else { "" })
    }
}

impl fmt::Debug for Syndrome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::format;

    use super::*;

    /// Every status that has a level, at every level: the table of DFSC encodings.
    #[test]
    fn statuses_match_the_manual() {
        for number in 0..4 {
            let level = Level::new(number).unwrap();
            let low = number as u8;
            assert_eq!(FaultStatus::decode(low), FaultStatus::AddressSize(level));
            assert_eq!(FaultStatus::decode(0b0100 | low), FaultStatus::Translation(level));
            assert_eq!(FaultStatus::decode(0b1000 | low), FaultStatus::AccessFlag(level));
            assert_eq!(FaultStatus::decode(0b1100 | low), FaultStatus::Permission(level));
            assert_eq!(FaultStatus::decode(0b01_0100 | low), FaultStatus::ExternalOnWalk(level));
            assert_eq!(FaultStatus::decode(0b10_0100 | low), FaultStatus::GranuleProtection(Some(level)));
        }
        assert_eq!(FaultStatus::decode(0b10_1011), FaultStatus::Translation(Level::MINUS_1));
        assert_eq!(FaultStatus::decode(0b10_1001), FaultStatus::AddressSize(Level::MINUS_1));
        assert_eq!(FaultStatus::decode(0b01_0011), FaultStatus::ExternalOnWalk(Level::MINUS_1));
        assert_eq!(FaultStatus::decode(0b10_0001), FaultStatus::Alignment);
        assert_eq!(FaultStatus::decode(0b11_0000), FaultStatus::TlbConflict);
        assert_eq!(FaultStatus::decode(0b11_0001), FaultStatus::UnsupportedAtomicUpdate);
        assert_eq!(FaultStatus::decode(0b11_1111), FaultStatus::Other(0b11_1111));
    }

    /// Of every class and status: what is asked by bits is what is decoded.
    #[test]
    fn questions_by_bits_match_what_is_decoded() {
        for esr in (0..64_u64).flat_map(|class| (0..64).map(move |status| class << 26 | status | 0b11 << 32)) {
            let syndrome = Syndrome::new(esr);
            let is_data =
                matches!(syndrome.class(), ExceptionClass::DataAbortLowerEl | ExceptionClass::DataAbortSameEl);
            let is_instruction = matches!(
                syndrome.class(),
                ExceptionClass::InstructionAbortLowerEl | ExceptionClass::InstructionAbortSameEl
            );
            let is_of_descriptor = match syndrome.fault() {
                Some(
                    FaultStatus::Translation(level) | FaultStatus::AccessFlag(level) | FaultStatus::Permission(level),
                ) => level != Level::MINUS_1,
                _ => false,
            };
            assert_eq!(syndrome.is_data_abort(), is_data, "{esr:#x}");
            assert_eq!(syndrome.is_instruction_abort(), is_instruction, "{esr:#x}");
            assert_eq!(syndrome.is_of_descriptor(), is_of_descriptor, "{esr:#x}");
        }
    }

    #[test]
    fn syndromes_read_as_sentences() {
        let table = [
            (0x9600_004f, "data abort, permission fault, level 3, on a write"),
            (0x9600_0007, "data abort, translation fault, level 3, on a read"),
            (0x9600_0030, "data abort, TLB conflict abort, on a read"),
            (0x8600_000f, "instruction abort, permission fault, level 3"),
            (
                0x9200_008f,
                "data abort from a lower exception level, permission fault, level 3, on a read, on a stage-1 walk",
            ),
            (0x5600_0000, "SVC"),
            (0x9600_0145, "data abort, translation fault, level 1, on cache maintenance or address translation"),
            (0x9600_0011, "data abort, synchronous tag check fault, on a read"),
            (0x8600_002b, "instruction abort, translation fault, level -1"),
            (
                0x9200_0035,
                "data abort from a lower exception level, unsupported exclusive or atomic access \
              (IMPLEMENTATION DEFINED), on a read",
            ),
            (0x7200_0001, "pointer authentication failure"),
            (0xffff_ffff, "exception class 0x3f"),
        ];
        for (esr, text) in table {
            assert_eq!(format!("{}", Syndrome::new(esr)), text);
        }
    }
}
