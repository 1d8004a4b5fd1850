//! What a boot test expects of the kernel's text.

use serde_json::Value;

use crate::boot::transcript::Transcript;

/// Words that a line must have.
pub(crate) type Words = &'static [&'static str];

/// How the line begins that tells for how long interrupts were masked.
const MASKED: &str = "init: interrupts were masked for at most ";

/// One expectation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Expect {
    /// `# chosen` names this page size.
    PageSize(&'static str),
    /// `# chosen` names this many bits of virtual address, and `# linear map` begins where they do.
    VirtualBits(u32),
    /// `# detected` lists this many CPUs.
    Cpus(usize),
    /// `# detected` names the exception level of entry.
    EnteredAt(u8),
    /// `# times` counts at most this many instructions to the first self-check.
    FirstCheckWithin { instructions: u64 },
    /// `# init` tells that interrupts were never masked for more instructions.
    MaskedAtMost { instructions: u64 },
    /// `# summary` counts at most this many bytes of linear-map tables.
    LinearMapTablesAtMost { bytes: u64 },
    /// Some line has these words.
    Says(Words),
    /// The monitor's report counts something of this name.
    MonitorCounts(&'static str),
    /// The monitor's report has no line that begins so.
    MonitorNeverCounts(&'static str),
    /// The monitor's report counts no conflict on this CPU, but on others.
    NoConflictOn(usize),
    /// The monitor's report counts conflicts on this CPU alone, if any.
    ConflictsAtMostOn(usize),
    /// The guest's own counts of conflicts, in `# conflicts`, are the monitor's, CPU by CPU.
    SameConflicts,
    /// A second run prints the same, byte for byte.
    SameTwice,
}

impl Expect {
    /// Whether one run's text is as expected; if not, what it is instead.
    pub(crate) fn check(&self, transcript: &Transcript) -> Result<(), String> {
        let expect = |is_met: bool, found: String| if is_met { Ok(()) } else { Err(found) };
        match self {
            Expect::PageSize(size) => {
                is(&transcript.data("chosen")["page_size"], &size.to_ascii_uppercase().into(), "the page size")
            }
            Expect::VirtualBits(bits) => virtual_bits(transcript, *bits),
            Expect::EnteredAt(level) => {
                is(&transcript.data("detected")["entered_at"], &(*level).into(), "the exception level of entry")
            }
            Expect::Cpus(expected) => {
                let found = transcript.data("detected")["cpus"].as_array().map_or(0, Vec::len);
                expect(found == *expected, format!("{found} CPUs are detected, expected {expected}"))
            }
            Expect::FirstCheckWithin { instructions } => {
                at_most(transcript.instructions_to_first_check(), *instructions, "instructions to the first self-check")
            }
            Expect::MaskedAtMost { instructions } => masked_at_most(transcript, *instructions),
            Expect::LinearMapTablesAtMost { bytes } => {
                let found = transcript.data("summary")["linear_map_table_bytes"].as_u64();
                at_most(found, *bytes, "bytes of linear map tables")
            }
            Expect::Says(words) => {
                let is_said = transcript.lines().any(|line| has_words(line, words));
                expect(is_said, format!("no line has the words {words:?}"))
            }
            Expect::MonitorCounts(name) => {
                let mut counts = transcript.section("monitor").filter_map(|line| line.strip_prefix(name));
                let is_counted = counts.any(|rest| rest.split_whitespace().any(|count| count != "0"));
                expect(is_counted, format!("# monitor has no line that counts {name}"))
            }
            Expect::MonitorNeverCounts(name) => {
                let counted = transcript.section("monitor").find(|line| line.starts_with(name));
                let has_report = transcript.section("monitor").any(|line| line.contains("cpu 0"));
                expect(has_report && counted.is_none(), format!("# monitor counts {counted:?}, expected no {name}"))
            }
            Expect::NoConflictOn(cpu) => {
                let lines = transcript.section("monitor").filter(|line| line.starts_with("conflicts, EL"));
                let counts: Vec<&str> =
                    lines.map(|line| line.split_whitespace().nth(3 + cpu).unwrap_or("none")).collect();
                let is_none = !counts.is_empty() && counts.iter().all(|count| *count == "0");
                expect(
                    is_none,
                    format!("# monitor counts the conflicts {counts:?} on CPU {cpu}, expected some on others"),
                )
            }
            Expect::ConflictsAtMostOn(cpu) => {
                let is_elsewhere = |line: &&str| {
                    let mut counts = line.split_whitespace().skip(3).enumerate();
                    line.starts_with("conflicts, EL") && counts.any(|(at, count)| at != *cpu && count != "0")
                };
                let counted = transcript.section("monitor").find(is_elsewhere);
                let has_report = transcript.section("monitor").any(|line| line.contains("cpu 0"));
                expect(
                    has_report && counted.is_none(),
                    format!("# monitor counts {counted:?}, expected none but on CPU {cpu}"),
                )
            }
            Expect::SameConflicts => {
                let counts = |section| transcript.section(section).filter(|line| line.starts_with("conflicts, EL"));
                let (guest, monitor): (Vec<_>, Vec<_>) = (counts("conflicts").collect(), counts("monitor").collect());
                expect(
                    guest == monitor && !guest.is_empty(),
                    format!("the guest has counted {guest:?}, and the monitor {monitor:?}"),
                )
            }
            Expect::SameTwice => Ok(()),
        }
    }
}

fn masked_at_most(transcript: &Transcript, instructions: u64) -> Result<(), String> {
    let longest = |line: &str| line.strip_prefix(MASKED)?.split_whitespace().next()?.parse().ok();
    at_most(transcript.section("init").find_map(longest), instructions, "instructions with interrupts masked")
}

fn virtual_bits(transcript: &Transcript, bits: u32) -> Result<(), String> {
    is(&transcript.data("chosen")["virtual_bits"], &bits.into(), "the bits of virtual address")?;
    let first = format!("{:#018x}-", u64::MAX << bits);
    match transcript.section("linear map").find(|line| line.starts_with("0x")) {
        Some(line) if line.starts_with(&first) => Ok(()),
        other => Err(format!("# linear map begins with {other:?}, expected {first}")),
    }
}

fn at_most(found: Option<u64>, largest: u64, what: &str) -> Result<(), String> {
    match found {
        Some(number) if number <= largest => Ok(()),
        Some(number) => Err(format!("{number} {what}, expected at most {largest}")),
        None => Err(format!("no line counts {what}")),
    }
}

fn is(found: &Value, expected: &Value, what: &str) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what} is {found}, expected {expected}")) }
}

/// Whether a line has all these words, in capitals or not; `4k` is no word of `64k`.
fn has_words(line: &str, words: &[&str]) -> bool {
    let line = line.to_ascii_lowercase();
    words.iter().all(|word| {
        let word = word.to_ascii_lowercase();
        line.match_indices(&word).any(|(at, _)| !line[..at].ends_with(|c: char| c.is_ascii_alphanumeric()))
    })
}

/// A warning or an error for each of `expected`, in order, and no other.
pub(crate) fn check_warnings(transcript: &Transcript, expected: &[Words]) -> Result<(), String> {
    let is_warning = |line: &&str| ["warning: ", "error: "].iter().any(|start| line.starts_with(start));
    let warnings: Vec<&str> = transcript.lines().filter(is_warning).collect();
    let is_met =
        warnings.len() == expected.len() && warnings.iter().zip(expected).all(|(line, words)| has_words(line, words));
    if is_met { Ok(()) } else { Err(format!("expected warnings with {expected:?}, found {warnings:?}")) }
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
    use super::{Expect::*, *};

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
        for met in [
            PageSize("64k"),
            VirtualBits(48),
            Says(&["page size", "64K"]),
            Cpus(2),
            EnteredAt(2),
            FirstCheckWithin { instructions: 100 },
            MonitorCounts("reads"),
            MonitorNeverCounts("stores"),
            SameConflicts,
            NoConflictOn(0),
            ConflictsAtMostOn(1),
            LinearMapTablesAtMost { bytes: 4096 },
        ] {
            assert_eq!(met.check(&transcript), Ok(()), "{met:?}");
        }
        for missed in [
            PageSize("4k"),
            PageSize("16k"),
            VirtualBits(47),
            VirtualBits(52),
            Says(&["page size", "16K"]),
            Cpus(3),
            EnteredAt(1),
            FirstCheckWithin { instructions: 99 },
            MonitorCounts("writes"),
            MonitorCounts("stores"),
            MonitorNeverCounts("writes"),
            NoConflictOn(1),
            NoConflictOn(2),
            ConflictsAtMostOn(0),
            ConflictsAtMostOn(2),
            LinearMapTablesAtMost { bytes: 4095 },
        ] {
            assert!(missed.check(&transcript).is_err(), "{missed:?}");
        }
        let other = String::from_utf8_lossy(TEXT).replacen("0   2", "1   1", 1);
        assert!(SameConflicts.check(&Transcript::new(other.as_bytes())).is_err());
        let empty = Transcript::new(b"");
        assert!(
            [SameConflicts, NoConflictOn(0), ConflictsAtMostOn(0), MonitorNeverCounts("stores")]
                .iter()
                .all(|missed| missed.check(&empty).is_err())
        );
        for missed in [FirstCheckWithin { instructions: 99 }, LinearMapTablesAtMost { bytes: 4095 }] {
            assert!(missed.check(&empty).is_err_and(|error| error.contains("no line")), "{missed:?}");
        }
    }

    #[test]
    fn warnings_are_expected_or_there_are_none() {
        let with = |lines: &str| Transcript::new(format!("{lines}# chosen\nx\n").as_bytes());
        let one = "warning: arm64.pagesize=8k: expected 4k, 16k or 64k\n";
        let words: &[Words] = &[&["arm64.pagesize", "8k"]];
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
