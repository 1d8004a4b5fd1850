//! Names of a kernel's functions: from its System.map, or from its ELF file.

use std::fs;
use std::path::Path;

use elf::ElfBytes;
use elf::abi::STT_FUNC;
use elf::endian::LittleEndian;
use image::{count, number};

use crate::select::Failure;

/// Functions by address.
#[derive(Default, Debug)]
pub(super) struct Symbols(Vec<(u64, String)>);

impl Symbols {
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let bytes =
            fs::read(path).map_err(|error| Failure::file(format_args!("--symbols {}", path.display()), &error))?;
        let found = if bytes.starts_with(b"\x7fELF") { of_elf(&bytes) } else { of_map(&bytes) };
        let mut symbols = found.map_err(|what| Failure(format!("--symbols {}: {what}", path.display())))?;
        symbols.sort();
        Ok(Self(symbols))
    }

    /// `symbol+0x1c`, or the address where no symbol is known.
    pub(super) fn name(&self, place: u64) -> String {
        match self.function(place) {
            Some((start, name)) => format!("{name}+{:#x}", place - start),
            None => format!("{place:#x}"),
        }
    }

    /// The function at `place`, and where it begins.
    pub(super) fn function(&self, place: u64) -> Option<(u64, &str)> {
        let after = self.0.partition_point(|(start, _)| *start <= place);
        let (start, name) = self.0.get(after.checked_sub(1)?)?;
        // Nothing is known of what lies far beyond the last one.
        (place - start < 1 << 20).then_some((*start, name.as_str()))
    }

    /// Where functions of this name begin, with those that a compiler made of it (`NAME.part.0`).
    pub(super) fn places(&self, name: &str) -> impl Iterator<Item = u64> {
        let is_its = move |it: &str| it.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        self.0.iter().filter(move |it| is_its(&it.1)).map(|it| it.0)
    }

    /// The address that `SYMBOL+OFFSET`, `SYMBOL` or a number means.
    pub(super) fn place(&self, text: &str) -> Result<u64, Failure> {
        if text.starts_with("0x") {
            return number(text).map_err(|error| Failure(format!("--forget {text}: {error}")));
        }
        let (name, offset) = text.split_once('+').unwrap_or((text, "0"));
        let offset = count(offset).map_err(|error| Failure(format!("--forget {text}: {error}")))?;
        let mut starts: Vec<u64> = self.0.iter().filter(|it| it.1 == name).map(|it| it.0).collect();
        // Two names may stand for one place.
        starts.dedup();
        if starts.len() > 1 {
            // One that ends before this offset is not meant.
            let is_in = |start: u64| Some(self.function(start.checked_add(offset)?)?.0 == start);
            starts.retain(|start| is_in(*start) == Some(true));
        }
        let places: Vec<u64> = starts.iter().filter_map(|start| start.checked_add(offset)).collect();
        match places[..] {
            [place] => Ok(place),
            [] => Err(Failure(format!("--forget {text}: no such place in what --symbols names"))),
            _ => {
                let all = places.iter().map(|place| format!("{place:#x}")).collect::<Vec<_>>().join(", ");
                Err(Failure(format!("--forget {text}: several functions have this name, expected one of {all}")))
            }
        }
    }
}

/// Lines of `ADDRESS TYPE NAME`, the addresses hexadecimal.
fn of_map(bytes: &[u8]) -> Result<Vec<(u64, String)>, String> {
    let text = String::from_utf8_lossy(bytes);
    let mut symbols = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let mut words = line.split_whitespace();
        let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else { continue };
        let address = u64::from_str_radix(address, 16)
            .map_err(|_| format!("line {number}: `{address}`, expected a hexadecimal address, a letter and a name"))?;
        // Mapping symbols name no function.
        if kind.eq_ignore_ascii_case("t") && !name.starts_with('$') {
            symbols.push((address, name.to_owned()));
        }
    }
    if symbols.is_empty() { Err("no functions, expected a System.map or an ELF file".into()) } else { Ok(symbols) }
}

fn of_elf(bytes: &[u8]) -> Result<Vec<(u64, String)>, String> {
    let file = ElfBytes::<LittleEndian>::minimal_parse(bytes).map_err(|error| error.to_string())?;
    let table = file.symbol_table().map_err(|error| error.to_string())?;
    let Some((table, names)) = table else { return Err("no symbols in it".into()) };
    let functions = table.iter().filter(|it| it.st_symtype() == STT_FUNC);
    let named = functions.filter_map(|it| Some((it.st_value, names.get(it.st_name as usize).ok()?)));
    Ok(named.map(|(start, name)| (start, tell_path(name))).collect())
}

/// Rust's names as a person reads them: `_ZN6kernel4boot17h0123456789abcdefE` is `kernel::boot`.
fn tell_path(name: &str) -> String {
    let Some(mut rest) = name.strip_prefix("_ZN") else { return name.to_owned() };
    let mut parts: Vec<&str> = Vec::new();
    while let Some(end) = rest.find(|it: char| !it.is_ascii_digit()).filter(|end| *end > 0) {
        let Some(length) = rest[..end].parse().ok().filter(|length| rest.is_char_boundary(end + length)) else { break };
        let (part, after) = rest[end..].split_at(length);
        parts.push(part);
        rest = after;
    }
    // Neither the hash nor what an implementation is of, with all its parameters.
    parts.retain(|part| !(part.contains('$') || part.len() == 17 && part.starts_with('h')));
    if parts.is_empty() { name.to_owned() } else { parts.join("::") }
}

#[cfg(test)]
impl Symbols {
    pub(super) fn of(known: &[(u64, &str)]) -> Self {
        Self(known.iter().map(|(start, name)| (*start, (*name).to_owned())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_address_and_by_name() {
        let map =
            b"ffff800080000000 T _text\nffff800080000100 t flush\nffff800080000108 d data\nffff800080000200 T done\n";
        let symbols = Symbols(of_map(map).expect("a map"));
        assert_eq!(symbols.name(0xffff_8000_8000_011c), "flush+0x1c");
        assert_eq!(symbols.name(0x40), "0x40");
        assert_eq!(symbols.place("flush+0x8").ok(), Some(0xffff_8000_8000_0108));
        assert_eq!(symbols.place("0x123").ok(), Some(0x123));
        assert!(symbols.place("nobody").is_err() && symbols.place("flush+x").is_err());
        assert!(of_map(b"nonsense is here\n").is_err() && of_map(b"").is_err() && of_elf(b"\x7fELF").is_err());
    }

    #[test]
    fn one_of_several_functions_of_a_name_is_told_by_its_address() {
        let symbols = Symbols::of(&[
            (0x1000, "flush"),
            (0x1100, "flush"),
            (0x1100, "flush"),
            (0x1400, "other"),
            (0x1800, "other"),
        ]);
        let refusal = symbols.place("flush+0x24").map_err(|failure| failure.0);
        let line = "--forget flush+0x24: several functions have this name, expected one of 0x1024, 0x1124";
        assert_eq!(refusal, Err(line.to_owned()));
        assert_eq!(symbols.place("0x1124").ok(), Some(0x1124));
        // Only the second copy is that long.
        assert_eq!(symbols.place("flush+0x110").ok(), Some(0x1210));
        assert!(symbols.place("flush+0xffffffffffffffff").is_err());
    }

    #[test]
    fn names_of_rust_are_read() {
        assert_eq!(tell_path("_ZN6kernel4boot5early17h0123456789abcdefE"), "kernel::boot::early");
        assert_eq!(tell_path("flush_tlb"), "flush_tlb");
        assert_eq!(tell_path("_ZN99x"), "_ZN99x");
    }
}
