//! The machine as lines of text for people: what was detected.

use core::fmt;

use super::description::{
    Conduit, Cpu, EnableMethod, InterruptController, MachineDescription, Psci, PsciVersion, Reservation, Status,
};
use crate::range::Bytes;
use crate::text::Text;

/// A line for each thing that is known, its name in the first column.
impl fmt::Display for MachineDescription<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for bank in self.banks.iter() {
            writeln!(f, "{:<10}{bank}{:>9}", "memory", Bytes(bank.size_bytes()))?;
        }
        for entry in self.reservations.iter() {
            writeln!(f, "{:<10}{entry}", "reserved")?;
        }
        if let Some(initrd) = self.initrd {
            writeln!(f, "{:<10}{initrd}{:>9}", "initrd", Bytes(initrd.size_bytes()))?;
        }
        for cpu in self.cpus.iter() {
            writeln!(f, "{:<10}{cpu}", "cpu")?;
        }
        if let Some(psci) = self.psci {
            writeln!(f, "{:<10}{psci}", "psci")?;
        }
        if let Some(controller) = self.interrupt_controller {
            writeln!(f, "{:<10}{controller}", "gic")?;
        }
        let timer = self.timer;
        let (physical, virtual_) = (timer.physical_interrupt, timer.virtual_interrupt);
        writeln!(f, "{:<10}interrupts {physical} (non-secure EL1 physical) and {virtual_} (virtual)", "timer")?;
        if let Some(console) = self.console {
            writeln!(f, "{:<10}{}  {}", "console", console.registers, console.compatible)?;
        }
        writeln!(f, "{:<10}{:#}", "arguments", Text::new(self.bootargs))
    }
}

impl fmt::Display for Reservation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:>9}", self.range, Bytes(self.range.size_bytes()))?;
        if !self.name.0.is_empty() {
            write!(f, "  {}", self.name)?;
        }
        f.write_str(if self.no_map { ", no-map" } else { "" })
    }
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = match self.enable_method {
            EnableMethod::Psci => "started by psci",
            EnableMethod::Other => "by no method we know",
        };
        let status = match self.status {
            Status::Okay => "",
            Status::Disabled => ", disabled",
        };
        write!(f, "affinity {:#x}, {method}{status}", self.affinity)
    }
}

impl fmt::Display for Psci {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = match self.version {
            PsciVersion::V0_1 => "0.1",
            PsciVersion::V0_2 => "0.2",
            PsciVersion::V1_0 => "1.0 or later",
        };
        let conduit = match self.conduit {
            Conduit::Hvc => "hvc",
            Conduit::Smc => "smc",
        };
        write!(f, "version {version}, by {conduit}, CPU_ON {:#x}", self.cpu_on)
    }
}

impl fmt::Display for InterruptController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GicV2 { distributor, cpu_interface } => {
                write!(f, "version 2, distributor {distributor}, CPU interface {cpu_interface}")
            }
            Self::GicV3 { distributor, redistributors, redistributor_stride } => {
                write!(f, "version 3, distributor {distributor}, redistributors")?;
                for region in redistributors.iter() {
                    write!(f, " {region}")?;
                }
                match redistributor_stride {
                    Some(stride) => write!(f, ", {} apart", Bytes(*stride)),
                    None => Ok(()),
                }
            }
        }
    }
}
