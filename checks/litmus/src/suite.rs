//! Which tests to run, and whether what comes of them is what their tables say.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use machine::registers::Ets;

use crate::error::{At, Error};
use crate::judge::{self, Ran, Result as Ours};
use crate::test::Test;
use crate::verdicts::{self, Published, Row, Table};
use crate::{herd, isla};

/// The table's file, in each folder that has one.
pub const TABLE: &str = "verdicts.tsv";

/// A test to run.
#[derive(Clone, Debug)]
pub struct Item {
    /// Its file.
    pub path: PathBuf,
    /// The table of its folder, and its row there.
    pub listed: Option<(PathBuf, Option<Row>)>,
}

/// Tests of files and folders, in order; a folder's are those that lie in it and in its folders. Errors: a path that cannot
/// be read or holds no test, a table that is not understood, or one that lists a file that is not there.
pub fn collect(paths: &[PathBuf]) -> Result<Vec<Item>, Error> {
    let mut items = Vec::new();
    for path in paths {
        let before = items.len();
        if !path.exists() {
            return Err(whole(path, "there is no such file or folder"));
        }
        if path.is_dir() {
            collect_folder(path, &mut items)?;
        } else {
            let table = table_of(path.parent().unwrap_or(Path::new(".")))?;
            items.push(item(path, table.as_ref()));
        }
        if items.len() == before {
            return Err(whole(path, "there is no .toml and no .litmus file here"));
        }
    }
    Ok(items)
}

fn whole(path: &Path, what: impl ToString) -> Error {
    At::line(0, what.to_string()).of(&path.display().to_string())
}

fn collect_folder(folder: &Path, items: &mut Vec<Item>) -> Result<(), Error> {
    let entries = fs::read_dir(folder).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    let mut paths: Vec<PathBuf> =
        entries.map_err(|error| whole(folder, error))?.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    let table = table_of(folder)?;
    if let Some((path, rows)) = &table
        && let Some((file, row)) = rows.iter().find(|(file, _)| !folder.join(file).is_file())
    {
        return Err(At::line(row.line, format!("`{file}` is not there")).of(&path.display().to_string()));
    }
    for path in paths {
        if path.is_dir() {
            collect_folder(&path, items)?;
        } else if path.extension().is_some_and(|it| it == "toml" || it == "litmus") {
            items.push(item(&path, table.as_ref()));
        }
    }
    Ok(())
}

fn item(path: &Path, table: Option<&(PathBuf, Table)>) -> Item {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let listed = table.map(|(table, rows)| (table.clone(), rows.get(name.as_ref()).cloned()));
    Item { path: path.to_owned(), listed }
}

fn table_of(folder: &Path) -> Result<Option<(PathBuf, Table)>, Error> {
    let path = folder.join(TABLE);
    if !path.is_file() {
        return Ok(None);
    }
    let text = text(&path)?;
    let table = verdicts::parse(&text).map_err(|at| at.of(&path.display().to_string()))?;
    Ok(Some((path, table)))
}

/// The text of a file, or the line that holds something else.
fn text(path: &Path) -> Result<String, Error> {
    let bytes = fs::read(path).map_err(|error| whole(path, error))?;
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + good.iter().filter(|it| **it == b'\n').count();
        At::line(line, "a byte that is not text, expected UTF-8".to_owned()).of(&path.display().to_string())
    })
}

/// Reads a test of either format. Errors: what is not understood, with its line.
pub fn read(path: &Path) -> Result<Test, Error> {
    let file = path.display().to_string();
    let text = text(path)?;
    match path.extension() {
        Some(extension) if extension == "litmus" => herd::parse(&file, &text),
        _ => isla::parse(&file, &text),
    }
}

/// What came of one test.
#[derive(Debug)]
pub struct Done {
    /// The test, or why it was not read.
    pub test: Result<Test, Error>,
    /// Without FEAT_ETS2 and with it.
    pub ran: Option<[Ran; 2]>,
    /// Lines about what is not as it should be.
    pub wrong: Vec<String>,
}

impl Done {
    /// Without FEAT_ETS2 and with it.
    pub fn results(&self) -> [Ours; 2] {
        self.ran.as_ref().map_or([Ours::Unread; 2], |ran| [ran[0].result, ran[1].result])
    }

    /// True when a store broke the break-before-make rules, on CPUs with FEAT_ETS2: without it a TLBI is complete for its own
    /// CPU only after an ISB, which the published flags do not ask for.
    pub fn has_flag(&self) -> bool {
        self.ran.as_ref().is_some_and(|[_, with]| with.explored.unbroken.is_some())
    }
}

const KINDS: [&str; 2] = ["without FEAT_ETS2", "with FEAT_ETS2"];

/// Runs one test and holds it against its row.
pub fn run(item: &Item) -> Done {
    let test = read(&item.path);
    let ran = test.as_ref().ok().map(|test| [Ets::None, Ets::Ets2].map(|ets| judge::run(test, ets)));
    let mut done = Done { test, ran, wrong: Vec::new() };
    done.wrong = wrong(item, &done);
    done
}

fn wrong(item: &Item, done: &Done) -> Vec<String> {
    let Some((table, row)) = &item.listed else {
        return done.test.as_ref().err().map(Error::to_string).into_iter().collect();
    };
    let table = table.display();
    let Some(row) = row else { return vec![format!("{}: no row of {table} is about this file", item.path.display())] };
    let mut wrong = Vec::new();
    let place = format!("{table}:{}: {}", row.line, item.path.file_name().unwrap_or_default().display());
    for (kind, (published, listed), ours) in
        KINDS.iter().zip(row.verdicts).zip(done.results()).map(|((kind, row), ours)| (kind, row, ours))
    {
        let is_listed = listed.is_none_or(|listed| listed == ours);
        let is_run = ours.has_run() || listed.is_some() || published == Published::Open;
        if published.contradicts(ours) && listed != Some(ours) {
            wrong.push(format!("{place}: {kind}: {published} by its authors, {ours} by us"));
        } else if !is_run {
            wrong.push(format!("{place}: {kind}: {published} by its authors, and not run by us ({ours})"));
        } else if let (false, Some(listed)) = (is_listed, listed) {
            wrong.push(format!("{place}: {kind}: the table says {listed}, and it is {ours}"));
        }
    }
    if let [_, Some(listed)] | [Some(listed), None] = row.flags
        && listed != done.has_flag()
    {
        let word = |has_flag| if has_flag { "flag" } else { "silent" };
        let (listed, ours) = (word(listed), word(done.has_flag()));
        wrong.push(format!("{place}: break-before-make: the table says {listed}, and it is {ours}"));
    }
    if let (true, Err(error)) = (!wrong.is_empty(), &done.test) {
        wrong.push(error.to_string());
    }
    wrong
}

/// Counts over a run.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Sum {
    /// Tests that were run.
    pub run: usize,
    /// Tests that could not be run, by what stood in the way.
    pub refused: BTreeMap<String, usize>,
    /// Verdicts by kind: forbidden and never reached, required and always so, allowed and reached, allowed and never.
    pub verdicts: [usize; 4],
    /// Forbidden and reached, or required and not always so.
    pub contradicted: usize,
    /// Tests that are not as their table says, or could not be read without one saying so.
    pub wrong: usize,
    /// States of all explorations.
    pub states: u64,
}

impl fmt::Display for Sum {
    /// `447 run, 2 refused (instruction FADD: 1, variant memtag: 1)`: what stands in the way most often comes first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} run, {} refused", self.run, self.refused.values().sum::<usize>())?;
        let mut refused: Vec<(&String, &usize)> = self.refused.iter().collect();
        refused.sort_by_key(|(construct, count)| (Reverse(**count), construct.as_str()));
        let listed: Vec<String> = refused.iter().map(|(construct, count)| format!("{construct}: {count}")).collect();
        if listed.is_empty() { Ok(()) } else { write!(f, " ({})", listed.join(", ")) }
    }
}

impl Sum {
    /// Counts one test.
    pub fn add(&mut self, item: &Item, done: &Done) {
        let results = done.results();
        match (&done.test, results.iter().find(|ours| !ours.has_run())) {
            (_, None) => self.run += 1,
            (Err(error), _) => *self.refused.entry(error.construct.clone()).or_default() += 1,
            (Ok(_), Some(ours)) => *self.refused.entry(ours.to_string()).or_default() += 1,
        }
        self.wrong += usize::from(!done.wrong.is_empty());
        self.states += done.ran.iter().flatten().map(|ran| ran.explored.states).sum::<u64>();
        let row = item.listed.iter().filter_map(|(_, row)| row.as_ref());
        let verdicts = row.flat_map(|row| row.verdicts.into_iter().zip(results).enumerate());
        for (at, ((published, _), ours)) in verdicts {
            let is_fulfilled = done.ran.as_ref().is_some_and(|ran| ran[at].explored.holds.is_some());
            let kind = match (published, ours) {
                (Published::Open, _) => continue,
                _ if published.contradicts(ours) => {
                    self.contradicted += 1;
                    continue;
                }
                _ if !ours.has_run() => continue,
                (Published::Forbidden, _) => 0,
                (Published::Required, _) => 1,
                (Published::Allowed, _) if is_fulfilled => 2,
                (Published::Allowed, _) => 3,
            };
            self.verdicts[kind] += 1;
        }
    }
}
