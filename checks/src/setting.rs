//! In which regime a scenario happens: what its registers hold, which TLBIs mean it, and who looks through its tables.
//!
//! ```text
//!            edits at   looks at   through
//! El1        EL1        EL1        stage 1
//! El2        EL2        EL2        stage 1 of EL2, one range
//! El2And0    EL2        EL2        stage 1 of EL2&0 (HCR_EL2.{E2H, TGE} = {1, 1})
//! Stage2     EL2        EL1        stage 2 alone: the guest's stage 1 is off
//! Guest      EL2        EL1        stage 2 beneath the guest's stage 1, which maps blocks of 1 GiB to themselves
//! ```

use std::fmt;

use machine::context::Tag;
use machine::event::Level as At;
use machine::machine::Machine;
use machine::registers::{HCR_E2H, HCR_TGE, HCR_VM, Register, SCTLR_M};
use vmsa::registers::{El2Control, Stage2Control, encode_vttbr};
use vmsa::{AddressHalf, Layout, Level, PageSize, PhysAddr};

use crate::parameters::{ASID, Parameters};

/// The VMID of the guest.
pub const VMID: u16 = 0x5a;
/// MAIR: 0 is Normal write-back, 1 Device-nGnRnE, 2 Normal non-cacheable.
const MAIR: u64 = 0x0044_00ff;
/// The guest's TCR_EL1: 39 bits of the lower half, 4 KiB granule, inner shareable, 48 bits of output.
const GUEST_TCR: u64 = 25 | 3 << 12 | 1 << 23 | 5 << 32;
/// A block of 1 GiB of the guest: accessed, inner shareable, for EL1 alone.
const GUEST_BLOCK: u64 = 1 << 10 | 3 << 8 | 0b01;
/// How many of them there are: more than any region lies beyond. At 64K each lies 16 GiB after the one before.
const GUEST_BLOCKS: u64 = 128;

/// Which regime's page table is edited, and how others look through it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Setting {
    /// EL1&0 without a stage 2.
    El1,
    /// EL2 with one range of addresses.
    El2,
    /// EL2&0.
    El2And0,
    /// Stage 2 of a guest whose stage 1 is off.
    Stage2,
    /// Stage 2 beneath a guest's stage 1.
    Guest,
}

impl Setting {
    /// Every setting.
    pub const ALL: [Self; 5] = [Self::El1, Self::El2, Self::El2And0, Self::Stage2, Self::Guest];

    /// Whether it is a stage 2 that is edited.
    pub const fn is_stage2(self) -> bool {
        matches!(self, Self::Stage2 | Self::Guest)
    }

    /// Whether leaves may belong to an ASID, and to EL0 beside a privileged level.
    pub const fn has_el0(self) -> bool {
        matches!(self, Self::El1 | Self::El2And0)
    }

    /// Where page tables are edited.
    pub const fn edits_at(self) -> At {
        if matches!(self, Self::El1) { At::El1 } else { At::El2 }
    }

    /// Where they are looked through.
    pub const fn looks_at(self) -> At {
        if self.is_stage2() { At::El1 } else { self.edits_at() }
    }

    /// What entries of TLBs are tagged with that hold what the page table says.
    pub fn tags(self) -> Vec<Tag> {
        match self {
            Self::El1 => vec![Tag::el10(0)],
            Self::El2 => vec![Tag::EL2],
            Self::El2And0 => vec![Tag::EL20],
            Self::Stage2 | Self::Guest => vec![Tag::stage2(VMID), Tag::el10(VMID)],
        }
    }

    /// Whether TLB maintenance that `cpu` executes now acts on the page table: the contract of `pagetable::Platform`. The
    /// error is what is wrong.
    pub fn check_maintenance(self, machine: &Machine, cpu: u8) -> Result<(), String> {
        let it = &machine.cpus()[usize::from(cpu)];
        let registers = it.newest_registers();
        let both = HCR_E2H | HCR_TGE;
        let (is_host, vmid) = (registers.get(Register::HcrEl2) & both == both, registers.get(Register::VttbrEl2) >> 48);
        if it.level() != self.edits_at() {
            return Err(format!("TLB maintenance at {:?}, expected {:?}", it.level(), self.edits_at()));
        }
        match self {
            Self::El2 if registers.get(Register::HcrEl2) & HCR_E2H != 0 => {
                Err("TLB maintenance of EL2 with HCR_EL2.E2H = 1, which is EL2&0".into())
            }
            Self::El2And0 if !is_host => Err("TLB maintenance of EL2&0 without HCR_EL2.{E2H, TGE} = {1, 1}".into()),
            Self::Stage2 | Self::Guest if is_host => Err("stage-2 maintenance would act on EL2&0".into()),
            Self::Stage2 | Self::Guest if vmid != u64::from(VMID) => {
                Err(format!("stage-2 maintenance of VMID {vmid:#x}, expected {VMID:#x}"))
            }
            _ => Ok(()),
        }
    }

    /// Writes the guest's own page table, which lies in the first page that stage 2 maps, at `frame`.
    pub(crate) fn write_guest(self, machine: &mut Machine, frame: u64) {
        for number in (0..GUEST_BLOCKS).filter(|_| self == Self::Guest) {
            machine.store(0, frame + 8 * number, number << 30 | GUEST_BLOCK);
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::El1 => "EL1&0",
            Self::El2 => "EL2",
            Self::El2And0 => "EL2&0",
            Self::Stage2 => "stage 2 alone",
            Self::Guest => "stage 2 beneath stage 1",
        })
    }
}

/// Widths and start levels of stage 2 that are tried: one table, several side by side, the widest.
const fn stage2_shapes(size: PageSize, layout: Layout) -> &'static [(u32, Level)] {
    match (size, layout) {
        (PageSize::Size4K, Layout::Bits48) => {
            &[(40, Level::L1), (39, Level::L1), (32, Level::L2), (48, Level::L0), (41, Level::L1)]
        }
        (PageSize::Size4K, _) => &[(52, Level::MINUS_1), (42, Level::L1), (48, Level::L0), (49, Level::L0)],
        (PageSize::Size16K, Layout::Bits48) => &[(48, Level::L1), (42, Level::L1), (37, Level::L2)],
        (PageSize::Size16K, _) => &[(52, Level::L0), (48, Level::L1)],
        (PageSize::Size64K, Layout::Bits48) => &[(42, Level::L2), (48, Level::L1)],
        (PageSize::Size64K, _) => &[(52, Level::L1), (48, Level::L1)],
    }
}

impl Parameters {
    /// The same in another setting, as far as it has what they say; `choice` chooses a shape of stage 2.
    pub fn in_setting(mut self, setting: Setting, choice: u64) -> Self {
        self.setting = setting;
        if !setting.has_el0() {
            (self.half, self.is_global) = (AddressHalf::Lower, true);
        }
        if setting.is_stage2() {
            let shapes = stage2_shapes(self.page_size, self.layout);
            let (input_bits, start) = shapes[choice as usize % shapes.len()];
            (self.input_bits, self.start) = (input_bits, Some(start));
        }
        self
    }

    /// Registers that say how to translate, in the order in which they are written.
    pub(crate) fn controls(&self) -> Vec<(Register, u64)> {
        match self.setting {
            Setting::El1 => vec![(Register::MairEl1, MAIR), (Register::TcrEl1, self.tcr())],
            Setting::El2 => vec![(Register::MairEl2, MAIR), (Register::TcrEl2, self.el2_tcr())],
            Setting::El2And0 => {
                vec![(Register::HcrEl2, HCR_E2H | HCR_TGE), (Register::MairEl2, MAIR), (Register::TcrEl2, self.tcr())]
            }
            Setting::Stage2 => vec![(Register::VtcrEl2, self.vtcr())],
            Setting::Guest => vec![
                (Register::VtcrEl2, self.vtcr()),
                (Register::MairEl1, MAIR),
                (Register::TcrEl1, GUEST_TCR),
                (Register::Ttbr0El1, 1 << 48),
            ],
        }
    }

    /// Registers that switch translation on, an ISB after each.
    pub(crate) fn switches(&self) -> Vec<(Register, u64)> {
        match self.setting {
            Setting::El1 => vec![(Register::SctlrEl1, SCTLR_M)],
            Setting::El2 | Setting::El2And0 => vec![(Register::SctlrEl2, SCTLR_M)],
            Setting::Stage2 => vec![(Register::HcrEl2, HCR_VM)],
            Setting::Guest => vec![(Register::HcrEl2, HCR_VM), (Register::SctlrEl1, SCTLR_M)],
        }
    }

    /// Registers that lead to the table at `root`, tagged with an ASID or VMID.
    pub(crate) fn roots(&self, root: u64, tag: u16) -> Vec<(Register, u64)> {
        let asid = u64::from(tag) << 48;
        let two = |lower, upper| match self.half {
            AddressHalf::Lower => vec![(lower, asid | root), (upper, 0)],
            AddressHalf::Upper => vec![(lower, asid), (upper, root)],
        };
        match self.setting {
            Setting::El1 => two(Register::Ttbr0El1, Register::Ttbr1El1),
            Setting::El2And0 => two(Register::Ttbr0El2, Register::Ttbr1El2),
            Setting::El2 => vec![(Register::Ttbr0El2, root)],
            Setting::Stage2 | Setting::Guest => {
                vec![(Register::VttbrEl2, encode_vttbr(self.layout, PhysAddr::new(root), tag, false))]
            }
        }
    }

    /// The tag that `cpu` walks the page table with. CPUs differ in their ASIDs where the table is global.
    pub(crate) fn tag(&self, cpu: u8) -> u16 {
        match self.setting.is_stage2() {
            true => VMID,
            false if self.is_global => u16::from(cpu) + 1,
            false => ASID,
        }
    }

    /// The field for 48 or 52 bits of output.
    const fn output_range(&self) -> u8 {
        if matches!(self.layout, Layout::Bits48) { 5 } else { 6 }
    }

    fn vtcr(&self) -> u64 {
        let control = Stage2Control {
            input_bits: self.input_bits,
            start: self.start.unwrap_or(Level::L1),
            page_size: self.page_size,
            output_range: self.output_range(),
            has_wide_vmids: true,
            sets_access_flag: self.hardware.0,
            manages_dirty_state: self.hardware.1,
            is_lpa2: self.layout == Layout::Lpa2,
        };
        control.encode().unwrap_or_default()
    }

    fn el2_tcr(&self) -> u64 {
        El2Control {
            input_bits: self.input_bits,
            page_size: self.page_size,
            output_range: self.output_range(),
            sets_access_flag: self.hardware.0,
            manages_dirty_state: self.hardware.1,
            is_lpa2: self.layout == Layout::Lpa2,
        }
        .encode()
    }
}
