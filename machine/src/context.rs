//! Which page tables a CPU walks, read from its registers: the start of every walk and the tag of every TLB entry.

use crate::geometry::{Geometry, Granule, Layout};
use crate::registers::{Features, HCR_E2H, HCR_FWB, HCR_TGE, HCR_VM, Register, Registers, SCTLR_M, SCTLR_WXN};

/// A translation regime. (D8.1.2)
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Regime {
    /// EL1 and EL0, stage 1 or both stages combined; tagged with a VMID.
    #[default]
    El10,
    /// EL2 with one range of addresses and no ASID.
    El2,
    /// EL2 and EL0 with HCR_EL2.E2H = 1.
    El20,
    /// Stage 2 of EL1&0.
    Stage2,
}

/// What an entry of a TLB is tagged with, beside its ASID: regime and VMID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Tag {
    /// Regime.
    pub regime: Regime,
    /// VMID; 0 where the regime has none.
    pub vmid: u16,
}

impl Tag {
    /// The EL1&0 regime of `vmid`.
    pub const fn el10(vmid: u16) -> Self {
        Self { regime: Regime::El10, vmid }
    }

    /// Stage 2 of `vmid`.
    pub const fn stage2(vmid: u16) -> Self {
        Self { regime: Regime::Stage2, vmid }
    }

    /// The EL2 regime.
    pub const EL2: Self = Self { regime: Regime::El2, vmid: 0 };
    /// The EL2&0 regime.
    pub const EL20: Self = Self { regime: Regime::El20, vmid: 0 };
}

/// A stage-2 page table and its controls. (VTTBR_EL2, VTCR_EL2)
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Stage2 {
    /// VMID.
    pub vmid: u16,
    /// Physical address of the (concatenated) root.
    pub root: u64,
    /// Shape.
    pub geometry: Geometry,
    /// Hardware sets the access flag, and the dirty state.
    pub hardware: Hardware,
    /// HCR_EL2.FWB.
    pub force_write_back: bool,
    /// SH for LPA2 descriptors.
    pub shareability: u8,
    /// nT has a meaning: BBM level 1 and above.
    pub has_nt: bool,
}

/// Which descriptor bits hardware updates by itself. (D8.5)
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Hardware {
    /// TCR.HA on a CPU that has it.
    pub access_flag: bool,
    /// TCR.HD on a CPU that has it; needs the access flag too.
    pub dirty_state: bool,
}

/// A stage-1 page table (one half, where the regime has two) and its controls.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Stage1 {
    /// Regime and VMID.
    pub tag: Tag,
    /// The half that TTBR1 translates.
    pub is_upper: bool,
    /// Address of the root: physical, or intermediate physical beneath a stage 2.
    pub root: u64,
    /// Shape.
    pub geometry: Geometry,
    /// Stage 1 is off beneath a stage 2: input address = intermediate physical address.
    pub is_flat: bool,
    /// MAIR_ELx.
    pub mair: u64,
    /// Hardware sets the access flag, and the dirty state.
    pub hardware: Hardware,
    /// TCR.HPD: attributes of table descriptors are ignored.
    pub ignores_hierarchy: bool,
    /// SCTLR.WXN.
    pub write_never_executes: bool,
    /// TCR.E0PDx: EL0 has no access to this half. (FEAT_E0PD)
    pub refuses_user: bool,
    /// SH for LPA2 descriptors, from TCR.SHx.
    pub shareability: u8,
    /// nT has a meaning: BBM level 1 and above.
    pub has_nt: bool,
    /// The stage 2 beneath.
    pub stage2: Option<Stage2>,
}

impl Stage1 {
    /// The canonical address of the half's offset `offset`.
    pub const fn canonical(&self, offset: u64) -> u64 {
        if self.is_upper { offset | !self.geometry.input_mask() } else { offset }
    }

    /// Lowest and highest input address.
    pub const fn bounds(&self) -> (u64, u64) {
        if self.is_flat {
            return (0, (1 << 52) - 1);
        }
        (self.canonical(0), self.canonical(self.geometry.input_mask()))
    }

    /// True for EL1&0 and EL2&0: table descriptors have an ASID, leaves a global bit, permissions an EL0.
    pub const fn has_el0(&self) -> bool {
        !matches!(self.tag.regime, Regime::El2)
    }
}

/// A live stage-1 context: a page table and the ASID its walks are tagged with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Context {
    /// Page table.
    pub stage1: Stage1,
    /// Current ASID; 0 where the regime has none.
    pub asid: u16,
    /// TTBR.CnP.
    pub is_common: bool,
}

/// The VMID that tags EL1&0 entries now.
pub fn current_vmid(registers: &Registers, features: &Features) -> u16 {
    let wide = registers.bit(Register::VtcrEl2, 19);
    if !features.el2 { 0 } else { registers.field(Register::VttbrEl2, 48, if wide { 16 } else { 8 }) as u16 }
}

/// The regime that `*E1` operations executed at EL2 (or EL0 code beneath it) mean. (D8.17, RLGSCG)
pub fn is_host(registers: &Registers) -> bool {
    let both = HCR_E2H | HCR_TGE;
    registers.get(Register::HcrEl2) & both == both
}

/// The stage 2 beneath EL1&0, if it is on.
pub fn stage2(registers: &Registers, features: &Features) -> Option<Stage2> {
    let hcr = registers.get(Register::HcrEl2);
    if !features.el2 || hcr & HCR_VM == 0 || hcr & HCR_TGE != 0 {
        return None;
    }
    let field = |low, width| registers.field(Register::VtcrEl2, low, width);
    let granule = tg0(field(14, 2));
    let is_lpa2 = features.lpa2 && granule != Granule::Size64K && field(32, 1) == 1;
    let level = match (granule, field(6, 2), is_lpa2 && field(33, 1) == 1) {
        (Granule::Size4K, 0, true) => -1,
        (Granule::Size4K, 3, _) => 3,
        (Granule::Size4K, level, _) => 2 - level as i8,
        (_, level, _) => 3 - level as i8,
    };
    let geometry = geometry(granule, is_lpa2, field(16, 3), field(0, 6), Some(level), features);
    let vttbr = registers.get(Register::VttbrEl2);
    Some(Stage2 {
        vmid: current_vmid(registers, features),
        root: root(vttbr, &geometry),
        geometry,
        hardware: hardware(field(21, 2), features),
        force_write_back: hcr & HCR_FWB != 0,
        shareability: field(12, 2) as u8,
        has_nt: features.bbm >= 1,
    })
}

/// Everything this CPU may walk with these registers; speculation does not care which exception level runs.
pub fn contexts(registers: &Registers, features: &Features) -> impl Iterator<Item = Context> + use<> {
    let host = registers.get(Register::HcrEl2) & HCR_TGE != 0 && features.el2;
    let stage2 = stage2(registers, features);
    let el1_on = registers.get(Register::SctlrEl1) & SCTLR_M != 0 && !host;
    let el2_on = registers.get(Register::SctlrEl2) & SCTLR_M != 0 && features.el2;
    let two = registers.get(Register::HcrEl2) & HCR_E2H != 0;
    let flat = match stage2 {
        Some(stage2) if !el1_on => Some(flat(stage2)),
        _ => None,
    };
    [
        el1_on.then(|| two_ranges(registers, features, false, false, stage2)).flatten(),
        el1_on.then(|| two_ranges(registers, features, false, true, stage2)).flatten(),
        (el2_on && two).then(|| two_ranges(registers, features, true, false, None)).flatten(),
        (el2_on && two).then(|| two_ranges(registers, features, true, true, None)).flatten(),
        (el2_on && !two).then(|| one_range(registers, features)),
        flat,
    ]
    .into_iter()
    .flatten()
}

fn flat(stage2: Stage2) -> Context {
    let stage1 = Stage1 {
        tag: Tag::el10(stage2.vmid),
        is_upper: false,
        root: 0,
        geometry: stage2.geometry,
        is_flat: true,
        mair: 0xff,
        hardware: Hardware::default(),
        ignores_hierarchy: false,
        write_never_executes: false,
        refuses_user: false,
        shareability: 0,
        has_nt: false,
        stage2: Some(stage2),
    };
    Context { stage1, asid: 0, is_common: false }
}

/// One half of EL1&0 or EL2&0, unless TCR.EPDx switches its walks off.
fn two_ranges(
    registers: &Registers,
    features: &Features,
    is_el2: bool,
    is_upper: bool,
    stage2: Option<Stage2>,
) -> Option<Context> {
    let [tcr, ttbr0, ttbr1, mair, sctlr] = if is_el2 {
        [Register::TcrEl2, Register::Ttbr0El2, Register::Ttbr1El2, Register::MairEl2, Register::SctlrEl2]
    } else {
        [Register::TcrEl1, Register::Ttbr0El1, Register::Ttbr1El1, Register::MairEl1, Register::SctlrEl1]
    };
    let field = |low, width| registers.field(tcr, low, width);
    let at = |low: u8| if is_upper { low + 16 } else { low };
    if field(at(7), 1) == 1 {
        return None;
    }
    let granule = if is_upper { tg1(field(30, 2)) } else { tg0(field(14, 2)) };
    let is_lpa2 = features.lpa2 && granule != Granule::Size64K && field(59, 1) == 1;
    let geometry = geometry(granule, is_lpa2, field(32, 3), field(at(0), 6), None, features);
    let ttbr = registers.get(if is_upper { ttbr1 } else { ttbr0 });
    let asid_source = registers.get(if field(22, 1) == 1 { ttbr1 } else { ttbr0 });
    let asid_mask = if field(36, 1) == 1 { 0xffff } else { 0xff };
    let stage1 = Stage1 {
        tag: if is_el2 { Tag::EL20 } else { Tag::el10(current_vmid(registers, features)) },
        is_upper,
        root: root(ttbr, &geometry),
        geometry,
        is_flat: false,
        mair: registers.get(mair),
        hardware: hardware(field(39, 2), features),
        ignores_hierarchy: field(if is_upper { 42 } else { 41 }, 1) == 1,
        write_never_executes: registers.get(sctlr) & SCTLR_WXN != 0,
        refuses_user: field(if is_upper { 56 } else { 55 }, 1) == 1,
        shareability: field(at(12), 2) as u8,
        has_nt: features.bbm >= 1,
        stage2,
    };
    Some(Context { stage1, asid: (asid_source >> 48) as u16 & asid_mask, is_common: is_common(ttbr, features) })
}

/// EL2 with E2H = 0: one range, its own layout of TCR. (TCR_EL2)
fn one_range(registers: &Registers, features: &Features) -> Context {
    let field = |low, width| registers.field(Register::TcrEl2, low, width);
    let granule = tg0(field(14, 2));
    let is_lpa2 = features.lpa2 && granule != Granule::Size64K && field(32, 1) == 1;
    let geometry = geometry(granule, is_lpa2, field(16, 3), field(0, 6), None, features);
    let ttbr = registers.get(Register::Ttbr0El2);
    let stage1 = Stage1 {
        tag: Tag::EL2,
        is_upper: false,
        root: root(ttbr, &geometry),
        geometry,
        is_flat: false,
        mair: registers.get(Register::MairEl2),
        hardware: hardware(field(21, 2), features),
        ignores_hierarchy: field(24, 1) == 1,
        write_never_executes: registers.get(Register::SctlrEl2) & SCTLR_WXN != 0,
        refuses_user: false,
        shareability: field(12, 2) as u8,
        has_nt: features.bbm >= 1,
        stage2: None,
    };
    Context { stage1, asid: 0, is_common: is_common(ttbr, features) }
}

const fn is_common(ttbr: u64, features: &Features) -> bool {
    features.common_not_private && ttbr & 1 == 1
}

const fn tg0(field: u64) -> Granule {
    match field {
        1 => Granule::Size64K,
        2 => Granule::Size16K,
        _ => Granule::Size4K,
    }
}

const fn tg1(field: u64) -> Granule {
    match field {
        1 => Granule::Size16K,
        3 => Granule::Size64K,
        _ => Granule::Size4K,
    }
}

const fn hardware(field: u64, features: &Features) -> Hardware {
    let access_flag = field & 1 == 1 && features.access_flag;
    Hardware { access_flag, dirty_state: access_flag && field & 2 == 2 && features.dirty_state }
}

/// `size_field` is TxSZ; `level` is given for stage 2 only. TxSZ below the smallest allowed value acts as that value.
fn geometry(
    granule: Granule,
    is_lpa2: bool,
    size: u64,
    size_field: u64,
    level: Option<i8>,
    features: &Features,
) -> Geometry {
    let output_bits = [32, 36, 40, 42, 44, 48, 52, 52][size as usize].min(features.output_bits);
    let layout = match granule {
        Granule::Size64K if features.lpa => Layout::Lpa,
        _ if is_lpa2 => Layout::Lpa2,
        _ => Layout::Bits48,
    };
    let widest = if layout == Layout::Bits48 { 48 } else { 52 };
    let input_bits = (64 - size_field as u8).min(widest).max(granule.shift() + 1);
    let start_level = level.unwrap_or_else(|| Geometry::stage1_start(granule, input_bits));
    let output_bits = if layout == Layout::Bits48 { output_bits.min(48) } else { output_bits };
    Geometry { granule, layout, input_bits, start_level, output_bits }
}

/// The root's address in TTBR or VTTBR: aligned to its size, with bits 51:48 in bits 5:2 where there are 52. (D24.2.159)
fn root(ttbr: u64, geometry: &Geometry) -> u64 {
    let is_wide = geometry.layout != Layout::Bits48 && geometry.output_bits == 52;
    let align = geometry.root_bytes().max(if is_wide { 64 } else { 16 });
    let low = ttbr & 0x0000_ffff_ffff_fffe & !(align - 1);
    if is_wide { low | (ttbr >> 2 & 0xf) << 48 } else { low }
}
