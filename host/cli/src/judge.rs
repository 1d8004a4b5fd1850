//! `vellum judge`: the rules of the simulated machine, applied to what another kernel logged.

mod follow;
mod pieces;
mod reader;
mod report;
mod smaller;

use std::io::{self, BufWriter, Write};
use std::path::Path;

use machine::trace::{Judge, Malformed, Trace};
use terminal::Ending;

use crate::args::JudgeArguments;
use crate::progress::Progress;
use crate::say;
use crate::select::Failure;

/// What writes traces, in C.
const HEADER: &str = include_str!("../../../docs/trace/vellum_trace.h");

/// Runs the command.
pub(crate) fn run(arguments: &JudgeArguments) -> Result<Ending, Failure> {
    if arguments.header {
        return print(|out| out.write_all(HEADER.as_bytes())).map(|()| Ending::Clean);
    }
    let path = arguments.trace.as_deref().unwrap_or("-");
    let reading = Reading { arguments, path };
    if path == "-" || arguments.follow {
        return follow::follow(&reading);
    }
    let bytes = std::fs::read(path).map_err(|error| Failure::file(path, &error))?;
    let text = text(path, bytes)?;
    let status = reading.judge(&text, &mut 0, true).map(Found::status)?;
    if let (Some(file), Ending::Wrong) = (&arguments.smaller, &status) {
        write_smaller(&text, arguments.strict, file)?;
    }
    Ok(status)
}

/// Writes what is left of a trace once everything has gone that its first finding does not need.
fn write_smaller(text: &str, is_strict: bool, file: &Path) -> Result<(), Failure> {
    let mut left = Progress::new("{spinner} {pos} lines are left after {elapsed}", 0);
    let lines = smaller::smaller(text, is_strict, &mut |lines| left.at(lines as u64));
    drop(left);
    let lines = lines.unwrap_or_default();
    std::fs::write(file, lines.join("\n") + "\n")
        .map_err(|error| Failure(format!("{}: {error}: name another file with --smaller", file.display())))?;
    say::note(format!("{} has {} of {} lines", file.display(), lines.len(), text.lines().count()));
    Ok(())
}

/// Whose trace is judged, and how.
struct Reading<'a> {
    arguments: &'a JudgeArguments,
    path: &'a str,
}

/// Whether a rule is broken.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Found(bool);

impl Found {
    const fn status(self) -> Ending {
        if self.0 { Ending::Wrong } else { Ending::Clean }
    }
}

impl Reading<'_> {
    /// Judges a trace, or all of it that has come; tells what was found beyond the first `told`, and sums up where it `is_all`.
    fn judge(&self, text: &str, told: &mut usize, is_all: bool) -> Result<Found, Failure> {
        let (path, arguments) = (self.path, self.arguments);
        let malformed = |Malformed { line, what }| Failure(format!("{path}:{line}: {what}"));
        let trace = match Trace::read(text) {
            // Of its head a part may be missing yet.
            Err(Malformed { line, .. }) if !is_all && line >= text.lines().count() => return Ok(Found(false)),
            trace => trace.map_err(malformed)?,
        };
        let mut judge = Judge::new(&trace, arguments.lint);
        if arguments.strict {
            judge.be_strict();
        }
        let mut lines = Progress::new("judging {wide_bar} {pos}/{len} events, {eta} left", trace.lines.len() as u64);
        // A line that cannot have happened ends the trace there; what was found before it is told all the same.
        let ended = loop {
            match judge.step() {
                Ok(true) => lines.step(),
                Ok(false) => break Ok(()),
                Err(what) => break Err(malformed(what)),
            }
        };
        drop(lines);
        let is_end = is_all || ended.is_err();
        print(|out| match arguments.json {
            true => report::json(&judge, path, arguments.all, told, out),
            false => report::text(&judge, &trace, path, arguments.all, (told, is_end), out),
        })?;
        ended?;
        Ok(Found(judge.findings().iter().any(|it| !it.is_lint())))
    }
}

/// The bytes as text, or the line that holds something else.
fn text(path: &str, bytes: Vec<u8>) -> Result<String, Failure> {
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let bytes = error.as_bytes();
        let line = 1 + bytes[..good].iter().filter(|it| **it == b'\n').count();
        Failure(format!("{path}:{line}: the byte {:#04x} is not text, expected UTF-8", bytes[good]))
    })
}

/// Prints; a reader that has gone away is no error.
fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    Ok(write(&mut out).and_then(|()| out.flush()).or_else(terminal::unless_unread)?)
}
