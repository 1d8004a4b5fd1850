//! A QEMU of another version than the host's, with all its libraries and the loader that brings them together.
//!
//! ```text
//! .fetched/qemu-11/root/usr/lib/TRIPLET/ld-linux-….so   --library-path root/usr/lib/TRIPLET:…
//!                      /usr/bin/qemu-system-aarch64     -L root/usr/share/qemu
//! ```

use std::{
    env::consts,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use clap::ValueEnum;
use fs_err as fs;

use super::apt::{self, Apt};
use crate::outcome::Failure;

/// The emulator's program.
pub(crate) const PROGRAM: &str = "qemu-system-aarch64";
/// Debian's package of the emulator.
const PACKAGE: &str = "qemu-system-arm";

/// The versions that the tests know.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Version {
    #[value(name = "7.2")]
    V7,
    #[value(name = "11")]
    V11,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

impl Version {
    /// The suite of Debian's that has it.
    const fn suite(self) -> &'static str {
        match self {
            Version::V7 => "bookworm",
            Version::V11 => "trixie-backports",
        }
    }

    fn folder(self) -> PathBuf {
        apt::folder().join(format!("qemu-{self}"))
    }

    /// Whether a version in full, such as 11.1.3, is this one.
    pub(crate) fn is(self, full: &str) -> bool {
        full.strip_prefix(&self.to_string()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// The words that run it, if it has been fetched.
    pub(crate) fn find(self) -> Option<Vec<OsString>> {
        let folder = self.folder();
        // The version comes last: without it, nothing counts as fetched.
        folder.join("package").exists().then(|| words(&folder.join("root"))).flatten()
    }

    /// Fetches it, whatever is there; returns its version in full.
    pub(super) fn fetch(self) -> Result<String, Failure> {
        let failed = |line: String| Err(Failure::failed(line));
        let Some(architecture) = architecture() else {
            let line = format!("Debian's QEMU is not looked for on {}", consts::ARCH);
            return Err(Failure::host_lacks(line));
        };
        let apt = Apt::new(&apt::folder().join("apt"), architecture, Some(self.suite()))?;
        apt.update()?;
        let found = apt.version(PACKAGE)?.unwrap_or_default();
        if !self.is(upstream(&found)) {
            return failed(format!("{} has {PACKAGE} {found}, expected {self}", self.suite()));
        }
        let (package, root) = (self.folder().join("package"), self.folder().join("root"));
        let _ = fs::remove_file(&package);
        apt.unpack_with_all_it_needs(&[PACKAGE], &root)?;
        if words(&root).is_none() {
            return failed(format!("{}: no loader or no emulator in the packages", root.display()));
        }
        fs::write(&package, format!("{PACKAGE} {found}\n"))?;
        Ok(found)
    }
}

/// The version of the host's own QEMU, in full; none if there is none.
pub(crate) fn host_version() -> Option<String> {
    static FOUND: OnceLock<Option<String>> = OnceLock::new();
    let find = || {
        let output = Command::new(PROGRAM).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        version_among(&String::from_utf8_lossy(&output.stdout))
    };
    FOUND.get_or_init(find).clone()
}

/// The version in what QEMU says of itself.
fn version_among(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("QEMU emulator version ")?;
    rest.split_whitespace().next().map(str::to_owned)
}

/// Debian's name of this host's architecture.
pub(super) const fn architecture() -> Option<&'static str> {
    match consts::ARCH.as_bytes() {
        b"x86_64" => Some("amd64"),
        b"aarch64" => Some("arm64"),
        _ => None,
    }
}

/// The version of a package without what Debian adds: `1:11.1.3+ds-1` is 11.1.3.
fn upstream(version: &str) -> &str {
    let rest = version.split_once(':').map_or(version, |(_, rest)| rest);
    rest.split(['+', '-', '~']).next().unwrap_or(rest)
}

/// The words that run the emulator in a folder of unpacked packages: by its own loader, lest the host's libraries, which may be
/// older, are taken.
fn words(root: &Path) -> Option<Vec<OsString>> {
    let triplet = format!("{}-linux-gnu", consts::ARCH);
    // Older packages have some libraries outside usr. The loader's usual place is no help: a link to the host's.
    let libraries: Vec<PathBuf> = ["usr/lib", "lib"].iter().map(|folder| root.join(folder).join(&triplet)).collect();
    let loader = libraries.iter().find_map(|folder| loader_in(folder))?;
    let emulator = root.join("usr/bin/qemu-system-aarch64");
    let path = libraries.iter().map(|folder| folder.as_os_str()).collect::<Vec<_>>().join(":".as_ref());
    let data: OsString = root.join("usr/share/qemu").into();
    let words = [loader.into(), "--library-path".into(), path, emulator.clone().into(), "-L".into(), data];
    emulator.exists().then(|| words.into())
}

fn loader_in(folder: &Path) -> Option<PathBuf> {
    let is_loader =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ld-linux"));
    fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).find(is_loader)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_told_from_its_neighbours() {
        assert!(Version::V11.is("11.1.3") && Version::V7.is("7.2.19") && Version::V7.is("7.2"));
        assert!(
            !Version::V11.is("10.0.13") && !Version::V11.is("110.1") && !Version::V7.is("7.20") && !Version::V7.is("")
        );
        assert_eq!(upstream("1:11.1.3+ds-1~bpo13+1"), "11.1.3");
        assert_eq!(upstream("7.2-1"), "7.2");
        let said = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright\n";
        assert_eq!(version_among(said).as_deref(), Some("7.2.22"));
        assert_eq!(version_among("something else"), None);
    }

    #[test]
    fn an_emulator_runs_by_the_loader_beside_its_libraries() {
        let root = std::env::temp_dir().join(format!("vellum-qemu-{}", std::process::id()));
        let library = root.join("lib").join(format!("{}-linux-gnu", consts::ARCH));
        for (folder, file) in [(library.clone(), "ld-linux-x.so.2"), (root.join("usr/bin"), "qemu-system-aarch64")] {
            assert_eq!(words(&root), None);
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(folder.join(file), "").expect("a file");
        }
        let words = words(&root).expect("all is there");
        fs::remove_dir_all(&root).expect("removed");
        assert_eq!(words[0], library.join("ld-linux-x.so.2"));
        assert!(words[2].to_string_lossy().ends_with(&*library.to_string_lossy()), "{words:?}");
        assert_eq!(words[3], root.join("usr/bin/qemu-system-aarch64"));
    }
}
