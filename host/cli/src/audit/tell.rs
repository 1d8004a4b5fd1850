//! What the plugin says, told to a person: progress, each fault once with the names of functions, and a summary by rule.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use super::excuses::Excuses;
use super::symbols::Symbols;
use crate::say;

/// How long the guest may run in silence.
const SILENCE: Duration = Duration::from_secs(2);

/// A fault, and whether it is excused.
#[derive(Debug)]
struct Told {
    title: String,
    is_excused: bool,
}

/// A finding in words.
pub(super) struct Heard {
    story: String,
    chain: Vec<String>,
    pub(super) is_excused: bool,
}

/// Takes the plugin's messages.
#[derive(Debug)]
pub(super) struct Teller<'s> {
    symbols: &'s Symbols,
    excuses: &'s Excuses,
    is_json: bool,
    told: Vec<Told>,
    end: Option<Value>,
    start: Instant,
    bar: Option<ProgressBar>,
}

impl<'s> Teller<'s> {
    pub(super) fn new(symbols: &'s Symbols, excuses: &'s Excuses, is_json: bool) -> Self {
        Self { symbols, excuses, is_json, told: Vec::new(), end: None, start: Instant::now(), bar: None }
    }

    /// One message. Whether it is a finding that nothing excuses.
    pub(super) fn take(&mut self, message: &Value) -> bool {
        if let Some(progress) = message.get("progress") {
            self.progress(progress);
        } else if let Some(finding) = message.get("finding") {
            return self.finding(finding);
        } else if let Some(end) = message.get("end") {
            if let Some(bar) = self.bar.take() {
                bar.finish_and_clear();
            }
            self.end = Some(end.clone());
        }
        false
    }

    /// What was said at the end, if the guest came to it.
    pub(super) fn end(&self) -> Option<&Value> {
        self.end.as_ref()
    }

    /// How many faults there are that nothing excuses.
    pub(super) fn findings(&self) -> usize {
        self.told.iter().filter(|it| !it.is_excused).count()
    }

    /// What was looked at, and the faults by rule.
    pub(super) fn summary(&self, end: &Value) -> String {
        let number = |value: &Value| HumanCount(value.as_u64().unwrap_or(0)).to_string();
        let seen = &end["seen"];
        let mut text = format!(
            "{} instructions in {} seconds and {} MiB; judged {} events: {} stores to tables, {} TLBIs, {} barriers, {} register writes; {} \
             tables read\n",
            number(&end["instructions"]),
            self.start.elapsed().as_secs(),
            end["most_kib"].as_u64().unwrap_or(0) >> 10,
            number(&end["events"]),
            number(&seen["stores"]),
            number(&seen["tlbis"]),
            number(&seen["barriers"]),
            number(&seen["registers"]),
            number(&seen["tables"]),
        );
        if seen["frees"].as_u64().is_some_and(|count| count > 0) {
            text += &format!("memory was freed {} times\n", number(&seen["frees"]));
        }
        let counts = end["counted"].as_array().map_or(&[][..], Vec::as_slice);
        let mut kinds: BTreeMap<(bool, &str), (u64, u64)> = BTreeMap::new();
        for (told, count) in self.told.iter().zip(counts) {
            let kind = kinds.entry((told.is_excused, told.title.as_str())).or_default();
            *kind = (kind.0 + 1, kind.1 + count.as_u64().unwrap_or(1));
        }
        for ((is_excused, title), (places, times)) in &kinds {
            let excused = if *is_excused { "excused: " } else { "" };
            text += &format!("{excused}{title} {places} places, {times} times\n");
        }
        if kinds.is_empty() { text + "no rule is broken" } else { text }
    }

    fn progress(&mut self, progress: &Value) {
        if self.start.elapsed() < SILENCE {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{spinner} {msg} in {elapsed}");
            ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
        });
        let number = |name: &str| HumanCount(progress[name].as_u64().unwrap_or(0));
        let (instructions, events, findings) = (number("instructions"), number("events"), number("findings"));
        bar.set_message(format!("{instructions} instructions, {events} events judged, {findings} findings"));
        bar.tick();
    }

    fn finding(&mut self, finding: &Value) -> bool {
        let text = |name: &str| finding[name].as_str().unwrap_or_default();
        let place = |name: &str| finding[name].as_u64().unwrap_or(0);
        let Heard { story, chain, is_excused } = self.heard(finding);
        self.told.push(Told { title: text("title").to_owned(), is_excused });
        if self.is_json {
            let record = json!({
                "rule": text("rule"), "title": text("title"), "cpu": finding["cpu"], "place": self.symbols.name(place("place")),
                "instructions": finding["instructions"], "is_excused": is_excused, "chain": chain, "story": story,
            });
            anstream::eprintln!("{record}");
        } else if !is_excused {
            let calls = if chain.is_empty() { String::new() } else { format!("\n  Called by {}.", chain.join(", ")) };
            say::finding(format!("after {} instructions: {story}{calls}\n", place("instructions")));
        }
        !is_excused
    }

    /// A finding with the names of functions.
    pub(super) fn heard(&self, finding: &Value) -> Heard {
        let text = |name: &str| finding[name].as_str().unwrap_or_default();
        let (story, chain) = (self.named(text("story")), self.chain(&finding["chain"]));
        let is_excused = self.excuses.has(text("rule"), &functions(&story, &chain));
        Heard { story, chain, is_excused }
    }

    /// Names of the calls that led to a place.
    fn chain(&self, chain: &Value) -> Vec<String> {
        // Pointer authentication may stand in the upper bits of a return address.
        const CODES: u64 = 0xffff << 48;
        let places = chain.as_array().map_or(&[][..], Vec::as_slice).iter().filter_map(Value::as_u64);
        places
            .map(|it| if it >> 47 & 1 == 1 { it | CODES } else { it & !CODES })
            .map(|it| self.symbols.name(it))
            .collect()
    }

    /// Addresses of instructions in braces become names.
    fn named(&self, story: &str) -> String {
        let mut parts = story.split('{');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let place = part.split_once('}').and_then(|(place, rest)| Some((image::number(place).ok()?, rest)));
            match place {
                Some((place, rest)) => text += &(self.symbols.name(place) + rest),
                None => text += &format!("{{{part}"),
            }
        }
        text
    }
}

/// The functions that a story names behind `in`, and the calls that led there.
fn functions<'s>(story: &'s str, chain: &'s [String]) -> Vec<&'s str> {
    let named = story.split(" in ").skip(1).filter_map(|it| it.split_whitespace().next());
    named.chain(chain.iter().map(String::as_str)).filter_map(|it| it.split_once("+0x")).map(|it| it.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_excused_by_any_function_of_its_story() {
        let story = "V3. At `0 free frame 0x1000` in free_page+0x0, CPU 0 did.\n  Stored over at `0 store` in unmap+0x218.\n  They differ in size.";
        let chain = ["vfree+0x58".to_owned(), "0x0".to_owned()];
        assert_eq!(functions(story, &chain), ["free_page", "unmap", "vfree"]);
    }
}
