//! The pieces of the kernel's code, and for each the cases in which it is run.

mod cache;
mod conflict;
mod entry;
mod leave;
mod park;
mod secondary;
mod switch;
mod translate;
mod vectors;

use std::collections::BTreeSet;

use machine::syndrome::AccessKind;

use crate::finding::Found;
use crate::lab::{Lab, Patch};
use crate::run::Run;
use crate::shape::Shape;

/// Runs a piece in one case.
type Work = Box<dyn Fn(&Lab, Option<Patch>) -> Result<Ran, Found>>;

/// One case of a piece.
pub struct Case {
    /// What is particular about it.
    pub name: String,
    work: Work,
}

/// What a run that found nothing came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ran {
    /// Physical addresses of the instructions that were executed.
    pub visited: BTreeSet<u64>,
    /// Instructions that were executed.
    pub steps: u64,
}

/// A piece of code.
pub struct Piece {
    /// The symbol that it begins at.
    pub name: &'static str,
    /// Cases.
    pub cases: Vec<Case>,
}

impl Case {
    fn new(name: String, work: impl Fn(&Lab, Option<Patch>) -> Result<Ran, Found> + 'static) -> Self {
        Self { name, work: Box::new(work) }
    }

    /// Runs it, with one word of the image replaced. Errors: the first finding.
    pub fn run(&self, lab: &Lab, patch: Option<Patch>) -> Result<Ran, Found> {
        (self.work)(lab, patch)
    }
}

impl Ran {
    fn of(run: Run<'_>) -> Self {
        Self { visited: run.visited, steps: run.steps }
    }
}

/// A CPU that runs high code, with something in each register.
fn high<'l>(lab: &'l Lab, patch: Option<Patch>, to: Shape, exception_stack: u64) -> Run<'l> {
    let mut run = lab.running(to, patch);
    (0..31).for_each(|register| run.set(0, register, 0x1000 + u64::from(register)));
    run.set_system(0, "VBAR_EL1", lab.link("vectors"));
    run.set_system(0, "SP_EL0", lab.link("boot_stack_end") - 64);
    run.set_system(0, "SP_EL1", exception_stack);
    run.set_system(0, "TPIDR_EL1", lab.link("per_cpu"));
    run
}

/// Every piece.
pub fn all() -> Vec<Piece> {
    vec![
        switch::piece(),
        leave::piece(),
        secondary::piece(),
        park::piece(),
        park::event(),
        entry::piece(),
        vectors::piece(),
        conflict::piece(),
        translate::piece("read_translation", AccessKind::Read),
        translate::piece("read_translation_to_write", AccessKind::Write),
        cache::clean(),
        cache::fetchable("make_fetchable"),
        cache::fetchable("make_fetchable_everywhere"),
    ]
}
