//! What each CPU tolerates: by its ID register, by its model where that says otherwise, by who boots it where he says otherwise.

use pagetable::Tolerance;
use vmsa::{BbmLevel, IdRegisters, Midr};

/// Levels of FEAT_BBM that were told, whatever CPUs say.
#[derive(Clone, Copy, Default, Debug)]
pub struct Levels<'a> {
    /// Of every CPU that is not told apart: `vellum.bbm=`.
    pub all: Option<BbmLevel>,
    /// Of single CPUs, by number: `vellum.cpuN.bbm=`. Of two for one CPU the last counts.
    pub single: &'a [(usize, BbmLevel)],
}

impl Levels<'_> {
    /// What CPU `number` tolerates. `handles_conflicts` is the promise of [`Tolerance::read`].
    pub fn tolerance(self, number: usize, id: &IdRegisters, midr: Midr, handles_conflicts: bool) -> Tolerance {
        let single = self.single.iter().rev().find(|(cpu, _)| *cpu == number).map(|(_, level)| *level);
        match single.or(self.all) {
            Some(level) => Tolerance::new(level, handles_conflicts),
            None => Tolerance::read(id, midr, handles_conflicts),
        }
    }
}
