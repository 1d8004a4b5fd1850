//! A Linux above the monitor: it boots, sees the machine that was described, and ends it.

use std::path::Path;

use super::{
    expect,
    outcome::{Outcome, Say},
};
use crate::{
    bare::Program,
    boot::{
        self, Programs,
        emulator::Emulator,
        guest::{self, Ended},
        judge,
        options::{self, Options},
        transcript::Transcript,
    },
    cargo, demo,
    fetch::linux::{Kind, Linux},
    outcome::{Failure, Status},
};

/// What follows `cargo xtask run --monitor`, the parts of the CPUs that Linux sees, and what else is expected.
type Row = (&'static str, &'static [&'static str], &'static [&'static str]);

const PLAIN: &str = "0x051";
const X4: &str = "0xd82";
const A720: &str = "0xd81";

/// Files of `bare/monitor/machines` stand without their folder.
const ROWS: &[Row] = &[
    ("--cpus 1", &[PLAIN], &["says guest & memory 40000000-401fffff", "says guest & memory 40400000-bf9fffff"]),
    ("--cpus 4", &[PLAIN; 4], &["monitor counts ID registers read"]),
    ("--cpus 8 --memory 1G", &[PLAIN; 8], &[]),
    ("--cpus 2 --cpu cortex-a57", &["0xd07"; 2], &[]),
    ("--cpus 2 --cpu neoverse-n1", &["0xd0c"; 2], &[]),
    ("--cpus 4 --machine cortex-x4-a720.toml", &[X4, A720, A720, A720], &[]),
    (
        "--cpus 3 --machine secondaries-do-not.toml",
        &[PLAIN; 3],
        &["says SANITY CHECK & SYS_ID_AA64MMFR2_EL1 & CPU1", "says SANITY CHECK & CPU2"],
    ),
    ("--cpus 2 --memory 512M --machine conflicts-at-stage-2.toml", &[PLAIN; 2], &["monitor counts conflicts, stage 2"]),
    ("--cpus 4 --machine realm-in-disguise.toml", &[PLAIN; 4], &["monitor counts ID registers read"]),
    (
        "--cpus 2 --memory 512M --machine conflicts-in-resizes.toml",
        &[PLAIN; 2],
        &["monitor counts TLBIs", "monitor never counts conflicts"],
    ),
    ("--cpus 4 --machine late-and-lesser.toml", &[PLAIN; 4], &["says CPU3 & failed to boot"]),
];

/// Linux dies of its first TLB conflict abort, which shows that one came, and says so by an early console.
const CONFLICTS: &str = "--cpus 2 --memory 256M --machine conflicts-anywhere.toml --append earlycon=pl011,0x9000000 \
                         --append oops=panic --append panic=-1 -- -no-reboot";

/// Of today's Linux with 4K pages. What each machine does to its linear map, `cargo xtask compare linux` counts.
const TODAY: &[Row] = &[
    ("--cpus 4", &[PLAIN; 4], &["monitor counts ID registers read"]),
    ("--cpus 4 --machine all-resize.toml", &[PLAIN; 4], &["says detected: BBM Level 3"]),
    ("--cpus 4 --machine boot-cpu-does-not.toml", &[PLAIN; 4], &[]),
    ("--cpus 4 --machine secondaries-do-not.toml", &[PLAIN; 4], &[]),
    ("--cpus 4 --machine cortex-x4-a720.toml", &[X4, A720, A720, A720], &[]),
    ("--cpus 2 --memory 512M --machine conflicts-at-stage-2.toml", &[PLAIN; 2], &["monitor counts conflicts, stage 2"]),
    ("--cpus 2 --machine realm.toml --append earlycon=pl011,0x10009000000", &[PLAIN; 2], REALM),
];

/// The same with 16K pages.
const TODAY_16K: &[Row] = &[
    ("--cpus 4 --machine all-resize.toml", &[PLAIN; 4], &[]),
    ("--cpus 4 --machine secondaries-do-not.toml", &[PLAIN; 4], &[]),
];

const REALM: &[&str] = &["says RME & RSI version 1.0", "monitor counts RSI calls"];

/// The step.
pub(super) fn monitored(emulator: &Emulator, say: Say<'_>) -> Result<Outcome, Failure> {
    run_rows(&Kind::HOST.need()?, ROWS, Some(CONFLICTS), emulator, say)
}

/// The step with today's Linux.
pub(super) fn monitored_today(emulator: &Emulator, say: Say<'_>) -> Result<Outcome, Failure> {
    let with_4k = run_rows(&Kind::today(false).need()?, TODAY, None, emulator, &mut *say)?;
    Ok(with_4k.and(run_rows(&Kind::today(true).need()?, TODAY_16K, None, emulator, say)?))
}

/// The step of `cargo xtask demo mixed-cpus`.
pub(super) fn demo(emulator: &Emulator, say: Say<'_>) -> Result<Outcome, Failure> {
    let (seen, _) = demo::show(&Kind::today(false).need()?, emulator, say)?;
    Ok(if demo::is_convincing(&seen) { Outcome::passed("") } else { Outcome::failed(demo::table(&seen)) })
}

fn run_rows(
    linux: &Linux,
    rows: &[Row],
    conflicts: Option<&str>,
    emulator: &Emulator,
    say: Say<'_>,
) -> Result<Outcome, Failure> {
    emulator.ensure()?;
    let programs = Programs::build(&[Program::Monitor], say)?;
    let initrd = linux.built("monitored.cpio")?;
    linux.write_monitored(&initrd)?;
    let mut ran = Vec::new();
    let mut try_one = |words: &str, differences: &dyn Fn(&Ended) -> Vec<String>| {
        say(words);
        let options = Options { emulator: emulator.clone(), ..options(words, linux, &initrd)? };
        let ended = run(&options, &programs)?;
        let wrong = differences(&ended);
        let text = || format!("{words}\n{}\n{}\n", wrong.join("\n"), String::from_utf8_lossy(&ended.output));
        ran.push(if wrong.is_empty() { Ok(()) } else { Err(text()) });
        Ok::<(), Failure>(())
    };
    for (words, parts, expects) in rows {
        try_one(words, &|ended| differences(ended, parts, expects))?;
    }
    conflicts.map_or(Ok(()), |words| try_one(words, &survival))?;
    Ok(Outcome { note: linux.name.clone(), ..Outcome::of_rows(ran) })
}

fn options(words: &str, linux: &Linux, initrd: &Path) -> Result<Options, Failure> {
    let options = options::of(&format!("--monitor {words}"))?;
    let machines = cargo::workspace().join("bare/monitor/machines");
    Ok(Options {
        description: options.description.map(|name| machines.join(name)),
        kernel: Some(linux.kernel.clone()),
        initrd: Some(initrd.to_owned()),
        append: [options.append, vec!["console=ttyAMA0".to_owned()]].concat(),
        ..options
    })
}

/// What is not as it should be where a conflict abort was to come.
fn survival(ended: &Ended) -> Vec<String> {
    let transcript = Transcript::new(&ended.output);
    let expects = ["says TLB conflict abort", "monitor counts conflicts, EL"];
    let mut wrong: Vec<String> = expects.iter().filter_map(|text| expect::check(text, &transcript).err()).collect();
    if transcript.lines().any(|line| line == "guest: ready") {
        wrong.push("the guest has survived, expected it to die of the first conflict".into());
    }
    wrong
}

fn run(options: &Options, programs: &Programs) -> Result<Ended, Failure> {
    let (mut command, _files) = boot::command(options, programs)?;
    let ended = guest::run(&mut command, options.timeout, &mut |_| {});
    Ok(ended?)
}

/// All that is not as a row expects.
fn differences(ended: &Ended, parts: &[&str], expects: &[&str]) -> Vec<String> {
    let judgement = judge::judge_other(ended);
    let transcript = Transcript::new(&ended.output);
    let mut wrong = Vec::new();
    if judgement.status != Status::Passed {
        wrong.push(format!("ended with {:?}, expected {:?}", judgement.status, Status::Passed));
        wrong.extend(judgement.line);
    }
    let seen: Vec<&str> = transcript.lines().filter_map(|line| line.strip_prefix("guest: part ")).collect();
    if seen != parts {
        wrong.push(format!("the guest sees CPUs of the parts {seen:?}, expected {parts:?}"));
    }
    if !transcript.lines().any(|line| line == "guest: ready") {
        wrong.push("no line is `guest: ready`".into());
    }
    wrong.extend(expects.iter().filter_map(|text| expect::check(text, &transcript).err()));
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::guest::End;

    const GOOD: &str = "[0.1] CPU1: failed to boot\r\nguest: part 0x051\r\nguest: ready\r\n# monitor\r\n";

    fn wrong(text: &str, code: i32) -> Vec<String> {
        let ended = Ended { output: text.into(), complaints: String::new(), end: End::Exited(code) };
        differences(&ended, &[PLAIN], &["says CPU1 & failed"])
    }

    #[test]
    fn each_difference_is_seen() {
        assert_eq!(wrong(GOOD, 0), [""; 0]);
        assert_eq!(wrong(GOOD, 1).len(), 2);
        for (good, bad) in [("0x051", "0xd0c"), ("guest: ready", ""), ("CPU1", "CPU2")] {
            assert_eq!(wrong(&GOOD.replace(good, bad), 0).len(), 1, "{bad} instead of {good}");
        }
    }

    #[test]
    fn every_row_can_be_asked_for() {
        let linux =
            Linux { kernel: "vmlinuz".into(), busybox: "busybox".into(), modules: vec![], name: "linux".into() };
        for (words, parts, _) in [ROWS, TODAY, TODAY_16K].concat() {
            let options = options(words, &linux, Path::new("initrd")).expect(words);
            assert!(options.monitor && options.cpus as usize == parts.len(), "{words}");
        }
        let conflicts = options(CONFLICTS, &linux, Path::new("initrd")).expect(CONFLICTS);
        assert_eq!(conflicts.qemu, ["-no-reboot"]);
    }
}
