//! Instructions that access memory: where, and what they do once that is translated.

use machine::machine::Machine;
use machine::syndrome::AccessKind;

use super::core::{Core, compute};
use crate::instruction::{Address, Instruction, Ordering, Width, WriteBack};

/// An access to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Virtual address.
    pub address: u64,
    /// What it does.
    pub kind: AccessKind,
    /// Bytes.
    pub bytes: u64,
}

/// The access that `instruction` makes; `None` if it makes none.
pub(super) fn target(core: &Core, instruction: &Instruction) -> Option<Access> {
    let at = |address: &Address| match address.write_back {
        WriteBack::After => core.general(address.base),
        _ => sum(core, address),
    };
    let (address, kind, bytes) = match instruction {
        Instruction::Load { address, width, .. } => (at(address), AccessKind::Read, width.bytes()),
        Instruction::LoadPair { address, width, .. } => (at(address), AccessKind::Read, 2 * width.bytes()),
        Instruction::LoadLiteral { place, width, .. } => (*place, AccessKind::Read, width.bytes()),
        Instruction::StorePair { address, width, .. } => (at(address), AccessKind::Write, 2 * width.bytes()),
        Instruction::Store { address, width, .. }
        | Instruction::StoreExclusive { address, width, .. }
        | Instruction::Atomic { address, width, .. }
        | Instruction::CompareAndSwap { address, width, .. } => (at(address), AccessKind::Write, width.bytes()),
        _ => return None,
    };
    Some(Access { address, kind, bytes })
}

fn sum(core: &Core, address: &Address) -> u64 {
    core.general(address.base).wrapping_add(core.operand(&address.offset))
}

/// The base of an address takes the sum, where the instruction says so.
fn write_back(core: &mut Core, instruction: &Instruction) {
    if let Instruction::Load { address, .. }
    | Instruction::Store { address, .. }
    | Instruction::LoadPair { address, .. }
    | Instruction::StorePair { address, .. } = instruction
        && address.write_back != WriteBack::No
    {
        let sum = sum(core, address);
        core.set_general(address.base, Width::Double, sum);
    }
}

/// Has `cpu`, one of these cores, perform `instruction` at the `physical` address.
pub(super) fn perform(machine: &mut Machine, cores: &mut [Core], cpu: usize, instruction: &Instruction, physical: u64) {
    let (core, number) = (&mut cores[cpu], cpu as u8);
    let stored = match instruction {
        Instruction::Store { from, .. } => [core.general(*from), 0],
        Instruction::StorePair { first, second, .. } => [core.general(*first), core.general(*second)],
        _ => [0; 2],
    };
    write_back(core, instruction);
    match *instruction {
        Instruction::LoadLiteral { to, width, .. } => {
            let value = load(machine, number, physical, width);
            core.set_general(to, width, value);
        }
        Instruction::LoadPair { first, second, width, .. } => {
            let values = [physical, physical + width.bytes()].map(|at| load(machine, number, at, width));
            core.set_general(first, width, values[0]);
            core.set_general(second, width, values[1]);
        }
        Instruction::StorePair { width, .. } => {
            store(machine, number, physical, width, stored[0], Ordering::default());
            store(machine, number, physical + width.bytes(), width, stored[1], Ordering::default());
        }
        Instruction::Load { to, width, is_exclusive, .. } => {
            let value = load(machine, number, physical, width);
            core.set_general(to, width, value);
            if is_exclusive {
                core.exclusive = Some(physical);
            }
        }
        Instruction::Store { width, ordering, .. } => store(machine, number, physical, width, stored[0], ordering),
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
        Instruction::CompareAndSwap { expected, new, width, ordering, .. } => {
            let old = load(machine, number, physical, width);
            if old == core.general(expected) & width.mask() {
                let (was, word) = (machine.word(physical & !7), merged(machine, physical, width, core.general(new)));
                if ordering.is_release {
                    machine.make_release(number);
                }
                // It finds what was just loaded.
                let _ = machine.compare_exchange(number, physical & !7, was, word);
            }
            core.set_general(expected, width, old);
        }
        _ => {}
    }
    core.go_on();
    let is_load = |it: &Instruction| {
        matches!(it, Instruction::Load { .. } | Instruction::LoadPair { .. } | Instruction::LoadLiteral { .. })
    };
    let is_write = !is_load(instruction);
    for (other, core) in cores.iter_mut().enumerate() {
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
        machine.make_release(cpu);
    }
    machine.exchange(cpu, physical & !7, word);
}
