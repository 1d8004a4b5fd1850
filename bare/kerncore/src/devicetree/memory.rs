//! Banks of memory, what is reserved in them, and the initial RAM disk.

use vmsa::PhysAddr;

use crate::finding::Findings;
use crate::list::Full;
use crate::range::PhysicalRange;
use crate::text::Text;

use super::blob::Blob;
use super::cells::Cells;
use super::description::{MachineDescription, Reservation};
use super::problem::Problem;
use super::walk::Node;

/// Whether a child of the root with this name and `device_type` is memory: by its type, or by its name if it has none.
pub(super) fn is_memory(name: Text<'_>, device_type: Option<&[u8]>) -> bool {
    match device_type {
        Some(device_type) => device_type == b"memory\0",
        None => name.0.split(|&byte| byte == b'@').next() == Some(b"memory"),
    }
}

/// Takes the banks of a memory node.
pub(super) fn read_memory<'a>(node: &Node<'a>, machine: &mut MachineDescription<'a>, findings: &mut Findings<'a>) {
    let reg = node.reg();
    if !reg.is_some_and(|reg| reg.is_whole()) {
        let expected = "pairs of address and size of at most 64 bits";
        let instead = "only the whole ones before the first bad one are used";
        findings.push(Problem::BadProperty { node: node.name, property: "reg", expected, instead });
    }
    for (address, size) in reg.into_iter().flatten() {
        let bank = PhysicalRange::from_size(PhysAddr::new(address), size);
        if size == 0 {
            findings.push(Problem::EmptyBank { address });
        } else if bank.size_bytes() != size {
            findings.push(Problem::BankBeyond { address, size });
        }
        if !bank.is_empty() {
            add_bank(bank, machine, findings);
        }
    }
}

/// Puts a bank in its place, made one with every bank it overlaps.
fn add_bank<'a>(mut bank: PhysicalRange, machine: &mut MachineDescription<'a>, findings: &mut Findings<'a>) {
    while let Some(index) = machine.banks.iter().position(|other| other.overlaps(&bank)) {
        let other = machine.banks.remove(index);
        findings.push(Problem::BanksOverlap { bank, other });
        bank = PhysicalRange::new(bank.start.min(other.start), bank.end.max(other.end));
    }
    let index = machine.banks.partition_point(|other| other.start < bank.start);
    if let Err(Full) = machine.banks.insert(index, bank) {
        findings.push(Problem::TooManyBanks { bank });
    }
}

/// Takes the entries of the reservation block, which an entry of two zeros ends.
pub(super) fn read_reservation_block<'a>(
    blob: &Blob<'a>,
    machine: &mut MachineDescription<'a>,
    findings: &mut Findings<'a>,
) {
    for (address, size) in blob.reservations() {
        if (address, size) == (0, 0) {
            return;
        }
        let entry = Reservation {
            range: PhysicalRange::from_size(PhysAddr::new(address), size),
            no_map: false,
            name: Text(&[]),
        };
        // Without its end the list runs on through other blocks of the blob; the first entry too many stops that.
        if reserve(entry, machine, findings).is_err() {
            return;
        }
    }
    findings.push(Problem::UnterminatedReservations);
}

/// Takes a child of `/reserved-memory`. Its addresses are the CPU's, as the standard wants that node's `ranges` empty.
pub(super) fn read_reservation<'a>(node: &Node<'a>, machine: &mut MachineDescription<'a>, findings: &mut Findings<'a>) {
    if !node.is_enabled() {
        return;
    }
    let reg = node.reg();
    if !reg.is_some_and(|reg| reg.is_whole()) {
        // Memory that is to be placed by us, but of which no driver of ours asks anything, needs no place.
        let is_dynamic = reg.is_none() && node.property("size").is_some();
        let expected = "pairs of address and size of at most 64 bits";
        let instead = "only the whole ones before the first bad one are reserved";
        if !is_dynamic {
            findings.push(Problem::BadProperty { node: node.name, property: "reg", expected, instead });
        }
    }
    let no_map = node.property("no-map").is_some();
    for (address, size) in reg.into_iter().flatten() {
        let range = PhysicalRange::from_size(PhysAddr::new(address), size);
        if reserve(Reservation { range, no_map, name: node.name }, machine, findings).is_err() {
            return;
        }
    }
}

fn reserve<'a>(
    entry: Reservation<'a>,
    machine: &mut MachineDescription<'a>,
    findings: &mut Findings<'a>,
) -> Result<(), Full> {
    if entry.range.is_empty() {
        return Ok(());
    }
    machine.reservations.push(entry).inspect_err(|Full| findings.push(Problem::TooManyReservations { at: entry.range }))
}

/// Takes the initial RAM disk, once all banks are known.
pub(super) fn read_initrd<'a>(chosen: &Node<'a>, machine: &mut MachineDescription<'a>, findings: &mut Findings<'a>) {
    let ends = ["linux,initrd-start", "linux,initrd-end"];
    let values = ends.map(|name| chosen.property(name));
    if values == [None, None] {
        return;
    }
    let [start, end] = values.map(|value| Cells(value.unwrap_or(&[])).number());
    let (Some(start), Some(end)) = (start, end) else {
        let property = ends[usize::from(start.is_some())];
        let expected = "an address of one or two cells, beside its other end";
        let instead = "the initrd is ignored";
        return findings.push(Problem::BadProperty { node: chosen.name, property, expected, instead });
    };
    let initrd = PhysicalRange::new(PhysAddr::new(start), PhysAddr::new(end));
    if end <= start {
        findings.push(Problem::InitrdReversed { start, end });
    } else if initrd.size_bytes() != end - start || !machine.has_memory(&initrd) {
        findings.push(Problem::InitrdOutside { start, end });
    } else {
        machine.initrd = Some(initrd);
    }
}
