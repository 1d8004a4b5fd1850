//! A case: a bug and its repair as one program, in which some steps belong to one version alone.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::configuration::{Configuration, Configurations};
use crate::engine::Counterpart;
use crate::error::Error;
use crate::read;
use crate::verdict::summary;

/// Which of the two programs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Version {
    /// As it was: lines without a mark and those with `-`.
    Buggy,
    /// As it was repaired: lines without a mark and those with `+`.
    Fixed,
}

impl Version {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Buggy, Self::Fixed];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Buggy => "buggy",
            Self::Fixed => "fixed",
        }
    }
}

/// What a line does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Act {
    /// A line of the trace's machine: `cpu …`.
    Cpu(Vec<String>),
    /// What every CPU announces, beside what its own line says.
    Cpus(Vec<String>),
    /// Words that are in memory at first: `memory …`.
    Memory(Vec<String>),
    /// An event of a CPU, as a trace has it.
    Event(u8, Vec<String>),
    /// A name gets a value: by a CPU as it comes to this line, or once at the beginning.
    Let(Option<u8>, String, String),
    /// A CPU waits until this is not zero.
    Await(u8, String),
    /// From here on CPUs go on independently.
    Together,
    /// Until here: all of them have come to this line.
    Then,
}

impl Act {
    /// The CPU that does it.
    pub const fn cpu(&self) -> Option<u8> {
        match self {
            Self::Event(cpu, _) | Self::Await(cpu, _) | Self::Let(Some(cpu), ..) => Some(*cpu),
            _ => None,
        }
    }
}

/// What must be found at a step of the buggy version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expected {
    /// The rule's label, `V1` to `V12`.
    pub rule: String,
    /// Where.
    pub configurations: Configurations,
    /// The rules are known not to find it yet.
    pub is_hole: bool,
}

/// One line of a case, or of a setup that it names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Its place.
    pub at: Place,
    /// The only version that has it.
    pub only: Option<Version>,
    /// What it does.
    pub act: Act,
    /// How it is repeated.
    pub repeated: Option<Repetition>,
    /// What must be found there.
    pub expected: Vec<Expected>,
    /// Its comment.
    pub comment: Option<String>,
}

/// A line that stands for several: once for each number from `first` up to `end`, which is not one of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Repetition {
    /// The name that counts.
    pub name: String,
    /// An expression.
    pub first: String,
    /// An expression.
    pub end: String,
}

/// File and line.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    /// File, as it was opened.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
}

/// A case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// Its name: that of the file.
    pub name: String,
    /// Where it happened: project, year, commit.
    pub happened: String,
    /// What happened.
    pub story: String,
    /// Why nothing is wrong in the configurations in which nothing is expected.
    pub legal: Option<String>,
    /// The same fault made in our engine.
    pub engine: Vec<Counterpart>,
    /// Its lines, in order.
    pub steps: Vec<Step>,
}

impl Case {
    /// Reads one from its file.
    ///
    /// # Errors
    /// The first line that makes no sense.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = path.display().to_string();
        let text =
            fs::read_to_string(path).map_err(|error| Error { file: file.clone(), line: 0, what: error.to_string() })?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Self::read(&name, &file, &text)
    }

    /// Reads one from the text of `file`.
    ///
    /// # Errors
    /// The first line that makes no sense.
    pub fn read(name: &str, file: &str, text: &str) -> Result<Self, Error> {
        read::case(name, file, text)
    }

    /// By what it must be found, in one line: `V2 bbm 0, V11 bbm 1, legal bbm 2 3`.
    pub fn summary(&self) -> String {
        let told = |configuration| {
            let rules: BTreeSet<&str> =
                self.expected(configuration).filter(|(_, it)| !it.is_hole).map(|(_, it)| it.rule.as_str()).collect();
            let is_hole = rules.is_empty() && self.expected(configuration).next().is_some();
            (
                configuration,
                if is_hole { String::from("hole") } else { rules.into_iter().collect::<Vec<_>>().join(" or ") },
            )
        };
        summary(Configuration::all().map(told))
    }

    /// What must be found in `configuration`: lines of the file and rules, with those that are holes.
    pub fn expected(&self, configuration: Configuration) -> impl Iterator<Item = (&Place, &Expected)> {
        self.steps
            .iter()
            .flat_map(|step| step.expected.iter().map(move |it| (&step.at, it)))
            .filter(move |(_, it)| it.configurations.contains(configuration))
    }
}

/// The folder of the cases that come with the project.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cases")
}

/// The ending of a case's file.
pub const ENDING: &str = "case";

/// Cases by name or by path of a file; all that come with the project if there are no names.
///
/// # Errors
/// A name that none has, or a file that makes no sense.
pub fn find(names: &[String]) -> Result<Vec<Case>, Error> {
    let whole = |file: &Path, what: String| Error { file: file.display().to_string(), line: 0, what };
    let entries = fs::read_dir(folder()).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries = entries.map_err(|error| whole(&folder(), error.to_string()))?;
    let mut paths: Vec<PathBuf> = entries.into_iter().map(|it| it.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|it| it == ENDING));
    paths.sort();
    if !names.is_empty() {
        let ours =
            |name: &String| match paths.iter().find(|path| path.file_stem().is_some_and(|it| it == name.as_str())) {
                Some(path) => Ok(path.clone()),
                None if Path::new(name).is_file() => Ok(PathBuf::from(name)),
                None => Err(whole(Path::new(name), String::from("no case has this name, and no file (see --list)"))),
            };
        paths = names.iter().map(ours).collect::<Result<_, _>>()?;
    }
    paths.iter().map(|path| Case::open(path)).collect()
}
