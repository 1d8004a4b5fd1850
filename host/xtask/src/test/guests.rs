//! The tests of `vellum` beside guests: a kernel that no one here wrote, where `cargo xtask fetch` has fetched one, and
//! our own.

use std::path::PathBuf;

use super::{
    boot, libtest,
    outcome::{Outcome, Say},
};
use crate::{
    audit as linux_audit,
    bare::Program,
    boot::{audit, emulator::Emulator},
    cargo,
    compare::{self, compared::Compared},
    dist,
    fetch::{
        linux::{Kind, Linux},
        qemu::Version,
    },
    outcome::{Failure, Status},
};

/// `vellum` and Linux.
pub(super) fn linux(kind: &Kind, emulator: &Emulator, say: Say<'_>) -> Result<Outcome, Failure> {
    let linux = kind.need()?;
    let variables = prepare(&linux, kind, emulator)?;
    Ok(Outcome { note: linux.name, ..run(variables, emulator, say)? })
}

/// `vellum` and our kernel, what it prints of itself and what is seen from outside; and guests of a few instructions at EL2 and EL3.
pub(super) fn outside(emulator: &Emulator, say: Say<'_>) -> Result<Outcome, Failure> {
    let kernel = boot::prepare(emulator, &mut *say)?.find(Program::Kernel)?.clone();
    run(vec![("VELLUM_KERNEL", kernel.image), ("VELLUM_BARE", "yes".into())], emulator, say)
}

/// `vellum audit` and our kernel, of which TLBIs are forgotten: in the QEMU that audits need.
pub(super) fn audited(say: Say<'_>) -> Result<Outcome, Failure> {
    let emulator = &Emulator::Version(Version::V11);
    let kernel = boot::prepare(emulator, &mut *say)?.find(Program::Kernel)?.clone();
    let plugin = audit::plugin()?;
    let variables = [("VELLUM_AUDITED", kernel.image), ("VELLUM_ELF", kernel.elf), ("VELLUM_PLUGIN", plugin)];
    run(variables.to_vec(), emulator, say)
}

/// What follows `cargo xtask audit`: a boot of today's Linux alone, and what `--full` has beyond
/// it, under load.
pub(super) const BOOT: &[&str] = &["linux --rounds 0"];
pub(super) const LOADS: &[&str] = &[
    "linux --cpus 1",
    "linux --cpus 2",
    "linux --cpus 4",
    "linux --page-size 16k --cpus 1",
    "linux --page-size 16k --cpus 2",
    "linux --page-size 16k --cpus 4",
    "linux --machine bare/monitor/machines/all-resize.toml",
    "linux --machine bare/monitor/machines/boot-cpu-does-not.toml",
];

/// Today's Linux, judged.
pub(super) fn audited_linux(rows: &[&str], say: Say<'_>) -> Result<Outcome, Failure> {
    let mut audited = Vec::new();
    for row in rows {
        say(row);
        let ended = linux_audit::run(&linux_audit::parse(row)?, &mut |_| {})?;
        let text = |line| format!("cargo xtask audit {row}\n{line}\n{}\n", ended.complaints);
        audited.push(linux_audit::wrong(&ended).map_or(Ok(()), |line| Err(text(line))));
    }
    Ok(Outcome::of_rows(audited))
}

/// The project's own programs, on Linux and on our kernel.
pub(super) fn programs(emulator: &Emulator, say: Say<'_>) -> Result<Outcome, Failure> {
    Ok(of_compared(compare::programs::compare_own(emulator, say)?, "cargo xtask compare programs"))
}

/// Linux's own tests of memory management, on Linux and on our kernel.
pub(super) fn selftests(emulator: &Emulator, say: Say<'_>) -> Result<Outcome, Failure> {
    Ok(of_compared(compare::selftests::compare_all(emulator, say)?, "cargo xtask compare selftests"))
}

fn of_compared(compared: Compared, repeat: &str) -> Outcome {
    let Compared { same: passed, differing: failed, text: output, package: note } = compared;
    Outcome { passed, failed, output, note, repeat: Some(repeat.to_owned()), ..Outcome::default() }
}

/// The words that run QEMU are a variable too, one a line.
fn run(mut variables: Vec<(&'static str, PathBuf)>, emulator: &Emulator, say: Say<'_>) -> Result<Outcome, Failure> {
    variables.push(("VELLUM_QEMU", emulator.words()?.join("\n".as_ref()).into()));
    let words = ["test", "--profile", "checks", "--package", "vellum", "--test", "guests"];
    Ok(libtest::counted(cargo::output(&words, &variables, say)))
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
