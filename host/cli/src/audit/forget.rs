//! Mutants of a running kernel: each DSB, ISB and TLBI that an audited run executes is left out of what the machine is told, one run
//! each. The guest itself runs as ever.

use std::io::{self, Write};

use serde_json::Value;

use super::guest::{Asked, Guest};
use super::symbols::Symbols;
use super::tell::Teller;
use crate::Status;
use crate::say;
use crate::select::Failure;

/// What one run said.
#[derive(Default, Debug)]
struct Run {
    rules: Vec<String>,
    sites: Vec<(u64, String)>,
    has_ended: bool,
}

impl Run {
    fn of(guest: &Guest, teller: &Teller<'_>, forgotten: Vec<u64>, cpu: &str) -> Result<Self, Failure> {
        let mut run = Self::default();
        let asked = Asked { forgotten, cpu: cpu.to_owned(), is_silent: true, ..Asked::default() };
        guest.run(&asked, &mut |message| {
            run.take(message, teller);
            false
        })?;
        if run.has_ended { Ok(run) } else { Err(Failure("QEMU ended in the middle of the audit".into())) }
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
            self.sites = sites.iter().filter_map(|it| Some((it[0].as_u64()?, it[1].as_str()?.to_owned()))).collect();
        }
    }
}

/// A line for each site: what it is, where, and the rules that found it missing.
pub(super) fn run(
    guest: &Guest,
    teller: &Teller<'_>,
    symbols: &Symbols,
    only: &[String],
    cpu: &str,
) -> Result<Status, Failure> {
    let plain = Run::of(guest, teller, Vec::new(), cpu)?;
    if !plain.rules.is_empty() {
        return Err(Failure(format!("with nothing forgotten there are findings already: {}", plain.rules.join(", "))));
    }
    let is_asked =
        |place: u64| only.is_empty() || symbols.function(place).is_some_and(|it| only.iter().any(|name| name == it.1));
    let sites: Vec<_> = plain.sites.into_iter().filter(|it| is_asked(it.0)).collect();
    let mut found = 0;
    for (place, what) in &sites {
        let run = Run::of(guest, teller, vec![*place], cpu)?;
        found += usize::from(!run.rules.is_empty());
        let verdict = if run.rules.is_empty() { "not found".to_owned() } else { run.rules.join(", ") };
        writeln!(io::stdout(), "{what:10} {:50} {verdict}", symbols.name(*place))?;
    }
    say::note(format!("{found} of {} sites are found when they are forgotten", sites.len()));
    Ok(if found == sites.len() { Status::Clean } else { Status::Findings })
}
