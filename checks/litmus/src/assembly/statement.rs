//! One statement: a mnemonic and its operands.

use a64::instruction::{Cache, General, Instruction, Operand, Operation, Ordering, When};
use a64::registers::System;
use machine::event::Level;

use super::names;
use super::operands::{address, either, immediate, register};

type Find<'a> = &'a dyn Fn(&str) -> Option<u64>;

/// Decodes one statement; `label` finds addresses.
pub(super) fn parse(text: &str, label: Find<'_>) -> Result<Instruction, String> {
    let (mnemonic, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let (mnemonic, suffix) = mnemonic.split_once('.').unwrap_or((mnemonic, ""));
    let mnemonic = mnemonic.to_ascii_uppercase();
    let operands = split(rest);
    let operands: Vec<&str> = if suffix.is_empty() { operands } else { [vec![suffix], operands].concat() };
    let parsed = match mnemonic.as_str() {
        "TLBI" => return tlbi(&operands),
        "MRS" | "MSR" => return system(&mnemonic, &operands),
        "B" | "CBZ" | "CBNZ" | "ADR" => return jump(&mnemonic, &operands, label),
        "DSB" | "DMB" | "ISB" | "NOP" | "DC" | "IC" | "SVC" | "HVC" | "ERET" => other(&mnemonic, &operands),
        "CSEL" | "CSET" | "CSINC" => select(&mnemonic, &operands),
        _ => memory(&mnemonic, &operands).or_else(|| compute(&mnemonic, &operands)),
    };
    parsed.ok_or_else(|| format!("`{}` is no instruction that is known here", text.trim()))
}

/// Operands, apart at commas outside brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = text[start..].trim();
    if !last.is_empty() || !parts.is_empty() {
        parts.push(last);
    }
    parts
}

fn tlbi(operands: &[&str]) -> Result<Instruction, String> {
    let (name, operand) = match operands {
        [name] => (name, Some(General::ZERO)),
        [name, operand] => (name, register(operand).map(|it| it.0)),
        _ => return Err("TLBI has a name and at most one register".to_owned()),
    };
    let opcode = names::tlbi(&name.to_ascii_uppercase()).ok_or_else(|| format!("no TLBI is called `{name}`"))?;
    let operand = operand.ok_or_else(|| format!("the operand of TLBI {name} is no register"))?;
    Ok(Instruction::Tlbi { opcode, operand })
}

fn system(mnemonic: &str, operands: &[&str]) -> Result<Instruction, String> {
    let &[first, second] = operands else { return Err(format!("{mnemonic} has two operands")) };
    let (name, general) = if mnemonic == "MRS" { (second, first) } else { (first, second) };
    let system = System::named(name);
    let system = system.ok_or_else(|| format!("system register `{name}` is not known here"))?;
    let (general, _) = register(general).ok_or_else(|| format!("`{general}` is no register"))?;
    Ok(match mnemonic {
        "MRS" => Instruction::ReadSystem { to: general, register: system },
        _ => Instruction::WriteSystem { register: system, from: general },
    })
}

fn jump(mnemonic: &str, operands: &[&str], label: Find<'_>) -> Result<Instruction, String> {
    let wrong = || format!("the operands of {mnemonic} are not understood");
    let find = |name: &str| label(name).ok_or_else(|| format!("label `{name}` is not defined"));
    match (mnemonic, operands) {
        ("B", [target]) => Ok(Instruction::Branch { when: When::Always, target: find(target)? }),
        ("B", [flag, target]) => {
            let flag = names::flag(&flag.to_ascii_uppercase()).ok_or_else(wrong)?;
            Ok(Instruction::Branch { when: When::Flag(flag), target: find(target)? })
        }
        ("ADR", [to, target]) => {
            Ok(Instruction::Locate { to: register(to).ok_or_else(wrong)?.0, address: find(target)? })
        }
        ("CBZ" | "CBNZ", [tested, target]) => {
            let (tested, width) = register(tested).ok_or_else(wrong)?;
            let when = if mnemonic == "CBZ" { When::Zero(tested, width) } else { When::NotZero(tested, width) };
            Ok(Instruction::Branch { when, target: find(target)? })
        }
        _ => Err(wrong()),
    }
}

fn other(mnemonic: &str, operands: &[&str]) -> Option<Instruction> {
    match (mnemonic, operands) {
        ("DSB" | "DMB", [name]) => {
            names::barrier(mnemonic == "DSB", &name.to_ascii_uppercase()).map(Instruction::Barrier)
        }
        ("ISB", [] | ["SY" | "sy"]) => Some(Instruction::Barrier(machine::barrier::Barrier::Isb)),
        ("NOP", []) => Some(Instruction::Nothing),
        ("DC" | "IC", [name, operand]) => {
            let name = format!("{mnemonic} {}", name.to_ascii_uppercase());
            let (_, operation) = Cache::ALL.into_iter().find(|it| it.0 == name)?;
            Some(Instruction::Cache { operation, operand: register(operand)?.0 })
        }
        ("SVC", [number]) => {
            Some(Instruction::Call { level: Level::El1, number: u16::try_from(immediate(number)?).ok()? })
        }
        ("HVC", [number]) => {
            Some(Instruction::Call { level: Level::El2, number: u16::try_from(immediate(number)?).ok()? })
        }
        ("ERET", []) => Some(Instruction::Return),
        _ => None,
    }
}

fn select(mnemonic: &str, operands: &[&str]) -> Option<Instruction> {
    let flag = names::flag(&operands.last()?.to_ascii_uppercase())?;
    let (to, width) = register(operands.first()?)?;
    match (mnemonic, operands) {
        ("CSEL" | "CSINC", [_, yes, no, _]) => {
            let (yes, no) = (register(yes)?.0, register(no)?.0);
            Some(Instruction::Select { to, yes, no, adds: u64::from(mnemonic == "CSINC"), flag, width })
        }
        // CSET is CSINC of the zero register, with the condition turned round.
        ("CSET", [_, _]) => {
            let (yes, no) = (General::ZERO, General::ZERO);
            Some(Instruction::Select { to, yes, no, adds: 1, flag: flag.inverted(), width })
        }
        _ => None,
    }
}

fn compute(mnemonic: &str, operands: &[&str]) -> Option<Instruction> {
    let (name, sets_flags) = match mnemonic {
        "ADDS" | "SUBS" | "ANDS" | "BICS" => (&mnemonic[..3], true),
        "CMP" | "TST" => (mnemonic, true),
        _ => (mnemonic, false),
    };
    let (to, width) = register(operands.first()?)?;
    let make =
        |operation, to, left, right| Some(Instruction::Compute { operation, to, left, right, width, sets_flags });
    match (name, operands) {
        ("MOV" | "MOVZ", [_, right]) => make(Operation::Second, to, General::ZERO, either(right)?),
        ("CMP", [_, right]) => make(Operation::Subtract, General::ZERO, to, either(right)?),
        ("TST", [_, right]) => make(Operation::And, General::ZERO, to, either(right)?),
        (_, [_, left, right]) => make(operation(name)?, to, register(left)?.0, either(right)?),
        (_, [_, left, right, shift]) => make(operation(name)?, to, register(left)?.0, shifted(right, shift)?),
        _ => None,
    }
}

fn operation(name: &str) -> Option<Operation> {
    Some(match name {
        "ADD" => Operation::Add,
        "SUB" => Operation::Subtract,
        "AND" => Operation::And,
        "ORR" => Operation::Or,
        "EOR" => Operation::ExclusiveOr,
        "BIC" => Operation::Clear,
        "LSL" => Operation::ShiftLeft,
        "LSR" => Operation::ShiftRight,
        _ => return None,
    })
}

/// `X1, LSL #3`, `W1, SXTW`.
fn shifted(text: &str, modifier: &str) -> Option<Operand> {
    address(&format!("[X0,{text},{modifier}]")).map(|it| it.offset)
}

fn memory(mnemonic: &str, operands: &[&str]) -> Option<Instruction> {
    let at = address(operands.last()?)?;
    let (first, width) = register(operands.first()?)?;
    let plain = Ordering::default();
    let acquire = Ordering { is_acquire: true, is_release: false };
    let release = Ordering { is_acquire: false, is_release: true };
    let load =
        |ordering, is_exclusive| Some(Instruction::Load { to: first, address: at, width, ordering, is_exclusive });
    let exclusive = |ordering| match operands {
        [_, from, _] => {
            let (from, width) = register(from)?;
            Some(Instruction::StoreExclusive { status: first, from, address: at, width, ordering })
        }
        _ => None,
    };
    match (mnemonic, operands.len()) {
        ("LDR", 2) => load(plain, false),
        ("LDAR" | "LDAPR", 2) => load(acquire, false),
        ("LDXR", 2) => load(plain, true),
        ("LDAXR", 2) => load(acquire, true),
        ("STR", 2) => Some(Instruction::Store { from: first, address: at, width, ordering: plain }),
        ("STLR", 2) => Some(Instruction::Store { from: first, address: at, width, ordering: release }),
        ("STXR", 3) => exclusive(plain),
        ("STLXR", 3) => exclusive(release),
        _ => atomic(mnemonic, operands),
    }
}

/// SWP, CAS, LDADD and their kin, with `A` and `L` behind the name.
fn atomic(mnemonic: &str, operands: &[&str]) -> Option<Instruction> {
    let (name, operation) = ATOMICS.iter().find(|(name, _)| mnemonic.starts_with(name))?;
    let ordering = match &mnemonic[name.len()..] {
        "" => Ordering::default(),
        "A" => Ordering { is_acquire: true, is_release: false },
        "L" => Ordering { is_acquire: false, is_release: true },
        "AL" => Ordering { is_acquire: true, is_release: true },
        _ => return None,
    };
    let address = address(operands.last()?)?;
    let (first, width) = register(operands.first()?)?;
    let to = match (name.starts_with("ST"), operands) {
        (true, [_, _]) => General::ZERO,
        (false, [_, to, _]) => register(to).filter(|it| it.1 == width)?.0,
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
