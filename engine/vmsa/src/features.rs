//! The ID-register fields that decide how a page table may look and be changed (D23.2).

use core::fmt;

use crate::maintenance::Domain;
use crate::{Geometry, Granule, Layout, PageSize, TlbiOp, fields};

/// What a CPU tolerates when a live leaf changes size: FEAT_BBM (ID_AA64MMFR2_EL1.BBM, D8.17.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum BbmLevel {
    /// Break-before-make for every change of size.
    Level0,
    /// The nT protocol, or break-before-make; the Contiguous bit may change in place.
    Level1,
    /// In place; until the TLBI a TLB conflict abort may come.
    Level2,
    /// In place, and no conflict abort ever comes (FEAT_BBML3).
    Level3,
}

/// The ID registers of one CPU, as read.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct IdRegisters {
    /// ID_AA64PFR0_EL1.
    pub pfr0: u64,
    /// ID_AA64ISAR0_EL1.
    pub isar0: u64,
    /// ID_AA64ISAR1_EL1.
    pub isar1: u64,
    /// ID_AA64MMFR0_EL1.
    pub mmfr0: u64,
    /// ID_AA64MMFR1_EL1.
    pub mmfr1: u64,
    /// ID_AA64MMFR2_EL1.
    pub mmfr2: u64,
}

/// A field of one of the registers, by the manual's name for it: one that is not in the table does not compile.
macro_rules! get {
    ($cpu:ident.pfr0.$field:ident) => {
        get!($cpu.pfr0, ID_AA64PFR0_EL1, $field)
    };
    ($cpu:ident.isar0.$field:ident) => {
        get!($cpu.isar0, ID_AA64ISAR0_EL1, $field)
    };
    ($cpu:ident.isar1.$field:ident) => {
        get!($cpu.isar1, ID_AA64ISAR1_EL1, $field)
    };
    ($cpu:ident.mmfr0.$field:ident) => {
        get!($cpu.mmfr0, ID_AA64MMFR0_EL1, $field)
    };
    ($cpu:ident.mmfr1.$field:ident) => {
        get!($cpu.mmfr1, ID_AA64MMFR1_EL1, $field)
    };
    ($cpu:ident.mmfr2.$field:ident) => {
        get!($cpu.mmfr2, ID_AA64MMFR2_EL1, $field)
    };
    ($value:expr, $register:ident, $field:ident) => {
        const { fields::$register.the(stringify!($field)) }.get($value) as u8
    };
}

/// Questions that a field answers with yes from a value on.
macro_rules! questions {
    ($($(#[$doc:meta])* $question:ident: $register:ident.$field:ident >= $least:literal;)*) => {
        impl IdRegisters { $(
            $(#[$doc])*
            pub const fn $question(self) -> bool {
                get!(self.$register.$field) >= $least
            }
        )* }
    };
}

questions! {
    /// Whether stage 2 can tell EL0 from EL1 when it forbids execution (FEAT_XNX).
    has_stage2_user_execute: mmfr1.XNX >= 1;
    /// Whether stage 2 can force memory to be write-back (HCR_EL2.FWB, FEAT_S2FWB).
    has_forced_write_back: mmfr2.FWB >= 1;
    /// Whether EL2 can have two ranges of addresses and ASIDs (HCR_EL2.E2H, FEAT_VHE).
    has_host_extensions: mmfr1.VH >= 1;
    /// Whether hardware can set the access flag (FEAT_HAFDBS).
    has_hardware_access_flag: mmfr1.HAFDBS >= 1;
    /// Whether hardware can manage the dirty state (FEAT_HAFDBS).
    has_hardware_dirty_state: mmfr1.HAFDBS >= 2;
    /// Whether TTBRs may be marked common (FEAT_TTCNP).
    has_common_not_private: mmfr2.CnP >= 1;
    /// Whether hierarchical control can be switched off (FEAT_HPDS).
    has_hierarchical_disable: mmfr1.HPDS >= 1;
    /// Whether operands may carry level hints (FEAT_TTL).
    has_level_hints: mmfr2.TTL >= 1;
    /// Whether there are TLBIs by range (FEAT_TLBIRANGE).
    has_range_invalidation: isar0.TLB >= 2;
    /// Whether the LSE atomics exist (FEAT_LSE).
    has_atomics: isar0.Atomic >= 2;
    /// Whether EL2 is implemented.
    has_el2: pfr0.EL2 >= 1;
    /// Whether the interrupt controller has a system-register interface (GICv3 and later).
    has_gic_registers: pfr0.GIC >= 1;
}

impl IdRegisters {
    /// Whether stage 1 knows the granule: TGran4, TGran16, TGran64 (each encodes it in its own way).
    pub const fn has_granule(self, size: PageSize) -> bool {
        match (size, self.granule(size)) {
            (PageSize::Size16K, 0) => false,
            (_, field) => field < 8,
        }
    }

    const fn granule(self, size: PageSize) -> u8 {
        match size {
            PageSize::Size4K => get!(self.mmfr0.TGran4),
            PageSize::Size16K => get!(self.mmfr0.TGran16),
            PageSize::Size64K => get!(self.mmfr0.TGran64),
        }
    }

    /// Whether the granule has LPA2 descriptors at stage 1 (FEAT_LPA2): 52-bit input and output addresses.
    pub const fn has_lpa2(self, size: PageSize) -> bool {
        match size {
            PageSize::Size4K => self.has_granule(size) && self.granule(size) >= 1,
            PageSize::Size16K => self.has_granule(size) && self.granule(size) >= 2,
            PageSize::Size64K => false,
        }
    }

    /// Whether stage 2 knows the granule: TGran4_2, TGran16_2, TGran64_2, where 0 means "as stage 1".
    pub const fn has_stage2_granule(self, size: PageSize) -> bool {
        match self.stage2_granule(size) {
            0 => self.has_granule(size),
            field => field >= 2,
        }
    }

    /// Whether the granule has LPA2 descriptors at stage 2 (FEAT_LPA2).
    pub const fn has_stage2_lpa2(self, size: PageSize) -> bool {
        match (size, self.stage2_granule(size)) {
            (PageSize::Size64K, _) => false,
            (_, 0) => self.has_lpa2(size),
            (_, field) => field >= 3,
        }
    }

    const fn stage2_granule(self, size: PageSize) -> u8 {
        match size {
            PageSize::Size4K => get!(self.mmfr0.TGran4_2),
            PageSize::Size16K => get!(self.mmfr0.TGran16_2),
            PageSize::Size64K => get!(self.mmfr0.TGran64_2),
        }
    }

    /// Whether stage 2 can have this shape: the granule and layout, no more input bits than physical address bits, and a root
    /// level that the physical address size permits (D8.2.10; level 3 at 4 KiB needs FEAT_TTST). A guest at EL1 in AArch32
    /// may want 40 bits where there are fewer: that is not looked at.
    pub const fn has_stage2_shape<G: Granule>(self, geometry: Geometry<G>) -> bool {
        let has_layout = match geometry.layout() {
            Layout::Bits48 => self.has_stage2_granule(G::PAGE_SIZE),
            Layout::Lpa => self.has_stage2_granule(G::PAGE_SIZE) && self.output_bits() >= 52,
            Layout::Lpa2 => self.has_stage2_lpa2(G::PAGE_SIZE),
        };
        let has_start = match (G::PAGE_SIZE, geometry.start().number()) {
            (PageSize::Size4K, -1) | (PageSize::Size16K, 0) => self.output_bits() >= 52,
            (PageSize::Size4K, 0) | (PageSize::Size64K, 1) => self.output_bits() >= 44,
            (PageSize::Size16K, 1) => self.output_bits() >= 42,
            (PageSize::Size4K, 3) => get!(self.mmfr2.ST) >= 1,
            _ => true,
        };
        has_layout && has_start && geometry.input_bits() <= self.output_bits()
    }

    /// Bits of a VMID, 8 or 16 (FEAT_VMID16).
    pub const fn vmid_bits(self) -> u32 {
        if get!(self.mmfr1.VMIDBits) == 0b0010 { 16 } else { 8 }
    }

    /// The most input bits that stage 1 translates with this granule: 48, or 52 by FEAT_LPA2 or FEAT_LVA.
    pub const fn largest_input_bits(self, size: PageSize) -> u32 {
        let wide = match size {
            PageSize::Size64K => get!(self.mmfr2.VARange) >= 1,
            _ => self.has_lpa2(size),
        };
        if wide { 52 } else { 48 }
    }

    /// The field PARange, 0 to 15: also the value for TCR_EL1.IPS.
    pub const fn physical_range(self) -> u8 {
        get!(self.mmfr0.PARange)
    }

    /// Bits of physical address that the CPU implements (PARange).
    pub const fn output_bits(self) -> u32 {
        match self.physical_range() {
            0 => 32,
            1 => 36,
            2 => 40,
            3 => 42,
            4 => 44,
            5 => 48,
            6 => 52,
            _ => 56,
        }
    }

    /// Bits of an ASID, 8 or 16.
    pub const fn asid_bits(self) -> u32 {
        if get!(self.mmfr0.ASIDBits) == 0b0010 { 16 } else { 8 }
    }

    /// What the register says of FEAT_BBM. Some CPUs tolerate more than they say: see [`crate::Midr::tolerates_resizing`].
    pub const fn bbm(self) -> BbmLevel {
        match get!(self.mmfr2.BBM) {
            0 => BbmLevel::Level0,
            1 => BbmLevel::Level1,
            2 => BbmLevel::Level2,
            _ => BbmLevel::Level3,
        }
    }

    /// Enhanced translation synchronization: 0, 2 or 3. The value 1 promises nothing that can be relied on.
    pub const fn ets(self) -> u8 {
        match get!(self.mmfr1.ETS) {
            0 | 1 => 0,
            2 => 2,
            _ => 3,
        }
    }

    /// Whether there is this TLBI: FEAT_TLBIOS and FEAT_TLBIRANGE (ID_AA64ISAR0_EL1.TLB), FEAT_XS (ID_AA64ISAR1_EL1.XS).
    pub const fn has_tlbi(self, op: TlbiOp) -> bool {
        let level = match (op.operand().is_range(), op.domain()) {
            (true, _) => 2,
            (false, Domain::OuterShareable) => 1,
            _ => 0,
        };
        get!(self.isar0.TLB) >= level && (!op.is_without_xs() || get!(self.isar1.XS) >= 1)
    }
}

impl fmt::Display for BbmLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", *self as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn mmfr(mmfr0: u64, mmfr1: u64, mmfr2: u64) -> IdRegisters {
        IdRegisters { pfr0: 0, isar0: 0, isar1: 0, mmfr0, mmfr1, mmfr2 }
    }

    /// Name, registers, granules 4K 16K 64K, LPA2, output bits, BBM level.
    type Cpu = (&'static str, IdRegisters, [bool; 3], bool, u32, u8);

    /// CPUs as they report themselves, emulated ones by QEMU 7.2.
    const CPUS: [Cpu; 4] = [
        ("max", mmfr(0x32310201126, 0x11010211122, 0x1021011010011011), [true; 3], true, 52, 2),
        ("max,lpa2=off", mmfr(0x22200101126, 0x11010211122, 0x1021011010011011), [true; 3], false, 52, 2),
        ("cortex-a72", mmfr(0x1124, 0, 0), [true, false, true], false, 44, 0),
        ("neoverse-n1", mmfr(0x101125, 0x10212122, 0x1011), [true; 3], false, 48, 0),
    ];

    #[test]
    fn known_cpus_decode() {
        for (name, registers, granules, lpa2, bits, bbm) in CPUS {
            assert_eq!(PageSize::ALL.map(|size| registers.has_granule(size)), granules, "{name}");
            assert_eq!(registers.has_lpa2(PageSize::Size4K), lpa2, "{name}");
            assert_eq!(registers.has_lpa2(PageSize::Size16K), lpa2, "{name}");
            assert_eq!((registers.output_bits(), registers.bbm() as u8), (bits, bbm), "{name}");
        }
        let max = CPUS[0].1;
        assert_eq!(PageSize::ALL.map(|size| max.largest_input_bits(size)), [52; 3]);
        assert!(max.has_level_hints() && max.has_common_not_private() && max.has_hardware_dirty_state());
        assert_eq!((max.asid_bits(), max.ets()), (16, 0));
    }

    #[test]
    fn granule_fields_encode_absence_in_their_own_ways() {
        assert!(!mmfr(0xf << 28, 0, 0).has_granule(PageSize::Size4K));
        assert!(!mmfr(0xf << 24, 0, 0).has_granule(PageSize::Size64K));
        assert!(!mmfr(0, 0, 0).has_granule(PageSize::Size16K));
        assert!(mmfr(0, 0, 0).has_granule(PageSize::Size4K));
        assert!(mmfr(1 << 20, 0, 0).has_granule(PageSize::Size16K));
        assert!(!mmfr(1 << 20, 0, 0).has_lpa2(PageSize::Size16K));
        assert!(!mmfr(0xf << 28, 0, 0).has_lpa2(PageSize::Size4K));
    }

    #[test]
    fn tlbis_are_features_of_their_own() {
        let has = |isar0: u64, isar1: u64| {
            let cpu = IdRegisters { isar0: isar0 << 56, isar1: isar1 << 56, ..IdRegisters::default() };
            let range = TlbiOp::RVAE1;
            [TlbiOp::VAE1IS, TlbiOp::VAE1OS, range, TlbiOp::VAE1.without_xs(), range.without_xs()]
                .map(|op| cpu.has_tlbi(op))
        };
        assert_eq!(has(0, 0), [true, false, false, false, false]);
        assert_eq!(has(1, 0), [true, true, false, false, false]);
        assert_eq!(has(2, 0), [true, true, true, false, false]);
        assert_eq!(has(1, 1), [true, true, false, true, false]);
        assert_eq!(has(2, 1), [true; 5]);
    }

    #[test]
    fn levels_of_bbm_and_ets_decode() {
        let levels: [u8; 4] = core::array::from_fn(|value| mmfr(0, 0, (value as u64) << 52).bbm() as u8);
        assert_eq!(levels, [0, 1, 2, 3]);
        let ets: [u8; 4] = core::array::from_fn(|value| mmfr(0, (value as u64) << 36, 0).ets());
        assert_eq!(ets, [0, 0, 2, 3]);
    }

    /// What each CPU of the table above can do at stage 2.
    #[test]
    fn stage_2_shapes_depend_on_the_physical_address_size() {
        use crate::{Granule4K, Granule16K, Granule64K, Level};
        fn has<G: Granule>(cpu: usize, bits: u32, layout: Layout, start: Level) -> bool {
            CPUS[cpu].1.has_stage2_shape(Geometry::<G>::stage2(bits, start, layout).unwrap())
        }
        // 52 bits of physical address, and TGran4_2 and TGran16_2 that say so; 44 bits and no 16K; 48 bits.
        let (max, narrow, a72, n1) = (0, 1, 2, 3);
        assert!(has::<Granule4K>(max, 52, Layout::Lpa2, Level::MINUS_1));
        assert!(has::<Granule4K>(max, 52, Layout::Lpa2, Level::L0));
        assert!(has::<Granule16K>(max, 52, Layout::Lpa2, Level::L0));
        assert!(has::<Granule64K>(max, 52, Layout::Lpa, Level::L1));
        assert!(!has::<Granule4K>(narrow, 48, Layout::Lpa2, Level::L0));
        assert!(has::<Granule4K>(a72, 44, Layout::Bits48, Level::L0));
        assert!(!has::<Granule4K>(a72, 45, Layout::Bits48, Level::L0));
        assert!(has::<Granule64K>(a72, 44, Layout::Bits48, Level::L1));
        assert!(!has::<Granule16K>(a72, 40, Layout::Bits48, Level::L2));
        assert!(has::<Granule16K>(n1, 48, Layout::Bits48, Level::L1));
        assert!(!has::<Granule64K>(n1, 48, Layout::Lpa, Level::L1));
        // 40 bits of physical address: too few for level 0 at 4K and level 1 at 16K, and 4K level 3 needs FEAT_TTST.
        let small = mmfr(0x0010_0002, 0, 0);
        let shape = |start| Geometry::<Granule4K>::stage2(40, start, Layout::Bits48).unwrap();
        assert!(small.has_stage2_shape(shape(Level::L1)) && !small.has_stage2_shape(shape(Level::L0)));
        let shape = |start| Geometry::<Granule16K>::stage2(40, start, Layout::Bits48).unwrap();
        assert!(small.has_stage2_shape(shape(Level::L2)) && !small.has_stage2_shape(shape(Level::L1)));
        let pages = Geometry::<Granule4K>::stage2(25, Level::L3, Layout::Bits48).unwrap();
        assert!(!small.has_stage2_shape(pages) && mmfr(0x2, 0, 1 << 28).has_stage2_shape(pages));
    }

    #[test]
    fn features_of_stage_2_decode() {
        let max = CPUS[0].1;
        assert_eq!((max.vmid_bits(), max.has_stage2_user_execute(), max.has_forced_write_back()), (16, true, true));
        assert!(max.has_host_extensions());
        let a72 = CPUS[2].1;
        assert_eq!((a72.vmid_bits(), a72.has_stage2_user_execute(), a72.has_forced_write_back()), (8, false, false));
        assert!(!a72.has_host_extensions());
        // TGran4_2 = 1: not at stage 2, though at stage 1.
        assert!(!mmfr(1 << 40, 0, 0).has_stage2_granule(PageSize::Size4K));
        assert!(mmfr(2 << 40, 0, 0).has_stage2_granule(PageSize::Size4K));
    }
}
