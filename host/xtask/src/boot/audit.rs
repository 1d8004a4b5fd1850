//! `cargo xtask run --audit`: the same boot, with every store to a table, every TLBI and barrier judged by the rules of the simulated
//! machine meanwhile.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::guest;
use crate::{
    cargo,
    outcome::{Failure, Status},
};

/// Where cargo puts what unwinds: a panic in the plugin must not end QEMU.
const PROFILE: &str = "checks";

/// Which functions of our kernel free memory.
const FRAMES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/frames/vellum.txt");

/// `command` under `vellum audit`, with the names in an ELF file of ours, and with what our kernel `frees`.
pub(crate) fn wrapped(command: &Command, elf: Option<&Path>, frees: bool) -> Result<Command, Failure> {
    let mut audited = guest::tied_to_us(built()?.join("vellum"));
    audited.arg("audit");
    if let Some(elf) = elf {
        audited.arg("--symbols").arg(elf);
        // Above a monitor the kernel's addresses are intermediate ones.
        if frees && elf.file_name().is_some_and(|name| name == "kernel") {
            audited.args(["--frames", FRAMES]);
        }
    }
    audited.arg("--").arg(command.get_program()).args(command.get_args());
    Ok(audited)
}

/// Builds `vellum` and the plugin, and says into which folder.
fn built() -> Result<PathBuf, Failure> {
    let mut build =
        cargo::cargo(&["build", "--quiet", "--profile", PROFILE, "--package", "vellum", "--package", "audit"]);
    let built =
        build.status().map_err(|error| Failure::new(Status::HostLacks, format!("cargo cannot be run: {error}")))?;
    if !built.success() {
        return Err(Failure::new(Status::Failed, "vellum does not build (the reason stands above)"));
    }
    Ok(cargo::metadata()?.target_directory.into_std_path_buf().join(PROFILE))
}

/// The plugin, built.
pub(crate) fn plugin() -> Result<PathBuf, Failure> {
    Ok(built()?.join("libvellum_audit.so"))
}
