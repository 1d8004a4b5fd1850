//! What a boot test expects of the kernel's text, in the words of `boots.toml`.

use serde_json::Value;

use crate::boot::transcript::Transcript;

/// How the line begins that tells for how long interrupts were masked.
const MASKED: &str = "init: interrupts were masked for at most ";
/// How the answer begins to an expectation that is none.
pub(crate) const UNKNOWN: &str = "no such expectation: ";

/// Looks for what follows an expectation's first words.
type Look = fn(&Transcript, &str) -> Result<(), String>;

/// Every kind of expectation, by its first words.
const KINDS: [(&str, Look); 14] = [
    ("page ", |said, size| is(&said.data("chosen")["page_size"], &size.to_ascii_uppercase().into(), "the page size")),
    ("bits ", virtual_bits),
    ("cpus ", |said, count| {
        let found = said.data("detected")["cpus"].as_array().map_or(0, Vec::len) as u64;
        is(&found.into(), &number(count)?.into(), "the number of CPUs")
    }),
    ("entered at EL", |said, level| {
        is(&said.data("detected")["entered_at"], &number(level)?.into(), "the exception level of entry")
    }),
    ("first check within ", |said, most| {
        at_most(said.instructions_to_first_check(), most, "instructions to the first self-check")
    }),
    ("masked at most ", |said, most| {
        let longest = |line: &str| line.strip_prefix(MASKED)?.split_whitespace().next()?.parse().ok();
        at_most(said.section("init").find_map(longest), most, "instructions with interrupts masked")
    }),
    ("linear map tables at most ", |said, most| {
        at_most(said.data("summary")["linear_map_table_bytes"].as_u64(), most, "bytes of linear map tables")
    }),
    ("says ", |said, words| {
        expect(said.lines().any(|line| has_words(line, words)), || format!("no line has the words {words}"))
    }),
    ("monitor counts ", |said, name| {
        let mut counts = said.section("monitor").filter_map(|line| line.strip_prefix(name));
        let is_counted = counts.any(|rest| rest.split_whitespace().any(|count| count != "0"));
        expect(is_counted, || format!("# monitor has no line that counts {name}"))
    }),
    ("monitor never counts ", |said, name| {
        reported(said, said.section("monitor").find(|line| line.starts_with(name)), &format!("no {name}"))
    }),
    ("no conflict on ", |said, cpu| {
        let cpu = number(cpu)? as usize;
        let count = |line: &'_ str| line.split_whitespace().nth(3 + cpu).unwrap_or("none").to_owned();
        let counts: Vec<String> = conflicts(said, "monitor").map(count).collect();
        let is_none = !counts.is_empty() && counts.iter().all(|count| *count == "0");
        expect(is_none, || format!("# monitor counts the conflicts {counts:?} on CPU {cpu}, expected some on others"))
    }),
    ("conflicts only on ", |said, cpu| {
        let cpu = number(cpu)? as usize;
        let is_elsewhere = |line: &&str| {
            let mut counts = line.split_whitespace().skip(3).enumerate();
            counts.any(|(at, count)| at != cpu && count != "0")
        };
        reported(said, conflicts(said, "monitor").find(is_elsewhere), &format!("none but on CPU {cpu}"))
    }),
    ("same conflicts", |said, _| {
        let [guest, monitor] = ["conflicts", "monitor"].map(|section| conflicts(said, section).collect::<Vec<_>>());
        let is_same = guest == monitor && !guest.is_empty();
        expect(is_same, || format!("the guest has counted {guest:?}, and the monitor {monitor:?}"))
    }),
    // Held by the boot, which runs twice.
    (SAME_TWICE, |_, _| Ok(())),
];

/// A second run prints the same, byte for byte.
pub(crate) const SAME_TWICE: &str = "same twice";

/// Whether one run's text is as expected; if not, what it is instead.
pub(crate) fn check(expectation: &str, said: &Transcript) -> Result<(), String> {
    let kind = KINDS.iter().find_map(|(start, look)| Some((look, expectation.strip_prefix(start)?)));
    let (look, rest) = kind.ok_or_else(|| format!("{UNKNOWN}{expectation}"))?;
    look(said, rest)
}

fn expect(is_met: bool, found: impl FnOnce() -> String) -> Result<(), String> {
    if is_met { Ok(()) } else { Err(found()) }
}

fn is(found: &Value, expected: &Value, what: &str) -> Result<(), String> {
    expect(found == expected, || format!("{what} is {found}, expected {expected}"))
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{UNKNOWN}a number was expected, not {text}"))
}

fn at_most(found: Option<u64>, most: &str, what: &str) -> Result<(), String> {
    let most = number(most)?;
    let found = found.ok_or_else(|| format!("no line counts {what}"))?;
    expect(found <= most, || format!("{found} {what}, expected at most {most}"))
}

/// Lines that count conflicts, CPU by CPU.
fn conflicts<'t>(said: &'t Transcript, section: &'t str) -> impl Iterator<Item = &'t str> {
    said.section(section).filter(|line| line.starts_with("conflicts, EL"))
}

/// Whether there is a report of the monitor's, and nothing in it that should not be.
fn reported(said: &Transcript, counted: Option<&str>, expected: &str) -> Result<(), String> {
    let has_report = said.section("monitor").any(|line| line.contains("cpu 0"));
    expect(has_report && counted.is_none(), || format!("# monitor counts {counted:?}, expected {expected}"))
}

fn virtual_bits(said: &Transcript, bits: &str) -> Result<(), String> {
    let bits = number(bits)?;
    is(&said.data("chosen")["virtual_bits"], &bits.into(), "the bits of virtual address")?;
    let first = format!("{:#018x}-", u64::MAX << bits);
    match said.section("linear map").find(|line| line.starts_with("0x")) {
        Some(line) if line.starts_with(&first) => Ok(()),
        other => Err(format!("# linear map begins with {other:?}, expected {first}")),
    }
}

/// Whether a line has all these words, with ` & ` between them, in capitals or not; `4k` is no word
/// of `64k`.
fn has_words(line: &str, words: &str) -> bool {
    let line = line.to_ascii_lowercase();
    words
        .to_ascii_lowercase()
        .split(" & ")
        .all(|word| line.match_indices(word).any(|(at, _)| !line[..at].ends_with(|c: char| c.is_ascii_alphanumeric())))
}

/// A warning or an error for each of `expected`, in order, and no other.
pub(crate) fn check_warnings(said: &Transcript, expected: &[String]) -> Result<(), String> {
    let is_warning = |line: &&str| ["warning: ", "error: "].iter().any(|start| line.starts_with(start));
    let warnings: Vec<&str> = said.lines().filter(is_warning).collect();
    let is_met =
        warnings.len() == expected.len() && warnings.iter().zip(expected).all(|(line, words)| has_words(line, words));
    expect(is_met, || format!("expected warnings with {expected:?}, found {warnings:?}"))
}

/// The first line at which two texts part.
pub(crate) fn first_difference(one: &[u8], other: &[u8]) -> Option<String> {
    if one == other {
        return None;
    }
    let lines = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().map(str::to_string).collect::<Vec<_>>();
    let (one, other) = (lines(one), lines(other));
    let same = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
    let line = |lines: &[String]| lines.get(same).map_or("(the end)".to_string(), |line| format!("`{line}`"));
    Some(format!("two runs differ at line {}: {} and then {}", same + 1, line(&one), line(&other)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"# detected\r\n{\"section\":\"detected\",\"cpus\":[{},{}],\"entered_at\":2}\r\n# chosen\r\n\
                          page size: 64K (asked for)\r\n\
                          {\"section\":\"chosen\",\"page_size\":\"64K\",\"virtual_bits\":48}\r\n# linear map\r\n---\r\n\
                          0xffff000000000000-0xx\r\n# summary\r\n\
                          {\"section\":\"summary\",\"linear_map_table_bytes\":4096}\r\n# times\r\n\
                          {\"section\":\"times\",\"steps\":[{\"step\":\"first self-check\",\"instructions\":100}]}\r\n\
                          # monitor\r\n   cpu 0  cpu 1\r\n\
                          reads   0   3\r\nwrites   0   0\r\nconflicts, EL1 data   0   2\r\n# conflicts\r\n\
                          conflicts, EL1 data   0   2\r\n";

    #[test]
    fn each_expectation_can_be_met_and_missed() {
        let transcript = Transcript::new(TEXT);
        for met in "page 64k; bits 48; says page size & 64K; cpus 2; entered at EL2; first check within 100; \
                    monitor counts reads; monitor never counts stores; same conflicts; no conflict on 0; \
                    conflicts only on 1; linear map tables at most 4096"
            .split("; ")
        {
            assert_eq!(check(met, &transcript), Ok(()), "{met}");
        }
        for missed in "page 4k; page 16k; bits 47; bits 52; says page size & 16K; cpus 3; entered at EL1; \
                       first check within 99; monitor counts writes; monitor counts stores; \
                       monitor never counts writes; no conflict on 1; no conflict on 2; conflicts only on 0; \
                       conflicts only on 2; linear map tables at most 4095; cpus many; unheard of"
            .split("; ")
        {
            assert!(check(missed, &transcript).is_err(), "{missed}");
        }
        let other = String::from_utf8_lossy(TEXT).replacen("0   2", "1   1", 1);
        assert!(check("same conflicts", &Transcript::new(other.as_bytes())).is_err());
        for (start, _) in KINDS.iter().filter(|(start, _)| *start != SAME_TWICE) {
            assert!(check(&format!("{start}0"), &Transcript::new(b"")).is_err() || *start == "cpus ", "{start}");
        }
    }

    #[test]
    fn warnings_are_expected_or_there_are_none() {
        let with = |lines: &str| Transcript::new(format!("{lines}# chosen\nx\n").as_bytes());
        let one = "warning: arm64.pagesize=8k: expected 4k, 16k or 64k\n";
        let words = &["arm64.pagesize & 8k".to_owned()];
        assert_eq!(check_warnings(&with(""), &[]), Ok(()));
        assert_eq!(check_warnings(&with(one), words), Ok(()));
        assert!(check_warnings(&with(one), &[]).is_err());
        assert!(check_warnings(&with("error: x\n"), &[]).is_err());
        assert!(check_warnings(&with(""), words).is_err());
        assert!(check_warnings(&with(&one.repeat(2)), words).is_err());
        assert!(check_warnings(&with("warning: other\n"), words).is_err());
    }

    #[test]
    fn a_difference_is_shown() {
        assert_eq!(first_difference(b"a\nb\n", b"a\nb\n"), None);
        let differ = first_difference(b"a\nb\nc\n", b"a\nx\n");
        assert_eq!(differ.as_deref(), Some("two runs differ at line 2: `b` and then `x`"));
        let short = first_difference(b"a\nb\n", b"a\n");
        assert_eq!(short.as_deref(), Some("two runs differ at line 2: `b` and then (the end)"));
    }
}
