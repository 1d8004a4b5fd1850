//! Statements that load and store.

use a64::instruction::{Address, General, Instruction, Operand, Operation, Ordering, Width, WriteBack};

use super::operands::{address, immediate, register};

const PLAIN: Ordering = Ordering { is_acquire: false, is_release: false };
const ACQUIRE: Ordering = Ordering { is_acquire: true, is_release: false };
const RELEASE: Ordering = Ordering { is_acquire: false, is_release: true };

/// LDR, STLR, LDXR, LDP, SWP and their kin.
pub(super) fn parse(mnemonic: &str, operands: &[&str]) -> Option<Instruction> {
    single(mnemonic, operands).or_else(|| pair(mnemonic, operands)).or_else(|| atomic(mnemonic, operands))
}

/// The name without `B` or `H` for bytes and halfwords, and how wide its access is.
fn narrow(mnemonic: &str, width: Width) -> (&str, Width) {
    match (mnemonic.strip_suffix('B'), mnemonic.strip_suffix('H')) {
        (Some(name), _) => (name, Width::Byte),
        (_, Some(name)) => (name, Width::Half),
        _ => (mnemonic, width),
    }
}

/// `[X1,#8]`, `[X1,#8]!`, `[X1],#8`, and how many operands that are.
fn with_write_back(operands: &[&str]) -> Option<(Address, usize)> {
    let (last, before) = operands.split_last()?;
    if let (Some(base), Some(offset)) = (before.last().and_then(|base| address(base)), immediate(last)) {
        return Some((Address { offset: Operand::Immediate(offset), write_back: WriteBack::After, ..base }, 2));
    }
    match last.strip_suffix('!') {
        Some(text) => Some((Address { write_back: WriteBack::Before, ..address(text)? }, 1)),
        None => Some((address(last)?, 1)),
    }
}

fn single(mnemonic: &str, operands: &[&str]) -> Option<Instruction> {
    let (address, used) = with_write_back(operands)?;
    let registers = &operands[..operands.len() - used];
    let (to, width) = register(registers.first()?)?;
    let (name, width) = narrow(mnemonic, width);
    let is_plain = address.write_back == WriteBack::No;
    let load = |ordering, is_exclusive| Some(Instruction::Load { to, address, width, ordering, is_exclusive });
    let store = |ordering| Some(Instruction::Store { from: to, address, width, ordering });
    match (name, registers) {
        ("LDR", [_]) => load(PLAIN, false),
        ("STR", [_]) => store(PLAIN),
        ("LDUR", [_]) if is_plain => load(PLAIN, false),
        ("STUR", [_]) if is_plain => store(PLAIN),
        ("LDAR" | "LDAPR" | "LDAPUR", [_]) if is_plain => load(ACQUIRE, false),
        ("LDXR", [_]) if is_plain => load(PLAIN, true),
        ("LDAXR", [_]) if is_plain => load(ACQUIRE, true),
        ("STLR" | "STLUR", [_]) if is_plain => store(RELEASE),
        ("STXR" | "STLXR", [_, from]) if is_plain => {
            let (from, wide) = register(from)?;
            let ordering = if name == "STXR" { PLAIN } else { RELEASE };
            let width = narrow(mnemonic, wide).1;
            Some(Instruction::StoreExclusive { status: to, from, address, width, ordering })
        }
        _ => None,
    }
}

/// LDP, LDNP, LDXP and their kin. No store of a pair is exclusive here, so that no load of one need be.
fn pair(mnemonic: &str, operands: &[&str]) -> Option<Instruction> {
    let (address, used) = with_write_back(operands)?;
    let [first, second] = operands[..operands.len() - used] else { return None };
    let ((first, width), (second, other)) = (register(first)?, register(second)?);
    let is_plain = address.write_back == WriteBack::No;
    match mnemonic {
        _ if width != other => None,
        "LDP" => Some(Instruction::LoadPair { first, second, address, width }),
        "LDNP" | "LDXP" | "LDAXP" | "LDIAPP" if is_plain => {
            Some(Instruction::LoadPair { first, second, address, width })
        }
        "STP" => Some(Instruction::StorePair { first, second, address, width }),
        "STNP" if is_plain => Some(Instruction::StorePair { first, second, address, width }),
        _ => None,
    }
}

/// SWP, CAS, LDADD and their kin, with `A` and `L` behind the name.
fn atomic(mnemonic: &str, operands: &[&str]) -> Option<Instruction> {
    let (name, operation) = ATOMICS.iter().find(|(name, _)| mnemonic.starts_with(name))?;
    let address = address(operands.last()?)?;
    let (first, whole) = register(operands.first()?)?;
    let (suffix, width) = narrow(&mnemonic[name.len()..], whole);
    let ordering = match suffix {
        "" => PLAIN,
        "A" => ACQUIRE,
        "L" => RELEASE,
        "AL" => Ordering { is_acquire: true, is_release: true },
        _ => return None,
    };
    let to = match (name.starts_with("ST"), operands) {
        (true, [_, _]) => General::ZERO,
        (false, [_, to, _]) => register(to).filter(|it| it.1 == whole)?.0,
        _ => return None,
    };
    Some(match operation {
        Some(operation) => Instruction::Atomic { operation: *operation, with: first, to, address, width, ordering },
        None => Instruction::CompareAndSwap { expected: first, new: to, address, width, ordering },
    })
}

const ATOMICS: &[(&str, Option<Operation>)] = &[
    ("SWP", Some(Operation::Second)),
    ("CAS", None),
    ("LDADD", Some(Operation::Add)),
    ("LDCLR", Some(Operation::Clear)),
    ("LDSET", Some(Operation::Or)),
    ("LDEOR", Some(Operation::ExclusiveOr)),
    ("STADD", Some(Operation::Add)),
    ("STCLR", Some(Operation::Clear)),
    ("STSET", Some(Operation::Or)),
    ("STEOR", Some(Operation::ExclusiveOr)),
];
