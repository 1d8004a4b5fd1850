//! One boot test: boots the kernel, and holds what it said against what was expected.
use super::{
    boots::boot::Boot,
    expect,
    outcome::{Outcome, Say},
    table,
};
use crate::{
    bare::Program,
    boot::{
        self, Programs,
        emulator::Emulator,
        guest::{self, Ended},
        judge,
        options::{self, Options},
        transcript::{self, Transcript},
    },
    outcome::{Failure, Status},
};

/// How much of the kernel's text is shown of a boot that failed.
const TAIL_LINES: usize = 40;

/// Sees that there is a QEMU, a kernel and a monitor.
pub(crate) fn prepare(emulator: &Emulator, say: Say<'_>) -> Result<Programs, Failure> {
    emulator.ensure()?;
    let mut lines = String::new();
    let built = Programs::build(&Program::ALL, &mut |line| {
        say(line);
        lines.push_str(line);
        lines.push('\n');
    });
    built.map_err(|failure| match failure.status {
        Status::Failed => Failure::failed(lines + &failure.line),
        _ => failure,
    })
}

/// Runs one boot test.
pub(crate) fn run(test: &Boot, emulator: &Emulator, programs: &Result<Programs, Failure>) -> Outcome {
    let programs = match programs {
        Ok(programs) => programs,
        Err(why) if why.status == Status::HostLacks => return Outcome::skipped(&test.name, why.line.clone()),
        Err(_) => return Outcome::failed("there is no kernel to boot"),
    };
    let outcome = match options::of(&test.options) {
        Ok(mut options) => {
            if options.emulator == Emulator::Host {
                options.emulator = emulator.clone();
            }
            // What is compared is read as data, not out of sentences.
            options.json = true;
            attempt(test, &options, programs)
        }
        Err(failure) => Outcome::failed(failure.line),
    };
    let own = if test.options.contains("--qemu ") { String::new() } else { emulator.option() };
    Outcome { repeat: Some(format!("cargo xtask run {own}{}", test.options)), ..outcome }
}

fn attempt(test: &Boot, options: &Options, programs: &Programs) -> Outcome {
    let boot = || {
        let prepared = boot::command(options, programs);
        let (mut command, _files) = prepared.map_err(|failure| Box::new(Outcome::stopped(&test.name, failure)))?;
        let ended = guest::run(&mut command, options.timeout, &mut |_| {});
        ended.map_err(|error| Box::new(Outcome::failed(error.to_string())))
    };
    let ended = match boot() {
        Ok(ended) => ended,
        Err(outcome) => return *outcome,
    };
    let judgement = judge::judge(&ended);
    if judgement.status == Status::HostLacks {
        return Outcome::skipped(&test.name, judgement.line.unwrap_or_default());
    }
    let mut wrong = differences(test, &ended);
    if wrong.is_empty() && test.expect.iter().any(|expect| expect == expect::SAME_TWICE) {
        match boot() {
            Ok(again) => wrong.extend(expect::first_difference(&ended.output, &again.output)),
            Err(outcome) => return *outcome,
        }
    }
    let transcript = Transcript::new(&ended.output);
    let cell = if options.tree.is_some_and(|tree| tree.starts_with("least")) { table::memory } else { table::cell };
    let passed = || Outcome { cell: cell(&transcript), ..Outcome::passed(note(&ended, options)) };
    if wrong.is_empty() { passed() } else { Outcome::failed(explanation(&wrong, &ended)) }
}

/// All that is not as the test expects.
fn differences(test: &Boot, ended: &Ended) -> Vec<String> {
    let judgement = judge::judge(ended);
    let transcript = Transcript::new(&ended.output);
    let mut wrong = Vec::new();
    if judgement.status != test.ends {
        wrong.push(format!("ended with {:?}, expected {:?}", judgement.status, test.ends));
        wrong.extend(judgement.line);
    }
    wrong.extend(expect::check_warnings(&transcript, &test.warnings).err());
    wrong.extend(test.expect.iter().filter_map(|expect| expect::check(expect, &transcript).err()));
    wrong
}

/// What is worth knowing of a boot that passed. Instructions are only counted where guest time counts them.
fn note(ended: &Ended, options: &Options) -> String {
    let transcript = Transcript::new(&ended.output);
    let instructions = transcript.instructions_to_first_check().filter(|_| options.icount);
    let note = instructions.map(|count| format!(", the first after {:.1} M instructions", count as f64 / 1e6));
    format!("{} checks{}", transcript.checks().len(), note.unwrap_or_default())
}

fn explanation(wrong: &[String], ended: &Ended) -> String {
    let output = String::from_utf8_lossy(&ended.output);
    let lines: Vec<&str> =
        output.lines().filter(|line| !transcript::is_data(line)).chain(ended.complaints.lines()).collect();
    let hidden = lines.len().saturating_sub(TAIL_LINES);
    let mut text = wrong.join("\n");
    if hidden > 0 {
        text.push_str(&format!("\n({hidden} lines before these)"));
    }
    for line in &lines[hidden..] {
        text.push_str("\n| ");
        text.push_str(line);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{boot::guest::End, test::boots};

    fn ended(text: &str, code: i32) -> Ended {
        Ended { output: text.into(), complaints: String::new(), end: End::Exited(code) }
    }

    const GOOD: &str = "# detected\n{\"section\":\"detected\",\"cpus\":[{}],\"entered_at\":1}\n# chosen\n\
                        {\"section\":\"chosen\",\"page_size\":\"4K\"}\n# checks\ncheck a: ok (x)\n\
                        # verdict\nverdict: passed (1 checks)\n";

    fn test() -> Boot {
        let boots = boots::all(false);
        boots.into_iter().find(|boot| boot.options == "--page-size 4k --cpus 1 --memory 2G").expect("the plainest boot")
    }

    #[test]
    fn a_good_boot_has_no_differences() {
        assert_eq!(differences(&test(), &ended(GOOD, 0)), [""; 0]);
    }

    #[test]
    fn each_difference_is_seen() {
        for (good, bad) in [
            ("entered_at\":1", "entered_at\":2"),
            ("[{}]", "[]"),
            ("page_size\":\"4K", "page_size\":\"64K"),
            ("# chosen\n", "# chosen\nwarning: odd\n"),
            ("verdict: passed (1 checks)", ""),
        ] {
            let wrong = differences(&test(), &ended(&GOOD.replace(good, bad), 0));
            assert!(!wrong.is_empty(), "{bad} instead of {good} was not seen");
        }
        assert_eq!(differences(&test(), &ended(GOOD, 1)).len(), 2);
    }

    #[test]
    fn a_failure_shows_the_end_of_the_text() {
        let text: String = (0..100).map(|number| format!("line {number}\n")).collect();
        let shown = explanation(&["why".into()], &ended(&text, 1));
        assert!(
            shown.starts_with("why\n(60 lines before these)\n| line 60\n") && shown.ends_with("| line 99"),
            "{shown}"
        );
    }

    #[test]
    fn without_a_kernel_nothing_boots() {
        let why = |status| Err(Failure::new(status, "why"));
        assert_eq!(run(&test(), &Emulator::Host, &why(Status::Failed)).failed, 1);
        let skipped = run(&test(), &Emulator::Host, &why(Status::HostLacks));
        assert_eq!((skipped.failed, skipped.skipped.len()), (0, 1));
    }
}
