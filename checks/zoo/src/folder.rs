//! The cases that come with the project, and others by the paths of their files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::case::Case;
use crate::error::Error;

/// The folder of the cases that come with the project.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cases")
}

/// The ending of a case's file.
pub const ENDING: &str = "case";

/// Cases by name or by path of a file; all that come with the project if there are no names. Errors: a name that none has,
/// or a file that makes no sense.
pub fn find(names: &[String]) -> Result<Vec<Case>, Error> {
    let whole = |file: &Path, what: String| Error { file: file.display().to_string(), line: 0, what };
    let entries = fs::read_dir(folder()).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries = entries.map_err(|error| whole(&folder(), error.to_string()))?;
    let mut paths: Vec<PathBuf> = entries.into_iter().map(|it| it.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|it| it == ENDING));
    paths.sort();
    if !names.is_empty() {
        let ours =
            |name: &String| match paths.iter().find(|path| path.file_stem().is_some_and(|it| it == name.as_str())) {
                Some(path) => Ok(path.clone()),
                None if Path::new(name).is_file() => Ok(PathBuf::from(name)),
                None => Err(whole(Path::new(name), String::from("no case has this name, and no file (see --list)"))),
            };
        paths = names.iter().map(ours).collect::<Result<_, _>>()?;
    }
    paths.iter().map(|path| Case::open(path)).collect()
}
