//! The tests of `vellum` beside guests: a kernel that no one here wrote, where `cargo xtask fetch` has fetched one, and
//! our own.

use std::path::PathBuf;

use super::{Outcome, Say, boot, libtest, steps};
use crate::{
    boot::install,
    cargo::Program,
    dist, fetch,
    outcome::{Failure, Status},
};

/// `vellum` and Linux.
pub(super) fn linux(say: Say<'_>) -> Outcome {
    let Some(linux) = fetch::find() else {
        return Outcome::skipped("linux", "there is no arm64 Linux here: cargo xtask fetch");
    };
    match prepare(&linux) {
        Ok(variables) => Outcome { note: linux.name, ..run(&variables, say) },
        Err(failure) => Outcome::stopped("linux", failure),
    }
}

/// `vellum` and our kernel: what it prints of itself, and what is seen from outside.
pub(super) fn outside(say: Say<'_>) -> Outcome {
    match boot::prepare(&mut *say).and_then(|programs| programs.find(Program::Kernel).cloned()) {
        Ok(kernel) => run(&[("VELLUM_KERNEL", kernel.image)], say),
        Err(failure) => Outcome::stopped("outside", failure),
    }
}

fn run(variables: &[(&'static str, PathBuf)], say: Say<'_>) -> Outcome {
    let words = ["test", "--release", "--package", "vellum", "--test", "guests"];
    let arguments: Vec<String> = words.iter().map(|word| word.to_string()).collect();
    let (output, has_succeeded) = steps::cargo_output(&arguments, variables, say);
    let counted = libtest::count(&output, has_succeeded);
    Outcome { output, ..counted }
}

/// What the tests must know, as variables of their environment. A host that cannot build a static `vellum` has no guest
/// that reads its own memory: that test says so.
fn prepare(linux: &fetch::Linux) -> Result<Vec<(&'static str, PathBuf)>, Failure> {
    install::ensure_qemu()?;
    let folder = linux.kernel.with_file_name("");
    let plain = folder.join("idle.cpio");
    linux.write_initramfs(None, &plain)?;
    let mut variables = vec![("VELLUM_LINUX", linux.kernel.clone()), ("VELLUM_INITRAMFS", plain)];
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
