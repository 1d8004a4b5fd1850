//! Registers and descriptors as tables of fields: where each is, what it is called, what its values say.
//!
//! For those who print and parse them. Code that acts on a register uses [`crate::registers`] and its neighbours.

/// Registers by the manual's names for them, which are those of their sections too, each with its fields.
macro_rules! registers {
    ($($(#[$doc:meta])* $name:ident $($case:literal)? = $fields:expr;)*) => { $(
        $(#[$doc])*
        pub const $name: Register = Register {
            name: stringify!($name),
            section: concat!("D23.2, ", stringify!($name) $(, ", ", $case)?),
            fields: &$fields,
        };
    )* };
}

mod control;
mod descriptor;
mod exception;
mod identification;
mod permission;
mod translation;

pub use control::{HCR_EL2, PAR_EL1_FAULT, PAR_EL1_SUCCESS, SCTLR_EL1, SCTLR_EL2, SCTLR_EL3};
pub use descriptor::{
    Format, ONE_PRIVILEGE_LEAF, ONE_PRIVILEGE_TABLE, STAGE1_INDIRECT_LEAF, STAGE1_LEAF, STAGE1_TABLE,
    STAGE2_INDIRECT_LEAF, STAGE2_LEAF, STAGE2_TABLE,
};
pub use exception::{FAR_EL1, HPFAR_EL2, SPSR_EL1};
pub use identification::{
    CTR_EL0, ID_AA64ISAR0_EL1, ID_AA64ISAR1_EL1, ID_AA64MMFR0_EL1, ID_AA64MMFR1_EL1, ID_AA64MMFR2_EL1,
    ID_AA64MMFR3_EL1, ID_AA64MMFR4_EL1, ID_AA64PFR0_EL1, ID_AA64PFR1_EL1, ID_AA64PFR2_EL1, MIDR_EL1,
};
pub use permission::{PIR_EL1, PIRE0_EL1, POR_EL0, POR_EL1, S2PIR_EL2, S2POR_EL1};
pub use translation::{
    MAIR_EL1, TCR_EL1, TCR_EL2, TCR_EL3, TCR2_EL1, TTBR0_EL1, TTBR0_EL3, TTBR1_EL1, VTCR_EL2, VTTBR_EL2,
};

/// A register, or another 64-bit word, as its fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Register {
    /// Its name in the manual.
    pub name: &'static str,
    /// Where the manual (DDI 0487) defines it.
    pub section: &'static str,
    /// Its fields, from the highest bit.
    pub fields: &'static [Field],
}

/// Some neighbouring bits with a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// Its name in the manual.
    pub name: &'static str,
    /// Its highest bit.
    pub high: u8,
    /// Its lowest bit.
    pub low: u8,
    /// What it is for.
    pub purpose: &'static str,
    /// What its values say.
    pub values: Values,
}

/// What the values of a field say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Values {
    /// They are numbers.
    Number,
    /// 64 minus a number of address bits.
    Width,
    /// A byte that encodes a memory type, as in MAIR_ELx.
    MemoryType,
    /// They are names; what is not listed is reserved.
    Names(&'static [(u64, &'static str)]),
}

impl Field {
    /// The field's value in `word`.
    pub const fn get(&self, word: u64) -> u64 {
        word >> self.low & self.largest()
    }

    /// `word` with the field set to `value`, or `None` if the field is too narrow for it.
    pub const fn set(&self, word: u64, value: u64) -> Option<u64> {
        if value > self.largest() {
            return None;
        }
        Some(word & !self.mask() | value << self.low)
    }

    /// A word of which the field is `value`, as much of it as fits, and all else zero.
    pub const fn put(&self, value: u64) -> u64 {
        (value & self.largest()) << self.low
    }

    /// Bit `place` of the field, from the lowest, in a word.
    pub const fn bit(&self, place: u8) -> u64 {
        self.put(1 << place)
    }

    /// The largest value that the field can hold.
    pub const fn largest(&self) -> u64 {
        !0 >> (63 - (self.high - self.low))
    }

    /// The bits of the field.
    pub const fn mask(&self) -> u64 {
        self.largest() << self.low
    }

    /// The name of a value, where values have names; `None` for numbers and for reserved values.
    pub fn value_name(&self, value: u64) -> Option<&'static str> {
        let Values::Names(names) = self.values else { return None };
        names.iter().find(|(known, _)| *known == value).map(|(_, name)| *name)
    }
}

impl Register {
    /// Every register here. PAR_EL1 is two: its other fields depend on bit 0.
    pub const ALL: [&'static Self; 37] = [
        &TCR_EL1,
        &TCR2_EL1,
        &TCR_EL2,
        &TCR_EL3,
        &VTCR_EL2,
        &TTBR0_EL1,
        &TTBR1_EL1,
        &TTBR0_EL3,
        &VTTBR_EL2,
        &MAIR_EL1,
        &PIR_EL1,
        &PIRE0_EL1,
        &POR_EL0,
        &POR_EL1,
        &S2PIR_EL2,
        &S2POR_EL1,
        &SCTLR_EL1,
        &SCTLR_EL2,
        &SCTLR_EL3,
        &HCR_EL2,
        &PAR_EL1_SUCCESS,
        &PAR_EL1_FAULT,
        &FAR_EL1,
        &HPFAR_EL2,
        &SPSR_EL1,
        &MIDR_EL1,
        &CTR_EL0,
        &ID_AA64PFR0_EL1,
        &ID_AA64PFR1_EL1,
        &ID_AA64PFR2_EL1,
        &ID_AA64ISAR0_EL1,
        &ID_AA64ISAR1_EL1,
        &ID_AA64MMFR0_EL1,
        &ID_AA64MMFR1_EL1,
        &ID_AA64MMFR2_EL1,
        &ID_AA64MMFR3_EL1,
        &ID_AA64MMFR4_EL1,
    ];

    /// The field of this name, in either case.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name.eq_ignore_ascii_case(name))
    }

    /// The field of this name, for a constant of its own: one that is not there does not compile.
    ///
    /// ```
    /// use vellum_vmsa::fields::{Field, TCR_EL1};
    ///
    /// const IPS: Field = TCR_EL1.the("IPS");
    /// assert_eq!((IPS.low, IPS.get(5 << 32)), (32, 5));
    /// ```
    pub const fn the(&self, name: &str) -> Field {
        let mut index = 0;
        while index < self.fields.len() {
            if is_same(self.fields[index].name, name) {
                return self.fields[index];
            }
            index += 1;
        }
        panic!("the register has no field of this name")
    }

    /// The bits of `word` that belong to no field.
    pub const fn unnamed(&self, word: u64) -> u64 {
        let (mut rest, mut index) = (word, 0);
        while index < self.fields.len() {
            rest &= !self.fields[index].mask();
            index += 1;
        }
        rest
    }
}

const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut place = 0;
    while place < one.len() && place < other.len() && one[place] == other[place] {
        place += 1;
    }
    place == one.len() && place == other.len()
}

/// A field of one bit that says yes or no.
const fn flag(name: &'static str, bit: u8, purpose: &'static str) -> Field {
    Field { name, high: bit, low: bit, purpose, values: Values::Number }
}

/// A field of several bits that is a number.
const fn number(name: &'static str, high: u8, low: u8, purpose: &'static str) -> Field {
    Field { name, high, low, purpose, values: Values::Number }
}

/// A field whose values have names.
const fn named(
    name: &'static str,
    high: u8,
    low: u8,
    purpose: &'static str,
    names: &'static [(u64, &'static str)],
) -> Field {
    Field { name, high, low, purpose, values: Values::Names(names) }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    const FORMATS: [&Format; 8] = [
        &STAGE1_LEAF,
        &STAGE1_INDIRECT_LEAF,
        &STAGE1_TABLE,
        &ONE_PRIVILEGE_LEAF,
        &ONE_PRIVILEGE_TABLE,
        &STAGE2_LEAF,
        &STAGE2_INDIRECT_LEAF,
        &STAGE2_TABLE,
    ];

    /// No bit is two things.
    #[test]
    fn formats_say_one_thing_of_a_bit() {
        for format in FORMATS {
            let name = format.register.name;
            let fields = format.register.unnamed(!0);
            assert_eq!(format.ignored & !fields, 0, "{name}: ignored, and a field");
            assert_eq!((format.software | format.in_place) & fields, 0, "{name}");
            assert_eq!(format.software & !format.in_place, 0, "{name}");
        }
        assert_eq!(STAGE1_LEAF.in_place, 0x07ec_0000_0000_04c0, "by hand: 58:55, 54, 53, 51, 50, 10, 7, 6");
        assert_eq!(STAGE2_LEAF.in_place, 0x07e8_0000_0000_04c0, "by hand: 58:55, 54, 53, 51, 10, 7, 6");
        assert_eq!((STAGE1_LEAF.software, STAGE2_LEAF.software), (0xf << 55, 0xf << 55));
    }

    fn tables() -> impl Iterator<Item = &'static Register> {
        Register::ALL.into_iter().chain(FORMATS.map(|format| &format.register))
    }

    #[test]
    fn fields_descend_and_do_not_overlap() {
        for register in tables() {
            for pair in register.fields.windows(2) {
                assert!(pair[0].low > pair[1].high, "{}: {} and {}", register.name, pair[0].name, pair[1].name);
            }
            for field in register.fields {
                assert!(field.high >= field.low && field.high < 64 && !field.purpose.is_empty());
                if let Values::Names(names) = field.values {
                    assert!(names.iter().all(|(value, _)| *value <= field.largest()), "{}", field.name);
                }
            }
        }
    }

    #[test]
    fn names_are_unique() {
        for register in tables() {
            for field in register.fields {
                assert_eq!(register.field(field.name), Some(field), "{}: {}", register.name, field.name);
            }
        }
    }

    #[test]
    fn what_is_set_is_got() {
        for field in tables().flat_map(|register| register.fields) {
            for value in [0, 1, field.largest()] {
                assert_eq!(field.set(!0, value).map(|word| field.get(word)), Some(value), "{}", field.name);
            }
            let beyond = field.largest().checked_add(1).and_then(|beyond| field.set(0, beyond));
            assert_eq!(beyond, None);
        }
    }
}
