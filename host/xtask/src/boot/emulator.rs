//! Which QEMU boots: the host's, one of a certain version, or one that a person names.

use std::{ffi::OsString, path::PathBuf, process::Command};

use clap::ValueEnum;

use super::{guest, install};
use crate::{
    fetch::qemu::{self, PROGRAM, Version},
    outcome::Failure,
    terminal::quoted,
};

/// A QEMU.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum Emulator {
    /// The one on the path, which is installed if there is none.
    #[default]
    Host,
    /// The host's if it is of this version, or a fetched one.
    Version(Version),
    /// A program.
    File(PathBuf),
}

/// Reads what follows `--qemu`.
pub(crate) fn parse(text: &str) -> Result<Emulator, &'static str> {
    match Version::from_str(text, false) {
        _ if text == "host" => Ok(Emulator::Host),
        Ok(version) => Ok(Emulator::Version(version)),
        Err(_) if text.contains('/') => Ok(Emulator::File(text.into())),
        Err(_) => Err("expected host, 7.2, 11 or the path of a qemu-system-aarch64"),
    }
}

impl Emulator {
    /// Sees that it is there.
    pub(crate) fn ensure(&self) -> Result<(), Failure> {
        match self {
            Emulator::Host => install::ensure_qemu(),
            _ => self.words().map(|_| ()),
        }
    }

    /// The program, and the arguments without which it does not run.
    pub(crate) fn words(&self) -> Result<Vec<OsString>, Failure> {
        match self {
            Emulator::Host => Ok(vec![PROGRAM.into()]),
            Emulator::Version(version) if qemu::host_version().is_some_and(|host| version.is(&host)) => {
                Ok(vec![PROGRAM.into()])
            }
            Emulator::Version(version) => version.find().ok_or_else(|| {
                let line = format!("there is no QEMU {version} here: cargo xtask fetch qemu {version}");
                Failure::host_lacks(line)
            }),
            Emulator::File(path) if path.is_file() => Ok(vec![path.into()]),
            Emulator::File(path) => {
                Err(Failure::bad_input(format!("--qemu {}: expected a program; nothing was booted", path.display())))
            }
        }
    }

    /// The option that asks for it, with a space behind; nothing for the host's.
    pub(crate) fn option(&self) -> String {
        match self {
            Emulator::Host => String::new(),
            Emulator::Version(version) => format!("--qemu {version} "),
            Emulator::File(path) => format!("--qemu {} ", quoted(path.as_os_str())),
        }
    }

    /// A command that is the emulator, without arguments yet.
    pub(crate) fn command(&self) -> Result<Command, Failure> {
        let words = self.words()?;
        let (program, first) = words.split_first().ok_or_else(|| Failure::failed("no emulator"))?;
        let mut command = guest::tied_to_us(program);
        command.args(first);
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Status;

    #[test]
    fn a_version_or_a_path() {
        assert_eq!(parse("host"), Ok(Emulator::Host));
        assert_eq!(parse("7.2"), Ok(Emulator::Version(Version::V7)));
        assert_eq!(parse("11"), Ok(Emulator::Version(Version::V11)));
        assert_eq!(parse("11").map(|it| it.option()), Ok("--qemu 11 ".to_string()));
        assert_eq!(parse("./q"), Ok(Emulator::File("./q".into())));
        assert!(["", "8.0", "qemu-system-aarch64", "7"].into_iter().all(|text| parse(text).is_err()));
    }

    #[test]
    fn a_program_that_is_named_must_be_there() {
        let missing = Emulator::File("/nowhere/qemu".into());
        assert!(missing.ensure().is_err_and(|failure| failure.status == Status::BadInput));
        let own = Emulator::File(std::env::current_exe().expect("this test"));
        assert_eq!(own.words().map(|words| words.len()), Ok(1));
    }
}
