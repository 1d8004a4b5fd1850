//! Changes of a scenario, told in the words of the regime whose page table is edited.
//!
//! Scenarios speak of stage 1 of EL1&0. Where a regime has no EL0, PXN stands for "not executable", and USER, UXN and nG for
//! nothing. Stage 2 grants writing where stage 1 forbids it, and two bits of a memory index are four of MemAttr:
//! write-back 1111, non-cacheable 0101, write-through 1010, Device 0000.

use pagetable::{Change, El1, El2, El2And0, Regime, Scope, Stage2};
use vmsa::{Geometry, GeometryError, Granule, Stage1Attributes, Stage2Attributes};

use crate::parameters::{ASID, Parameters};
use crate::setting::VMID;

/// What bit 0 of a memory index, and what bit 1, take from MemAttr.
const MEMORY: [(u8, u64); 2] = [(0b01, 0b1010 << 2), (0b10, 0b0101 << 2)];
/// What means nothing where there is no EL0.
const OF_EL0: Stage1Attributes =
    Stage1Attributes::USER.union(Stage1Attributes::NO_EXECUTE).union(Stage1Attributes::NOT_GLOBAL);
/// What both stages have in the same place.
const SHARED: Stage1Attributes = Stage1Attributes::AF
    .union(Stage1Attributes::DBM)
    .union(Stage1Attributes::SOFTWARE)
    .union(Stage1Attributes::INNER_SHAREABLE);

/// A regime of the engine, as scenarios speak of it.
pub(crate) trait Edited: Regime {
    /// The regime of these parameters.
    fn of(parameters: &Parameters) -> Self;

    /// The shape of these parameters.
    fn geometry<G: Granule>(parameters: &Parameters) -> Result<Geometry<G>, GeometryError> {
        Geometry::new(parameters.input_bits, parameters.layout, parameters.half)
    }

    /// Attributes of a new leaf.
    fn leaf(attributes: Stage1Attributes) -> Self::Attributes;

    /// Attributes to set and to clear, for those that a scenario sets and clears.
    fn edit(set: Stage1Attributes, clear: Stage1Attributes) -> (Self::Attributes, Self::Attributes);
}

const fn scope(parameters: &Parameters) -> Scope {
    if parameters.is_global { Scope::Global } else { Scope::Asid(ASID) }
}

macro_rules! two_privileges {
    ($($regime:ident)*) => {$(
        impl Edited for $regime {
            fn of(parameters: &Parameters) -> Self {
                Self { scope: scope(parameters), tlb: parameters.tlb, hardware_updates: parameters.hardware_updates() }
            }

            fn leaf(attributes: Stage1Attributes) -> Stage1Attributes {
                attributes
            }

            fn edit(set: Stage1Attributes, clear: Stage1Attributes) -> (Stage1Attributes, Stage1Attributes) {
                (set, clear)
            }
        }
    )*};
}
two_privileges!(El1 El2And0);

impl Edited for El2 {
    fn of(parameters: &Parameters) -> Self {
        Self { tlb: parameters.tlb, hardware_updates: parameters.hardware_updates() }
    }

    fn leaf(attributes: Stage1Attributes) -> Stage1Attributes {
        one_privilege(attributes) | Stage1Attributes::ONE_PRIVILEGE
    }

    fn edit(set: Stage1Attributes, clear: Stage1Attributes) -> (Stage1Attributes, Stage1Attributes) {
        (one_privilege(set), one_privilege(clear))
    }
}

fn one_privilege(attributes: Stage1Attributes) -> Stage1Attributes {
    let never =
        if attributes.contains(Stage1Attributes::PXN) { Stage1Attributes::XN } else { Stage1Attributes::empty() };
    attributes.difference(OF_EL0) | never
}

impl Edited for Stage2 {
    fn of(parameters: &Parameters) -> Self {
        Self { vmid: VMID, tlb: parameters.tlb, hardware_updates: parameters.hardware_updates() }
    }

    fn geometry<G: Granule>(parameters: &Parameters) -> Result<Geometry<G>, GeometryError> {
        match parameters.start {
            Some(start) => Geometry::stage2(parameters.input_bits, start, parameters.layout),
            None => Geometry::new(parameters.input_bits, parameters.layout, parameters.half),
        }
    }

    fn leaf(attributes: Stage1Attributes) -> Stage2Attributes {
        let (granted, forbidden) = stage2(attributes);
        (Stage2Attributes::READ_WRITE | Stage2Attributes::MEMORY).difference(forbidden) | granted
    }

    fn edit(set: Stage1Attributes, clear: Stage1Attributes) -> (Stage2Attributes, Stage2Attributes) {
        let ((set, not_set), (clear, not_clear)) = (stage2(set), stage2(clear));
        // What a scenario sets it sets, even if it clears it too.
        (set | not_clear.difference(not_set), clear | not_set)
    }
}

/// Bits of stage 2 that say what these attributes say, and bits that say what they deny.
fn stage2(attributes: Stage1Attributes) -> (Stage2Attributes, Stage2Attributes) {
    let mut says = Stage2Attributes::from_bits_retain(attributes.intersection(SHARED).bits());
    let mut denies = Stage2Attributes::empty();
    if attributes.contains(Stage1Attributes::PXN) {
        says |= Stage2Attributes::XN1;
    }
    if attributes.contains(Stage1Attributes::READ_ONLY) {
        denies |= Stage2Attributes::WRITE;
    }
    for (_, bits) in MEMORY.into_iter().filter(|(index, _)| attributes.memory_index() & index != 0) {
        denies |= Stage2Attributes::from_bits_retain(bits);
    }
    (says, denies)
}

/// A change of a scenario as a change of the regime.
pub(crate) fn translate<R: Edited>(change: &Change<El1>) -> Change<R> {
    let range = |from: &std::ops::Range<vmsa::VirtAddr>| from.start.bits().into()..from.end.bits().into();
    match change {
        Change::Map { from, to, attributes, largest } => {
            Change::Map { from: range(from), to: *to, attributes: R::leaf(*attributes), largest: *largest }
        }
        Change::Remap { from, to, attributes, largest } => {
            Change::Remap { from: range(from), to: *to, attributes: R::leaf(*attributes), largest: *largest }
        }
        Change::Protect { from, set, clear } => {
            let (set, clear) = R::edit(*set, *clear);
            Change::Protect { from: range(from), set, clear }
        }
        Change::ProtectSparse { from, set, clear } => {
            let (set, clear) = R::edit(*set, *clear);
            Change::ProtectSparse { from: range(from), set, clear }
        }
        Change::Unmap { from } => Change::Unmap { from: range(from) },
        Change::UnmapMapped { from } => Change::UnmapMapped { from: range(from) },
        Change::MakeInvalid { from } => Change::MakeInvalid { from: range(from) },
        Change::MakeValid { from } => Change::MakeValid { from: range(from) },
        Change::Age { from } => Change::Age { from: range(from) },
        Change::Clean { from } => Change::Clean { from: range(from) },
        Change::Split { at } => Change::Split { at: at.bits().into() },
        Change::SplitToPages { from } => Change::SplitToPages { from: range(from) },
        Change::Collapse { from } => Change::Collapse { from: range(from) },
    }
}

/// Runs `$body` with the regime of a setting as the type `$R`.
macro_rules! as_regime {
    ($setting:expr, $R:ident => $body:expr) => {
        match $setting {
            $crate::setting::Setting::El1 => {
                type $R = pagetable::El1;
                $body
            }
            $crate::setting::Setting::El2 => {
                type $R = pagetable::El2;
                $body
            }
            $crate::setting::Setting::El2And0 => {
                type $R = pagetable::El2And0;
                $body
            }
            $crate::setting::Setting::Stage2 | $crate::setting::Setting::Guest => {
                type $R = pagetable::Stage2;
                $body
            }
        }
    };
}
pub(crate) use as_regime;
