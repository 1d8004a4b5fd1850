//! The tests of `vellum` beside guests: a kernel that no one here wrote, where `cargo xtask fetch` has fetched one, and
//! our own.

use std::path::PathBuf;

use super::{Outcome, Say, boot, libtest};
use crate::{
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

/// `vellum` and our kernel: what it prints of itself, and what is seen from outside.
pub(super) fn outside(emulator: &Emulator, say: Say<'_>) -> Outcome {
    match boot::prepare(emulator, &mut *say).and_then(|programs| programs.find(Program::Kernel).cloned()) {
        Ok(kernel) => run(vec![("VELLUM_KERNEL", kernel.image)], emulator, say),
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

/// The words that run QEMU are a variable too, one a line.
fn run(mut variables: Vec<(&'static str, PathBuf)>, emulator: &Emulator, say: Say<'_>) -> Outcome {
    match emulator.words() {
        Ok(words) => variables.push(("VELLUM_QEMU", words.join("\n".as_ref()).into())),
        Err(failure) => return Outcome::stopped("QEMU", failure),
    }
    let words = ["test", "--release", "--package", "vellum", "--test", "guests"];
    let arguments: Vec<String> = words.iter().map(|word| word.to_string()).collect();
    let (output, has_succeeded) = cargo::output(&arguments, &variables, say);
    let counted = libtest::count(&output, has_succeeded);
    Outcome { output, ..counted }
}

/// What the tests must know, as variables of their environment. A host that cannot build a static `vellum` has no guest
/// that reads its own memory: that test says so.
fn prepare(linux: &Linux, kind: &Kind, emulator: &Emulator) -> Result<Vec<(&'static str, PathBuf)>, Failure> {
    emulator.ensure()?;
    let folder = linux.kernel.with_file_name("");
    let plain = folder.join("idle.cpio");
    linux.write_initramfs(None, &plain)?;
    let mut variables = vec![("VELLUM_LINUX", linux.kernel.clone()), ("VELLUM_INITRAMFS", plain)];
    if *kind == Kind::HOST {
        variables.push(("VELLUM_HAS_BLOCKS", "yes".into()));
    }
    match dist::build() {
        Ok(vellum) => {
            let inside = folder.join("inside.cpio");
            linux.write_initramfs(Some(&vellum), &inside)?;
            variables.push(("VELLUM_INITRAMFS_INSIDE", inside));
        }
        Err(failure) if failure.status == Status::HostLacks => eprintln!("cargo xtask: {failure}"),
        Err(failure) => return Err(failure),
    }
    Ok(variables)
}
