//! Rust's libraries for the targets that are not the host's.

use std::{env, path::Path, process::Command};

use crate::{cargo, outcome::Failure};

/// Sees that Rust's library for `target` is there. A toolchain that was there before this workspace lacks it, and rustup
/// may fetch it.
pub(crate) fn ensure_target(target: &str) -> Result<(), Failure> {
    if has_target(target) {
        return Ok(());
    }
    eprintln!("cargo xtask: fetching Rust's library for {target}");
    let added = Command::new("rustup").args(["target", "add", target]).current_dir(cargo::workspace()).status();
    if added.is_ok_and(|status| status.success()) && has_target(target) {
        return Ok(());
    }
    Err(Failure::host_lacks(format!("Rust's target {target} is needed: rustup target add {target}")))
}

fn has_target(target: &str) -> bool {
    let rustc = env::var_os("RUSTC").unwrap_or("rustc".into());
    let mut command = Command::new(rustc);
    command.args(["--print", "target-libdir", "--target", target]).current_dir(cargo::workspace());
    let folder = command.output().ok().and_then(|output| String::from_utf8(output.stdout).ok());
    folder.is_some_and(|folder| Path::new(folder.trim()).exists())
}
