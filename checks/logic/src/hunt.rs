//! Hunts mutants: each is tried by the tests that pass its site, the fastest first, until one fails.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::build::Program;
use crate::mutants::Mutant;
use crate::run::{End, Test, in_parallel, limit, run};
use crate::sites::Site;

/// What came of a mutant.
pub(crate) enum Verdict {
    Killed(String),
    /// A test did not end.
    ByTime(String),
    Lives,
    /// No test passes its site.
    NotRun,
}

impl Verdict {
    /// Whether nothing has noticed.
    pub(crate) fn is_alive(&self) -> bool {
        matches!(self, Self::Lives | Self::NotRun)
    }
}

/// Hunts; the verdicts are in the order of the mutants.
pub(crate) fn hunt(
    mutants: &[&Mutant],
    sites: &[Site],
    programs: &[Program],
    tests: &[Test],
    tell: &(dyn Fn(&Mutant, &Verdict) + Sync),
) -> Result<Vec<Verdict>, String> {
    // What killed a mutant of a function may well kill the next.
    let killers: Mutex<HashMap<(&str, &str), Vec<usize>>> = Mutex::default();
    let one = |number: usize| -> Result<Verdict, String> {
        let mutant = mutants[number];
        let site = &sites[mutant.site];
        let place = (site.file.as_str(), site.function.as_str());
        let recent = killers.lock().map(|it| it.get(&place).cloned().unwrap_or_default()).unwrap_or_default();
        let others = (0..tests.len()).filter(|it| !recent.contains(it));
        let mut verdict = Verdict::NotRun;
        for number in recent.iter().copied().chain(others).filter(|it| tests[*it].sites[mutant.site]) {
            let (test, chosen) = (&tests[number], format!("{}.{}", mutant.site, mutant.variant));
            let program = &programs[test.program];
            let told = || format!("{} {}", program.name, test.name);
            verdict = match run(program, &test.name, limit(test), ("LOGIC_MUTANT", &chosen))? {
                End::Passed => Verdict::Lives,
                End::Failed => Verdict::Killed(told()),
                End::OutOfTime => Verdict::ByTime(told()),
            };
            if !verdict.is_alive() {
                remember(&killers, place, number);
                break;
            }
        }
        tell(mutant, &verdict);
        Ok(verdict)
    };
    in_parallel(mutants.len(), &one).into_iter().collect()
}

/// Puts a killer first of the few that are remembered.
fn remember<'s>(killers: &Mutex<HashMap<(&'s str, &'s str), Vec<usize>>>, place: (&'s str, &'s str), killer: usize) {
    if let Ok(mut killers) = killers.lock() {
        let known = killers.entry(place).or_default();
        known.retain(|it| *it != killer);
        known.insert(0, killer);
        known.truncate(3);
    }
}
