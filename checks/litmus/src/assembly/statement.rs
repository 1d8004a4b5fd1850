//! One statement: a mnemonic and its operands.

use a64::instruction::{Cache, General, Instruction, Operand, Operation, StateField, When};
use a64::registers::System;
use machine::event::Level;

use super::operands::{either, extension, immediate, register};
use super::{memory, names};
use crate::error::{Wrong, refused};

type Find<'a> = &'a dyn Fn(&str) -> Option<u64>;

/// Decodes one statement; `label` finds addresses.
pub(super) fn parse(text: &str, label: Find<'_>) -> Result<Instruction, Wrong> {
    let (mnemonic, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let (mnemonic, suffix) = mnemonic.split_once('.').unwrap_or((mnemonic, ""));
    let mnemonic = mnemonic.to_ascii_uppercase();
    let operands = split(rest);
    let operands: Vec<&str> = if suffix.is_empty() { operands } else { [vec![suffix], operands].concat() };
    let parsed = match mnemonic.as_str() {
        "TLBI" => return tlbi(&operands),
        "MRS" | "MSR" => return system(&mnemonic, &operands),
        "B" | "BL" | "CBZ" | "CBNZ" | "TBZ" | "TBNZ" | "ADR" => return jump(&mnemonic, &operands, label),
        "DSB" | "DMB" | "ISB" | "NOP" | "DC" | "IC" | "SVC" | "HVC" | "ERET" | "UDF" | "AT" | "BR" | "BLR" | "RET" => {
            other(&mnemonic, &operands)
        }
        "CSEL" | "CSET" | "CSINC" | "CINC" => select(&mnemonic, &operands),
        "UBFX" | "MOVK" | "MOVN" => field(&mnemonic, &operands),
        _ => memory::parse(&mnemonic, &operands).or_else(|| compute(&mnemonic, &operands)),
    };
    parsed.ok_or_else(|| {
        let text = text.trim();
        refused(format!("instruction {mnemonic}"), format!("`{text}` is no instruction that is known here"))
    })
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

fn tlbi(operands: &[&str]) -> Result<Instruction, Wrong> {
    let (name, operand) = match operands {
        [name] => (name, Some(General::ZERO)),
        [name, operand] => (name, register(operand).map(|it| it.0)),
        _ => return Err("TLBI has a name and at most one register".into()),
    };
    let opcode = names::tlbi(&name.to_ascii_uppercase())
        .ok_or_else(|| refused(format!("TLBI {name}"), format!("no TLBI is called `{name}`")))?;
    let operand = operand.ok_or_else(|| format!("the operand of TLBI {name} is no register"))?;
    Ok(Instruction::Tlbi { opcode, operand })
}

fn system(mnemonic: &str, operands: &[&str]) -> Result<Instruction, Wrong> {
    let &[first, second] = operands else { return Err(format!("{mnemonic} has two operands").into()) };
    let (name, general) = if mnemonic == "MRS" { (second, first) } else { (first, second) };
    if let ("MSR", Some(field), Some(value)) = (mnemonic, state_field(name), immediate(general)) {
        let value = u8::try_from(value).map_err(|_| format!("`{general}` is too large for {name}"))?;
        return Ok(Instruction::SetState { field, value });
    }
    let system = System::named(name).ok_or_else(|| {
        refused(format!("system register {name}"), format!("system register `{name}` is not known here"))
    })?;
    let (general, _) = register(general).ok_or_else(|| format!("`{general}` is no register"))?;
    Ok(match mnemonic {
        "MRS" => Instruction::ReadSystem { to: general, register: system },
        _ => Instruction::WriteSystem { register: system, from: general },
    })
}

fn state_field(name: &str) -> Option<StateField> {
    Some(match name.to_ascii_uppercase().as_str() {
        "SPSEL" => StateField::StackSelect,
        "DAIFSET" => StateField::Mask,
        "DAIFCLR" => StateField::Unmask,
        _ => return None,
    })
}

fn jump(mnemonic: &str, operands: &[&str], label: Find<'_>) -> Result<Instruction, Wrong> {
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
        ("TBZ" | "TBNZ", [tested, bit, target]) => {
            let (tested, _) = register(tested).ok_or_else(wrong)?;
            let bit =
                immediate(bit).and_then(|bit| u8::try_from(bit).ok()).filter(|bit| *bit < 64).ok_or_else(wrong)?;
            let when = if mnemonic == "TBZ" { When::Unset(tested, bit) } else { When::Set(tested, bit) };
            Ok(Instruction::Branch { when, target: find(target)? })
        }
        ("BL", [target]) => Ok(Instruction::BranchWithLink { target: find(target)? }),
        _ => Err(wrong().into()),
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
        ("UDF", [number]) => immediate(number).map(|_| Instruction::Undefined),
        ("AT", [name, address]) => {
            let (level, is_write) = match name.to_ascii_uppercase().as_str() {
                "S1E0R" => (Level::El0, false),
                "S1E0W" => (Level::El0, true),
                "S1E1R" => (Level::El1, false),
                "S1E1W" => (Level::El1, true),
                _ => return None,
            };
            Some(Instruction::Translate { level, is_write, address: register(address)?.0 })
        }
        ("RET", []) => Some(Instruction::BranchTo { target: General::LINK, links: false }),
        ("BR" | "BLR" | "RET", [target]) => {
            Some(Instruction::BranchTo { target: register(target)?.0, links: mnemonic == "BLR" })
        }
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
        ("CINC", [_, of, _]) => {
            let (yes, no) = (register(of)?.0, register(of)?.0);
            Some(Instruction::Select { to, yes, no, adds: 1, flag: flag.inverted(), width })
        }
        _ => None,
    }
}

/// UBFX, and 16 bits of a constant: MOVK, MOVN.
fn field(mnemonic: &str, operands: &[&str]) -> Option<Instruction> {
    let (to, width) = register(operands.first()?)?;
    let size = width.bytes() * 8;
    match (mnemonic, operands) {
        ("UBFX", [_, from, low, bits]) => {
            let (low, bits) = (immediate(low)?, immediate(bits)?);
            let is_inside = bits > 0 && low < size && bits <= size - low;
            let (from, low, bits) = (register(from)?.0, low as u8, bits as u8);
            is_inside.then_some(Instruction::Extract { to, from, low, bits, at: 0, width, keeps: false })
        }
        ("MOVK" | "MOVN", [_, value, ..]) => {
            let value = u16::try_from(immediate(value)?).ok()?;
            let shift = match operands {
                [_, _, shift] => immediate(shift.strip_prefix("LSL").or(shift.strip_prefix("lsl"))?.trim())?,
                _ => 0,
            };
            let shift = u8::try_from(shift).ok().filter(|it| it % 16 == 0 && u64::from(*it) < size)?;
            if mnemonic == "MOVK" {
                return Some(Instruction::Insert { to, value, shift, width });
            }
            let right = Operand::Immediate(!(u64::from(value) << shift) & width.mask());
            let operation = Operation::Second;
            Some(Instruction::Compute { operation, to, left: General::ZERO, right, width, sets_flags: false })
        }
        _ => None,
    }
}

fn compute(mnemonic: &str, operands: &[&str]) -> Option<Instruction> {
    let (name, sets_flags) = match mnemonic {
        "ADDS" | "SUBS" | "ANDS" | "BICS" => (&mnemonic[..3], true),
        "CMP" | "CMN" | "TST" => (mnemonic, true),
        _ => (mnemonic, false),
    };
    let (to, width) = register(operands.first()?)?;
    let make =
        |operation, to, left, right| Some(Instruction::Compute { operation, to, left, right, width, sets_flags });
    match (name, operands) {
        ("MOV" | "MOVZ", [_, right]) => make(Operation::Second, to, General::ZERO, either(right)?),
        ("CMP", [_, right]) => make(Operation::Subtract, General::ZERO, to, either(right)?),
        ("CMN", [_, right]) => make(Operation::Add, General::ZERO, to, either(right)?),
        ("NEG", [_, right]) => make(Operation::Subtract, to, General::ZERO, either(right)?),
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
    let (from, width) = register(text)?;
    let (extend, shift) = extension(width, modifier)?;
    Some(Operand::Register { from, extend, shift })
}
