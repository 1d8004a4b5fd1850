//! `cargo xtask compare selftests`: Linux's own selftests of memory management, on Linux and on our kernel at each page size and
//! level of FEAT_BBM.
//!
//! ```text
//! .fetched/selftests ──gcc──▶ programs ──┬─▶ Linux of 4K and of 16K ──────────┐
//!                                        └─▶ ours: 4K, 16K, 64K × levels 0, 2, 3 ──┴─▶ a table, and the parts that differ
//! ```

mod differences;
mod results;

use std::collections::BTreeMap;

use clap::{Parser, value_parser};

use super::{
    compared::Compared,
    programs::{
        WORDS,
        boots::{Kernel, Machine},
        folder::{self, Named},
    },
};
use crate::{
    bare::Program,
    boot::{
        Programs,
        emulator::{self, Emulator},
    },
    fetch::{linux::Kind, selftests},
    help,
    outcome::Failure,
};
use differences::Known;
use results::Part;

/// Linux's own tests of memory management, on today's Linux and on our kernel
///
/// Prints a table, and the parts that differ. Linux has no 64K there: only parts that the Linux of
/// 4K has count then. `programs/selftests.tsv` lists parts that are known to differ, with reasons.
/// `cargo xtask fetch selftests` gets the tests, and a compiler.
#[derive(Clone, PartialEq, Eq, Debug, Parser)]
#[command(no_binary_name = true)]
pub(crate) struct Options {
    /// Tests whose names have this in them
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// One page size alone; without it all three
    #[arg(long, value_name = "SIZE", value_parser = SIZES)]
    page_size: Option<String>,
    /// One level of FEAT_BBM alone; without it all three
    #[arg(long, value_name = "LEVEL", value_parser = LEVELS)]
    level: Option<String>,
    /// Number of CPUs, 1 to 8
    #[arg(long, value_name = "N", default_value = "2", value_parser = value_parser!(u32).range(1..=8))]
    cpus: u32,
    /// Time of each test
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// Another QEMU than the host's: 7.2, 11 or a path
    #[arg(long = "qemu", value_name = "VERSION or PATH", default_value = "host", value_parser = emulator::parse)]
    emulator: Emulator,
}

const SIZES: [&str; 3] = ["4k", "16k", "64k"];
const LEVELS: [&str; 3] = ["0", "2", "3"];

/// What every test told of its parts, by the test's name.
type Told = BTreeMap<String, Vec<Part>>;

/// Compares all.
pub(crate) fn compare_all(emulator: &Emulator, say: &mut dyn FnMut(&str)) -> Result<Compared, Failure> {
    compare(&Options { emulator: emulator.clone(), ..help::read("compare selftests", &[])? }, say)
}

/// Compares as a person asked.
pub(super) fn compare(options: &Options, say: &mut dyn FnMut(&str)) -> Result<Compared, Failure> {
    let sizes = || SIZES.into_iter().filter(|size| options.page_size.as_ref().is_none_or(|only| only == size));
    let levels = || LEVELS.into_iter().filter(|level| options.level.as_ref().is_none_or(|only| only == level));
    selftests::need()?;
    let (small, large) = (Kind::today(false).need()?, Kind::today(true).need()?);
    options.emulator.ensure()?;
    let known = Known::read()?;
    let built = selftests::build(say)?;
    let programs = folder::read(Some(&built), options.only.as_deref(), say)?;
    let kernel = Programs::build(&[Program::Kernel], say)?;
    let mut failed = Vec::new();
    let mut run = |on: Kernel, page_size: &str, words: &str, say: &mut dyn FnMut(&str)| {
        let linux = if page_size == "16k" { &large } else { &small };
        let Options { cpus, timeout, ref emulator, .. } = *options;
        let machine = Machine { linux, built: &kernel, emulator, page_size, cpus, timeout, words, memory: MEMORY };
        let ran = machine.run_all(on, &programs, say)?;
        failed.extend(ran.failed.iter().map(|line| format!("our kernel, pages of {page_size}, {words}: {line}\n")));
        let names = programs.iter().map(|program| program.name.clone());
        Ok::<Told, Failure>(names.zip(ran.told.iter().map(results::of)).collect())
    };
    let mut theirs = BTreeMap::new();
    for size in sizes().map(of_linux) {
        if !theirs.contains_key(size) {
            theirs.insert(size, run(Kernel::Linux, size, "", say)?);
        }
    }
    let mut ours = BTreeMap::new();
    for (size, level) in sizes().flat_map(|size| levels().map(move |level| (size, level))) {
        say(&format!("Ours: pages of {size}, level {level}"));
        ours.insert((size, level), run(Kernel::Ours, size, &format!("{WORDS} vellum.bbm={level}"), say)?);
    }
    let mut compared = report(&programs, &theirs, &ours, &known);
    compared.differing += failed.len();
    compared.text.extend(failed);
    Ok(compared)
}

/// Two maps of 2 GiB are to fit into it, as Linux counts.
const MEMORY: &str = "5G";

/// The pages of the Linux that ours is held against: none has 64K.
fn of_linux(size: &str) -> &'static str {
    if size == "16k" { "16k" } else { "4k" }
}

fn report(
    programs: &[Named],
    theirs: &BTreeMap<&str, Told>,
    ours: &BTreeMap<(&str, &str), Told>,
    known: &Known,
) -> Compared {
    let mut compared = Compared { package: selftests::find().unwrap_or_default(), ..Compared::default() };
    let levels: Vec<&str> = LEVELS.into_iter().filter(|level| ours.keys().any(|(_, one)| one == level)).collect();
    let heads: String = levels.iter().map(|level| format!(" level {level} |")).collect();
    let lines = "---|".repeat(levels.len());
    compared.text.push_str(&format!("| test | pages | Linux |{heads}\n|---|---|---|{lines}\n"));
    let mut differing: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut count_known = 0;
    for name in programs.iter().map(|program| &program.name) {
        for size in SIZES.into_iter().filter(|size| ours.keys().any(|(one, _)| one == size)) {
            let linux = &theirs[of_linux(size)][name];
            let theirs = if size == of_linux(size) { results::cell(linux) } else { "(4k)".into() };
            let mut row = format!("| {name} | {size} | {theirs} |");
            for level in &levels {
                let parts = &ours[&(size, *level)][name];
                row.push_str(&format!(" {} |", results::cell(parts)));
                let all = differences::of(linux, parts, size == of_linux(size));
                let left: Vec<_> = all.iter().filter(|one| !known.has(name, one)).collect();
                count_known += all.len() - left.len();
                compared.count(left.is_empty());
                for one in left {
                    differing.entry(format!("{name}: {one}")).or_default().push(format!("{size} at {level}"));
                }
            }
            compared.text.push_str(&format!("{row}\n"));
        }
    }
    compared.text.push_str(
        "\nParts that passed/were skipped/failed (+ failed as is known to Linux); the test as a whole is one.\n",
    );
    for (line, places) in &differing {
        compared.text.push_str(&format!("{line} ({})\n", places.join(", ")));
    }
    compared.text.push_str(&format!(
        "{} runs of {}: {} as on Linux, {} not; {count_known} parts differ as is known\n",
        compared.same + compared.differing,
        compared.package,
        compared.same,
        compared.differing
    ));
    compared
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_counts_and_names_what_differs() {
        let part = |verdict| vec![Part { name: "a part".into(), verdict }];
        let told = |verdict| Told::from([("cow".to_owned(), part(verdict))]);
        let programs = [Named { name: "cow".into(), content: vec![] }];
        let theirs = BTreeMap::from([("4k", told(results::Verdict::Passed))]);
        let ours = BTreeMap::from([
            (("4k", "0"), told(results::Verdict::Passed)),
            (("64k", "0"), told(results::Verdict::Failed)),
        ]);
        let compared = report(&programs, &theirs, &ours, &Known::default());
        assert_eq!((compared.same, compared.differing), (1, 1));
        assert!(
            compared.text.contains("| cow | 4k | 1/0/0 | 1/0/0 |\n| cow | 64k | (4k) | 0/0/1 |\n"),
            "{}",
            compared.text
        );
        assert!(
            compared.text.contains("cow: a part: 1 passed on Linux, 1 failed on ours (64k at 0)"),
            "{}",
            compared.text
        );
    }
}
