//! What tests that draw at random must know of each regime.

use vellum_pagetable::{El1, El2, El2And0, HardwareUpdates, Regime, Scope, Stage2, TlbFeatures};
use vellum_vmsa::{AddressHalf, Geometry, Granule, Layout, Level, Stage1Attributes, Stage2Attributes};

use super::widths::{asked, layout};

/// A regime that tests draw.
pub(crate) trait Drawn: Regime + std::fmt::Debug {
    /// Attributes that a test plays with: some change in place, some need break-before-make, one no CPU knows.
    const PLAYED: [u64; 8];

    /// The regime with these features; `choice` decides whatever else it has.
    fn drawn(tlb: TlbFeatures, hardware_updates: HardwareUpdates, choice: u16) -> Self;

    /// A shape with so many input bits, if there is one; `choice` decides whatever else it has.
    fn shape<G: Granule>(bits: u32, layout: Layout, choice: u8) -> Option<Geometry<G>>;

    /// The shape of a test that has one: of so many bits, or of the width that was asked for.
    fn fixed<G: Granule>(bits: u32) -> Geometry<G> {
        let bits = asked().unwrap_or(bits);
        Self::shape(bits, layout::<G>(bits), 0).unwrap()
    }

    /// Attributes of these bits.
    fn attributes(bits: u64) -> Self::Attributes;

    /// The bits of a leaf that was made clean.
    fn clean(bits: u64) -> u64;

    /// What a leaf says: whether it was accessed, and written.
    fn says(bits: u64) -> u64 {
        bits & ACCESS_FLAG | if Self::clean(bits) == bits { 0 } else { WRITE }
    }

    /// The attributes that a number stands for.
    fn played(number: u8) -> Self::Attributes {
        let bits = Self::PLAYED.iter().enumerate().filter(|(index, _)| number >> index & 1 != 0);
        Self::attributes(bits.map(|(_, bit)| bit).sum())
    }

    /// A leaf without what hardware may write there.
    fn unmarked(self, bits: u64) -> u64 {
        let marks = self.marks(bits);
        let clean = if marks & WRITE != 0 { Self::clean(bits) } else { bits };
        clean & !(marks & ACCESS_FLAG)
    }

    /// Bits of a leaf that hardware may write.
    fn marks(self, bits: u64) -> u64 {
        match self.hardware_updates() {
            HardwareUpdates::None => 0,
            HardwareUpdates::DirtyState if bits & DBM != 0 => ACCESS_FLAG | WRITE,
            _ => ACCESS_FLAG,
        }
    }
}

const ACCESS_FLAG: u64 = 1 << 10;
const DBM: u64 = 1 << 51;
/// Bit 7: of stage 1 it forbids writing, of stage 2 it permits it.
const WRITE: u64 = 1 << 7;

const fn half(choice: u8) -> AddressHalf {
    if choice & 1 != 0 { AddressHalf::Upper } else { AddressHalf::Lower }
}

const fn scope(choice: u16) -> Scope {
    if choice & 1 == 0 { Scope::Global } else { Scope::Asid(choice) }
}

macro_rules! two_ranges {
    ($name:ident) => {
        impl Drawn for $name {
            const PLAYED: [u64; 8] = [DBM, WRITE, ACCESS_FLAG, 1 << 11, 0b100 << 2, 1 << 53, 1 << 54, 1 << 62];

            fn drawn(tlb: TlbFeatures, hardware_updates: HardwareUpdates, choice: u16) -> Self {
                Self { scope: scope(choice), tlb, hardware_updates }
            }

            fn shape<G: Granule>(bits: u32, layout: Layout, choice: u8) -> Option<Geometry<G>> {
                Geometry::new(bits, layout, half(choice)).ok()
            }

            fn attributes(bits: u64) -> Stage1Attributes {
                Stage1Attributes::from_bits_retain(bits)
            }

            fn clean(bits: u64) -> u64 {
                if bits & DBM != 0 { bits | WRITE } else { bits }
            }
        }
    };
}

two_ranges!(El1);
two_ranges!(El2And0);

impl Drawn for El2 {
    const PLAYED: [u64; 8] = [DBM, WRITE, ACCESS_FLAG, 1 << 5, 0b100 << 2, 1 << 50, 1 << 54, 1 << 62];

    fn drawn(tlb: TlbFeatures, hardware_updates: HardwareUpdates, _: u16) -> Self {
        Self { tlb, hardware_updates }
    }

    fn shape<G: Granule>(bits: u32, layout: Layout, _: u8) -> Option<Geometry<G>> {
        Geometry::new(bits, layout, AddressHalf::Lower).ok()
    }

    fn attributes(bits: u64) -> Stage1Attributes {
        Stage1Attributes::from_bits_retain(bits)
    }

    fn clean(bits: u64) -> u64 {
        El1::clean(bits)
    }
}

impl Drawn for Stage2 {
    const PLAYED: [u64; 8] = [DBM, WRITE, ACCESS_FLAG, 1 << 11, 0b100 << 2, 1 << 53, 1 << 54, 1 << 62];

    fn drawn(tlb: TlbFeatures, hardware_updates: HardwareUpdates, vmid: u16) -> Self {
        Self { vmid, tlb, hardware_updates }
    }

    /// The lowest root, of the most tables; or one level up, if `choice` says so.
    fn shape<G: Granule>(bits: u32, layout: Layout, choice: u8) -> Option<Geometry<G>> {
        let mut shapes = Level::ALL.into_iter().rev().filter_map(|start| Geometry::stage2(bits, start, layout).ok());
        let lowest = shapes.next()?;
        Some(shapes.next().filter(|_| choice & 1 != 0).unwrap_or(lowest))
    }

    fn attributes(bits: u64) -> Stage2Attributes {
        Stage2Attributes::from_bits_retain(bits)
    }

    fn clean(bits: u64) -> u64 {
        if bits & DBM != 0 { bits & !WRITE } else { bits }
    }
}
