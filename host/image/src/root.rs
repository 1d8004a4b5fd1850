//! A page table that a machine uses: where its root is, what shape it has, and how its leaves are to be understood.

use std::fmt;

use vmsa::registers::MemoryTypes;
use vmsa::{Descriptor, Overlay, PermissionControl, Permissions, PhysAddr, TableAttributes};

use crate::shape::{Shape, Stage};

/// Whose translations a page table makes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Regime {
    /// The upper half of EL1&0: TTBR1_EL1.
    El1Upper,
    /// The lower half of EL1&0: TTBR0_EL1.
    El1Lower,
    /// The upper half of EL2&0 (HCR_EL2.E2H = 1): TTBR1_EL2.
    El2Upper,
    /// EL2, or the lower half of EL2&0: TTBR0_EL2.
    El2Lower,
    /// Stage 2 of EL1&0: VTTBR_EL2.
    Stage2,
}

impl Regime {
    /// The register that holds the root.
    pub fn register(self) -> &'static str {
        match self {
            Self::El1Upper => "TTBR1_EL1",
            Self::El1Lower => "TTBR0_EL1",
            Self::El2Upper => "TTBR1_EL2",
            Self::El2Lower => "TTBR0_EL2",
            Self::Stage2 => "VTTBR_EL2",
        }
    }

    /// Whether it is the upper half.
    pub fn is_upper(self) -> bool {
        matches!(self, Self::El1Upper | Self::El2Upper)
    }

    /// Whether stage 2 translates the addresses of its tables and leaves, where stage 2 is on.
    pub fn is_below_stage2(self) -> bool {
        matches!(self, Self::El1Upper | Self::El1Lower)
    }
}

/// How it is known that a root is one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Registers of CPUs, by number.
    Registers(Vec<usize>),
    /// Given by the user.
    Flags,
    /// The vmcoreinfo note; the flag says whether the table itself confirms it.
    VmcoreInfo(bool),
    /// Found by search; how sure, in hundredths, and why.
    Search(u8, String),
}

/// A page table in use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Root {
    /// Whose translations it makes.
    pub regime: Regime,
    /// Where the root table is; an intermediate address where stage 2 is on.
    pub address: PhysAddr,
    /// Its shape.
    pub shape: Shape,
    /// MAIR_ELx, or `None` if the source does not tell.
    pub memory: Option<MemoryTypes>,
    /// SH0 or SH1 of the control register: the shareability of LPA2 leaves.
    pub shareability: u8,
    /// ASID or VMID.
    pub identifier: u16,
    /// Descriptors are big-endian (SCTLR_ELx.EE).
    pub is_big_endian: bool,
    /// What its registers say of permissions.
    pub control: PermissionControl,
    /// HCR_EL2.FWB, which changes the memory types of stage 2.
    pub forces_write_back: bool,
    /// How it is known.
    pub origin: Origin,
}

impl Root {
    /// A root of which no more is known than where it is and its shape.
    pub fn bare(regime: Regime, address: PhysAddr, shape: Shape, origin: Origin) -> Self {
        Self {
            regime,
            address,
            shape,
            memory: None,
            shareability: 3,
            identifier: 0,
            is_big_endian: false,
            control: PermissionControl::default(),
            forces_write_back: false,
            origin,
        }
    }

    /// Whether its leaves have stage-1 attributes.
    pub fn is_stage1(&self) -> bool {
        self.shape.stage == Stage::One
    }

    /// What the leaf with this descriptor permits, below tables with these limits; `None` where a register says that the source
    /// does not tell.
    pub fn permissions(&self, leaf: Descriptor, limits: TableAttributes) -> Option<Permissions> {
        if self.is_stage1() { self.control.stage1(leaf, limits) } else { self.control.stage2(leaf) }
    }

    /// The memory types: those of the machine, or the common order of Linux where the source does not tell.
    pub fn memory_or_common(&self) -> MemoryTypes {
        self.memory.unwrap_or(MemoryTypes::COMMON)
    }

    /// Whether two roots are the same page table, whatever CPUs use it.
    pub fn is_same_table(&self, other: &Self) -> bool {
        // POR_EL0 is a thread's own: it tells processes' page tables apart, but not the kernel's.
        let is_kernel = matches!(self.regime, Regime::El1Upper | Regime::El2Upper);
        let control = |root: &Self| match is_kernel {
            true => PermissionControl { user_overlay: Overlay::Off, ..root.control },
            false => root.control,
        };
        let key = |root: &Self| (root.regime, root.address, root.shape, root.memory, control(root));
        key(self) == key(other)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registers(cpus) => {
                let list: Vec<String> = cpus.iter().map(usize::to_string).collect();
                write!(f, "registers of CPU {}", list.join(", "))
            }
            Self::Flags => f.write_str("as given"),
            Self::VmcoreInfo(true) => f.write_str("vmcoreinfo, confirmed by the table"),
            Self::VmcoreInfo(false) => f.write_str("vmcoreinfo, NOT confirmed by the table"),
            Self::Search(percent, why) => write!(f, "found by search, {percent} % sure: {why}"),
        }
    }
}

impl fmt::Display for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} root at {:#x}, {} ({})", self.regime.register(), self.address.bits(), self.shape, self.origin)
    }
}
