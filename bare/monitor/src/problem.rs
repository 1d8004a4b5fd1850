//! Why the guest cannot be started.

use common::supply::ChangeError;
use kerncore::devicetree::CopyError;
use kerncore::early::EarlyError;
use kerncore::memory_map::Kind;
use kerncore::range::PhysicalRange;
use moncore::realm::Space;
use thiserror::Error;
use vmsa::PhysAddr;

/// Why the guest cannot be started.
#[derive(Debug, Error)]
pub(crate) enum NotStarted {
    /// A table of the monitor or of stage 2 could not be made.
    #[error("{0}: {1}")]
    Tables(&'static str, ChangeError),
    /// What is in memory where the guest's Image should be.
    #[error("monitor.guest={address:#x}: {0}", address = .1.bits())]
    Image(&'static str, PhysAddr),
    /// The monitor's memory would be where something else is.
    #[error("memory: the monitor needs {0}, but there is: {1}")]
    Occupied(PhysicalRange, Kind),
    /// No room for the tables of stage 2.
    #[error("memory: {0}")]
    NoRoom(EarlyError),
    /// The realm's addresses have more bits than the CPUs, which have so many.
    #[error("a realm of {bits} bits: this machine's CPUs have {1}, expected no more", bits = .0.bits())]
    RealmTooWide(Space, u32),
    /// Memory that ends here has addresses that are not protected ones of the realm.
    #[error(
        "a realm of {bits} bits: memory ends at {1:#x}, expected no more than {protected:#x}",
        bits = .0.bits(),
        protected = .0.protected_end()
    )]
    RealmTooNarrow(Space, u64),
    /// The layout of memory cannot be used.
    #[error("memory: its layout is too complicated")]
    Memory,
    /// The guest's device tree could not be made.
    #[error("device tree: {0}")]
    Tree(CopyError<'static>),
}
