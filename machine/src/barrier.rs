//! Barriers, and what each completes. (DDI 0487, B2.7; for TLB maintenance D8.17, RPSMWS)

/// The shareability domain of a DSB or DMB.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Domain {
    /// This CPU.
    NonShareable,
    /// The inner shareable domain.
    Inner,
    /// The outer shareable domain.
    Outer,
    /// Full system.
    System,
}

/// The accesses that a DSB or DMB orders.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Accesses {
    /// Loads against loads and stores.
    Loads,
    /// Stores against stores.
    Stores,
    /// All.
    All,
}

/// A barrier instruction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Barrier {
    /// Data synchronization barrier. `is_nxs` does not wait for accesses with the XS attribute.
    Dsb {
        /// Domain.
        domain: Domain,
        /// Accesses.
        accesses: Accesses,
        /// The nXS form.
        is_nxs: bool,
    },
    /// Data memory barrier: orders accesses, completes nothing that a walker sees.
    Dmb {
        /// Domain.
        domain: Domain,
        /// Accesses.
        accesses: Accesses,
    },
    /// Instruction synchronization barrier.
    Isb,
}

impl Barrier {
    /// `DSB ISH`.
    pub const DSB_ISH: Self = Self::Dsb { domain: Domain::Inner, accesses: Accesses::All, is_nxs: false };
    /// `DSB ISHST`.
    pub const DSB_ISHST: Self = Self::Dsb { domain: Domain::Inner, accesses: Accesses::Stores, is_nxs: false };
    /// `DSB NSH`.
    pub const DSB_NSH: Self = Self::Dsb { domain: Domain::NonShareable, accesses: Accesses::All, is_nxs: false };
    /// `DSB SY`.
    pub const DSB_SY: Self = Self::Dsb { domain: Domain::System, accesses: Accesses::All, is_nxs: false };
}

impl core::fmt::Display for Barrier {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (name, domain, accesses, is_nxs) = match *self {
            Self::Isb => return write!(f, "ISB"),
            Self::Dmb { domain, accesses } => ("DMB", domain, accesses, false),
            Self::Dsb { domain, accesses, is_nxs } => ("DSB", domain, accesses, is_nxs),
        };
        let (full, short) = match domain {
            Domain::NonShareable => ("NSH", "NSH"),
            Domain::Inner => ("ISH", "ISH"),
            Domain::Outer => ("OSH", "OSH"),
            Domain::System => ("SY", ""),
        };
        match accesses {
            Accesses::All => write!(f, "{name} {full}")?,
            Accesses::Loads => write!(f, "{name} {short}LD")?,
            Accesses::Stores => write!(f, "{name} {short}ST")?,
        }
        if is_nxs { write!(f, "nXS") } else { Ok(()) }
    }
}
