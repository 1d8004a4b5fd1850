//! Making the map of a machine: banks, then who is in them, the stronger claim last.

use vmsa::PhysAddr;

use super::{Kind, MapFull, MemoryMap, Problem};
use crate::devicetree::MachineDescription;
use crate::finding::Findings;
use crate::range::PhysicalRange;

/// What is in memory when the kernel starts, beside what the device tree tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupants {
    /// The kernel, with its zero-filled data and its boot stack.
    pub image: PhysicalRange,
    /// The device tree blob.
    pub device_tree: PhysicalRange,
}

impl MemoryMap {
    /// Fills an empty map with `machine`'s memory, and removes the initrd from `machine` if it cannot be kept.
    /// A fatal finding says that the map must not be used.
    pub fn make<'a>(
        &mut self,
        machine: &mut MachineDescription<'_>,
        occupants: &Occupants,
        findings: &mut Findings<'a>,
    ) {
        // What is wrong after something fatal follows from it, and would only hide it.
        if findings.fatal().is_some() {
            return;
        }
        if self.try_make(machine, occupants, findings) == Err(MapFull) {
            findings.push(Problem::Full);
        }
        if self.forgotten_bytes > 0 {
            findings.push(Problem::Forgotten { bytes: self.forgotten_bytes });
        }
        if self.bytes(|kind| kind == Kind::Free) == 0 {
            findings.push(Problem::NothingFree);
        }
    }

    fn try_make<'a>(
        &mut self,
        machine: &mut MachineDescription<'_>,
        occupants: &Occupants,
        findings: &mut Findings<'a>,
    ) -> Result<(), MapFull> {
        for bank in machine.banks.iter() {
            self.insert(*bank, Kind::Free)?;
        }
        self.mark_reservations(machine, false)?;
        if let Some(initrd) = machine.initrd {
            self.mark(initrd, Kind::Initrd)?;
        }
        let blob = (Kind::DeviceTree, occupants.device_tree);
        self.mark(blob.1, blob.0)?;
        self.mark_reservations(machine, true)?;
        self.mark(occupants.image, Kind::Image)?;
        for (kind, range) in [blob, (Kind::Image, occupants.image)] {
            if !machine.has_memory(&range) {
                findings.push(Problem::NotInMemory { kind, range });
            }
            let mut no_map = machine.reservations.iter().filter(|entry| entry.no_map);
            if no_map.any(|entry| entry.range.overlaps(&range)) {
                findings.push(Problem::MustNotBeMapped { kind, range });
            }
        }
        self.check_initrd(machine, findings)
    }

    fn mark_reservations(&mut self, machine: &MachineDescription<'_>, no_map: bool) -> Result<(), MapFull> {
        for entry in machine.reservations.iter().filter(|entry| entry.no_map == no_map) {
            self.mark(entry.range, Kind::Reserved { no_map })?;
        }
        Ok(())
    }

    /// An initrd that lost a part to a stronger claim is none.
    fn check_initrd<'a>(
        &mut self,
        machine: &mut MachineDescription<'_>,
        findings: &mut Findings<'a>,
    ) -> Result<(), MapFull> {
        let Some(initrd) = machine.initrd else { return Ok(()) };
        let overlapping = |piece: &&super::Piece| piece.kind != Kind::Initrd && piece.range.overlaps(&initrd);
        let Some(other) = self.pieces.iter().find(overlapping).map(|piece| piece.kind) else { return Ok(()) };
        findings.push(Problem::InitrdOverlaps { initrd, other });
        machine.initrd = None;
        // Its remains stay untouched: whoever put it there may have meant it for them.
        Ok(())
    }

    /// Gives up memory at and above `limit`, which the CPUs' physical addresses or the linear map do not reach.
    pub fn keep_below<'a>(
        &mut self,
        limit: PhysAddr,
        machine: &mut MachineDescription<'_>,
        findings: &mut Findings<'a>,
    ) {
        for piece in self.pieces.iter().filter(|piece| piece.range.end > limit) {
            let (kind, range) = (piece.kind, piece.range);
            if matches!(kind, Kind::Image | Kind::DeviceTree | Kind::Initrd) {
                findings.push(Problem::PartOutOfReach { kind, range, limit });
            }
        }
        match self.clip(limit) {
            Err(MapFull) => findings.push(Problem::Full),
            Ok(0) => return,
            Ok(bytes) => findings.push(Problem::OutOfReach { bytes, limit }),
        }
        machine.initrd = machine.initrd.filter(|initrd| initrd.end <= limit);
        if self.bytes(|kind| kind == Kind::Free) == 0 {
            findings.push(Problem::NothingFree);
        }
    }
}
