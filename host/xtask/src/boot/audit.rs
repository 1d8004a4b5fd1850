//! `cargo xtask run --audit`: the same boot, with every store to a table, every TLBI and barrier judged by the rules of the simulated
//! machine meanwhile.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

use super::guest;
use crate::{cargo, outcome::Failure};

/// Where cargo puts what unwinds: a panic in the plugin must not end QEMU.
const PROFILE: &str = "checks";

/// Which functions of our kernel free memory.
const FRAMES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/frames/vellum.txt");

/// `command` under `vellum audit`, with these words.
pub(crate) fn wrapped(command: &Command, words: &[OsString]) -> Result<Command, Failure> {
    let mut audited = guest::tied_to_us(built()?.join("vellum"));
    audited.arg("audit").args(words).arg("--").arg(command.get_program()).args(command.get_args());
    Ok(audited)
}

/// The words that give it the names in an ELF file of ours, and what our kernel `frees`.
pub(super) fn words(elf: Option<&Path>, frees: bool) -> Vec<OsString> {
    let Some(elf) = elf else { return Vec::new() };
    let mut words = vec!["--symbols".into(), elf.into()];
    // Above a monitor the kernel's addresses are intermediate ones.
    if frees && elf.file_name().is_some_and(|name| name == "kernel") {
        words.extend(["--frames".into(), FRAMES.into()]);
    }
    words
}

/// Builds `vellum` and the plugin, and says into which folder.
fn built() -> Result<PathBuf, Failure> {
    let mut build =
        cargo::cargo(&["build", "--quiet", "--profile", PROFILE, "--package", "vellum", "--package", "audit"]);
    let built = build.status().map_err(|error| Failure::host_lacks(format!("cargo cannot be run: {error}")))?;
    if !built.success() {
        return Err(Failure::failed("vellum does not build (the reason stands above)"));
    }
    Ok(cargo::metadata()?.target_directory.into_std_path_buf().join(PROFILE))
}

/// The plugin, built.
pub(crate) fn plugin() -> Result<PathBuf, Failure> {
    Ok(built()?.join("libvellum_audit.so"))
}
