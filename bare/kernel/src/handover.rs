//! What `early` leaves for the high half: plain values. A reference, a string or a function pointer would hold an
//! address of the identity map, where nothing is any more.

use hardware::lock::Lock;
use kerncore::choice::Choice;
use kerncore::command_line::Options;
use kerncore::devicetree::{Cpu, MAX_CPUS, Psci};
use kerncore::linear::Linear;
use kerncore::list::List;
use kerncore::memory_map::{Kind, MAX_RANGES, MapFull, MemoryMap};
use kerncore::range::PhysicalRange;
use vmsa::{PageSize, PhysAddr};

use crate::devices::Devices;

/// What boot found, chose and built.
#[derive(Clone, Copy)]
pub(crate) struct Facts {
    /// The exception level of entry.
    pub(crate) exception_level: u64,
    /// The image's physical address.
    pub(crate) load_address: PhysAddr,
    /// The page size of the first identity map.
    pub(crate) early_page_size: PageSize,
    pub(crate) choice: Choice,
    pub(crate) linear: Linear,
    /// Where device registers are mapped.
    pub(crate) devices: Devices,
    pub(crate) cpus: List<Cpu, MAX_CPUS>,
    pub(crate) psci: Option<Psci>,
    pub(crate) options: Options,
}

/// The facts, and who has which memory.
#[derive(Clone, Copy)]
pub(crate) struct Handover {
    pub(crate) facts: Facts,
    memory: List<(PhysicalRange, Owner), MAX_RANGES>,
}

/// What the early allocator gives memory out for.
pub(crate) const TABLES: &str = "tables";
/// See [`TABLES`].
pub(crate) const STACKS: &str = "stacks";
/// See [`TABLES`].
pub(crate) const PAGE_NOTES: &str = "page allocator";

/// [`Kind`] without its string.
#[derive(Clone, Copy)]
enum Owner {
    Tables,
    Stacks,
    Kind(u8),
}

/// The kinds without a string, by number.
const KINDS: [Kind; 7] = [
    Kind::Free,
    Kind::Image,
    Kind::DeviceTree,
    Kind::Initrd,
    Kind::Reserved { no_map: false },
    Kind::Reserved { no_map: true },
    Kind::Lost,
];

impl Owner {
    fn of(kind: Kind) -> Self {
        match kind {
            Kind::Early(TABLES) => Self::Tables,
            Kind::Early(STACKS) => Self::Stacks,
            other => {
                let number = KINDS.iter().position(|kind| *kind == other);
                Self::Kind(number.expect("every kind and every early purpose has a number") as u8)
            }
        }
    }

    fn kind(self) -> Kind {
        match self {
            Self::Tables => Kind::Early(TABLES),
            Self::Stacks => Kind::Early(STACKS),
            Self::Kind(number) => KINDS[number as usize],
        }
    }
}

static HANDOVER: Lock<Option<Handover>> = Lock::new(None);

/// Leaves everything for the high half.
pub(crate) fn leave(facts: Facts, map: &MemoryMap) {
    let mut memory = List::new((PhysicalRange::EMPTY, Owner::Stacks));
    for piece in map.pieces() {
        memory.push((piece.range, Owner::of(piece.kind))).expect("the list is as long as the map");
    }
    HANDOVER.with(|handover| *handover = Some(Handover { facts, memory }));
}

/// Takes what was left; once.
pub(crate) fn take() -> Handover {
    HANDOVER.with(Option::take).expect("early boot leaves a handover before it enters the high half")
}

impl Handover {
    /// Makes the memory map anew.
    pub(crate) fn fill(&self, map: &mut MemoryMap) -> Result<(), MapFull> {
        self.memory.iter().try_for_each(|(range, owner)| map.insert(*range, owner.kind()))
    }
}
