//! How a kernel reads the instruction that a program faulted by, without a lock: one step asks the MMU, another one loads, and in between
//! the page may go, and its frame be somebody else's.

use std::sync::Arc;

use machine::machine::Outcome;
use machine::syndrome::{AccessKind, FaultKind};
use userspace::Text;
use vmsa::PhysAddr;

use super::board::{Board, Turn};

/// LDADD W0, W1, \[X2\]: what programs write.
pub(super) const ATOMIC: u64 = 0xb820_0041;

/// The way of whoever has the turn.
pub(super) struct OfBoard<'b> {
    pub(super) board: &'b Arc<Board>,
    /// Whether a read of a program's may reach this address.
    pub(super) is_sound: &'b dyn Fn(&Turn, u64) -> bool,
}

impl Text for OfBoard<'_> {
    fn translate(&self, address: u64) -> Option<PhysAddr> {
        self.board.step(|turn, cpu| {
            let mut ways = turn.machine.ways(cpu, address, AccessKind::Read);
            // AT is made again then, by a CPU that has forgotten everything.
            ways.retain(|way| !matches!(way.outcome, Outcome::Fault(fault) if fault.kind == FaultKind::Conflict));
            for way in &ways {
                if let Outcome::Translated(output) = way.outcome
                    && !(self.is_sound)(turn, output)
                {
                    turn.fail(format!("AT of {address:#x} may lead to {output:#x}, which is nobody's"));
                }
            }
            let way = if ways.is_empty() { return None } else { *turn.seed.pick(&ways) };
            if let Some(update) = &way.update {
                turn.machine.update_by_hardware(cpu, update);
            }
            match way.outcome {
                Outcome::Translated(output) => Some(PhysAddr::new(output)),
                Outcome::Fault(_) => None,
            }
        })
    }

    fn load(&self, at: PhysAddr) -> Option<u32> {
        self.board.step(|turn, cpu| Some(turn.machine.load(cpu, at.bits()) as u32))
    }
}
