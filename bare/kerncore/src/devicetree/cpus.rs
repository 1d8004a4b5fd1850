//! The CPUs, and the firmware that starts them.

use crate::finding::Findings;

use super::cells::{Cells, string};
use super::description::{Conduit, Cpu, EnableMethod, MachineDescription, Psci, PsciVersion, Status};
use super::problem::Problem;
use super::walk::Node;

/// Aff3 and Aff2 to Aff0 of MPIDR_EL1; the bits between say other things.
const AFFINITY: u64 = 0xff_00ff_ffff;

/// Takes a child of `/cpus`; returns whether it is a CPU that would work. Tables such as `cpu-map` are none.
pub(super) fn read_cpu<'a>(node: &Node<'a>, machine: &mut MachineDescription<'a>, findings: &mut Findings<'a>) -> bool {
    let is_cpu = match node.property("device_type") {
        Some(device_type) => device_type == b"cpu\0",
        None => node.name.0.starts_with(b"cpu@"),
    };
    let status = match node.property("status") {
        None | Some(b"okay\0" | b"ok\0") => Status::Okay,
        Some(b"disabled\0") => Status::Disabled,
        Some(_) => return false,
    };
    if !is_cpu {
        return false;
    }
    let affinity = node.property("reg").and_then(|reg| Cells(reg).take(node.counts.address));
    let Some(affinity) = affinity.filter(|affinity| affinity & !AFFINITY == 0 && node.counts.address > 0) else {
        let expected = "the affinity fields of MPIDR_EL1";
        findings.push(Problem::BadProperty {
            node: node.name,
            property: "reg",
            expected,
            instead: "this CPU stays off",
        });
        return false;
    };
    if machine.cpus.iter().any(|cpu| cpu.affinity == affinity) {
        findings.push(Problem::DuplicateCpu { node: node.name, affinity });
        return false;
    }
    let is_psci = node.property("enable-method").is_some_and(|method| string(method) == *"psci");
    let enable_method = if is_psci { EnableMethod::Psci } else { EnableMethod::Other };
    // A full list is found by the count that the caller keeps.
    machine.cpus.push(Cpu { affinity, enable_method, status }).ok();
    true
}

impl MachineDescription<'_> {
    /// Makes room for the CPU that booted, of this affinity, where the CPUs that were kept lack it. A tree without any CPU
    /// has been told of.
    pub fn keep_boot_cpu(&mut self, affinity: u64, findings: &mut Findings<'_>) {
        if self.cpus.is_empty() || self.cpus.iter().any(|cpu| cpu.affinity == affinity) {
            return;
        }
        findings.push(Problem::BootCpuAbsent { affinity });
        if self.cpus.room() == 0 {
            self.cpus.remove(self.cpus.len() - 1);
        }
    }
}

/// The function identifier of CPU_ON in its 64-bit form since PSCI 0.2 (Arm DEN 0022, 5.1.4).
const CPU_ON: u32 = 0xc400_0003;

/// Takes a node compatible with one of `PSCI`.
pub(super) fn read_psci<'a>(node: &Node<'a>, machine: &mut MachineDescription<'a>, findings: &mut Findings<'a>) {
    let mut bad = |property, expected| {
        findings.push(Problem::BadProperty { node: node.name, property, expected, instead: "not used" });
    };
    let conduit = match node.property("method") {
        Some(b"hvc\0") => Conduit::Hvc,
        Some(b"smc\0") => Conduit::Smc,
        _ => return bad("method", "\"hvc\" or \"smc\""),
    };
    let version = [("arm,psci-1.0", PsciVersion::V1_0), ("arm,psci-0.2", PsciVersion::V0_2)];
    let version = version.into_iter().find(|(name, _)| node.is_compatible(&[name]));
    let (version, cpu_on) = match (version, node.cell("cpu_on")) {
        (Some((_, version)), _) => (version, CPU_ON),
        (None, Some(cpu_on)) => (PsciVersion::V0_1, cpu_on),
        (None, None) => return bad("cpu_on", "a function identifier, as version 0.1 has none of its own"),
    };
    machine.psci = Some(Psci { conduit, version, cpu_on });
}

/// What a node must be compatible with for `read_psci`.
pub(super) const PSCI: &[&str] = &["arm,psci-1.0", "arm,psci-0.2", "arm,psci"];
