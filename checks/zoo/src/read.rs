//! Reads cases. First `KEY: text` with indented lines that go on, then lines of a trace in which words may be
//! expressions, and these:
//!
//! ```text
//! setup NAME                      lines of setups/NAME.setup
//! cpus FIELD=VALUE…               what every CPU announces beside what its own line says
//! let NAME = VALUE                a name; with a CPU before it, when that CPU comes here
//! CPU await VALUE                 waits until it is not zero
//! together … then                 between these lines CPUs go on independently
//! - LINE, + LINE                  of the buggy version only, of the fixed one only
//! LINE for NAME in FIRST..END     once for each number
//! LINE ! RULE [bbm=…] [ets=…] [hole]; RULE …
//! ```

use std::fs;
use std::path::Path;

use crate::case::{Act, Case, Place, Repetition, Step, Version};
use crate::configuration::Configuration;
use crate::engine::Counterpart;
use crate::error::Error;
use crate::expected::expectations;
use crate::expression::is_name;

impl Case {
    /// Reads one from its file. Errors: the first line that makes no sense.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = path.display().to_string();
        let text =
            fs::read_to_string(path).map_err(|error| Error { file: file.clone(), line: 0, what: error.to_string() })?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Self::read(&name, &file, &text)
    }

    /// Reads one from the text of `file`. Errors: the first line that makes no sense.
    pub fn read(name: &str, file: &str, text: &str) -> Result<Self, Error> {
        let mut reader = Reader { file, case: empty(name), key: String::new(), is_head: true };
        for (number, line) in (1..).zip(text.lines()) {
            reader.line(line, number).map_err(|what| Error { file: file.to_owned(), line: number, what })?;
        }
        let whole = |what| Error { file: file.to_owned(), line: 0, what };
        check(&reader.case).map_err(whole)?;
        Ok(reader.case)
    }
}

fn empty(name: &str) -> Case {
    let (happened, story, legal) = (String::new(), String::new(), None);
    Case { name: name.to_owned(), happened, story, legal, engine: Vec::new(), steps: Vec::new() }
}

/// A case that nothing could ever catch, or that has no reason where nothing is caught, is none.
fn check(case: &Case) -> Result<(), String> {
    if case.happened.is_empty() || case.story.is_empty() {
        return Err(String::from("expected `where: …` and `story: …` at the beginning"));
    }
    let expects = |configuration: &Configuration| case.expected(*configuration).next().is_some();
    let silent = Configuration::all().filter(|it| !expects(it)).count();
    match (silent, &case.legal) {
        (12, _) => Err(String::from("nothing is expected of it anywhere, expected `! RULE` on some line")),
        (0, Some(_)) => Err(String::from("`legal: …`, but something is expected in every configuration")),
        (1.., None) => Err(format!("nothing is expected in {silent} configurations, expected `legal: …` to say why")),
        _ if case.steps.iter().all(|step| step.only.is_none()) => {
            Err(String::from("both versions are the same, expected lines that begin with `-` or `+`"))
        }
        _ => Ok(()),
    }
}

struct Reader<'t> {
    file: &'t str,
    case: Case,
    key: String,
    is_head: bool,
}

impl Reader<'_> {
    fn line(&mut self, line: &str, number: usize) -> Result<(), String> {
        if self.is_head && !line.trim().is_empty() {
            return self.head(line);
        }
        self.is_head = false;
        let place = Place { file: self.file.to_owned(), line: number };
        body(line, place, &mut self.case.steps)
    }

    fn head(&mut self, line: &str) -> Result<(), String> {
        let (key, text) = match line.strip_prefix(' ') {
            Some(text) => (self.key.clone(), text.trim()),
            None => {
                line.split_once(": ").map(|(key, text)| (key.to_owned(), text.trim())).ok_or("expected `KEY: text`")?
            }
        };
        let is_more = line.starts_with(' ');
        let case = &mut self.case;
        match key.as_str() {
            "where" => join(&mut case.happened, text),
            "story" => join(&mut case.story, text),
            "legal" => join(case.legal.get_or_insert_default(), text),
            "engine" if !is_more => case.engine.push(Counterpart::read(text)?),
            _ => return Err(format!("`{key}`, expected where, story, legal or engine")),
        }
        self.key = key;
        Ok(())
    }
}

fn join(all: &mut String, more: &str) {
    if !all.is_empty() {
        all.push(' ');
    }
    all.push_str(more);
}

/// One line after the head.
fn body(line: &str, at: Place, steps: &mut Vec<Step>) -> Result<(), String> {
    let (line, comment) = line.split_once('#').map_or((line, None), |(line, it)| (line, Some(it.trim().to_owned())));
    let (only, line) = match line.split_at_checked(1) {
        Some(("-", rest)) => (Some(Version::Buggy), rest),
        Some(("+", rest)) => (Some(Version::Fixed), rest),
        _ => (None, line),
    };
    let (line, expected) = match line.split_once('!') {
        Some((line, expected)) => (line, expectations(expected)?),
        None => (line, Vec::new()),
    };
    let (line, repeated) = repetition(line)?;
    let words: Vec<&str> = line.split_whitespace().collect();
    if words.is_empty() {
        return Ok(());
    }
    if let ["setup", name] = words[..] {
        return setup(name, steps);
    }
    if only == Some(Version::Fixed) && !expected.is_empty() {
        return Err(String::from("a finding is expected in the fixed version, which must be silent"));
    }
    steps.push(Step { at, only, act: act(&words)?, repeated, expected, comment });
    Ok(())
}

fn act(words: &[&str]) -> Result<Act, String> {
    let owned = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    let named = |name: &str| match is_name(name) {
        true => Ok(name.to_owned()),
        false => Err(format!("`{name}`, expected a name that begins with a capital")),
    };
    match words {
        ["together"] => Ok(Act::Together),
        ["then"] => Ok(Act::Then),
        ["cpu" | "cpus", rest @ ..] => match rest.iter().find(|it| it.starts_with("bbm=") || it.starts_with("ets=")) {
            Some(field) => Err(format!("`{field}`, expected none: the configuration says it")),
            None if words[0] == "cpu" => Ok(Act::Cpu(owned(rest))),
            None => Ok(Act::Cpus(owned(rest))),
        },
        ["memory", rest @ ..] => Ok(Act::Memory(owned(rest))),
        ["let", name, "=", value] => Ok(Act::Let(None, named(name)?, (*value).to_owned())),
        [cpu, rest @ ..] => {
            let number =
                cpu.parse().map_err(|_| format!("`{cpu}`, expected a CPU's number, setup, let, cpu or memory"))?;
            match rest {
                ["let", name, "=", value] => Ok(Act::Let(Some(number), named(name)?, (*value).to_owned())),
                ["await", value] => Ok(Act::Await(number, (*value).to_owned())),
                [] => Err(String::from("a CPU that does nothing")),
                _ => Ok(Act::Event(number, owned(rest))),
            }
        }
        [] => Err(String::from("an empty line")),
    }
}

/// The line without ` for NAME in FIRST..END`, and what that says.
fn repetition(line: &str) -> Result<(&str, Option<Repetition>), String> {
    let Some((line, counted)) = line.split_once(" for ") else { return Ok((line, None)) };
    if let [name, "in", range] = counted.split_whitespace().collect::<Vec<_>>()[..]
        && let (true, Some((first, end))) = (is_name(name), range.split_once(".."))
    {
        let [name, first, end] = [name, first, end].map(str::to_owned);
        return Ok((line, Some(Repetition { name, first, end })));
    }
    Err(format!("`for {}`, expected `for NAME in FIRST..END`", counted.trim()))
}

/// The lines of a setup.
fn setup(name: &str, steps: &mut Vec<Step>) -> Result<(), String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("setups").join(format!("{name}.setup"));
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    for (number, line) in (1..).zip(text.lines()) {
        let place = Place { file: path.display().to_string(), line: number };
        body(line, place, steps).map_err(|what| format!("{}:{number}: {what}", path.display()))?;
    }
    Ok(())
}
