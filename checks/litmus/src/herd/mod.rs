//! Tests in herd's own format: a header, initial values, a column of code for each thread, a condition.
//!
//! ```text
//! AArch64 NAME
//! TTHM=P0:HA                         which threads' hardware updates descriptors
//! { pte_x=(af:0); 0:X0=x; }          every variable has a page of its own, and a descriptor
//!  P0          | P1          ;
//!  LDR W1,[X0] | STR W2,[X3] ;
//! exists (0:X1=1 /\ fault(P0,x))
//! ```

mod condition;
mod init;
mod source;
mod token;
mod value;
mod variables;

use std::collections::{BTreeMap, BTreeSet};

use a64::instruction::Instruction;
use a64::interpreter::OnFault;
use machine::event::Level;

use crate::assembly::{self, Assembled};
use crate::error::{At, Error, refused};
use crate::layout::{self, Translation};
use crate::test::{Test, Thread};
use init::Initial;
use source::{Column, Source};

/// Reads a test; `file` is named in errors. Errors: what is not understood, with its line.
pub fn parse(file: &str, text: &str) -> Result<Test, Error> {
    read(text).map_err(|at| at.of(file))
}

/// MAIR: 0 Normal write-back, 1 Device-GRE, 2 Normal non-cacheable, 3 Device-nGRE, 4 Device-nGnRE, 5 Device-nGnRnE, 6 Normal
/// write-through.
const MAIR: u64 = 0x00bb_0004_0844_0cff;

fn read(text: &str) -> Result<Test, At> {
    let source = Source::split(text)?;
    let initial = Initial::new(&source)?;
    let (mut code, mut ends, mut written) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
    let (mut threads, mut labels) = (Vec::new(), Vec::new());
    let bodies: Vec<&Column> = source.columns.iter().filter(|column| !column.is_handler).collect();
    for (number, column) in bodies.iter().enumerate() {
        let base = layout::CODE + number as u64 * layout::CODE_STRIDE;
        let body = assembly::assemble(base, &column.lines())?;
        let handler = source.columns.iter().find(|it| it.is_handler && it.thread == column.thread);
        let handler = handler.map(|column| handler_of(column, base, &body)).transpose()?;
        let on_fault = match &handler {
            Some(_) => OnFault::Handler(base + layout::CODE_STRIDE / 2),
            None => source.header.on_fault.unwrap_or(OnFault::End),
        };
        threads.push(thread(&source, &initial, number, base, on_fault));
        labels.push(body.labels.clone());
        for part in [Some(body), handler].into_iter().flatten() {
            ends.insert(part.end);
            part.instructions.iter().try_for_each(|(place, it)| known(*it, &part.source[place], column))?;
            code.extend(part.instructions);
            written.extend(part.source);
        }
    }
    let (quantifier, condition) = condition::parse(&source.condition, &initial, &labels)?;
    let memory = initial.into_memory();
    Ok(Test { name: source.header.name, memory, code, source: written, ends, threads, condition, quantifier })
}

/// What has no meaning in this format is refused: there is nobody at EL2.
fn known(instruction: Instruction, text: &str, column: &Column) -> Result<(), At> {
    match instruction {
        Instruction::Call { level: Level::El2, .. } => {
            let line = column.lines().first().map_or(0, |it| it.0);
            Err(At::line(line, refused("instruction HVC", format!("`{text}`: there is nobody at EL2"))))
        }
        _ => Ok(()),
    }
}

/// A handler sees the labels of its thread's code.
fn handler_of(column: &Column, base: u64, body: &Assembled) -> Result<Assembled, At> {
    assembly::assemble_with(base + layout::CODE_STRIDE / 2, &column.lines(), &body.labels)
}

fn thread(source: &Source, initial: &Initial, number: usize, entry: u64, on_fault: OnFault) -> Thread {
    let mut tcr_el1 = layout::TCR_EL1;
    let hardware = &source.header.hardware;
    if hardware.access_flag.contains(&number) {
        tcr_el1 |= layout::TCR_HARDWARE.0;
    }
    if hardware.dirty_state.contains(&number) {
        // Hardware that manages the dirty state manages the access flag too.
        tcr_el1 |= layout::TCR_HARDWARE.0 | layout::TCR_HARDWARE.1;
    }
    let translation =
        Translation { ttbr0_el1: layout::STAGE1, tcr_el1, mair_el1: MAIR, vttbr_el2: None, ttbr0_el2: None };
    let level = if source.header.users.contains(&number) { Level::El0 } else { Level::El1 };
    Thread {
        entry,
        general: initial.registers(number),
        system: Vec::new(),
        translation: translation.writes(),
        level,
        has_own_stack: level != Level::El0,
        on_fault,
    }
}
