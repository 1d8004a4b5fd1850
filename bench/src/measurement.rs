//! One run: a short process of its own, whose measured region callgrind counts.

use std::env;
use std::io;
use std::process::{Command, Output, Stdio};

use crate::case::Case;
use crate::roster::Contender;
use crate::rows::{Outcome, Scale};

/// The word that makes this program a run, before the case, the contender and the scale.
pub(crate) const RUN: &str = "run-one";
/// A name for the scale of a test, on the command line of a run.
const QUICK: &str = "quick";
const VALGRIND: [&str; 4] = [
    "--tool=callgrind",
    "--callgrind-out-file=/dev/null",
    "--collect-atstart=no",
    "--toggle-collect=*bench_measured_region*",
];
/// Callgrind counts each byte of `rep stosb`, with which the C library clears long stretches where it may.
const PLAIN_STORES: (&str, &str) = ("GLIBC_TUNABLES", "glibc.cpu.x86_rep_stosb_threshold=1000000000");

/// What one contender needed for one case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Measurement {
    pub(crate) case: Case,
    pub(crate) contender: Contender,
    /// In the measured region. 0 where nothing was counted.
    pub(crate) instructions: u64,
    pub(crate) outcome: Outcome,
}

impl Measurement {
    /// Instructions per unit.
    pub(crate) fn each(&self) -> f64 {
        self.instructions as f64 / self.outcome.units as f64
    }

    /// Bytes of all tables.
    pub(crate) fn table_bytes(&self) -> u64 {
        self.outcome.frames * self.case.page_size.size_bytes()
    }

    /// What must be the same for all contenders of one row and granule.
    pub(crate) fn answer(&self) -> (u64, u64, u64) {
        (self.outcome.units, self.outcome.found, self.outcome.checksum)
    }
}

/// Whether there is a valgrind on this host, and which.
pub(crate) fn valgrind() -> Option<String> {
    let output = Command::new("valgrind").arg("--version").stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
}

/// Counts what a contender needs for a case, or at the scale of a test only runs it. What went wrong, in one line.
pub(crate) fn measure(case: Case, contender: Contender, is_quick: bool) -> Result<Measurement, String> {
    let failed = |what: String| format!("{case} {}: {what}", contender.name());
    let output = start(case, contender, is_quick).map_err(|error| failed(error.to_string()))?;
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        return Err(failed(format!("it ended with {}: {}", output.status, errors.trim().replace('\n', "; "))));
    }
    let outcome = Outcome::parse(said.trim()).ok_or_else(|| failed(format!("it said `{}`", said.trim())))?;
    let collected = errors.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    let instructions = match collected {
        Some(count) => count,
        None if is_quick => 0,
        None => return Err(failed("callgrind told no count".to_string())),
    };
    Ok(Measurement { case, contender, instructions, outcome })
}

fn start(case: Case, contender: Contender, is_quick: bool) -> io::Result<Output> {
    let this = env::current_exe()?;
    let program = contender.program(case).map_or(this.clone(), |name| this.with_file_name(name));
    let mut command = if is_quick {
        Command::new(program)
    } else {
        let mut command = Command::new("valgrind");
        command.args(VALGRIND).env(PLAIN_STORES.0, PLAIN_STORES.1).arg(program);
        command
    };
    let scale = if is_quick { QUICK } else { "full" };
    command.env("RUST_BACKTRACE", "0");
    command.args([RUN, &case.to_string(), contender.name(), scale]).stdin(Stdio::null()).output()
}

/// The other side of [`measure`]: what the command line of a run names, after its first word.
pub(crate) fn asked(arguments: &[String]) -> Option<(Case, Contender, Scale)> {
    let [case, contender, scale] = arguments else { return None };
    let scale = if scale == QUICK { Scale::QUICK } else { Scale::FULL };
    Some((Case::named(case)?, Contender::named(contender)?, scale))
}

/// All contenders of a row and granule, on tables live or not, have found the same.
pub(crate) fn agree(measured: &[Measurement]) -> Result<(), String> {
    for one in measured {
        let same = |other: &&Measurement| one.case.row == other.case.row && one.case.page_size == other.case.page_size;
        if let Some(other) = measured.iter().filter(same).find(|other| other.answer() != one.answer()) {
            let says = |one: &Measurement| format!("{} {} finds {}", one.case, one.contender.name(), one.outcome);
            return Err(format!("{}, but {}", says(one), says(other)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contenders_that_find_something_else_are_told() {
        let outcome = Outcome { units: 4, found: 4, checksum: 0xa, frames: 2, tlbis: 0 };
        let one = |case: &str, checksum| {
            let case = Case::named(case).expect("a case");
            Measurement { case, contender: Contender::Ours, instructions: 0, outcome: Outcome { checksum, ..outcome } }
        };
        assert_eq!(agree(&[one("map-page/4k", 0xa), one("map-page/4k/live", 0xa), one("map-page/16k", 0xb)]), Ok(()));
        let differing = agree(&[one("map-page/4k", 0xa), one("map-page/4k/live", 0xb)]);
        let expected = "map-page/4k ours finds 4 4 a 2 0, but map-page/4k/live ours finds 4 4 b 2 0";
        assert_eq!(differing, Err(expected.to_string()));
    }
}
