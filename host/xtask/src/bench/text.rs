//! `cargo xtask bench text`: how much of the kernel's text each page size has for itself. The kernel is built once more, with names that
//! tell for which page size a function was compiled.

use std::{ffi::OsString, fs};

use elf::{ElfBytes, abi::STT_FUNC, endian::LittleEndian};

use crate::{
    bare::BARE_TARGET,
    cargo::{build_here, cargo, metadata},
    help::{self, NoOptions},
    outcome::{Failure, Status},
    toolchain::ensure_target,
};

/// What stands in the name of a function of one page size.
const GRANULES: [&str; 3] = ["Granule4K", "Granule16K", "Granule64K"];

/// Functions and their bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Text {
    functions: u64,
    bytes: u64,
}

/// Entry of `cargo xtask bench text`.
pub(super) fn main(arguments: &[OsString]) -> Result<Status, Failure> {
    if help::options::<NoOptions>("bench text", arguments)?.is_none() {
        return Ok(help::show(help::BENCH_TEXT));
    }
    ensure_target(BARE_TARGET)?;
    // Apart from what is booted, which keeps its names.
    let folder = metadata()?.target_directory.into_std_path_buf().join("text");
    let mut command = cargo(&["build", "--release", "--package", "kernel", "--bin", "kernel", "--target", BARE_TARGET]);
    command.arg("--target-dir").arg(&folder).env("RUSTFLAGS", "-Csymbol-mangling-version=v0");
    build_here("the kernel", command)?;
    let path = folder.join(BARE_TARGET).join("release/kernel");
    let file = fs::read(&path).map_err(|error| Failure::file(&path, &error))?;
    let found = functions(&file).map_err(|what| Failure::new(Status::Failed, format!("{}: {what}", path.display())))?;
    let [common, sizes @ ..] = by_page_size(found.iter().map(|(name, bytes)| (name.as_str(), *bytes)));
    let all = sizes.iter().fold(common.bytes, |sum, size| sum + size.bytes);
    println!("| text of | functions | bytes | of all |\n|---|--:|--:|--:|");
    let names = ["every page size", "4K alone", "16K alone", "64K alone"];
    for (name, Text { functions, bytes }) in names.iter().zip([common].iter().chain(&sizes)) {
        println!("| {name} | {functions} | {bytes} | {} % |", bytes * 100 / all.max(1));
    }
    Ok(Status::Passed)
}

/// Names and bytes of the functions of an ELF file.
fn functions(file: &[u8]) -> Result<Vec<(String, u64)>, String> {
    let file = ElfBytes::<LittleEndian>::minimal_parse(file).map_err(|error| error.to_string())?;
    let table = file.symbol_table().map_err(|error| error.to_string())?;
    let (symbols, names) = table.ok_or("it has no symbols")?;
    let functions = symbols.iter().filter(|symbol| symbol.st_symtype() == STT_FUNC);
    functions
        .map(|symbol| {
            Ok((names.get(symbol.st_name as usize).map_err(|error| error.to_string())?.to_owned(), symbol.st_size))
        })
        .collect()
}

/// What serves every page size, and what each has for itself. Of what names several, every page size has need.
fn by_page_size<'n>(functions: impl Iterator<Item = (&'n str, u64)>) -> [Text; 4] {
    let mut all = [Text::default(); 4];
    for (name, bytes) in functions {
        let mut named = (1..).zip(GRANULES).filter(|(_, granule)| name.contains(granule)).map(|(place, _)| place);
        let place = match (named.next(), named.next()) {
            (Some(place), None) => place,
            _ => 0,
        };
        all[place].functions += 1;
        all[place].bytes += bytes;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_of_the_page_size_that_it_names() {
        let functions = [("_RNv4walkNt7granule9Granule4K", 8), ("_RNv4main", 4), ("_RNv4walk10Granule64K", 16)];
        let both = [("_RNv4both9Granule4K10Granule16K", 32)];
        let text = |functions, bytes| Text { functions, bytes };
        let expected = [text(2, 36), text(1, 8), text(0, 0), text(1, 16)];
        assert_eq!(by_page_size(functions.into_iter().chain(both)), expected);
    }
}
