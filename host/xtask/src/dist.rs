//! `cargo xtask dist`: the command `vellum` as static programs for Linux on x86-64 and arm64, with their checksums, and as Debian
//! packages with manual pages.
//!
//! Built with Rust's own linker and C runtime for musl: no C compiler is needed, and they run on any distribution.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use clap::Args;
use fs_err as fs;

use crate::{
    cargo,
    command::{output, runs},
    outcome::{Failure, Status},
    terminal,
    toolchain::ensure_target,
};

/// What is built for: a name of our own, Rust's target, Debian's architecture.
struct Machine {
    name: &'static str,
    target: &'static str,
    debian: &'static str,
}

const X86: Machine = Machine { name: "x86_64", target: "x86_64-unknown-linux-musl", debian: "amd64" };
const ARM: Machine = Machine { name: "aarch64", target: "aarch64-unknown-linux-musl", debian: "arm64" };

/// Builds vellum as static programs and as Debian packages, for Linux on x86-64 and arm64
///
/// Prints the files made, in target/dist: vellum-x86_64-linux, vellum-aarch64-linux,
/// vellum_VERSION_ARCHITECTURE.deb of each, and SHA256SUMS. rustup fetches Rust's targets for musl
/// if they are not there. No C compiler is needed. Without dpkg-deb, no packages are made.
#[derive(Args)]
#[command(after_help = "Exit status: 0 built, 1 it does not build, 2 an option is wrong, 3 the target cannot be had.")]
pub(crate) struct Options {}

/// Entry of `cargo xtask dist`.
pub(crate) fn main() -> Result<Status, Failure> {
    let folder = target_folder()?.join("dist");
    // What an older version left is not to be among the checksums.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    let manual = manual(&folder)?;
    let mut names = Vec::new();
    for machine in [&X86, &ARM] {
        let name = format!("vellum-{}-linux", machine.name);
        let program = folder.join(&name);
        fs::copy(build_for(machine)?, &program)?;
        names.push(name);
        if runs("dpkg-deb", &["--version"]) {
            names.push(package(machine, &program, &manual, &folder)?);
        } else {
            eprintln!("cargo xtask: there is no dpkg-deb here: no Debian package is made");
        }
    }
    fs::remove_dir_all(&manual)?;
    let mut command = Command::new("sha256sum");
    let sums = output(command.args(&names).current_dir(&folder))?;
    fs::write(folder.join("SHA256SUMS"), sums)?;
    names.push("SHA256SUMS".to_owned());
    for name in names {
        terminal::print(format_args!("{}\n", folder.join(name).display()));
    }
    Ok(Status::Passed)
}

/// Builds the static program for arm64, and returns where it is.
pub(crate) fn build() -> Result<PathBuf, Failure> {
    build_for(&ARM)
}

/// Builds the programs of a package as static programs for arm64, and returns the folder where they are.
pub(crate) fn build_static(package: &str) -> Result<PathBuf, Failure> {
    build_package(&ARM, package)
}

fn build_for(machine: &Machine) -> Result<PathBuf, Failure> {
    Ok(build_package(machine, "vellum")?.join("vellum"))
}

fn build_package(machine: &Machine, package: &str) -> Result<PathBuf, Failure> {
    let target = machine.target;
    ensure_target(target)?;
    let mut command = cargo::cargo(&["build", "--quiet", "--release", "--package", package, "--target", target]);
    let key = target.to_uppercase().replace('-', "_");
    command.env(format!("CARGO_TARGET_{key}_LINKER"), "rust-lld");
    let flags = "-Clink-self-contained=yes -Ctarget-feature=+crt-static -Cstrip=symbols";
    command.env(format!("CARGO_TARGET_{key}_RUSTFLAGS"), flags);
    // Flags for the whole build would replace those for the target.
    command.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    cargo::build_here(package, command)?;
    Ok(target_folder()?.join(target).join("release"))
}

/// The manual pages, as this host's `vellum` writes them.
fn manual(folder: &Path) -> Result<PathBuf, Failure> {
    cargo::build_here("vellum", cargo::cargo(&["build", "--quiet", "--release", "--package", "vellum"]))?;
    let manual = folder.join("manual");
    let vellum = target_folder()?.join("release/vellum");
    output(Command::new(&vellum).arg("man").arg(&manual))?;
    let script = output(Command::new(&vellum).args(["completions", "bash"]))?;
    fs::write(manual.join("vellum.bash"), script)?;
    Ok(manual)
}

/// A Debian package of one program, by its name.
fn package(machine: &Machine, program: &Path, manual: &Path, folder: &Path) -> Result<String, Failure> {
    let (version, root) = (env!("CARGO_PKG_VERSION"), folder.join("package"));
    let [bin, man, words, about, control] =
        ["usr/bin", "usr/share/man/man1", "usr/share/bash-completion/completions", "usr/share/doc/vellum", "DEBIAN"]
            .map(|name| root.join(name));
    for folder in [&bin, &man, &words, &about, &control] {
        fs::create_dir_all(folder)?;
    }
    fs::copy(program, bin.join("vellum"))?;
    fs::copy(manual.join("vellum.bash"), words.join("vellum"))?;
    fs::write(about.join("copyright"), licences()?)?;
    let pages = fs::read_dir(manual)?;
    for page in pages.flatten().filter(|page| page.file_name().to_string_lossy().ends_with(".1")) {
        fs::copy(page.path(), man.join(page.file_name()))?;
    }
    let text = format!(
        "Package: vellum\nVersion: {version}\nArchitecture: {}\nMaintainer: The Vellum project <nobody@localhost>\n\
         Section: devel\nPriority: optional\nDescription: see and check the page tables of any arm64 kernel\n \
         Reads page tables of live guests and dumps, draws and checks them, plans\n linear maps, and judges what a kernel \
         logged of its stores, barriers and TLBIs.\n",
        machine.debian
    );
    fs::write(control.join("control"), text)?;
    let name = format!("vellum_{version}_{}.deb", machine.debian);
    output(Command::new("dpkg-deb").args(["--root-owner-group", "--build"]).arg(&root).arg(folder.join(&name)))?;
    fs::remove_dir_all(&root)?;
    Ok(name)
}

/// Both licences, which want their text to go with every copy.
fn licences() -> Result<String, Failure> {
    let mut text = String::from("Vellum may be used by either of these licences, as you choose.\n");
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let path = cargo::workspace().join(name);
        let licence = fs::read_to_string(&path)?;
        text += &format!("\n---- {name} ----\n\n{licence}");
    }
    Ok(text)
}

fn target_folder() -> Result<PathBuf, Failure> {
    Ok(cargo::metadata()?.target_directory.into())
}
