//! Instructions that access memory: where, and what they do once that is translated.

use machine::machine::Machine;
use machine::syndrome::AccessKind;

use super::core::{Core, compute};
use super::step::State;
use crate::instruction::{Address, Instruction, Ordering, Width};

/// The virtual address that `instruction` accesses, and how; `None` if it accesses none.
pub(super) fn target(core: &Core, instruction: &Instruction) -> Option<(u64, AccessKind)> {
    let at = |address: &Address| core.general(address.base).wrapping_add(core.operand(&address.offset));
    match instruction {
        Instruction::Load { address, .. } => Some((at(address), AccessKind::Read)),
        Instruction::Store { address, .. }
        | Instruction::StoreExclusive { address, .. }
        | Instruction::Atomic { address, .. }
        | Instruction::CompareAndSwap { address, .. } => Some((at(address), AccessKind::Write)),
        _ => None,
    }
}

/// Performs `instruction` at the `physical` address.
pub(super) fn perform(state: &mut State, cpu: usize, instruction: &Instruction, physical: u64) {
    let (machine, core, number) = (&mut state.machine, &mut state.cores[cpu], cpu as u8);
    match *instruction {
        Instruction::Load { to, width, is_exclusive, .. } => {
            let value = load(machine, number, physical, width);
            core.set_general(to, width, value);
            if is_exclusive {
                core.exclusive = Some(physical);
            }
        }
        Instruction::Store { from, width, ordering, .. } => {
            store(machine, number, physical, width, core.general(from), ordering);
        }
        Instruction::StoreExclusive { status, from, width, ordering, .. } => {
            let is_held = core.exclusive.take() == Some(physical);
            core.set_general(status, Width::Word, u64::from(!is_held));
            if is_held {
                store(machine, number, physical, width, core.general(from), ordering);
            }
        }
        Instruction::Atomic { operation, with, to, width, ordering, .. } => {
            let old = load(machine, number, physical, width);
            let new = compute(operation, old, core.general(with), width);
            swap(machine, number, physical, width, new, ordering);
            core.set_general(to, width, old);
        }
        Instruction::CompareAndSwap { expected, new, width, .. } => {
            let old = load(machine, number, physical, width);
            if old == core.general(expected) & width.mask() {
                let (was, word) = (machine.word(physical & !7), merged(machine, physical, width, core.general(new)));
                // It finds what was just loaded.
                let _ = machine.compare_exchange(number, physical & !7, was, word);
            }
            core.set_general(expected, width, old);
        }
        _ => {}
    }
    core.go_on();
    let is_write = !matches!(instruction, Instruction::Load { .. });
    for (other, core) in state.cores.iter_mut().enumerate() {
        if is_write && other != cpu && core.exclusive.is_some_and(|held| held >> 6 == physical >> 6) {
            core.exclusive = None;
        }
    }
}

fn load(machine: &mut Machine, cpu: u8, physical: u64, width: Width) -> u64 {
    machine.load(cpu, physical & !7) >> ((physical & 7) * 8) & width.mask()
}

/// The 64-bit word around `physical` with `value` in its place.
fn merged(machine: &Machine, physical: u64, width: Width, value: u64) -> u64 {
    let shift = (physical & 7) * 8;
    let mask = width.mask() << shift;
    machine.word(physical & !7) & !mask | value << shift & mask
}

fn store(machine: &mut Machine, cpu: u8, physical: u64, width: Width, value: u64, ordering: Ordering) {
    let word = merged(machine, physical, width, value);
    if ordering.is_release {
        machine.store_release(cpu, physical & !7, word);
    } else {
        machine.store(cpu, physical & !7, word);
    }
}

fn swap(machine: &mut Machine, cpu: u8, physical: u64, width: Width, value: u64, ordering: Ordering) {
    let word = merged(machine, physical, width, value);
    if ordering.is_release {
        machine.exchange(cpu, physical & !7, word);
    } else {
        machine.store(cpu, physical & !7, word);
    }
}
