//! `cargo xtask dist`: the command `vellum` as one static program for an arm64 Linux, to read that machine's own memory.
//!
//! Built with Rust's own linker and C runtime for musl: no C compiler is needed, and it runs on any distribution.

use std::{ffi::OsString, fs, path::PathBuf};

use crate::{
    cargo,
    help::{self, NoOptions},
    outcome::{Failure, Status},
    terminal,
    toolchain::ensure_target,
};

const TARGET: &str = "aarch64-unknown-linux-musl";

/// Entry of `cargo xtask dist`.
pub(crate) fn main(arguments: &[OsString]) -> Result<Status, Failure> {
    let Some(NoOptions {}) = help::options("dist", arguments)? else { return Ok(help::show(help::DIST)) };
    let program = build()?;
    let folder = target_folder()?.join("dist");
    fs::create_dir_all(&folder).map_err(|error| Failure::file(&folder, &error))?;
    let copy = folder.join("vellum-aarch64-linux");
    fs::copy(&program, &copy).map_err(|error| Failure::file(&copy, &error))?;
    terminal::print(format_args!("{}\n", copy.display()));
    Ok(Status::Passed)
}

/// Builds the static program and returns where it is.
pub(crate) fn build() -> Result<PathBuf, Failure> {
    ensure_target(TARGET)?;
    let mut command = cargo::cargo(&["build", "--quiet", "--release", "--package", "vellum", "--target", TARGET]);
    command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld");
    let flags = "-Clink-self-contained=yes -Ctarget-feature=+crt-static -Cstrip=symbols";
    command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUSTFLAGS", flags);
    // Flags for the whole build would replace those for the target.
    command.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    cargo::build_here("vellum", command)?;
    Ok(target_folder()?.join(TARGET).join("release").join("vellum"))
}

fn target_folder() -> Result<PathBuf, Failure> {
    Ok(cargo::metadata()?.target_directory.into())
}
