//! The copy of the workspace beside the build, in which the sources are mutated.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::sites::{self, Ranges, Site};

/// Where the copy is.
pub(crate) const FOLDER: &str = "target/logic-mutants";
/// What mutated sources call.
const RUNTIME: &str = include_str!("../runtime/lib.rs");
/// What runs the compiler on the copy's own crates: mutated code is full of what lints find, and an intrinsic tells what the
/// compiler evaluates, so that one crate is allowed one.
pub(crate) const WRAPPER: &str = "mutant/rustc";
const WRAPPER_TEXT: &str = "#!/bin/sh\nRUSTC_BOOTSTRAP=mutant exec \"$@\" --cap-lints allow\n";
const MANIFEST: &str =
    "[package]\nname = \"mutant\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[lib]\npath = \"lib.rs\"\n";

/// A mutated file of the copy: its path from the copy's root, and where each site stands in it.
pub(crate) struct Mutated {
    pub(crate) path: String,
    pub(crate) ranges: Ranges,
}

/// A copy of the workspace.
pub(crate) struct Copy {
    pub(crate) root: PathBuf,
    crates: &'static [&'static str],
}

impl Copy {
    /// Makes the copy, or brings it up to date; files that are as they were keep their times.
    pub(crate) fn new(workspace: &Path, crates: &'static [&'static str]) -> io::Result<Self> {
        let copy = Self { root: workspace.join(FOLDER), crates };
        let (mut present, mut folders) = (BTreeSet::new(), vec![PathBuf::new()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(workspace.join(&folder))? {
                let entry = entry?;
                let (name, path) = (entry.file_name(), folder.join(entry.file_name()));
                if entry.file_type()?.is_dir() {
                    // The build, the history, and what was fetched.
                    if name != "target" && !name.to_string_lossy().starts_with('.') {
                        folders.push(path);
                    }
                } else if entry.file_type()?.is_file() {
                    present.insert(path);
                }
            }
        }
        for path in &present {
            copy.place(path, &fs::read(workspace.join(path))?)?;
        }
        copy.remove_others(&present)?;
        Ok(copy)
    }

    fn place(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let crates = self.crates;
        let is_source = path.extension().is_some_and(|it| it == "rs") && crates.iter().any(|it| path.starts_with(it));
        let text = path.to_str().unwrap_or_default();
        match crates.iter().find(|it| path == Path::new(it).join("Cargo.toml")) {
            Some(folder) => self.write(path, depends(&String::from_utf8_lossy(content), folder).as_bytes()),
            None if text == "Cargo.toml" => {
                let content = String::from_utf8_lossy(content);
                self.write(path, content.replacen("members = [", "members = [\n    \"mutant\",", 1).as_bytes())
            }
            // Sources of mutated crates are written once it is known what stands in them; the lock file gets a crate more.
            None if is_source && self.root.join(path).exists()
                || text == "Cargo.lock" && self.root.join(path).exists() =>
            {
                Ok(())
            }
            None => self.write(path, content),
        }
    }

    /// Takes away what the workspace has no longer.
    fn remove_others(&self, present: &BTreeSet<PathBuf>) -> io::Result<()> {
        let mut folders: Vec<PathBuf> =
            fs::read_dir(&self.root)?.flatten().map(|it| PathBuf::from(it.file_name())).collect();
        folders.retain(|it| !["mutant"].iter().any(|own| it == Path::new(own)) && self.root.join(it).is_dir());
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(self.root.join(&folder))? {
                let (entry, path) = entry.map(|it| (it.path(), folder.join(it.file_name())))?;
                if entry.is_dir() {
                    folders.push(path);
                } else if !present.contains(&path) {
                    fs::remove_file(entry)?;
                }
            }
        }
        Ok(())
    }

    /// Writes the mutated sources, and what they call. `texts` are those of the workspace.
    pub(crate) fn mutate(
        &self,
        texts: &[(String, String)],
        sites: &[Site],
        active: &[bool],
    ) -> io::Result<Vec<Mutated>> {
        self.write(Path::new("mutant/Cargo.toml"), MANIFEST.as_bytes())?;
        self.write(Path::new("mutant/lib.rs"), RUNTIME.as_bytes())?;
        self.write(Path::new("mutant/sites.rs"), format!("const SITES: usize = {};\n", sites.len()).as_bytes())?;
        self.write(Path::new(WRAPPER), WRAPPER_TEXT.as_bytes())?;
        fs::set_permissions(self.root.join(WRAPPER), fs::Permissions::from_mode(0o755))?;
        let mut files = Vec::new();
        for (path, text) in texts {
            let own: Vec<(usize, &Site)> =
                sites.iter().enumerate().filter(|(number, site)| active[*number] && site.file == *path).collect();
            let (made, ranges) = sites::apply(text, &own);
            // A mutated function is several times as large, and tests have it for many types: it is compiled once for each, not
            // wherever it is called. As long as before, so that ranges stay.
            let made = made.replace("#[inline(always)]", "#[inline]        ");
            self.write(Path::new(path), made.as_bytes())?;
            files.push(Mutated { path: path.clone(), ranges });
        }
        Ok(files)
    }

    /// Every source of the mutated crates, from the workspace's root.
    pub(crate) fn sources(&self, workspace: &Path) -> io::Result<Vec<(String, String)>> {
        let mut files = Vec::new();
        let mut folders: Vec<PathBuf> = self.crates.iter().map(PathBuf::from).collect();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(workspace.join(&folder))? {
                let path = folder.join(entry?.file_name());
                if workspace.join(&path).is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|it| it == "rs") {
                    files.push((path.to_string_lossy().into_owned(), fs::read_to_string(workspace.join(&path))?));
                }
            }
        }
        files.sort();
        Ok(files)
    }

    /// Writes a file, unless it is so already.
    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let path = self.root.join(path);
        if fs::read(&path).is_ok_and(|old| old == content) {
            return Ok(());
        }
        fs::create_dir_all(path.parent().unwrap_or(&path))?;
        fs::write(path, content)
    }
}

/// A manifest with one dependency more.
fn depends(manifest: &str, folder: &str) -> String {
    let up = "../".repeat(folder.split('/').count());
    let line = format!("mutant = {{ path = \"{up}mutant\" }}\n");
    match manifest.split_once("\n[dependencies]\n") {
        Some((before, after)) => format!("{before}\n[dependencies]\n{line}{after}"),
        None => format!("{manifest}\n[dependencies]\n{line}"),
    }
}
