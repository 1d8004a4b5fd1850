//! The tests of `vellum` on a kernel that no one here wrote, where `cargo xtask fetch` has fetched one.

use std::path::PathBuf;

use super::{Outcome, Say, libtest, steps};
use crate::{
    boot::install,
    dist, fetch,
    outcome::{Failure, Status},
};

/// Makes the guests' file systems, then runs the tests, which boot the guests.
pub(super) fn run(say: Say<'_>) -> Outcome {
    let Some(linux) = fetch::find() else {
        return Outcome::skipped("linux", "there is no arm64 Linux here: cargo xtask fetch");
    };
    match prepare(&linux) {
        Ok(variables) => {
            let words = ["test", "--release", "--package", "cli", "--test", "linux"];
            let arguments: Vec<String> = words.iter().map(|word| word.to_string()).collect();
            let (output, has_succeeded) = steps::cargo_output(&arguments, &variables, say);
            let counted = libtest::count(&output, has_succeeded);
            Outcome { output, note: format!("{}, {}", counted.note, linux.name), ..counted }
        }
        Err(failure) => Outcome::stopped("linux", failure),
    }
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
