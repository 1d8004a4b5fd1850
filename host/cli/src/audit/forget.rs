//! Mutants of a running kernel: each DSB, ISB and TLBI that an audited run executes is left out of what the machine is told, one run
//! each. The guest itself runs as ever.

use std::io::{self, Write};

use serde_json::Value;

use super::guest::{Asked, Guest};
use super::symbols::Symbols;
use super::tell::Teller;
use terminal::Ending;

use crate::say;
use crate::select::Failure;

/// A barrier or TLBI: where, what, and how often the machine was shown it.
#[derive(Debug)]
struct Site {
    place: u64,
    what: String,
    count: u64,
}

/// What one run said: its first finding ends it.
#[derive(Default, Debug)]
struct Run {
    rules: Vec<String>,
    sites: Vec<Site>,
    has_ended: bool,
}

impl Run {
    fn of(guest: &Guest, teller: &Teller<'_>, forgotten: Vec<u64>, cpu: &str) -> Result<Self, Failure> {
        let mut run = Self::default();
        let asked = Asked { forgotten, cpu: cpu.to_owned(), is_silent: true, ..Asked::default() };
        guest.run(&asked, &mut |message| {
            run.take(message, teller);
            !run.rules.is_empty()
        })?;
        if run.has_ended || !run.rules.is_empty() {
            Ok(run)
        } else {
            Err(Failure("QEMU ended in the middle of the audit".into()))
        }
    }

    fn take(&mut self, message: &Value, teller: &Teller<'_>) {
        if let Some(rule) = message["finding"]["rule"].as_str()
            && !teller.heard(&message["finding"]).is_excused
            && !self.rules.iter().any(|it| it == rule)
        {
            self.rules.push(rule.to_owned());
        }
        if let Some(end) = message.get("end") {
            self.has_ended = true;
            let sites = end["sites"].as_array().map_or(&[][..], Vec::as_slice);
            let site = |it: &Value| {
                Some(Site { place: it[0].as_u64()?, what: it[1].as_str()?.to_owned(), count: it[2].as_u64()? })
            };
            self.sites = sites.iter().filter_map(site).collect();
        }
    }
}

/// Prints a row for each site: what it is, where, how often it was executed, and the rule that found it missing.
pub(super) fn run(
    guest: &Guest,
    teller: &Teller<'_>,
    symbols: &Symbols,
    only: &[String],
    cpu: &str,
) -> Result<Ending, Failure> {
    let plain = Run::of(guest, teller, Vec::new(), cpu)?;
    if !plain.rules.is_empty() {
        return Err(Failure(format!("with nothing forgotten there are findings already: {}", plain.rules.join(", "))));
    }
    let is_asked =
        |place: u64| only.is_empty() || symbols.function(place).is_some_and(|it| only.iter().any(|name| name == it.1));
    let (mut found, mut all) = (0, 0);
    for Site { place, what, count } in plain.sites.into_iter().filter(|it| is_asked(it.place)) {
        let rules = Run::of(guest, teller, vec![place], cpu)?.rules;
        let verdict = if rules.is_empty() { "not found".to_owned() } else { rules.join(", ") };
        writeln!(io::stdout(), "{what:14} {:50} {count:>8}  {verdict}", symbols.name(place))?;
        found += usize::from(!rules.is_empty());
        all += 1;
    }
    say::note(format!("{found} of {all} sites are found when they are forgotten"));
    Ok(if found == all { Ending::Clean } else { Ending::Wrong })
}
