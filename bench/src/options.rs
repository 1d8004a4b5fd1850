//! The command line.

use lexopt::prelude::*;

use crate::case::Case;
use crate::roster::Contender;

/// What a person asked for.
#[derive(Debug)]
pub(crate) enum Command {
    Help,
    /// Make the recorded table anew.
    Table,
    List(Vec<(Case, Contender)>),
    Measure(Options),
}

/// What is measured, and what becomes of it.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) pairs: Vec<(Case, Contender)>,
    pub(crate) is_quick: bool,
    pub(crate) is_json: bool,
    pub(crate) is_recorded: bool,
    /// What misses its bound is a failure.
    pub(crate) is_bound: bool,
}

/// Reads the command line of this process.
pub(crate) fn parse() -> Result<Command, lexopt::Error> {
    let (mut filters, mut only) = (Vec::new(), None);
    let (mut is_listed, mut is_quick, mut is_json, mut is_recorded, mut is_bound) = (false, false, false, false, false);
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("help") | Short('h') => return Ok(Command::Help),
            Long("table") => return Ok(Command::Table),
            Long("list") => is_listed = true,
            Long("quick") => is_quick = true,
            Long("json") => is_json = true,
            Long("record") => is_recorded = true,
            Long("must") => is_bound = true,
            Long("only") => only = Some(contender(&parser.value()?.string()?)?),
            Value(filter) => filters.push(filter.string()?),
            other => return Err(other.unexpected()),
        }
    }
    if is_recorded && (is_quick || is_json || only.is_some() || !filters.is_empty()) {
        return Err("--record records every row, so it stands alone".into());
    }
    if is_quick && is_json {
        return Err("--quick counts nothing, so there is nothing to tell as --json".into());
    }
    if is_bound && (is_quick || is_json || is_recorded || only.is_some()) {
        return Err("--must counts what the engine needs, and nothing else: it stands with names of rows alone".into());
    }
    let pairs = pairs(&filters, |contender| match only {
        Some(only) => contender == only,
        None => !is_bound || Contender::ENGINE.contains(&contender),
    });
    if pairs.is_empty() {
        return Err(format!("no row's name contains `{}`; --list shows them", filters.join("` or `")).into());
    }
    if is_listed {
        Ok(Command::List(pairs))
    } else {
        Ok(Command::Measure(Options { pairs, is_quick, is_json, is_recorded, is_bound }))
    }
}

fn contender(name: &str) -> Result<Contender, String> {
    let names = || Contender::ALL.map(Contender::name).join(", ");
    Contender::named(name).ok_or_else(|| format!("no contender `{name}`; they are {}", names()))
}

/// Who takes part in what.
fn pairs(filters: &[String], takes_part: impl Fn(Contender) -> bool) -> Vec<(Case, Contender)> {
    let is_wanted = |case: &Case| {
        let name = case.to_string();
        filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()))
    };
    let cases = Case::all().into_iter().filter(is_wanted);
    let pairs = cases.flat_map(|case| Contender::ALL.map(|contender| (case, contender)));
    pairs.filter(|&(case, contender)| contender.lacks(case).is_none() && takes_part(contender)).collect()
}
