//! The verdict on a run. The kernel speaks twice, by its exit status and in its text: both must agree.

use super::{
    guest::{End, Ended},
    transcript::{Transcript, Verdict},
};
use crate::outcome::Status;

/// What a run comes to: an exit status and, unless the kernel has said it all, one line of explanation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Judgement {
    pub(crate) status: Status,
    pub(crate) line: Option<String>,
}

/// Judges a run from the text, QEMU's own words and the way it ended.
pub(crate) fn judge(ended: &Ended) -> Judgement {
    let transcript = Transcript::new(&ended.output);
    let code = match ended.end {
        End::Exited(code) => code,
        End::Signalled => return judgement(Status::Failed, "a signal ended QEMU before the kernel's verdict"),
        End::TimedOut => return judgement(Status::TimedOut, timed_out(&transcript)),
    };
    if ended.output.is_empty() && code == 1 && !ended.complaints.is_empty() {
        return refused_by_qemu(&ended.complaints);
    }
    if code == 2 && has_refused(&transcript) {
        return Judgement { status: Status::BadInput, line: None };
    }
    if let (Some(Verdict::Passed(checks)), Some(ended)) = (transcript.verdict(), transcript.init_status()) {
        let judged = passed(&transcript, checks);
        return match ended == code {
            true if judged.status == Status::Passed => Judgement { status: Status::program(ended), line: None },
            true => judged,
            false => {
                judgement(Status::Failed, format!("the machine ended with status {code}, the program with {ended}"))
            }
        };
    }
    match (transcript.verdict(), code) {
        (Some(Verdict::Passed(checks)), 0) => passed(&transcript, checks),
        (Some(Verdict::Failed), 1) => Judgement { status: Status::Failed, line: None },
        (Some(Verdict::BadInput), 2) => Judgement { status: Status::BadInput, line: None },
        (Some(Verdict::Passed(_)), 1) if has_findings(&ended.complaints) => {
            judgement(Status::Failed, "the kernel's checks passed, but the audit found what the architecture forbids")
        }
        (Some(_), _) => {
            judgement(Status::Failed, format!("the machine ended with status {code}, which is not the verdict printed"))
        }
        (None, _) if transcript.lines().any(|line| line.starts_with("panic")) => {
            judgement(Status::Failed, format!("the kernel panicked; the machine ended with status {code}"))
        }
        (None, _) => judgement(Status::Failed, format!("the machine ended without a verdict line, with status {code}")),
    }
}

/// Judges the run of a kernel that is not ours and gives no verdict: the machine ended, or it did not.
pub(crate) fn judge_other(ended: &Ended) -> Judgement {
    let transcript = Transcript::new(&ended.output);
    match ended.end {
        End::Exited(0) => Judgement { status: Status::Passed, line: None },
        End::Exited(2) if has_refused(&transcript) => Judgement { status: Status::BadInput, line: None },
        End::Exited(1) if ended.output.is_empty() && !ended.complaints.is_empty() => refused_by_qemu(&ended.complaints),
        End::Exited(code) => judgement(Status::Failed, format!("the machine ended with status {code}")),
        End::Signalled => judgement(Status::Failed, "a signal ended QEMU"),
        End::TimedOut => judgement(Status::TimedOut, "no end in time (--timeout SECONDS waits longer)"),
    }
}

/// Whether `vellum audit` has told of something.
fn has_findings(complaints: &str) -> bool {
    complaints.lines().any(|line| line.starts_with("vellum: after "))
}

/// Whether the monitor has said that it starts no guest.
fn has_refused(transcript: &Transcript) -> bool {
    transcript.lines().any(|line| line.starts_with("monitor: ") && line.ends_with("the guest was not started"))
}

fn judgement(status: Status, line: impl Into<String>) -> Judgement {
    Judgement { status, line: Some(line.into()) }
}

/// A verdict of success must rest on checks, and on none that failed.
fn passed(transcript: &Transcript, claimed: usize) -> Judgement {
    let checks = transcript.checks();
    if let Some(failed) = checks.iter().find(|check| !check.passed) {
        return judgement(Status::Failed, format!("the verdict is passed, but check {} failed", failed.name));
    }
    if claimed == 0 || checks.len() != claimed {
        let line = format!("the verdict counts {claimed} checks, but {} were printed", checks.len());
        return judgement(Status::Failed, line);
    }
    Judgement { status: Status::Passed, line: None }
}

fn timed_out(transcript: &Transcript) -> &'static str {
    match transcript.verdict() {
        Some(_) => "the kernel printed its verdict, but the machine did not end in time",
        None => "no verdict in time (--timeout SECONDS waits longer)",
    }
}

/// QEMU stopped before the guest's first byte: an option it does not take, or memory that this host does not have.
fn refused_by_qemu(complaints: &str) -> Judgement {
    if complaints.contains("cannot set up guest memory") {
        let line = "this host lacks the memory for the machine; ask for less with --memory";
        return judgement(Status::HostLacks, line);
    }
    judgement(Status::BadInput, "QEMU refused these options (its reason stands above)")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHECKS: &str = "# checks\r\ncheck a: ok (x)\r\ncheck b: ok (y)\r\n# verdict\r\n";

    fn judged(output: &str, complaints: &str, end: End) -> (Status, String) {
        let Judgement { status, line } = judge(&Ended { output: output.into(), complaints: complaints.into(), end });
        (status, line.unwrap_or_default())
    }

    #[test]
    fn text_and_status_must_agree_and_a_pass_rests_on_checks() {
        let with = |verdict: &str| format!("{CHECKS}verdict: {verdict}\r\n");
        let failed = "# checks\ncheck a: FAILED (x)\n# verdict\nverdict: failed (1 of 1 checks)\n";
        let hidden = format!("# checks\ncheck c: FAILED (z)\n{CHECKS}verdict: passed (3 checks)\n");
        let refusal = "monitor: command line: x: unknown; the guest was not started\n";
        for (output, code, status, words) in [
            (&*with("passed (2 checks)"), 0, Status::Passed, ""),
            (failed, 1, Status::Failed, ""),
            ("# verdict\nverdict: bad input (no memory)\n", 2, Status::BadInput, ""),
            (refusal, 2, Status::BadInput, ""),
            (refusal, 0, Status::Failed, "without a verdict"),
            (&*with("passed (2 checks)"), 1, Status::Failed, "not the verdict printed"),
            (&*with("passed (2 checks)"), 2, Status::Failed, "not the verdict printed"),
            (&*with("failed (1 of 2 checks)"), 0, Status::Failed, "not the verdict printed"),
            (&*with("bad input (x)"), 0, Status::Failed, "not the verdict printed"),
            ("# checks\ncheck a: ok (x)\n", 0, Status::Failed, "without a verdict line, with status 0"),
            ("# checks\ncheck a: ok (x)\n", 77, Status::Failed, "without a verdict line, with status 77"),
            ("", 0, Status::Failed, "without a verdict"),
            (&*hidden, 0, Status::Failed, "check c failed"),
            (&*with("passed (3 checks)"), 0, Status::Failed, "counts 3 checks, but 2"),
            ("# verdict\nverdict: passed (0 checks)\n", 0, Status::Failed, "counts 0 checks, but 0"),
            ("# chosen\r\npanic at boot.rs:7: no memory\r\n", 1, Status::Failed, "panicked"),
        ] {
            let (found, line) = judged(output, "", End::Exited(code));
            assert_eq!((found, line.is_empty()), (status, words.is_empty()), "{output}: {line}");
            assert!(line.contains(words), "{line}");
        }
    }

    #[test]
    fn time_and_signals() {
        assert_eq!(judged(CHECKS, "", End::TimedOut).0, Status::TimedOut);
        let (status, line) = judged(&format!("{CHECKS}verdict: passed (2 checks)\n"), "", End::TimedOut);
        assert!(status == Status::TimedOut && line.contains("did not end"), "{line}");
        assert_eq!(judged(CHECKS, "", End::Signalled).0, Status::Failed);
    }

    #[test]
    fn another_kernel_only_has_to_end() {
        for (output, end, status) in [
            ("reboot: Power down\n", End::Exited(0), Status::Passed),
            ("monitor: panic\n", End::Exited(1), Status::Failed),
            ("x\n", End::Exited(2), Status::Failed),
            ("monitor: x; the guest was not started\n", End::Exited(2), Status::BadInput),
            ("", End::TimedOut, Status::TimedOut),
        ] {
            let ended = Ended { output: output.into(), complaints: String::new(), end };
            assert_eq!(judge_other(&ended).status, status, "{output}");
        }
    }

    #[test]
    fn qemu_may_refuse() {
        let memory = "qemu-system-aarch64: cannot set up guest memory 'mach-virt.ram': Cannot allocate memory\n";
        for (output, complaints, status) in [
            ("", "qemu-system-aarch64: unable to find CPU model 'x'\n", Status::BadInput),
            ("", memory, Status::HostLacks),
            ("x", "warning\n", Status::Failed),
        ] {
            assert_eq!(judged(output, complaints, End::Exited(1)).0, status, "{complaints}");
        }
    }
}
