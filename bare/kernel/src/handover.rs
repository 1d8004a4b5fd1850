//! What `early` leaves for the high half: plain values. A reference, a string or a function pointer would hold an
//! address of the identity map, where nothing is any more.

use kerncore::list::List;
use kerncore::memory_map::{Kind, MAX_RANGES, MapFull, MemoryMap, Piece};
use kerncore::range::PhysicalRange;

use crate::facts::Facts;
use crate::locks::{Lock, order};

/// The facts, and who has which memory.
#[derive(Clone, Copy)]
pub(crate) struct Handover {
    pub(crate) facts: Facts,
    memory: List<Piece, MAX_RANGES>,
}

static HANDOVER: Lock<Option<Handover>> = Lock::new(order::HANDOVER, None);

/// What it takes.
pub(crate) const BYTES: usize = size_of_val(&HANDOVER);

/// Leaves everything for the high half.
pub(crate) fn leave(facts: Facts, map: &MemoryMap) {
    let mut memory = List::new(Piece { range: PhysicalRange::EMPTY, kind: Kind::Free });
    map.pieces().iter().for_each(|piece| memory.push(*piece).expect("the list is as long as the map"));
    HANDOVER.with(|handover| *handover = Some(Handover { facts, memory }));
}

/// Takes what was left; once.
pub(crate) fn take() -> Handover {
    HANDOVER.with(Option::take).expect("early boot leaves a handover before it enters the high half")
}

impl Handover {
    /// Makes the memory map anew.
    pub(crate) fn fill(&self, map: &mut MemoryMap) -> Result<(), MapFull> {
        self.memory.iter().try_for_each(|piece| map.insert(piece.range, piece.kind))
    }
}
