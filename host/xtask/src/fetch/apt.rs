//! A private apt root: lists and packages of our own, from the sources that the host trusts or from a suite of Debian's.
//!
//! What is downloaded is held against the hashes of the signed release file, by apt itself.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use fs_err as fs;

use crate::{
    cargo,
    command::{output, runs},
    outcome::Failure,
};

/// Where Debian's packages are, unless the variable names another mirror.
const MIRROR: &str = "http://deb.debian.org/debian";
const MIRROR_VARIABLE: &str = "VELLUM_DEBIAN";

/// Debian's own keys, by the names that its releases gave the file.
const KEYRINGS: [&str; 2] =
    ["/usr/share/keyrings/debian-archive-keyring.gpg", "/usr/share/keyrings/debian-archive-keyring.pgp"];

/// All that is fetched.
pub(super) fn folder() -> PathBuf {
    cargo::workspace().join(".fetched")
}

/// An apt that knows one architecture alone, and keeps all it learns under one folder.
pub(super) struct Apt {
    root: PathBuf,
    architecture: String,
    /// The suite that all comes from; none if the host's own sources say.
    suite: Option<String>,
}

impl Apt {
    /// An apt for `architecture` with its files in a folder of its own below `root`.
    pub(super) fn new(root: &Path, architecture: &str, suite: Option<&str>) -> Result<Apt, Failure> {
        if let Some(program) =
            ["apt-get", "apt-cache", "dpkg-deb"].iter().find(|program| !runs(program, &["--version"]))
        {
            let line = format!("there is no {program} here: only a Debian or its kin can fetch Debian's packages");
            return Err(Failure::host_lacks(line));
        }
        let root = root.join(format!("{}-{architecture}", suite.unwrap_or("host")));
        for folder in ["state/lists/partial", "cache/archives/partial", "archives"] {
            fs::create_dir_all(root.join(folder))?;
        }
        fs::write(root.join("state/status"), "")?;
        if let Some(suite) = suite {
            let mirror = env::var(MIRROR_VARIABLE).unwrap_or(MIRROR.to_owned());
            let keyring = KEYRINGS.into_iter().find(|keyring| Path::new(keyring).exists());
            fs::write(root.join("sources.list"), sources(&mirror, suite, keyring))?;
        }
        Ok(Apt { root, architecture: architecture.to_owned(), suite: suite.map(str::to_owned) })
    }

    pub(super) fn update(&self) -> Result<(), Failure> {
        let from = self.suite.as_ref().map_or("Debian's package lists".to_owned(), |it| format!("the lists of {it}"));
        eprintln!("cargo xtask: fetching {from} for {} (about 14 MB)", self.architecture);
        self.get(&["update"])
    }

    /// The first package whose name starts so, of those that `meta` depends on.
    pub(super) fn newest(&self, meta: &str, prefix: &str) -> Result<String, Failure> {
        let found = self.ask(&["depends", meta])?.as_deref().and_then(|text| named_among(text, prefix));
        found.ok_or_else(|| {
            let place = self.suite.as_deref().unwrap_or("the host's package sources");
            Failure::host_lacks(format!("{place} has no {meta}: only Debian does"))
        })
    }

    /// The package that holds the current kernel's Image, of those that `meta` depends on.
    pub(super) fn newest_kernel(&self, meta: &str) -> Result<String, Failure> {
        let image = self.newest(meta, "linux-image-")?;
        // Newer packages named so are empty, and need one with the kernel and one with its modules.
        let binary = image.replacen("linux-image-", "linux-binary-", 1);
        let has_binary = self.ask(&["show", &binary])?.is_some_and(|text| !text.is_empty());
        Ok(if has_binary { binary } else { image })
    }

    /// Downloads packages, of which a person is told how large they are at most, and unpacks them; returns where.
    pub(super) fn unpack(&self, packages: &[&str], most_megabytes: u32) -> Result<PathBuf, Failure> {
        eprintln!("cargo xtask: fetching {} (up to {most_megabytes} MB)", packages.join(", "));
        let archives = self.root.join("archives");
        clear(&archives)?;
        self.get(&[&["download"], packages].concat())?;
        let unpacked = self.root.join("unpacked");
        clear(&unpacked)?;
        extract(&archives, &unpacked)?;
        Ok(unpacked)
    }

    /// Downloads packages with all that they need, down to the C library, and unpacks everything into `to`.
    pub(super) fn unpack_with_all_it_needs(&self, packages: &[&str], to: &Path) -> Result<(), Failure> {
        eprintln!("cargo xtask: fetching {} with libraries (40 to 200 MB)", packages.join(", "));
        let archives = self.root.join("cache/archives");
        clear(&archives.join("partial"))?;
        self.get(&[&["install", "--yes", "--download-only", "--no-install-recommends"], packages].concat())?;
        clear(to)?;
        extract(&archives, to)?;
        Ok(fs::remove_dir_all(&archives)?)
    }

    /// The version of a package that would be taken.
    pub(super) fn version(&self, package: &str) -> Result<Option<String>, Failure> {
        Ok(self.ask(&["policy", package])?.as_deref().and_then(candidate_among))
    }

    fn get(&self, arguments: &[&str]) -> Result<(), Failure> {
        let mut command = self.command("apt-get");
        command.arg("--quiet=2").args(arguments).current_dir(self.root.join("archives"));
        match command.stdin(Stdio::null()).stdout(Stdio::null()).status() {
            Ok(status) if status.success() => Ok(()),
            _ => {
                let line = format!("apt-get {} failed (its reason stands above)", arguments.join(" "));
                Err(Failure::host_lacks(line))
            }
        }
    }

    /// What `apt-cache` answers; nothing if it knows no such package.
    fn ask(&self, arguments: &[&str]) -> Result<Option<String>, Failure> {
        let output = self.command("apt-cache").args(arguments).stderr(Stdio::null()).output();
        let output = output.map_err(|error| Failure::host_lacks(format!("apt-cache: {error}")))?;
        Ok(output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned()))
    }

    /// Options on the command line win over every file of the host's configuration.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let path = |key: &str, folder: &str| format!("{key}={}", self.root.join(folder).display());
        let mut options = vec![
            path("Dir::State", "state"),
            path("Dir::State::status", "state/status"),
            path("Dir::Cache", "cache"),
            format!("APT::Architecture={}", self.architecture),
            format!("APT::Architectures={}", self.architecture),
            // Without these apt wants to become another user, and locks that only root may take.
            "APT::Sandbox::User=".into(),
            "Debug::NoLocking=true".into(),
            "Acquire::Languages=none".into(),
        ];
        if let Some(suite) = &self.suite {
            options.push(path("Dir::Etc::sourcelist", "sources.list"));
            options.push("Dir::Etc::sourceparts=/dev/null".into());
            // Backports are taken only if they are asked for.
            options.push(format!("APT::Default-Release={suite}"));
        }
        for option in options {
            command.arg("-o").arg(option);
        }
        command.env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C");
        command
    }
}

/// The lines of a list of sources: a suite, and below backports the release that they complete.
fn sources(mirror: &str, suite: &str, keyring: Option<&str>) -> String {
    let signed = keyring.map_or(String::new(), |keyring| format!("[signed-by={keyring}] "));
    let suites = suite.strip_suffix("-backports").into_iter().chain([suite]);
    suites.map(|suite| format!("deb {signed}{mirror} {suite} main\n")).collect()
}

/// The package whose name starts so, among the lines of `apt-cache depends`.
fn named_among(text: &str, prefix: &str) -> Option<String> {
    let names = text.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    names.map(str::trim).find(|name| name.starts_with(prefix)).map(str::to_owned)
}

/// The version among the lines of `apt-cache policy`.
fn candidate_among(text: &str) -> Option<String> {
    let version = text.lines().find_map(|line| line.trim().strip_prefix("Candidate: "))?;
    (version != "(none)").then(|| version.to_owned())
}

/// Unpacks every package of a folder.
fn extract(archives: &Path, to: &Path) -> Result<(), Failure> {
    let entries = fs::read_dir(archives)?;
    let packages = entries.flatten().map(|entry| entry.path());
    for archive in packages.filter(|path| path.extension().is_some_and(|extension| extension == "deb")) {
        output(Command::new("dpkg-deb").arg("--extract").args([&archive, to]))?;
    }
    Ok(())
}

/// Empties a folder, and makes it if it is not there.
fn clear(folder: &Path) -> Result<(), Failure> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    Ok(fs::create_dir_all(folder)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_what_the_package_depends_on() {
        let text = "linux-image-arm64\n  Depends: linux-image-6.1.0-56-arm64\n  Suggests: linux-doc\n";
        assert_eq!(named_among(text, "linux-image-").as_deref(), Some("linux-image-6.1.0-56-arm64"));
        assert_eq!(named_among("linux-image-arm64\n", "linux-image-"), None);
    }

    #[test]
    fn the_version_is_the_candidate() {
        let text = "q:\n  Installed: (none)\n  Candidate: 1:11.1.3+ds-1~bpo13+1\n  Version table:\n";
        assert_eq!(candidate_among(text).as_deref(), Some("1:11.1.3+ds-1~bpo13+1"));
        assert_eq!(candidate_among("q:\n  Candidate: (none)\n"), None);
    }

    #[test]
    fn backports_stand_on_their_release() {
        assert_eq!(sources("http://m/debian", "bookworm", None), "deb http://m/debian bookworm main\n");
        assert_eq!(
            sources("http://m/debian", "trixie-backports", Some("/k.gpg")),
            "deb [signed-by=/k.gpg] http://m/debian trixie main\n\
             deb [signed-by=/k.gpg] http://m/debian trixie-backports main\n"
        );
    }
}
