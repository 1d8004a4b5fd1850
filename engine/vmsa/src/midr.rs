//! Which CPU it is: MIDR_EL1, and what its number tells that no ID register does.

use core::fmt;

/// The value of MIDR_EL1 (D23.2.122).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Midr(u32);

impl Midr {
    /// The CPU with this value of MIDR_EL1.
    pub const fn new(midr: u32) -> Self {
        Self(midr)
    }

    /// The value of MIDR_EL1.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Bits 31:24, an ASCII letter for most.
    pub const fn implementer(self) -> u8 {
        (self.0 >> 24) as u8
    }

    /// Bits 23:20: the major revision, r*N*.
    pub const fn variant(self) -> u8 {
        (self.0 >> 20) as u8 & 0xf
    }

    /// Bits 15:4.
    pub const fn part(self) -> u16 {
        (self.0 >> 4) as u16 & 0xfff
    }

    /// Bits 3:0: the minor revision, p*N*.
    pub const fn revision(self) -> u8 {
        self.0 as u8 & 0xf
    }

    /// Implementer, architecture and part: the model, whatever its revision.
    const fn model(self) -> u32 {
        self.0 & 0xff0f_fff0
    }

    /// The model's name, or `None` if it is not in the table.
    pub fn name(self) -> Option<&'static str> {
        NAMES.iter().find(|(model, _)| *model == self.model()).map(|(_, name)| *name)
    }

    /// Whether the CPU is known to tolerate leaves that change size while live, without conflict aborts: FEAT_BBML3 in all
    /// but the ID register.
    pub fn tolerates_resizing(self) -> bool {
        self.is_listed(TOLERANT)
    }

    fn is_listed(self, releases: &[(u32, u8, u8)]) -> bool {
        let release = self.variant() << 4 | self.revision();
        releases.iter().any(|(model, first, last)| *model == self.model() && (*first..=*last).contains(&release))
    }

    /// Whether an erratum wants break-before-make for every change of size, whatever the ID register says.
    pub fn must_break_before_make(self) -> bool {
        self.is_listed(BREAKING)
    }

    /// Whether a broadcast TLBI and its DSB may complete too early, so that each must be issued twice (CVE-2025-10263 and its kind).
    pub fn must_repeat_tlbi(self) -> bool {
        // Kryo is all parts from 0x200 to 0x2ff of Qualcomm (E1009).
        let is_kryo = self.implementer() == 0x51 && self.part() & 0xf00 == 0x200;
        is_kryo || self.is_listed(REPEAT)
    }
}

/// Models by name: [P] from a primary text, [K] background knowledge (`Other` numbers are shown as they are).
const NAMES: &[(u32, &str)] = &[
    (0x410f_d030, "Cortex-A53"),
    (0x410f_d040, "Cortex-A35"),
    (0x410f_d050, "Cortex-A55"),
    (0x410f_d070, "Cortex-A57"),
    (0x410f_d080, "Cortex-A72"),
    (0x410f_d090, "Cortex-A73"),
    (0x410f_d0a0, "Cortex-A75"),
    (0x410f_d0b0, "Cortex-A76"),
    (0x410f_d0c0, "Neoverse-N1"),
    (0x410f_d0d0, "Cortex-A77"),
    (0x410f_d0e0, "Cortex-A76AE"),
    (0x410f_d400, "Neoverse-V1"),
    (0x410f_d410, "Cortex-A78"),
    (0x410f_d420, "Cortex-A78AE"),
    (0x410f_d440, "Cortex-X1"),
    (0x410f_d460, "Cortex-A510"),
    (0x410f_d470, "Cortex-A710"),
    (0x410f_d480, "Cortex-X2"),
    (0x410f_d490, "Neoverse-N2"),
    (0x410f_d4b0, "Cortex-A78C"),
    (0x410f_d4c0, "Cortex-X1C"),
    (0x410f_d4d0, "Cortex-A715"),
    (0x410f_d4e0, "Cortex-X3"),
    (0x410f_d4f0, "Neoverse-V2"),
    (0x410f_d800, "Cortex-A520"),
    (0x410f_d810, "Cortex-A720"),
    (0x410f_d820, "Cortex-X4"),
    (0x410f_d830, "Neoverse-V3AE"),
    (0x410f_d840, "Neoverse-V3"),
    (0x410f_d850, "Cortex-X925"),
    (0x410f_d870, "Cortex-A725"),
    (0x410f_d880, "Cortex-A520AE"),
    (0x410f_d890, "Cortex-A720AE"),
    (0x410f_d8a0, "C1-Nano"),
    (0x410f_d8b0, "C1-Pro"),
    (0x410f_d8c0, "C1-Ultra"),
    (0x410f_d8e0, "Neoverse-N3"),
    (0x410f_d900, "C1-Premium"),
    (0x460f_0010, "A64FX"),
    (0x4e0f_0100, "NVIDIA Olympus"),
    (0x510f_8040, "Kryo 4xx Gold"),
    (0x510f_c000, "Falkor"),
    (0x6d0f_d490, "Azure Cobalt 100"),
    (0xc00f_ac30, "AmpereOne"),
    (0xc00f_ac40, "AmpereOne-A"),
    (0x000f_0510, "QEMU max"),
];

/// Model, first and last release (variant << 4 | revision) that tolerate resizing without aborts. Primary source: the
/// vendors' statements gathered for Linux v6.17 to v7.2. The part numbers of Cortex-A520AE, Cortex-A715 and C1-Nano are
/// background knowledge, not re-checked [K].
const TOLERANT: &[(u32, u8, u8)] = &[
    (0x410f_d820, 0x03, 0x0f),
    (0x410f_d840, 0x02, 0x0f),
    (0x410f_d830, 0x02, 0x0f),
    (0x4e0f_0100, 0x00, 0xff),
    (0xc00f_ac30, 0x00, 0xff),
    (0xc00f_ac40, 0x00, 0xff),
    (0x410f_d880, 0x00, 0xff),
    (0x410f_d4d0, 0x00, 0xff),
    (0x410f_d890, 0x00, 0xff),
    (0x410f_d870, 0x00, 0xff),
    (0x410f_d8e0, 0x00, 0xff),
    (0x410f_d8a0, 0x00, 0xff),
    (0x410f_d8b0, 0x00, 0xff),
    (0x410f_d8c0, 0x11, 0xff),
    (0x410f_d900, 0x11, 0xff),
];

/// The same of releases that do not, by erratum: Neoverse-V3 and V3AE r0p0 and r0p1 (3053180); C1-Ultra and C1-Premium up to r1p0
/// (3683289), which may livelock.
const BREAKING: &[(u32, u8, u8)] =
    &[(0x410f_d840, 0x00, 0x01), (0x410f_d830, 0x00, 0x01), (0x410f_d8c0, 0x00, 0x10), (0x410f_d900, 0x00, 0x10)];

/// The same of releases whose broadcast TLBI and DSB may complete before the accesses that an invalidated entry translated. Of every release: those of
/// CVE-2025-10263, as Arm and the vendors list them in June 2026 (errata 4118414, 4193780 to 4193801, T410-OLY-1029), and
/// Cortex-A55 (2441007). Of some: Cortex-A510 up to r1p1 (2441009), Kryo 4xx Gold
/// from r12p14 to r15p14 (1286807), Falkor r0p0 (E1009).
const REPEAT: &[(u32, u8, u8)] = &[
    (0x410f_d050, 0x00, 0xff),
    (0x410f_d0b0, 0x00, 0xff),
    (0x410f_d0c0, 0x00, 0xff),
    (0x410f_d0d0, 0x00, 0xff),
    (0x410f_d0e0, 0x00, 0xff),
    (0x410f_d400, 0x00, 0xff),
    (0x410f_d410, 0x00, 0xff),
    (0x410f_d420, 0x00, 0xff),
    (0x410f_d440, 0x00, 0xff),
    (0x410f_d460, 0x00, 0x11),
    (0x410f_d470, 0x00, 0xff),
    (0x410f_d480, 0x00, 0xff),
    (0x410f_d490, 0x00, 0xff),
    (0x410f_d4b0, 0x00, 0xff),
    (0x410f_d4c0, 0x00, 0xff),
    (0x410f_d4e0, 0x00, 0xff),
    (0x410f_d4f0, 0x00, 0xff),
    (0x410f_d820, 0x00, 0xff),
    (0x410f_d830, 0x00, 0xff),
    (0x410f_d840, 0x00, 0xff),
    (0x410f_d850, 0x00, 0xff),
    (0x410f_d8c0, 0x00, 0xff),
    (0x410f_d900, 0x00, 0xff),
    (0x4e0f_0100, 0x00, 0xff),
    (0x510f_8040, 0xce, 0xfe),
    (0x510f_c000, 0x00, 0x00),
    (0x6d0f_d490, 0x00, 0xff),
];

impl fmt::Display for Midr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} r{}p{}", self.variant(), self.revision()),
            None => write!(f, "CPU {:#010x}", self.0),
        }
    }
}

impl fmt::Debug for Midr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::format;

    use super::*;

    #[test]
    fn fields_decode() {
        let midr = Midr::new(0x413f_d0c1);
        assert_eq!((midr.implementer(), midr.variant(), midr.part(), midr.revision()), (0x41, 3, 0xd0c, 1));
        assert_eq!(format!("{midr}"), "Neoverse-N1 r3p1");
        assert_eq!(format!("{}", Midr::new(0x1234_5678)), "CPU 0x12345678");
    }

    #[test]
    fn releases_outside_the_range_do_not_tolerate() {
        let tolerates = |midr| Midr::new(midr).tolerates_resizing();
        assert!(!tolerates(0x410f_d840) && !tolerates(0x410f_d841), "Neoverse-V3 r0p0 and r0p1 have erratum 3053180");
        assert!(tolerates(0x410f_d842) && !tolerates(0x411f_d840));
        assert!(
            !tolerates(0x410f_d8c0) && !tolerates(0x411f_d8c0) && tolerates(0x411f_d8c1),
            "C1-Ultra, erratum 3683289"
        );
        assert!(tolerates(0xc00f_ac30) && tolerates(0xc01f_ac35));
        assert!(!tolerates(0x410f_d810), "Cortex-A720 is not listed");
    }

    #[test]
    fn releases_with_an_erratum_break_and_none_of_them_tolerates() {
        let breaks = |midr| Midr::new(midr).must_break_before_make();
        assert!(breaks(0x410f_d840) && breaks(0x410f_d841) && !breaks(0x410f_d842), "Neoverse-V3, erratum 3053180");
        assert!(breaks(0x410f_d831) && !breaks(0x411f_d830), "Neoverse-V3AE");
        assert!(breaks(0x411f_d8c0) && !breaks(0x411f_d8c1) && breaks(0x410f_d900), "erratum 3683289");
        assert!(!breaks(0xc00f_ac30) && !breaks(0x410f_d070));
        for &(model, first, last) in BREAKING {
            let release = |release: u8| Midr::new(model | u32::from(release >> 4) << 20 | u32::from(release & 0xf));
            assert!((first..=last).all(|number| !release(number).tolerates_resizing()), "{model:#x}");
        }
    }

    #[test]
    fn what_completes_too_early_is_repeated() {
        let repeats = |midr| Midr::new(midr).must_repeat_tlbi();
        assert!(repeats(0x410f_d820) && repeats(0x411f_d823), "Cortex-X4, erratum 4118414");
        assert!(repeats(0x413f_d0c1) && repeats(0x410f_d490) && repeats(0x6d0f_d490), "Neoverse-N1 and N2, Cobalt 100");
        assert!(repeats(0x411f_d461) && !repeats(0x411f_d462), "Cortex-A510, erratum 2441009");
        assert!(repeats(0x511f_2050) && repeats(0x51cf_804e) && !repeats(0x511f_8040), "Kryo, and some of Kryo 4xx");
        assert!(!repeats(0x410f_d810) && !repeats(0x410f_d8e0), "Cortex-A720 and Neoverse-N3 are not listed");
        assert!(!repeats(0x411f_d070) && !repeats(0x000f_0510), "nor Cortex-A57, nor QEMU's max");
    }

    #[test]
    fn every_listed_model_has_a_name() {
        for &(model, ..) in TOLERANT.iter().chain(BREAKING).chain(REPEAT) {
            assert!(Midr::new(model).name().is_some(), "{model:#x}");
        }
    }
}
