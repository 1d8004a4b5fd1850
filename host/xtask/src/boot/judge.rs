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
    if let (Some(Verdict::Passed { checks }), Some(ended)) = (transcript.verdict(), transcript.init_status()) {
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
        (Some(Verdict::Passed { checks }), 0) => passed(&transcript, checks),
        (Some(Verdict::Failed { .. }), 1) => Judgement { status: Status::Failed, line: None },
        (Some(Verdict::BadInput { .. }), 2) => Judgement { status: Status::BadInput, line: None },
        (Some(Verdict::Passed { .. }), 1) if has_findings(&ended.complaints) => {
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

    fn judged(output: &str, end: End) -> (Status, String) {
        complained(output, "", end)
    }

    fn complained(output: &str, complaints: &str, end: End) -> (Status, String) {
        let ended = Ended { output: output.into(), complaints: complaints.into(), end };
        let Judgement { status, line } = judge(&ended);
        (status, line.unwrap_or_default())
    }

    #[test]
    fn text_and_status_agree() {
        let silent = |status| (status, String::new());
        assert_eq!(judged(&format!("{CHECKS}verdict: passed (2 checks)\r\n"), End::Exited(0)), silent(Status::Passed));
        let failed = "# checks\ncheck a: FAILED (x)\n# verdict\nverdict: failed (1 of 1 checks)\n";
        assert_eq!(judged(failed, End::Exited(1)), silent(Status::Failed));
        let bad = "# verdict\nverdict: bad input (no memory)\n";
        assert_eq!(judged(bad, End::Exited(2)), silent(Status::BadInput));
    }

    #[test]
    fn a_status_alone_is_no_verdict() {
        for code in [0, 1, 2, 77] {
            let (status, line) = judged("# checks\ncheck a: ok (x)\n", End::Exited(code));
            assert_eq!(status, Status::Failed);
            assert!(line.contains("without a verdict line") && line.ends_with(&code.to_string()), "{line}");
        }
        assert_eq!(judged("", End::Exited(0)).0, Status::Failed);
    }

    #[test]
    fn a_disagreement_is_a_failure() {
        for (verdict, code) in
            [("passed (2 checks)", 1), ("passed (2 checks)", 2), ("failed (1 of 2 checks)", 0), ("bad input (x)", 0)]
        {
            let (status, line) = judged(&format!("{CHECKS}verdict: {verdict}\n"), End::Exited(code));
            assert_eq!(status, Status::Failed);
            assert!(line.contains("not the verdict printed"), "{line}");
        }
    }

    #[test]
    fn a_pass_rests_on_checks() {
        let failed = format!("# checks\ncheck c: FAILED (z)\n{CHECKS}verdict: passed (3 checks)\n");
        assert!(judged(&failed, End::Exited(0)).1.contains("check c failed"));
        for (text, words) in [
            (format!("{CHECKS}verdict: passed (3 checks)\n"), "counts 3 checks, but 2"),
            ("# verdict\nverdict: passed (0 checks)\n".to_string(), "counts 0 checks, but 0"),
        ] {
            let (status, line) = judged(&text, End::Exited(0));
            assert_eq!(status, Status::Failed);
            assert!(line.contains(words), "{line}");
        }
    }

    #[test]
    fn a_panic_is_named() {
        let (status, line) = judged("# chosen\r\npanic at boot.rs:7: no memory\r\n", End::Exited(1));
        assert_eq!(status, Status::Failed);
        assert!(line.contains("panicked"), "{line}");
    }

    #[test]
    fn time_and_signals() {
        assert_eq!(judged(CHECKS, End::TimedOut).0, Status::TimedOut);
        let (status, line) = judged(&format!("{CHECKS}verdict: passed (2 checks)\n"), End::TimedOut);
        assert_eq!(status, Status::TimedOut);
        assert!(line.contains("did not end"), "{line}");
        assert_eq!(judged(CHECKS, End::Signalled).0, Status::Failed);
    }

    #[test]
    fn a_monitor_may_refuse() {
        let refusal = "monitor: command line: x: unknown; the guest was not started\n";
        assert_eq!(judged(refusal, End::Exited(2)), (Status::BadInput, String::new()));
        assert_eq!(judged(refusal, End::Exited(0)).0, Status::Failed);
    }

    #[test]
    fn another_kernel_only_has_to_end() {
        let judged =
            |output: &str, end| judge_other(&Ended { output: output.into(), complaints: String::new(), end }).status;
        assert_eq!(judged("reboot: Power down\n", End::Exited(0)), Status::Passed);
        assert_eq!(judged("monitor: panic\n", End::Exited(1)), Status::Failed);
        assert_eq!(judged("x\n", End::Exited(2)), Status::Failed);
        assert_eq!(judged("monitor: x; the guest was not started\n", End::Exited(2)), Status::BadInput);
        assert_eq!(judged("", End::TimedOut), Status::TimedOut);
    }

    #[test]
    fn qemu_may_refuse() {
        let (status, _) = complained("", "qemu-system-aarch64: unable to find CPU model 'x'\n", End::Exited(1));
        assert_eq!(status, Status::BadInput);
        let memory = "qemu-system-aarch64: cannot set up guest memory 'mach-virt.ram': Cannot allocate memory\n";
        assert_eq!(complained("", memory, End::Exited(1)).0, Status::HostLacks);
        assert_eq!(complained("x", "warning\n", End::Exited(1)).0, Status::Failed);
    }
}
