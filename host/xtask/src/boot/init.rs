//! `--init`: the program that our kernel runs, its files, and how the kernel is told.

use std::path::{Path, PathBuf};

use fs_err as fs;

use super::{files::Files, options::Options};
use crate::{
    bare, dist,
    fetch::{cpio::Archive, linux::Kind},
    outcome::Failure,
};

/// Those of the project's own programs that are asked for by name.
const OWN: [&str; 22] = [
    "atomics",
    "chains",
    "converting",
    "crowds",
    "extremes",
    "failing",
    "healing",
    "hostile",
    "intervals",
    "killing",
    "leaving",
    "threads",
    "modelled",
    "modules",
    "parts",
    "racing_files",
    "racing_names",
    "racing_pipes",
    "racing_processes",
    "secrets",
    "timing",
    "vectors",
];
/// The one that loads a module, which is packed beside it.
const LOADER: &str = "modules";
/// How the option begins of a stress, which loads that module too.
const STRESS: &str = "vellum.stress=";
/// What the fetched busybox is called.
const BUSYBOX: &str = "busybox";

/// The word of the kernel's command line. Double quotes are the command line's own: those of a program are encoded.
pub(super) fn word(text: &str) -> String {
    let name = text.split_whitespace().next().unwrap_or_default();
    // A program of the host's is packed under its own name.
    let named = match is_on_host(name) {
        true => text.replacen(name, &file_name(name), 1),
        false => text.to_string(),
    };
    format!("vellum.init=\"{}\"", named.replace('%', "%25").replace('"', "%22"))
}

fn is_on_host(name: &str) -> bool {
    name.contains('/') && Path::new(name).is_file()
}

fn file_name(path: &str) -> String {
    Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The archive with the program in it, if no other is given: the program, and busybox where it has been fetched.
pub(super) fn archive(options: &Options, image: &Path, files: &mut Files) -> Result<Option<PathBuf>, Failure> {
    let is_stress = options.kernel.is_none() && options.append.iter().any(|word| word.starts_with(STRESS));
    let text = match &options.init {
        _ if options.initrd.is_some() => return Ok(None),
        Some(text) => text,
        None if is_stress => {
            return files.write(image, "stress.cpio", &with_module(Archive::new())?.finish()).map(Some);
        }
        None => return Ok(None),
    };
    let name = text.split_whitespace().next().unwrap_or_default();
    let busybox = match name {
        BUSYBOX => Some(Kind::HOST.need()?.busybox),
        _ => Kind::HOST.find().map(|linux| linux.busybox),
    };
    let mut archive = Archive::new();
    ["bin", "dev", "proc", "tmp"].iter().for_each(|folder| archive.folder(folder));
    if let Some(busybox) = busybox {
        archive.program("bin/busybox", &fs::read(&busybox)?);
        archive.link("bin/sh", BUSYBOX);
    }
    if name == LOADER || is_stress {
        archive = with_module(archive)?;
    }
    if is_on_host(name) {
        archive.program(&format!("bin/{}", file_name(name)), &fs::read(name)?);
    } else if OWN.contains(&name) {
        archive.program(&format!("bin/{name}"), &fs::read(dist::build_static("programs")?.join(name))?);
    } else if name != BUSYBOX {
        let line =
            format!("--init {name}: expected the path of a static arm64 program, or busybox; nothing was booted");
        return Err(Failure::bad_input(line));
    }
    files.write(image, "init.cpio", &archive.finish()).map(Some)
}

/// The archive with the module in it.
fn with_module(mut archive: Archive) -> Result<Archive, Failure> {
    let object = bare::build_module()?;
    let object = fs::read(&object)?;
    ["lib", "lib/modules"].iter().for_each(|folder| archive.folder(folder));
    archive.program("lib/modules/sample.o", &object);
    Ok(archive)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Status;

    #[test]
    fn quotes_and_percent_signs_reach_the_program() {
        assert_eq!(word("busybox sh -c 'ls /'"), "vellum.init=\"busybox sh -c 'ls /'\"");
        assert_eq!(word(r#"busybox date "+%s""#), r#"vellum.init="busybox date %22+%25s%22""#);
    }

    #[test]
    fn a_program_of_the_hosts_is_packed_under_its_name() {
        let own = std::env::current_exe().expect("this test").to_string_lossy().into_owned();
        assert_eq!(word(&format!("{own} a b")), format!("vellum.init=\"{} a b\"", file_name(&own)));
        let options = Options { init: Some("nowhere/at/all".into()), ..Options::default() };
        let refused = archive(&options, Path::new("Image"), &mut Files::default()).expect_err("it is not there");
        assert!(refused.status == Status::BadInput && refused.line.contains("nowhere/at/all"), "{refused}");
    }
}
