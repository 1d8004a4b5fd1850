//! Why the guest cannot be started.

use core::fmt;

use common::supply::ChangeError;
use kerncore::devicetree::CopyError;
use kerncore::early::EarlyError;
use kerncore::memory_map::Kind;
use kerncore::range::PhysicalRange;
use moncore::realm::Space;
use vmsa::PhysAddr;

/// Why the guest cannot be started.
pub(crate) enum NotStarted {
    /// A table of the monitor or of stage 2 could not be made.
    Tables(&'static str, ChangeError),
    /// What is in memory where the guest's Image should be.
    Image(&'static str, PhysAddr),
    /// The monitor's memory would be where something else is.
    Occupied(PhysicalRange, Kind),
    /// No room for the tables of stage 2.
    NoRoom(EarlyError),
    /// The realm's addresses have more bits than the CPUs, which have so many.
    RealmTooWide(Space, u32),
    /// Memory that ends here has addresses that are not protected ones of the realm.
    RealmTooNarrow(Space, u64),
    /// The layout of memory cannot be used.
    Memory,
    /// The guest's device tree could not be made.
    Tree(CopyError<'static>),
}

impl fmt::Display for NotStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tables(whose, error) => write!(f, "{whose}: {error}"),
            Self::Image(what, address) => write!(f, "monitor.guest={:#x}: {what}", address.bits()),
            Self::Occupied(range, kind) => write!(f, "memory: the monitor needs {range}, but there is: {kind}"),
            Self::NoRoom(error) => write!(f, "memory: {error}"),
            Self::RealmTooWide(space, most) => {
                write!(f, "a realm of {} bits: this machine's CPUs have {most}, expected no more", space.bits())
            }
            Self::RealmTooNarrow(space, end) => {
                let (bits, protected) = (space.bits(), space.protected_end());
                write!(f, "a realm of {bits} bits: memory ends at {end:#x}, expected no more than {protected:#x}")
            }
            Self::Memory => f.write_str("memory: its layout is too complicated"),
            Self::Tree(error) => write!(f, "device tree: {error}"),
        }
    }
}
