//! One thing taken from the engine: a call of its platform, known by the line that makes it, left out, weakened, put off, or
//! given a wrong operand. No rebuild: the platform does it as the call comes by.

use std::fmt;
use std::panic::Location;

use machine::barrier::{Accesses, Barrier, Domain};
use machine::event::Event;
use machine::tlbi::Opcode;

/// A call site: file, line, column.
pub type Site = &'static Location<'static>;

/// What kind of call a site makes. One site may make several: the TLBIs of a gather, say.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// A plain store.
    Store,
    /// A compare-and-exchange.
    Exchange,
    /// A barrier.
    Barrier(Barrier),
    /// A TLBI.
    Tlbi(Opcode),
}

/// What is done to the call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Change {
    /// It is not made.
    Delete,
    /// It changes places with its neighbour: the next barrier or TLBI for a store, the barrier for a TLBI.
    Swap,
    /// A compare-and-exchange becomes a store.
    PlainStore,
    /// A barrier becomes this one.
    Weaken(Barrier),
    /// It is not repeated where it must be.
    Once,
    /// A broadcast TLBI acts on its own CPU only.
    Local,
    /// A TLBI for both stages leaves stage 2.
    OneStage,
    /// A TLBI for all levels leaves the tables.
    LastLevel,
    /// A TLBI for all ASIDs acts on one.
    OneAsid,
    /// The level hint is that of another level.
    Hint,
    /// The address is not shifted.
    Unshifted,
    /// The address is shifted by the granule's size (16 KiB) instead of 12.
    WrongShift,
    /// The address is that of the page after.
    NextPage,
    /// The ASID is left out.
    NoAsid,
    /// The ASID stands in the low bits.
    LowAsid,
    /// A range ends one unit sooner.
    Shorter,
    /// A range says the wrong granule.
    WrongGranule,
}

/// A mutant of the engine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mutation {
    /// Where.
    pub site: Site,
    /// Which of the calls made there.
    pub class: Class,
    /// What becomes of it.
    pub change: Change,
}

/// What becomes of a call.
pub(crate) enum Deed {
    Keep,
    Drop,
    Become(Event),
    Hold,
}

impl Class {
    /// The class of an event, if it is one that mutations know.
    pub fn of(event: &Event) -> Option<Self> {
        match *event {
            Event::Store { .. } => Some(Self::Store),
            Event::CompareExchange { .. } => Some(Self::Exchange),
            Event::Barrier(barrier) => Some(Self::Barrier(barrier)),
            Event::Tlbi { opcode, .. } => Some(Self::Tlbi(opcode)),
            _ => None,
        }
    }

    /// Everything that can be done to it.
    pub fn changes(self) -> Vec<Change> {
        let mut changes = vec![Change::Delete, Change::Swap];
        match self {
            Self::Store => {}
            Self::Exchange => changes.push(Change::PlainStore),
            Self::Barrier(barrier) => {
                changes.extend(weaker(barrier).into_iter().map(Change::Weaken));
                changes.extend(completes_tlbis(barrier).then_some(Change::Once));
            }
            Self::Tlbi(opcode) => changes.extend(weaker_tlbis(opcode)),
        }
        changes
    }
}

/// True for the barrier that stands behind TLBIs, and behind their repetition.
fn completes_tlbis(barrier: Barrier) -> bool {
    matches!(barrier, Barrier::Dsb { accesses: Accesses::All, .. })
}

fn weaker(barrier: Barrier) -> Vec<Barrier> {
    let Barrier::Dsb { domain, accesses, is_nxs } = barrier else { return Vec::new() };
    let mut weaker = vec![
        Barrier::Dsb { domain: Domain::NonShareable, accesses, is_nxs },
        Barrier::Dsb { domain, accesses: Accesses::Loads, is_nxs },
        Barrier::Dmb { domain, accesses },
    ];
    if accesses == Accesses::All {
        weaker.push(Barrier::Dsb { domain, accesses: Accesses::Stores, is_nxs });
    }
    weaker
}

/// What an operation's fields say of it: one table for all, as the manual's encodings differ between stages.
#[derive(Clone, Copy)]
struct Shape {
    is_range: bool,
    has_address: bool,
    /// For tables too.
    is_all_levels: bool,
    /// By address for every ASID.
    is_every_asid: bool,
    /// Its operand holds an ASID.
    has_asid: bool,
    /// The same on its own CPU alone.
    local: Option<Opcode>,
}

impl Shape {
    const fn of(opcode: Opcode) -> Self {
        let (op1, crn, crm, op2) = opcode.fields();
        let is_stage2 = op1 == 4 && matches!(crm, 0 | 4);
        let is_range = if is_stage2 { matches!(op2, 2 | 6) } else { matches!(crm, 2 | 5 | 6) };
        let has_address = is_stage2 || is_range || matches!(op2, 1 | 3 | 5 | 7);
        let is_el1 = op1 == 0;
        let local = match crm {
            0 if is_stage2 => Some(Opcode::new(op1, crn, 4, op2)),
            1 | 3 => Some(Opcode::new(op1, crn, 7, op2)),
            2 | 5 => Some(Opcode::new(op1, crn, 6, op2)),
            _ => None,
        };
        Self {
            is_range,
            has_address,
            is_all_levels: has_address && op2 < 4,
            is_every_asid: is_el1 && has_address && matches!(op2, 3 | 7),
            has_asid: is_el1 && (has_address && matches!(op2, 1 | 5) || op2 == 2),
            local,
        }
    }
}

/// ASIDE1 and its kin: by ASID alone.
fn is_by_asid(opcode: Opcode) -> bool {
    let (op1, _, _, op2) = opcode.fields();
    op1 == 0 && op2 == 2
}

/// VMALLS12E1IS, and VMALLE1IS, which leaves stage 2.
const BOTH_STAGES: Opcode = Opcode::new(4, 8, 3, 6);
const STAGE_1: Opcode = Opcode::new(0, 8, 3, 0);

fn weaker_tlbis(opcode: Opcode) -> Vec<Change> {
    let shape = Shape::of(opcode);
    let changes = [
        (shape.local.is_some(), Change::Local),
        (shape.local.is_some(), Change::Once),
        (opcode == BOTH_STAGES, Change::OneStage),
        (shape.is_all_levels, Change::LastLevel),
        (shape.is_every_asid, Change::OneAsid),
        (shape.has_asid, Change::NoAsid),
        (is_by_asid(opcode), Change::LowAsid),
        (shape.has_address, Change::Hint),
        (shape.has_address, Change::NextPage),
        (shape.has_address && !shape.is_range, Change::Unshifted),
        (shape.has_address && !shape.is_range, Change::WrongShift),
        (shape.is_range, Change::Shorter),
        (shape.is_range, Change::WrongGranule),
    ];
    changes.into_iter().filter(|(is_possible, _)| *is_possible).map(|(_, change)| change).collect()
}

impl Mutation {
    /// What becomes of `event` at `site`; `is_repeated` if it was made since the last store already.
    pub(crate) fn deed(&self, event: &Event, site: Site, is_repeated: bool) -> Deed {
        if Class::of(event) != Some(self.class) || !is_same(site, self.site) {
            return Deed::Keep;
        }
        match (self.change, *event) {
            (Change::Delete, _) => Deed::Drop,
            (Change::Once, _) if is_repeated => Deed::Drop,
            (Change::Once, _) => Deed::Keep,
            (Change::Swap, _) => Deed::Hold,
            (Change::PlainStore, Event::CompareExchange { address, value, .. }) => {
                Deed::Become(Event::Store { address, value, is_release: false })
            }
            (Change::Weaken(barrier), _) => Deed::Become(Event::Barrier(barrier)),
            (change, Event::Tlbi { opcode, operand }) => {
                let (opcode, operand) = alter(change, opcode, operand);
                Deed::Become(Event::Tlbi { opcode, operand })
            }
            _ => Deed::Keep,
        }
    }
}

fn is_same(one: Site, other: Site) -> bool {
    one.line() == other.line() && one.column() == other.column() && one.file() == other.file()
}

const ADDRESS: u64 = (1 << 44) - 1;
const ASID: u64 = 0xffff << 48;

fn alter(change: Change, opcode: Opcode, operand: u64) -> (Opcode, u64) {
    let (op1, crn, crm, op2) = opcode.fields();
    let Shape { is_range, local, .. } = Shape::of(opcode);
    let address = operand & ADDRESS;
    match change {
        Change::Local => (local.unwrap_or(opcode), operand),
        Change::OneStage => (STAGE_1, operand),
        Change::LastLevel => (Opcode::new(op1, crn, crm, op2 | 4), operand),
        Change::OneAsid => (Opcode::new(op1, crn, crm, op2 & !2), operand),
        Change::NoAsid => (opcode, operand & !ASID),
        Change::LowAsid => (opcode, operand >> 48),
        Change::Hint => (opcode, wrong_hint(is_range, operand)),
        Change::NextPage => (opcode, operand & !ADDRESS | (address + 1) & ADDRESS),
        Change::Unshifted => (opcode, operand & !ADDRESS | (address << 12) & ADDRESS),
        Change::WrongShift => (opcode, operand & !ADDRESS | address >> 2),
        // One unit of NUM less, or a single unit of the scale below.
        Change::Shorter if operand >> 39 & 31 != 0 => (opcode, operand - (1 << 39)),
        Change::Shorter => (opcode, operand & !(3 << 44)),
        Change::WrongGranule => (opcode, operand ^ 3 << 46),
        Change::Delete | Change::Swap | Change::Once | Change::PlainStore | Change::Weaken(_) => (opcode, operand),
    }
}

/// Another level than the one that is there; level 1 of 4 KiB where there is none.
fn wrong_hint(is_range: bool, operand: u64) -> u64 {
    match is_range {
        true if operand >> 37 & 3 == 3 => operand ^ 1 << 37,
        true if operand >> 37 & 3 == 2 => operand ^ 1 << 37,
        true => operand ^ 2 << 37,
        false if operand >> 44 & 15 == 0 => operand | 0b0101 << 44,
        false => operand ^ 1 << 44,
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store => write!(f, "store"),
            Self::Exchange => write!(f, "exchange"),
            Self::Barrier(barrier) => write!(f, "{barrier}"),
            Self::Tlbi(opcode) => {
                let (op1, crn, crm, op2) = opcode.fields();
                match vmsa::TlbiOp::decode(op1 as u8, crn as u8, crm as u8, op2 as u8) {
                    Some(op) => write!(f, "{op}"),
                    None => write!(f, "{opcode:?}"),
                }
            }
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Weaken(barrier) => write!(f, "{barrier} instead"),
            Self::Delete => write!(f, "deleted"),
            Self::Swap => write!(f, "swapped"),
            Self::PlainStore => write!(f, "plain store instead"),
            Self::Once => write!(f, "not repeated"),
            Self::Local => write!(f, "local instead"),
            Self::OneStage => write!(f, "stage 1 alone instead"),
            Self::LastLevel => write!(f, "last level instead"),
            Self::OneAsid => write!(f, "one ASID instead"),
            Self::Hint => write!(f, "wrong level hint"),
            Self::Unshifted => write!(f, "address unshifted"),
            Self::WrongShift => write!(f, "address shifted by 14"),
            Self::NextPage => write!(f, "next page's address"),
            Self::NoAsid => write!(f, "ASID dropped"),
            Self::LowAsid => write!(f, "ASID in the low bits"),
            Self::Shorter => write!(f, "range too short"),
            Self::WrongGranule => write!(f, "wrong granule in the range"),
        }
    }
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{} {} {}", self.site.file(), self.site.line(), self.site.column(), self.class, self.change)
    }
}
