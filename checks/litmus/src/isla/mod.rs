//! Tests as TOML, in the format of the isla tool: page tables are set up by a small language, code is assembly, the final
//! state is asked about by an assertion. Or in that of archsem, with machine code and words of memory.

mod addresses;
mod archsem;
mod condition;
mod document;
mod expression;
mod initial;
mod setup;
mod statements;
mod value;

use std::collections::{BTreeMap, BTreeSet};

use a64::instruction::General;
use a64::interpreter::OnFault;
use a64::registers::System;
use machine::event::Level;
use machine::registers::Register;

use crate::assembly::{self, Assembled};
use crate::error::{At, Error, Wrong, refused};
use crate::layout::{self, Translation};
use crate::test::{Test, Thread};
use crate::words::{self, width_of};
use document::{Document, Text};
use initial::{BASE, BASE2, Initial};

/// Reads a test; `file` is named in errors. Errors: what is not understood, with its line.
pub fn parse(file: &str, text: &str) -> Result<Test, Error> {
    read(text).map_err(|at| at.of(file))
}

fn read(text: &str) -> Result<Test, At> {
    let document = Document::parse(text)?;
    let arch = document.string("arch")?;
    if arch.value == "Arm" {
        return archsem::read(&document);
    }
    if arch.value != "AArch64" {
        return Err(At::line(
            arch.line,
            format!("arch is `{}`, expected `AArch64`, or `Arm` for machine code", arch.value),
        ));
    }
    document.refuse_others()?;
    let initial = initial(&document)?;
    let mut code = BTreeMap::new();
    let (mut threads, mut labels) = (Vec::new(), Vec::new());
    let (mut ends, mut source) = (BTreeSet::new(), BTreeMap::new());
    for (number, key) in document.threads().iter().enumerate() {
        let assembled = assemble(&document.string(&format!("{key}.code"))?, thread_base(number))?;
        code.extend(assembled.instructions.iter().map(|(at, instruction)| (*at, *instruction)));
        source.extend(assembled.source.clone());
        ends.insert(assembled.end);
        ends.extend(document.numbers(&format!("{key}.breakpoints"))?);
        threads.push(thread(&document, key, number, &assembled, &initial)?);
        labels.push(assembled.labels);
    }
    for section in document.sections() {
        let address = document.string(&format!("{section}.address"))?;
        let base = words::number(address.value.trim());
        let base = base.ok_or_else(|| At::line(address.line, format!("`{}` is no address", address.value)))?;
        let assembled = assemble(&document.string(&format!("{section}.code"))?, base)?;
        if !assembled.instructions.is_empty() {
            ends.insert(assembled.end);
        }
        code.extend(assembled.instructions);
        source.extend(assembled.source);
    }
    let assertion = document.string("final.assertion")?;
    let condition = condition::parse(&assertion.value, &initial, &labels, &addressed(&document)?);
    let condition = condition.map_err(|what| At::line(assertion.line, what))?;
    if threads.is_empty() {
        return Err(At::line(0, "there is no [thread.0]"));
    }
    let quantifier = document.quantifier()?;
    let name = document.string("name")?.value;
    Ok(Test { name, memory: initial.memory, code, source, ends, threads, condition, quantifier })
}

/// Page tables and what they lead to. A test without any leaves its names to themselves, each in a page of its own.
fn initial(document: &Document<'_>) -> Result<Initial, At> {
    let symbolic = document.strings("symbolic")?;
    let setup = match document.string("page_table_setup") {
        Ok(setup) => setup,
        Err(_) => {
            let mapped = symbolic.iter().map(|name| format!("{name} |-> pa_{name}; *pa_{name} = 0; "));
            let values = document.table("locations");
            let values = values.into_iter().map(|(name, value)| format!("*{name} = {}; ", value.value));
            Text { value: mapped.chain(values).collect(), line: 0 }
        }
    };
    let statements = statements::parse(&setup.value, setup.line)?;
    let mut initial = setup::build(&statements, &symbolic)?;
    for (name, text) in document.table("types") {
        let width = width_of(&text.value).map_err(|wrong| At::line(text.line, wrong))?;
        initial.widths.insert(name, width);
    }
    Ok(initial)
}

/// What a register holds that the file leaves open: no condition asks for it.
const UNKNOWN: u64 = 0x0bad_0bad_0bad_0b00;

fn thread_base(number: usize) -> u64 {
    layout::CODE + number as u64 * layout::CODE_STRIDE
}

fn assemble(code: &Text, base: u64) -> Result<Assembled, At> {
    let lines: Vec<(usize, &str)> = code.value.lines().enumerate().map(|(at, text)| (code.line + at, text)).collect();
    assembly::assemble(base, &lines)
}

/// A thread's registers: general ones, PSTATE, and system registers by name.
fn thread(
    document: &Document<'_>,
    key: &str,
    number: usize,
    code: &Assembled,
    initial: &Initial,
) -> Result<Thread, At> {
    let mut thread = Thread {
        entry: thread_base(number),
        general: std::array::from_fn(|number| UNKNOWN | number as u64),
        system: Vec::new(),
        translation: Vec::new(),
        level: Level::El0,
        has_own_stack: false,
        on_fault: OnFault::Vectors,
    };
    let root = |name: &str| initial.tables.get(name).map(|table| table.root);
    let mut translation = Translation {
        ttbr0_el1: root(BASE).unwrap_or(0),
        tcr_el1: layout::TCR_EL1,
        mair_el1: 0xff,
        vttbr_el2: root(BASE2).or(initial.has_stage2.then_some(0)),
        ttbr0_el2: None,
    };
    for (name, text) in document.registers(key)? {
        let value = value(&text, &code.labels, initial).map_err(|what| At::line(text.line, what))?;
        set(&mut thread, &mut translation, &name, value).map_err(|what| At::line(text.line, what))?;
    }
    thread.translation = translation.writes();
    Ok(thread)
}

/// General-purpose registers that hold addresses at the start.
fn addressed(document: &Document<'_>) -> Result<BTreeSet<(usize, General)>, At> {
    let mut addressed = BTreeSet::new();
    for (thread, key) in document.threads().iter().enumerate() {
        for (name, text) in document.registers(key)? {
            let number = name.strip_prefix(['R', 'X']).and_then(|number| number.parse().ok());
            let holds = expression::parse(&text.value).is_ok_and(|value| value.is_address());
            addressed.extend(number.filter(|_| holds).map(|number| (thread, General(number))));
        }
    }
    Ok(addressed)
}

fn value(text: &Text, labels: &BTreeMap<String, u64>, initial: &Initial) -> Result<u64, Wrong> {
    expression::parse(&text.value)?.value(initial, labels)
}

fn set(thread: &mut Thread, translation: &mut Translation, name: &str, value: u64) -> Result<(), Wrong> {
    if let Some(number) = name.strip_prefix(['R', 'X']).and_then(|number| number.parse::<usize>().ok()) {
        *thread.general.get_mut(number).ok_or_else(|| format!("there is no register {name}"))? = value;
        return Ok(());
    }
    match (name, System::named(name)) {
        ("PSTATE.EL" | "CurrentEL", _) => {
            thread.level = match value {
                0 => Level::El0,
                1 => Level::El1,
                2 => Level::El2,
                _ => return Err(format!("{name} is {value}, expected 0 to 2").into()),
            };
        }
        ("PSTATE.SP", _) => thread.has_own_stack = value == 1,
        (_, Some(System::Translation(register))) => match register {
            Register::Ttbr0El1 => translation.ttbr0_el1 = value,
            Register::VttbrEl2 => translation.vttbr_el2 = Some(value),
            Register::Ttbr0El2 => translation.ttbr0_el2 = Some(value),
            // No address of a test is in the upper half, and the MMU is always on.
            Register::Ttbr1El1 | Register::SctlrEl1 => {}
            _ => return Err(refused(format!("register {name}"), format!("{name} cannot be chosen"))),
        },
        (_, Some(system)) => thread.system.push((system, value)),
        _ => return Err(refused(format!("register {name}"), format!("register {name} is not known here"))),
    }
    Ok(())
}
