//! What is told to whoever started the guest: one line of JSON for each thing.

use std::fmt;
use std::fs;

use machine::finding::{Finding, Names};
use serde_json::{Value, json};

use crate::record::{Log, Record};

/// A finding of the rules as it is told: the same fault once.
#[derive(Debug)]
pub struct Told {
    /// The rule, in a few characters.
    pub rule: &'static str,
    /// The instruction at which it was found.
    pub place: u64,
    /// The instruction that made it so, where that is known.
    pub cause: u64,
    /// How often.
    pub count: u64,
}

/// A finding in words, with records of the log where the machine has events.
pub struct Story<'l> {
    /// The log.
    pub log: &'l Log,
    /// The finding.
    pub finding: &'l Finding,
}

impl Names for Story<'_> {
    fn event(&self, f: &mut fmt::Formatter<'_>, event: u64) -> fmt::Result {
        match self.log.of(event) {
            Some(record) => named(f, record),
            None => write!(f, "an event long ago"),
        }
    }

    fn writer(&self, f: &mut fmt::Formatter<'_>, finding: &Finding, address: u64, what: &str) -> fmt::Result {
        let Some(record) = self.log.writer(address, finding.event) else { return Ok(()) };
        write!(f, "  {what} at ")?;
        named(f, record)?;
        writeln!(f, ".")
    }
}

/// Addresses of instructions stand in braces: symbols take their place later.
fn named(f: &mut fmt::Formatter<'_>, record: &Record) -> fmt::Result {
    write!(f, "`{record}`")?;
    if record.place == 0 { Ok(()) } else { write!(f, " in {{{:#x}}}", record.place) }
}

impl fmt::Display for Story<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.finding.tell(f, self)
    }
}

/// How far the guest is.
pub fn progress(instructions: u64, events: u64, findings: u64) -> Value {
    json!({ "progress": { "instructions": instructions, "events": events, "findings": findings } })
}

/// A fault that was not told yet.
pub fn finding(told: &Told, finding: &Finding, story: &str, instructions: u64, chain: &[u64]) -> Value {
    json!({ "finding": {
        "rule": told.rule,
        "title": finding.rule.to_string(),
        "cpu": finding.cpu,
        "place": told.place,
        "cause": told.cause,
        "address": finding.address,
        "instructions": instructions,
        "chain": chain,
        "story": story,
    } })
}

/// No CPU goes on until somebody lets it.
pub fn held() -> Value {
    json!({ "held": true })
}

/// The end, and how often each fault was met, in the order in which they were told.
pub fn end(
    instructions: u64,
    events: u64,
    told: &[Told],
    counts: Value,
    sites: Vec<Value>,
    cut: Option<&str>,
) -> Value {
    // What QEMU takes, with the machine in it; of a host that does not say nothing is told.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let most =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let counted: Vec<u64> = told.iter().map(|it| it.count).collect();
    json!({ "end": {
        "instructions": instructions, "events": events, "counted": counted, "seen": counts, "sites": sites, "cut": cut,
        "most_kib": most,
    } })
}
