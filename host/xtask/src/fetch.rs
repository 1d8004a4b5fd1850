//! `cargo xtask fetch`: what no one here wrote, for the tests: arm64 Linux kernels, QEMUs of other versions, a browser,
//! Linux's selftests.
//!
//! Debian's packages come through a private apt root: no privilege is needed, and the host's package lists stay as they
//! are. All of it is unpacked into `.fetched/`.

mod apt;
pub(crate) mod chromium;
pub(crate) mod cpio;
mod image;
pub(crate) mod linux;
pub(crate) mod qemu;
pub(crate) mod selftests;

use clap::{Parser, Subcommand, ValueEnum};

use crate::{
    outcome::{Failure, Status},
    terminal,
};
use linux::Kind;
use qemu::Version;

const EXAMPLES: &str = "Examples:
  cargo xtask fetch              the host's kernel and busybox; about 75 MB into .fetched/
  cargo xtask fetch linux --suite trixie-backports
                                 the newest kernels, with 4K and 16K pages; about 210 MB
  cargo xtask fetch qemu 7.2     about 40 MB
  cargo xtask fetch chromium     for the tests of vellum report; about 165 MB
  cargo xtask fetch selftests    on x86-64 alone: about 250 MB; built into target/selftests

It needs apt-get, apt-cache and dpkg-deb, but no privilege: lists and packages are kept apart from
the host's, and apt holds them against the signed hashes. A QEMU comes with all its libraries and
their loader. Suites come from http://deb.debian.org/debian, or from the mirror that VELLUM_DEBIAN
names. `cargo xtask test` uses fetched files, and skips its tests, with the reason, where they are
missing.

Exit status: 0 fetched, 1 the packages are not as expected, 2 an option is wrong, 3 there is no
apt here, or no such package.";

/// Fetches files of others, for the tests: arm64 Linux kernels, QEMUs, a browser, selftests
#[derive(Parser)]
#[command(no_binary_name = true, after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Options {
    /// Without it the host's Linux
    #[command(subcommand)]
    what: Option<What>,
    /// The newest one, whatever is there
    #[arg(long, global = true)]
    again: bool,
}

#[derive(Subcommand)]
enum What {
    /// Debian's kernel and busybox
    Linux {
        /// Suite of Debian's; without it the host's own sources
        #[arg(long, value_name = "NAME", value_parser = suite)]
        suite: Option<String>,
    },
    /// QEMU 11 and 7.2, whichever the host's is not
    Qemu {
        /// This one, whatever the host has
        version: Option<Version>,
    },
    /// A browser, of the host's own sources
    Chromium,
    /// The selftests of today's Linux, and a compiler
    Selftests,
}

/// Entry of `cargo xtask fetch`.
pub(crate) fn main(options: Options) -> Result<Status, Failure> {
    let again = options.again;
    match options.what {
        None => fetch_linux(None, again),
        Some(What::Linux { suite }) => fetch_linux(suite, again),
        Some(What::Qemu { version }) => fetch_qemu(version, again),
        Some(What::Chromium) => fetch_chromium(again),
        Some(What::Selftests) => fetch_selftests(again),
    }
}

/// The host's kernel; or of a suite the kernels with 4K and with 16K pages.
fn fetch_linux(suite: Option<String>, again: bool) -> Result<Status, Failure> {
    let kinds = match suite {
        None => vec![Kind::HOST],
        Some(_) => [false, true].map(|has_16k_pages| Kind { suite: suite.clone(), has_16k_pages }).to_vec(),
    };
    for kind in kinds {
        let linux = match kind.find() {
            Some(linux) if !again && !linux.modules.is_empty() => linux,
            _ => kind.fetch()?,
        };
        terminal::print(format_args!("{}\n", linux.kernel.display()));
        eprintln!("cargo xtask: it is of {}", linux.name);
    }
    Ok(Status::Passed)
}

fn fetch_qemu(version: Option<Version>, again: bool) -> Result<Status, Failure> {
    let host = qemu::host_version();
    let is_missing = |version: &Version| !host.as_ref().is_some_and(|host| version.is(host));
    let wanted: Vec<Version> = match version {
        Some(version) => vec![version],
        None => Version::value_variants().iter().copied().filter(is_missing).collect(),
    };
    for version in wanted {
        if again || version.find().is_none() {
            version.fetch()?;
        }
        let words: Vec<String> = version.find().unwrap_or_default().iter().map(|word| terminal::quoted(word)).collect();
        terminal::print(format_args!("{}\n", words.join(" ")));
    }
    Ok(Status::Passed)
}

fn fetch_chromium(again: bool) -> Result<Status, Failure> {
    if again || !chromium::path().exists() {
        chromium::fetch()?;
    }
    terminal::print(format_args!("{}\n", chromium::path().display()));
    Ok(Status::Passed)
}

/// Fetches what they are made of, and builds them.
fn fetch_selftests(again: bool) -> Result<Status, Failure> {
    if again || selftests::find().is_none() {
        selftests::fetch()?;
    }
    let folder = selftests::build(&mut |line| eprintln!("cargo xtask: {line}"))?;
    terminal::print(format_args!("{}\n", folder.display()));
    eprintln!("cargo xtask: they are of {}", selftests::find().unwrap_or_default());
    Ok(Status::Passed)
}

/// Fetches all that the tests can use and this host lacks.
pub(crate) fn missing() -> Result<(), Failure> {
    fetch_linux(None, false)?;
    fetch_linux(Some(linux::TODAY.to_owned()), false)?;
    fetch_chromium(false)?;
    // A host for which no compiler is looked for goes without.
    fetch_selftests(false).or_else(|failure| match failure.status {
        Status::HostLacks => Ok(Status::Passed),
        _ => Err(failure),
    })?;
    fetch_qemu(None, false).map(|_| ())
}

/// A suite's name becomes a part of a path and of a line.
fn suite(text: &str) -> Result<String, &'static str> {
    let is_name = text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    is_name.then(|| text.to_owned()).ok_or("expected a suite of Debian's like trixie-backports")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::help;

    #[test]
    fn arguments_that_make_no_sense_are_refused() {
        for bad in ["bsd", "qemu 8", "linux --suite ../x", "linux --suite ", "linux 11", "qemu --suite sid"] {
            let words: Vec<_> = bad.split(' ').map(Into::into).collect();
            assert!(help::read::<Options>("fetch", &words).is_err(), "{bad:?}");
        }
    }
}
