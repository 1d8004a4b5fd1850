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
    /// EL3: TTBR0_EL3.
    El3,
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
            Self::El3 => "TTBR0_EL3",
            Self::Stage2 => "VTTBR_EL2",
        }
    }

    /// The exception level whose accesses are the privileged ones.
    pub fn privileged(self) -> &'static str {
        match self {
            Self::El1Upper | Self::El1Lower | Self::Stage2 => "EL1",
            Self::El2Upper | Self::El2Lower => "EL2",
            Self::El3 => "EL3",
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

/// A field of a register that a walk depends on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// The register and the field, as `TCR_EL1.IPS`.
    pub name: String,
    /// Its value.
    pub value: u64,
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
    /// Bits of output address that the control register and the CPU allow, or `None` if the source does not tell.
    pub output_bits: Option<u32>,
    /// Hardware sets the access flag (HA), or `None` if the source does not tell.
    pub sets_access_flag: Option<bool>,
    /// The fields of registers that a walk depends on.
    pub settings: Vec<Setting>,
    /// The stage 2 that translates its addresses.
    pub stage2: Option<Box<Root>>,
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
            output_bits: None,
            sets_access_flag: None,
            settings: Vec::new(),
            stage2: None,
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

    /// Whether two roots are one page table that is read in one way, whatever CPUs use it.
    pub fn is_same_table(&self, other: &Self) -> bool {
        self.is_same_place(other) && self.differences(other).is_empty()
    }

    /// Whether the tables of two roots lie at one place.
    pub fn is_same_place(&self, other: &Self) -> bool {
        let is_same_stage2 = match (&self.stage2, &other.stage2) {
            (Some(this), Some(other)) => this.is_same_table(other),
            (None, None) => true,
            _ => false,
        };
        is_same_stage2 && (self.regime, self.address) == (other.regime, other.address)
    }

    /// How registers of the CPUs differ that use two roots, in words.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        // POR_EL0 is a thread's own: it tells processes' page tables apart, but not the kernel's.
        let control = |root: &Self| match root.regime.is_upper() {
            true => PermissionControl { user_overlay: Overlay::Off, ..root.control },
            false => root.control,
        };
        let value_of = |name: &str| other.settings.iter().find(|setting| setting.name == name).map(|it| it.value);
        let mut all: Vec<String> = self
            .settings
            .iter()
            .filter_map(|Setting { name, value }| {
                let theirs = value_of(name).filter(|theirs| theirs != value)?;
                Some(format!("{name} is {value:#x} and {theirs:#x}"))
            })
            .collect();
        if self.memory != other.memory {
            let text = |root: &Self| root.memory.map_or("unknown".to_owned(), |types| format!("{:#x}", types.0));
            all.push(format!("MAIR is {} and {}", text(self), text(other)));
        }
        let is_read_alike =
            (self.shape, self.output_bits, control(self)) == (other.shape, other.output_bits, control(other));
        if all.is_empty() && !is_read_alike {
            all.push("what they permit or how long their addresses are".to_owned());
        }
        all
    }

    /// Whether they are the two halves of one regime, in use at one CPU at once.
    pub fn shares_cpu(&self, other: &Self) -> bool {
        let is_of_cpu = |cpu: &usize| matches!(&other.origin, Origin::Registers(cpus) if cpus.contains(cpu));
        let at_once = match &self.origin {
            Origin::Registers(cpus) => cpus.iter().any(is_of_cpu),
            origin => *origin == other.origin,
        };
        let halves = [(Regime::El1Upper, Regime::El1Lower), (Regime::El2Upper, Regime::El2Lower)];
        let is_half = |(upper, lower)| [(upper, lower), (lower, upper)].contains(&(self.regime, other.regime));
        at_once && halves.into_iter().any(is_half)
    }

    /// That CPUs use one table in two ways, in words.
    pub fn disagreement(&self, other: &Self) -> String {
        format!("{} disagree with {}: {}", other.origin, self.origin, self.differences(other).join(", "))
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
        let (name, address) = (self.regime.register(), self.address.bits());
        write!(f, "{name} root at {address:#x}, {} ({})", self.shape, self.origin)?;
        match &self.stage2 {
            Some(stage2) => write!(f, " through stage 2 at {:#x}", stage2.address.bits()),
            None => Ok(()),
        }
    }
}
