//! What the user calls a machine: `qemu:unix:PATH`, `qemu:HOST:PORT`, `qmp:PATH`, `core:FILE`, `kcore`, `raw:FILE@BASE`.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::endpoint::Endpoint;
use crate::file::FileMemory;
use crate::machine::Machine;
use crate::{Error, core, gdb, qmp};

/// A place to read a machine from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// A live guest by its gdb stub.
    Gdb(Endpoint),
    /// A live guest by QEMU's machine protocol.
    Qmp(PathBuf),
    /// An ELF core.
    Core(PathBuf),
    /// The running kernel.
    Kcore,
    /// A file with the memory from this address on.
    Raw(PathBuf, u64),
}

/// A shared memory file that is the machine's RAM, and its first physical address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ram {
    /// The file.
    pub path: PathBuf,
    /// The physical address of its first byte.
    pub base: u64,
}

/// Where QEMU's virt machine has its RAM.
const VIRT_RAM: u64 = 0x4000_0000;

const EXPECTED: &str = "expected qemu:unix:PATH, qemu:HOST:PORT, qmp:PATH, core:FILE, kcore or raw:FILE@BASE";

impl FromStr for Source {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let unknown = || Error::new(format!("no source `{text}`: {EXPECTED}"));
        if text == "kcore" {
            return Ok(Self::Kcore);
        }
        let (kind, rest) = text.split_once(':').filter(|(_, rest)| !rest.is_empty()).ok_or_else(unknown)?;
        match kind {
            "qemu" => Ok(Self::Gdb(endpoint(rest).ok_or_else(unknown)?)),
            "qmp" => Ok(Self::Qmp(rest.strip_prefix("unix:").unwrap_or(rest).into())),
            "core" => Ok(Self::Core(rest.into())),
            "raw" => {
                let (path, base) = rest.rsplit_once('@').ok_or_else(|| {
                    Error::new(format!("raw:{rest} does not say where the file's first byte is: raw:FILE@0x40000000"))
                })?;
                Ok(Self::Raw(path.into(), number(base)?))
            }
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gdb(Endpoint::Unix(path)) => write!(f, "qemu:unix:{}", path.display()),
            Self::Gdb(Endpoint::Tcp(place)) => write!(f, "qemu:{place}"),
            Self::Qmp(path) => write!(f, "qmp:{}", path.display()),
            Self::Core(path) => write!(f, "core:{}", path.display()),
            Self::Kcore => f.write_str("kcore"),
            Self::Raw(path, base) => write!(f, "raw:{}@{base:#x}", path.display()),
        }
    }
}

impl FromStr for Ram {
    type Err = Error;

    /// `FILE` or `FILE@BASE`; without a base, where QEMU's virt machine has its RAM.
    fn from_str(text: &str) -> Result<Self, Error> {
        match text.rsplit_once('@').and_then(|(path, base)| Some((path, number(base).ok()?))) {
            Some((path, base)) => Ok(Self { path: path.into(), base }),
            None => Ok(Self { path: text.into(), base: VIRT_RAM }),
        }
    }
}

fn endpoint(text: &str) -> Option<Endpoint> {
    if let Some(path) = text.strip_prefix("unix:") {
        return Some(Endpoint::Unix(path.into()));
    }
    let (host, port) = text.rsplit_once(':')?;
    port.parse::<u16>().ok().filter(|_| !host.is_empty())?;
    Some(Endpoint::Tcp(text.to_owned()))
}

/// A number, hexadecimal with `0x` or else decimal; `_` may separate digits.
pub fn number(text: &str) -> Result<u64, Error> {
    let digits = if text.contains('_') { Cow::Owned(text.replace('_', "")) } else { Cow::Borrowed(text) };
    let parsed = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => digits.parse(),
    };
    parsed.map_err(|_| Error::new(format!("`{text}` is no 64-bit number (0x… or decimal)")))
}

impl Source {
    /// Opens the machine. `needs_registers` is `false` if the caller will tell where page tables are.
    pub fn open(&self, ram: Option<&Ram>, needs_registers: bool) -> Result<Machine, Error> {
        let ram = ram.map(|ram| (ram.path.as_path(), ram.base));
        if ram.is_some() && !matches!(self, Self::Gdb(_) | Self::Qmp(_)) {
            return Err(Error::new("--ram goes with qemu: and qmp: sources; a file of memory alone is raw:FILE@BASE"));
        }
        match self {
            Self::Gdb(endpoint) => gdb::open(endpoint, ram),
            Self::Qmp(path) => qmp::open(path, ram, needs_registers),
            Self::Core(path) => core::open(path),
            Self::Kcore => core::open_kcore(),
            Self::Raw(path, base) => raw(path, *base),
        }
    }
}

fn raw(path: &Path, base: u64) -> Result<Machine, Error> {
    FileMemory::open(path, base).map(|memory| Machine::new(Box::new(memory)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_parse_as_the_help_says() {
        let table = [
            ("qemu:unix:/tmp/g", Source::Gdb(Endpoint::Unix("/tmp/g".into()))),
            ("qemu:localhost:1234", Source::Gdb(Endpoint::Tcp("localhost:1234".into()))),
            ("qmp:/tmp/q", Source::Qmp("/tmp/q".into())),
            ("core:a:b", Source::Core("a:b".into())),
            ("kcore", Source::Kcore),
            ("raw:a@b@0x4000_0000", Source::Raw("a@b".into(), 0x4000_0000)),
        ];
        for (text, source) in table {
            assert_eq!(text.parse(), Ok(source));
        }
    }

    #[test]
    fn what_is_no_source_says_what_is_expected() {
        for text in ["", "file", "core:", "qemu:host", "qemu:host:70000", "qemu::1", "tape:x"] {
            let error = text.parse::<Source>().unwrap_err().to_string();
            assert!(error.contains("expected qemu:unix:PATH"), "{error}");
        }
        assert!("raw:file".parse::<Source>().unwrap_err().to_string().contains("raw:FILE@0x40000000"));
        assert!("raw:file@x".parse::<Source>().is_err());
    }

    #[test]
    fn a_ram_file_may_say_where_it_is() {
        assert_eq!("/r".parse::<Ram>(), Ok(Ram { path: "/r".into(), base: 0x4000_0000 }));
        assert_eq!("/r@0x8000".parse::<Ram>(), Ok(Ram { path: "/r".into(), base: 0x8000 }));
        assert_eq!("/r@home".parse::<Ram>(), Ok(Ram { path: "/r@home".into(), base: 0x4000_0000 }));
    }
}
