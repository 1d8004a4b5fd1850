//! What the user calls a machine: `qemu:unix:PATH`, `qemu:HOST:PORT`, `qmp:PATH`, `core:FILE`, `kcore`, `raw:FILE@BASE`.

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
    /// A core: ELF or a compressed kdump.
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

/// A word, such as a register, a descriptor or an address: hexadecimal with or without `0x`, as kernels and debuggers print it,
/// decimal with `0d`. `_` may separate digits, C's suffixes (`ULL`) may follow, and marks of the text around it are no part of it.
pub fn number(text: &str) -> Result<u64, Error> {
    parse(text, 16)
}

/// A count, such as pages or an ASID: decimal, hexadecimal with `0x`, and else written as a word is.
pub fn count(text: &str) -> Result<u64, Error> {
    parse(text, 10)
}

fn parse(text: &str, radix: u32) -> Result<u64, Error> {
    let lower = text.trim_matches(['#', ',', ';', ':', '(', ')', '[', ']']).to_ascii_lowercase();
    let plain = lower.trim_end_matches(['u', 'l']).replace('_', "");
    let is_only = |digits: &str, radix| !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    let (digits, radix) = match (plain.get(..2), plain.get(2..)) {
        (Some("0x"), Some(digits)) => (digits, 16),
        // A word of 8 or 16 digits is as wide as kernels print it, and may begin with 0d.
        (Some("0d"), Some(digits)) if is_only(digits, 10) => match lower.len() {
            8 | 16 if radix == 16 => return Err(Error::new(ambiguous(text, digits))),
            _ => (digits, 10),
        },
        (Some("0b"), Some(digits)) if is_only(digits, 2) && lower.len() != 8 && lower.len() != 16 => {
            return Err(Error::new(format!("`{text}` looks binary: write 0x{plain}, or the number in hexadecimal")));
        }
        _ => (plain.as_str(), radix),
    };
    if radix == 10 && !is_only(digits, 10) && is_only(digits, 16) {
        return Err(Error::new(format!("`{text}` is no decimal number: write 0x{digits}")));
    }
    // A sign is no digit.
    let parsed = is_only(digits, radix).then(|| u64::from_str_radix(digits, radix).ok()).flatten();
    let expected = if radix == 16 { "hexadecimal, with or without 0x; 0d… is decimal" } else { "decimal, or 0x…" };
    parsed.ok_or_else(|| Error::new(format!("`{text}` is no 64-bit number ({expected})")))
}

fn ambiguous(text: &str, digits: &str) -> String {
    format!("`{text}` is hexadecimal or decimal: write 0x{text} or 0d_{digits}")
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

    #[test]
    fn words_are_hexadecimal_and_counts_decimal() {
        let words = [
            ("96000044", 0x9600_0044),
            ("0x96000044", 0x9600_0044),
            ("0X9600_0044", 0x9600_0044),
            ("800000001801003", 0x0800_0000_0180_1003),
            ("0068000100abdf07", 0x0068_0001_00ab_df07),
            ("FFFF800008000000", 0xffff_8000_0800_0000),
            ("0xffffffffffffffffULL", u64::MAX),
            ("#0x44ul,", 0x44),
            ("(ff)", 0xff),
            ("0d96000044", 96_000_044),
            ("0d_12345678901234", 12_345_678_901_234),
            ("0d18446744073709551615", u64::MAX),
            ("0dff", 0xdff),
            ("0b000001", 0x0b00_0001),
            ("0", 0),
        ];
        for (text, value) in words {
            assert_eq!(number(text).ok(), Some(value), "{text}");
        }
        for (text, value) in [("16", 16), ("0x16", 0x16), ("0d16", 16), ("4_096UL", 4096), ("0d123456", 123_456)] {
            assert_eq!(count(text).ok(), Some(value), "{text}");
        }
    }

    #[test]
    fn what_may_be_two_numbers_or_none_is_refused() {
        let line = |result: Result<u64, Error>| result.unwrap_err().to_string();
        for text in [
            "",
            "0x",
            "x",
            "+1",
            "-1",
            "0x-1",
            "0x10000000000000000",
            "10000000000000000",
            "0d",
            "12.5",
            "é1",
            "0d18446744073709551616",
        ] {
            let is_word = text == "0d";
            assert_eq!(number(text).is_ok(), is_word, "{text}");
        }
        assert!(line(number("0d000044")).contains("write 0x0d000044 or 0d_000044"), "as wide as an ESR is printed");
        assert!(line(number("0d12345678901234")).contains("0d_12345678901234"));
        assert!(line(number("0b101")).contains("0x0b101"));
        assert!(line(count("ff")).contains("write 0xff"));
        assert!(line(number("0d18446744073709551616")).contains("no 64-bit number"));
    }
}
