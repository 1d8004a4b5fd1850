//! `cargo xtask fetch`: an arm64 Linux that no one here wrote, for the tests of the command `vellum`.
//!
//! Debian's packages come through a private apt root: no privilege is needed, and the host's package lists stay as they
//! are. The kernel and a static busybox are unpacked into `.fetched/`; a program that idles is the guest's init.

mod apt;
mod cpio;
mod image;

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use crate::{
    cargo, help,
    outcome::{Failure, Status},
    terminal,
};
use apt::Apt;
use cpio::Archive;

/// What is fetched, and how a guest is made of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Linux {
    pub(crate) kernel: PathBuf,
    pub(crate) busybox: PathBuf,
    /// The package of the kernel.
    pub(crate) name: String,
}

/// The guest mounts what a reader of its memory needs, runs vellum if it has one, says that it is ready, and idles.
const INIT: &str = include_str!("fetch/init.sh");

/// The guest of a monitor tells what it sees, and ends the machine.
const MONITORED: &str = include_str!("fetch/monitored.sh");

/// Entry of `cargo xtask fetch`.
pub(crate) fn main(arguments: &[OsString]) -> Result<Status, Failure> {
    let again = match arguments {
        [] => false,
        [one] if one == "--again" => true,
        [one] if one == "--help" || one == "-h" => return Ok(help::show(help::FETCH)),
        _ => return Err(Failure::bad_input("fetch takes --again and nothing else (see cargo xtask fetch --help)")),
    };
    let linux = match find() {
        Some(linux) if !again => linux,
        _ => fetch()?,
    };
    terminal::print(format_args!("{}\n", linux.kernel.display()));
    eprintln!("cargo xtask: {} is in {}", linux.name, folder().display());
    Ok(Status::Passed)
}

fn folder() -> PathBuf {
    cargo::workspace().join(".fetched").join("linux")
}

/// What has been fetched, if it has.
pub(crate) fn find() -> Option<Linux> {
    let folder = folder();
    let name = fs::read_to_string(folder.join("package")).ok()?.trim().to_owned();
    let linux = Linux { kernel: folder.join("vmlinuz"), busybox: folder.join("busybox"), name };
    [&linux.kernel, &linux.busybox].iter().all(|path| path.exists()).then_some(linux)
}

fn fetch() -> Result<Linux, Failure> {
    let root = cargo::workspace().join(".fetched").join("apt");
    let apt = Apt::new(&root)?;
    apt.update()?;
    let kernel = apt.newest_kernel()?;
    let unpacked = apt.unpack(&[&kernel, "busybox-static"])?;
    let folder = folder();
    create(&folder)?;
    // The package's name comes last: without it, nothing counts as fetched.
    let _ = fs::remove_file(folder.join("package"));
    take(&unpacked.join("boot"), "vmlinuz-", &folder.join("vmlinuz"))?;
    image::unpack(&folder.join("vmlinuz"))?;
    let busybox = ["bin", "usr/bin"].map(|bin| unpacked.join(bin)).into_iter().find(|bin| bin.join("busybox").exists());
    take(&busybox.unwrap_or(unpacked), "busybox", &folder.join("busybox"))?;
    let package = folder.join("package");
    fs::write(&package, format!("{kernel}\n")).map_err(|error| Failure::file(&package, &error))?;
    find().ok_or_else(|| Failure::new(Status::Failed, "what was fetched is not complete"))
}

/// Copies the file of a folder whose name starts with `prefix`.
fn take(folder: &Path, prefix: &str, to: &Path) -> Result<(), Failure> {
    let entries = fs::read_dir(folder).map_err(|error| Failure::file(folder, &error))?;
    let starts = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(prefix);
    let Some(entry) = entries.flatten().find(starts) else {
        return Err(Failure::new(Status::Failed, format!("{}: no {prefix}… in the package", folder.display())));
    };
    fs::copy(entry.path(), to).map_err(|error| Failure::file(to, &error))?;
    Ok(())
}

fn create(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| Failure::file(folder, &error))
}

impl Linux {
    /// Writes a guest's initial file system to `to`: busybox, an init that idles, and `vellum` if there is one.
    pub(crate) fn write_initramfs(&self, vellum: Option<&Path>, to: &Path) -> Result<(), Failure> {
        self.write_with(INIT, vellum, to)
    }

    /// Writes the initial file system of a monitor's guest to `to`.
    pub(crate) fn write_monitored(&self, to: &Path) -> Result<(), Failure> {
        self.write_with(MONITORED, None, to)
    }

    fn write_with(&self, init: &str, vellum: Option<&Path>, to: &Path) -> Result<(), Failure> {
        let read = |path: &Path| fs::read(path).map_err(|error| Failure::file(path, &error));
        let mut archive = Archive::new();
        for folder in ["bin", "dev", "proc", "sys", "tmp"] {
            archive.folder(folder);
        }
        archive.console("dev/console");
        archive.program("bin/busybox", &read(&self.busybox)?);
        archive.program("init", init.as_bytes());
        if let Some(vellum) = vellum {
            archive.program("bin/vellum", &read(vellum)?);
        }
        fs::write(to, archive.finish()).map_err(|error| Failure::file(to, &error))
    }
}
