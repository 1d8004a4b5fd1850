//! The tests of `vellum` beside guests: a kernel that no one here wrote, where `cargo xtask fetch` has fetched one, and
//! our own.

use std::path::PathBuf;

use super::{Outcome, Say, boot, libtest};
use crate::{
    audit as linux_audit,
    bare::Program,
    boot::{audit, emulator::Emulator},
    cargo,
    compare::{self, programs::Compared},
    dist,
    fetch::{
        linux::{Kind, Linux},
        qemu::Version,
    },
    outcome::{Failure, Status},
};

/// `vellum` and Linux.
pub(super) fn linux(name: &str, kind: &Kind, emulator: &Emulator, say: Say<'_>) -> Outcome {
    match kind.need().and_then(|linux| Ok((prepare(&linux, kind, emulator)?, linux.name))) {
        Ok((variables, note)) => Outcome { note, ..run(variables, emulator, say) },
        Err(failure) => Outcome::stopped(name, failure),
    }
}

/// `vellum` and our kernel, what it prints of itself and what is seen from outside; and guests of a few instructions at EL2 and EL3.
pub(super) fn outside(emulator: &Emulator, say: Say<'_>) -> Outcome {
    match boot::prepare(emulator, &mut *say).and_then(|programs| programs.find(Program::Kernel).cloned()) {
        Ok(kernel) => run(vec![("VELLUM_KERNEL", kernel.image), ("VELLUM_BARE", "yes".into())], emulator, say),
        Err(failure) => Outcome::stopped("outside", failure),
    }
}

/// The name of the tests that forget what our kernel does.
pub(super) const FORGETFUL: &str = "forgotten TLBIs, audited, QEMU 11";

/// `vellum audit` and our kernel, of which TLBIs are forgotten: in the QEMU that audits need.
pub(super) fn audited(_: &Emulator, say: Say<'_>) -> Outcome {
    let emulator = &Emulator::Version(Version::V11);
    let built = boot::prepare(emulator, &mut *say).and_then(|programs| programs.find(Program::Kernel).cloned());
    match built.and_then(|kernel| Ok((kernel, audit::plugin()?))) {
        Ok((kernel, plugin)) => {
            let variables = [("VELLUM_AUDITED", kernel.image), ("VELLUM_ELF", kernel.elf), ("VELLUM_PLUGIN", plugin)];
            run(variables.to_vec(), emulator, say)
        }
        Err(failure) => Outcome::stopped(FORGETFUL, failure),
    }
}

/// The name of the tests of a Linux that is audited.
pub(super) const AUDITED: &str = "linux, audited, QEMU 11";
/// What follows `cargo xtask audit`: a boot alone, and what `--full` has beyond it.
const BOOT: &[&str] = &["linux --rounds 0"];
const LOADS: &[&str] = &[
    "linux --cpus 1",
    "linux --cpus 2",
    "linux --cpus 4",
    "linux --page-size 16k --cpus 1",
    "linux --page-size 16k --cpus 2",
    "linux --page-size 16k --cpus 4",
    "linux --machine bare/monitor/machines/all-resize.toml",
    "linux --machine bare/monitor/machines/boot-cpu-does-not.toml",
];

/// Today's Linux, whose boot is judged.
pub(super) fn audited_boot(_: &Emulator, say: Say<'_>) -> Outcome {
    audited_linux(BOOT, say)
}

/// Today's Linux under load, on all that audits are about.
pub(super) fn audited_loads(_: &Emulator, say: Say<'_>) -> Outcome {
    audited_linux(LOADS, say)
}

fn audited_linux(rows: &[&str], say: Say<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    for row in rows {
        say(row);
        match linux_audit::parse(row).and_then(|options| linux_audit::run(&options, &mut |_| {})) {
            Ok(ended) => match linux_audit::wrong(&ended) {
                None => outcome.passed += 1,
                Some(line) => {
                    outcome.failed += 1;
                    outcome.output.push_str(&format!("cargo xtask audit {row}\n{line}\n{}\n", ended.complaints));
                }
            },
            Err(failure) => return Outcome::stopped(AUDITED, failure),
        }
    }
    outcome
}

/// The project's own programs, on Linux and on our kernel.
pub(super) fn programs(emulator: &Emulator, say: Say<'_>) -> Outcome {
    match compare::programs::compare_own(emulator, say) {
        Ok(compared) => {
            let Compared { same, differing, text, linux } = compared;
            Outcome { passed: same, failed: differing, output: text, note: linux, ..Outcome::default() }
        }
        Err(failure) => Outcome::stopped("programs", failure),
    }
}

/// Linux's own tests of memory management, on Linux and on our kernel.
pub(super) fn selftests(emulator: &Emulator, say: Say<'_>) -> Outcome {
    match compare::selftests::compare_all(emulator, say) {
        Ok(compared) => {
            let compare::selftests::Compared { same, differing, text, source } = compared;
            let repeat = Some("cargo xtask compare selftests".to_owned());
            Outcome { passed: same, failed: differing, output: text, note: source, repeat, ..Outcome::default() }
        }
        Err(failure) => Outcome::stopped("selftests of Linux", failure),
    }
}

/// The words that run QEMU are a variable too, one a line.
fn run(mut variables: Vec<(&'static str, PathBuf)>, emulator: &Emulator, say: Say<'_>) -> Outcome {
    match emulator.words() {
        Ok(words) => variables.push(("VELLUM_QEMU", words.join("\n".as_ref()).into())),
        Err(failure) => return Outcome::stopped("QEMU", failure),
    }
    let words = ["test", "--profile", "checks", "--package", "vellum", "--test", "guests"];
    let arguments: Vec<String> = words.iter().map(|word| word.to_string()).collect();
    let (output, has_succeeded) = cargo::output(&arguments, &variables, say);
    let counted = libtest::count(&output, has_succeeded);
    Outcome { output, ..counted }
}

/// What the tests must know, as variables of their environment. A host that cannot build a static `vellum` has no guest
/// that reads its own memory: that test says so.
fn prepare(linux: &Linux, kind: &Kind, emulator: &Emulator) -> Result<Vec<(&'static str, PathBuf)>, Failure> {
    emulator.ensure()?;
    let plain = linux.built("idle.cpio")?;
    linux.write_initramfs(None, &plain)?;
    let mut variables = vec![("VELLUM_LINUX", linux.kernel.clone()), ("VELLUM_INITRAMFS", plain)];
    if *kind == Kind::HOST {
        variables.push(("VELLUM_HAS_BLOCKS", "yes".into()));
    }
    match dist::build() {
        Ok(vellum) => {
            let inside = linux.built("inside.cpio")?;
            linux.write_initramfs(Some(&vellum), &inside)?;
            variables.push(("VELLUM_INITRAMFS_INSIDE", inside));
        }
        Err(failure) if failure.status == Status::HostLacks => eprintln!("cargo xtask: {failure}"),
        Err(failure) => return Err(failure),
    }
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_can_be_asked_for() {
        assert!([BOOT, LOADS].concat().iter().all(|row| linux_audit::parse(row).is_ok()));
    }
}
