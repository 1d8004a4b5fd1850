//! In which regime a scenario happens: which TLBIs mean it, and who looks through its tables.
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
use machine::registers::{HCR_E2H, HCR_TGE, Register};

/// The VMID of the guest.
pub const VMID: u16 = 0x5a;
/// A block of 1 GiB of the guest: accessed, inner shareable, for EL1 alone.
const GUEST_BLOCK: u64 = 1 << 10 | 3 << 8 | 0b01;
/// How many of them there are: more than any region lies beyond. At 64K each lies 16 GiB after the one before, and at 16K a
/// larger part 64 GiB.
const GUEST_BLOCKS: u64 = 256;

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
