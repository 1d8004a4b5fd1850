//! Tests of archsem in machine code: words of memory, tables among them, registers, and a condition as a tree.

use std::collections::{BTreeMap, BTreeSet};

use a64::decode::decode;
use a64::instruction::{General, Instruction};
use a64::interpreter::OnFault;
use a64::registers::System;
use machine::event::Level;
use toml::Spanned;
use toml::de::DeValue;

use super::document::Document;
use crate::condition::{Condition, Term};
use crate::error::{At, refused};
use crate::layout::Translation;
use crate::tables::{Stage, Table};
use crate::test::{Test, Thread};
use crate::words::number;

/// TTBR1 is not walked. The tests leave T0SZ at 0, and a CPU then takes the most it has: 48 bits here.
const TCR_EPD1: u64 = 1 << 23;

pub(super) fn read(document: &Document<'_>) -> Result<Test, At> {
    let (mut memory, mut words) = (BTreeMap::new(), BTreeMap::new());
    for (address, value, is_code) in document.memory()? {
        if is_code {
            words.insert(address, value);
        } else {
            memory.insert(address, value);
        }
    }
    let (mut threads, mut ends) = (Vec::new(), BTreeSet::new());
    let (mut code, mut source) = (BTreeMap::new(), BTreeMap::new());
    for key in document.threads() {
        let thread = thread(document, &key)?;
        ends.extend(document.numbers(&format!("{key}.breakpoints"))?);
        let (found, text) = code_of(&thread, &memory, &words)?;
        code.extend(found);
        source.extend(text);
        threads.push(thread);
    }
    let quantifier = document.quantifier()?;
    let asked = document.value("final.assertion")?;
    let condition = condition(asked, threads.len()).map_err(|what| At::line(document.line(asked), what))?;
    let name = document.string("name")?.value;
    Ok(Test { name, memory, code, source, ends, threads, condition, quantifier })
}

fn thread(document: &Document<'_>, key: &str) -> Result<Thread, At> {
    let mut thread = Thread {
        entry: 0,
        general: [0; 31],
        system: Vec::new(),
        translation: Vec::new(),
        level: Level::El1,
        has_own_stack: true,
        on_fault: OnFault::Vectors,
    };
    let mut translation =
        Translation { ttbr0_el1: 0, tcr_el1: TCR_EPD1, mair_el1: 0xff, vttbr_el2: None, ttbr0_el2: None };
    for (name, text) in document.registers(key)? {
        let wrong = |what: String| At::line(text.line, what);
        let value = number(&text.value).ok_or_else(|| wrong(format!("`{}` is no number", text.value)))?;
        match (name.as_str(), System::named(&name)) {
            ("_PC", _) => thread.entry = value,
            ("CurrentEL", _) if value == 0 => thread.level = Level::El0,
            ("CurrentEL", _) if value == 1 => thread.level = Level::El1,
            ("TTBR0_EL1", _) => translation.ttbr0_el1 = value,
            ("TCR_EL1", _) => translation.tcr_el1 |= value,
            ("SCTLR_EL1" | "ID_AA64MMFR1_EL1", _) => {}
            (_, Some(System::Translation(_))) => return Err(wrong(format!("{name} cannot be chosen"))),
            (_, Some(system)) => thread.system.push((system, value)),
            _ => {
                let number = name.strip_prefix(['R', 'X']).and_then(|number| number.parse::<usize>().ok());
                let place = number.and_then(|number| thread.general.get_mut(number));
                *place.ok_or_else(|| {
                    let what = format!("register {name} is not known here");
                    At::line(text.line, refused(format!("register {name}"), what))
                })? = value;
            }
        }
    }
    thread.translation = translation.writes();
    Ok(thread)
}

type Code = (BTreeMap<u64, Instruction>, BTreeMap<u64, String>);

/// The code that begins at the thread's entry, as far as memory holds any.
fn code_of(thread: &Thread, memory: &BTreeMap<u64, u64>, words: &BTreeMap<u64, u64>) -> Result<Code, At> {
    let root = thread.translation.iter().find(|it| it.0 == machine::registers::Register::Ttbr0El1);
    let table = Table::new(Stage::One, root.map_or(0, |it| it.1));
    let physical = table.translate(memory, thread.entry);
    let physical = physical.ok_or_else(|| At::line(0, format!("{:#x} is not mapped at the start", thread.entry)))?;
    let (mut code, mut source) = (BTreeMap::new(), BTreeMap::new());
    for step in 0.. {
        let Some(word) = words.get(&(physical + step * 4)) else { break };
        let place = thread.entry + step * 4;
        let instruction = u32::try_from(*word).ok().and_then(|word| decode(word, place));
        let instruction =
            instruction.filter(|it| !matches!(it, Instruction::Break { .. } | Instruction::MonitorCall { .. }));
        code.insert(
            place,
            instruction.ok_or_else(|| {
                At::line(0, refused("machine code", format!("{word:#x} is no instruction known here")))
            })?,
        );
        source.insert(place, format!("{word:#010x}"));
    }
    Ok((code, source))
}

/// `{ and = […] }`, `{ or = […] }`, `{ "0:R5" = 7 }`.
fn condition(value: &Spanned<DeValue<'_>>, threads: usize) -> Result<Condition, String> {
    let table = value.get_ref().as_table().filter(|table| table.len() == 1);
    let (key, value) = table.and_then(|table| table.iter().next()).ok_or("a condition has one key")?;
    let key = key.get_ref().as_ref();
    if let "and" | "or" = key {
        let parts = value.get_ref().as_array().ok_or_else(|| format!("`{key}` has a list"))?;
        let mut parts = parts.iter().map(|part| condition(part, threads));
        let first = parts.next().ok_or_else(|| format!("`{key}` is empty"))??;
        let join = |left, right| match key {
            "and" => Condition::And(Box::new(left), Box::new(right)),
            _ => Condition::Or(Box::new(left), Box::new(right)),
        };
        return parts.try_fold(first, |left, right| Ok(join(left, right?)));
    }
    let (thread, register) = key.split_once(':').ok_or_else(|| format!("`{key}` names no register"))?;
    let thread = thread.parse().ok().filter(|it: &usize| *it < threads);
    let register = register.strip_prefix(['R', 'X']).and_then(|it| it.parse().ok()).filter(|it: &u8| *it < 31);
    let wanted = super::document::integer(value.get_ref()).and_then(|text| number(&text));
    match (thread, register, wanted) {
        (Some(thread), Some(register), Some(wanted)) => {
            Ok(Condition::Equal(Term::Register(thread, General(register)), Term::Constant(wanted)))
        }
        _ => Err(format!("`{key}` is not understood")),
    }
}
