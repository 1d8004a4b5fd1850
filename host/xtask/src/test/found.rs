//! The project as others find it: a clone in which nothing was ever built, and what README has them do there.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use fs_err as fs;

use super::outcome::{Outcome, Say};
use crate::{cargo, outcome::Failure};

/// A command line, in which folder it is called, and what it says. `~` is the folder of all of them.
type Row = (&'static str, &'static str, &'static str);

/// What lists a package of this version.
const CONTENTS: &str = concat!("dpkg-deb --contents vellum_", env!("CARGO_PKG_VERSION"), "_arm64.deb");

const ROWS: [Row; 11] = [
    ("cargo install --quiet --path host/cli --root ~/installed", "clone", ""),
    ("~/installed/bin/vellum", "clone", "Three things to try"),
    ("~/installed/bin/vellum plan --memory 16G", "clone", "leaves of 1G"),
    ("~/installed/bin/vellum plan --memory 16G -o ~/plan.html", "clone", "open it in a browser"),
    ("cargo xtask dist", "clone", "target/dist/SHA256SUMS"),
    ("sha256sum --check SHA256SUMS", "clone/target/dist", "vellum-aarch64-linux: OK"),
    (CONTENTS, "clone/target/dist", "man1/vellum-plan.1"),
    (CONTENTS, "clone/target/dist", "doc/vellum/copyright"),
    ("clone/target/dist/vellum-x86_64-linux plan --memory 4T --page-size 4k", "", "leaves of 16G"),
    ("cargo run --quiet -p vellum-pagetable --example own_kernel", "clone", ""),
    ("cargo run --quiet -p vellum-linearmap --example own_linear_map", "clone", ""),
];

/// The step.
pub(super) fn found(say: Say<'_>) -> Result<Outcome, Failure> {
    let folder = cargo::new_folder("found")?;
    fs::create_dir_all(&folder)?;
    let clone = format!("git clone --quiet {} ~/clone", cargo::workspace().display());
    let rows = [(clone.as_str(), "", "")].into_iter().chain(ROWS).map(|(words, place, expected)| {
        say(words);
        let said = run(words, Path::new(&folder), place);
        let is_good = said.as_ref().is_ok_and(|said| said.contains(expected));
        let text = || format!("{words}: expected `{expected}`\n{}\n", said.unwrap_or_else(|why| why));
        if is_good { Ok(()) } else { Err(text()) }
    });
    let outcome = Outcome::of_rows(rows);
    // What is left behind costs room and nothing else.
    let _ = fs::remove_dir_all(&folder);
    Ok(outcome)
}

/// What a command says that succeeds. Nothing of this build's reaches into the clone.
fn run(words: &str, folder: &Path, place: &str) -> Result<String, String> {
    let words = words.replace('~', &folder.display().to_string());
    let mut words = words.split(' ');
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).current_dir(folder.join(place)).stdin(Stdio::null());
    for name in ["CARGO_TARGET_DIR", "CARGO_MANIFEST_DIR", "RUSTFLAGS"] {
        command.env_remove(name);
    }
    let output = command.output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(said.into_owned()) } else { Err(format!("{}: {said}", output.status)) }
}
