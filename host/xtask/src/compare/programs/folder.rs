//! The programs of a folder: which files are some, and the project's own, which are built first.

use std::path::{Path, PathBuf};

use fs_err as fs;

use crate::{cargo, dist, outcome::Failure};

/// A program of the folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) content: Vec<u8>,
}

/// The package of the project's own programs, and where its scripts are, from the workspace's root.
const OWN: &str = "programs";
const SCRIPTS: &str = "programs/scripts";

/// The programs of `folder`, or the project's own, by name. What is neither program nor script is told and left out.
pub(crate) fn read(
    folder: Option<&Path>,
    only: Option<&str>,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<Named>, Failure> {
    let files = match folder {
        Some(folder) => files(folder)?,
        None => own()?,
    };
    let mut programs = Vec::new();
    for path in files {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let content = fs::read(&path)?;
        match refused(&name, &content) {
            None if only.is_none_or(|text| name.contains(text)) => programs.push(Named { name, content }),
            None => {}
            Some(why) => say(&format!("{}: {why}; left out", path.display())),
        }
    }
    programs.sort_by(|one, other| one.name.cmp(&other.name));
    if programs.is_empty() {
        let place = folder.map_or(OWN.into(), |folder| folder.display().to_string());
        return Err(Failure::bad_input(format!("{place}: no program, expected static arm64 programs or scripts")));
    }
    Ok(programs)
}

/// The files of a folder, none of those in folders below.
fn files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(folder).map_err(|error| Failure::bad_input(format!("{}: {error}", folder.display())))?;
    Ok(entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect())
}

/// Builds the project's own, and lists them with the scripts.
fn own() -> Result<Vec<PathBuf>, Failure> {
    let built = dist::build_static(OWN)?;
    let mut all = files(&cargo::workspace().join(SCRIPTS))?;
    let metadata = cargo::metadata()?;
    let package = metadata.packages.iter().find(|package| package.name.as_str() == OWN);
    let targets = package.into_iter().flat_map(|package| &package.targets);
    all.extend(targets.filter(|target| target.is_bin()).map(|target| built.join(&target.name)));
    Ok(all)
}

/// Why a file is no program that can be run.
fn refused(name: &str, content: &[u8]) -> Option<&'static str> {
    /// `e_machine` (EM_AARCH64), and a segment that names an interpreter (PT_INTERP).
    const ARM64: u16 = 183;
    const INTERPRETER: u32 = 3;
    if name.contains(|character: char| character.is_whitespace() || character == '\'') {
        return Some("a name with blanks or quotes");
    }
    if content.starts_with(b"#!") || name.ends_with(".sh") {
        return None;
    }
    let Ok(file) = elf::ElfBytes::<elf::endian::AnyEndian>::minimal_parse(content) else {
        return Some("neither a script nor an ELF file");
    };
    let is_dynamic = file.segments().is_some_and(|all| all.iter().any(|segment| segment.p_type == INTERPRETER));
    match file.ehdr.e_machine {
        ARM64 if is_dynamic => Some("not static"),
        ARM64 => None,
        _ => Some("not for arm64"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Status;

    #[test]
    fn what_is_a_program() {
        assert_eq!(refused("a.sh", b"echo"), None);
        assert_eq!(refused("a", b"#!/bin/sh\n"), None);
        assert_eq!(refused("a b", b"#!/bin/sh\n"), Some("a name with blanks or quotes"));
        assert_eq!(refused("a", b"text"), Some("neither a script nor an ELF file"));
        let own = std::env::current_exe().and_then(fs::read).expect("this test");
        assert!(refused("a", &own).is_some(), "the host's programs are another machine's, or not static");
    }

    #[test]
    fn a_folder_without_programs_is_told() {
        let folder = std::env::temp_dir().join(format!("vellum-no-programs-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("notes"), "text").expect("a file");
        let mut said = Vec::new();
        let refused = read(Some(&folder), None, &mut |line| said.push(line.to_string())).expect_err("none is there");
        fs::remove_dir_all(&folder).expect("it goes");
        assert!(refused.status == Status::BadInput && said.len() == 1, "{refused} {said:?}");
    }
}
