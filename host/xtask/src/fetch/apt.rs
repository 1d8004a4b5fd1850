//! A private apt root: lists and packages of our own, from the sources that the host trusts.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::outcome::{Failure, Status};

/// Debian's package that depends on its current arm64 kernel.
const KERNEL: &str = "linux-image-arm64";

/// An apt that knows arm64 alone, and keeps all it learns under one folder.
pub(super) struct Apt {
    root: PathBuf,
}

impl Apt {
    pub(super) fn new(root: &Path) -> Result<Apt, Failure> {
        for program in ["apt-get", "apt-cache", "dpkg-deb"] {
            let version = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
            if !version.is_ok_and(|status| status.success()) {
                let line = format!("there is no {program} here: only a Debian or its kin can fetch Debian's packages");
                return Err(Failure::new(Status::HostLacks, line));
            }
        }
        for folder in ["state/lists/partial", "cache/archives/partial", "archives"] {
            super::create(&root.join(folder))?;
        }
        let status = root.join("state/status");
        fs::write(&status, "").map_err(|error| Failure::file(&status, &error))?;
        Ok(Apt { root: root.to_path_buf() })
    }

    pub(super) fn update(&self) -> Result<(), Failure> {
        eprintln!("cargo xtask: fetching Debian's package lists for arm64 (about 14 MB)");
        self.get(&["update"])
    }

    /// The package of the current kernel.
    pub(super) fn newest_kernel(&self) -> Result<String, Failure> {
        let output = self.command("apt-cache").args(["depends", KERNEL]).stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| Failure::new(Status::HostLacks, format!("apt-cache: {error}")))?;
        kernel_among(&String::from_utf8_lossy(&output.stdout)).ok_or_else(|| {
            let line = format!("the host's package sources have no {KERNEL}: only Debian's do");
            Failure::new(Status::HostLacks, line)
        })
    }

    /// Downloads packages and unpacks them; returns where.
    pub(super) fn unpack(&self, packages: &[&str]) -> Result<PathBuf, Failure> {
        eprintln!("cargo xtask: fetching {} (about 60 MB)", packages.join(", "));
        let archives = self.root.join("archives");
        clear(&archives)?;
        self.get(&[&["download"], packages].concat())?;
        let unpacked = self.root.join("unpacked");
        clear(&unpacked)?;
        let entries = fs::read_dir(&archives).map_err(|error| Failure::file(&archives, &error))?;
        for archive in entries.flatten().map(|entry| entry.path()) {
            let status = Command::new("dpkg-deb").arg("--extract").args([&archive, &unpacked]).status();
            if !status.is_ok_and(|status| status.success()) {
                return Err(Failure::new(Status::Failed, format!("dpkg-deb cannot unpack {}", archive.display())));
            }
        }
        Ok(unpacked)
    }

    fn get(&self, arguments: &[&str]) -> Result<(), Failure> {
        let mut command = self.command("apt-get");
        command.arg("--quiet=2").args(arguments).current_dir(self.root.join("archives"));
        match command.stdin(Stdio::null()).stdout(Stdio::null()).status() {
            Ok(status) if status.success() => Ok(()),
            _ => {
                let line = format!("apt-get {} failed (its reason stands above)", arguments.join(" "));
                Err(Failure::new(Status::HostLacks, line))
            }
        }
    }

    /// Options on the command line win over every file of the host's configuration.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let path = |key: &str, folder: &str| format!("{key}={}", self.root.join(folder).display());
        let options = [
            path("Dir::State", "state"),
            path("Dir::State::status", "state/status"),
            path("Dir::Cache", "cache"),
            "APT::Architecture=arm64".into(),
            "APT::Architectures=arm64".into(),
            // Without these apt wants to become another user, and locks that only root may take.
            "APT::Sandbox::User=".into(),
            "Debug::NoLocking=true".into(),
            "Acquire::Languages=none".into(),
        ];
        for option in options {
            command.arg("-o").arg(option);
        }
        command.env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C");
        command
    }
}

/// The kernel among the lines of `apt-cache depends`.
fn kernel_among(text: &str) -> Option<String> {
    let names = text.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    names.map(str::trim).find(|name| name.starts_with("linux-image-")).map(str::to_owned)
}

/// Empties a folder, and makes it if it is not there.
fn clear(folder: &Path) -> Result<(), Failure> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| Failure::file(folder, &error))?;
    }
    super::create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_what_the_package_depends_on() {
        let text = "linux-image-arm64\n  Depends: linux-image-6.1.0-56-arm64\n  Suggests: linux-doc\n";
        assert_eq!(kernel_among(text).as_deref(), Some("linux-image-6.1.0-56-arm64"));
        assert_eq!(kernel_among("linux-image-arm64\n"), None);
    }
}
