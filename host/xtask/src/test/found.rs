//! The project as others find it: a clone in which nothing was ever built, and what README has them do there.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use super::{Outcome, Say};
use crate::{cargo, fetch::chromium, outcome::Failure};

/// A command line, in which folder it is called, and what it says. `~` is the folder of all of them.
type Row = (&'static str, &'static str, &'static str);

/// What lists a package of this version.
const CONTENTS: &str = concat!("dpkg-deb --contents vellum_", env!("CARGO_PKG_VERSION"), "_arm64.deb");

const ROWS: [Row; 12] = [
    ("cargo install --quiet --path host/cli --root ~/installed", "clone", ""),
    ("~/installed/bin/vellum", "clone", "Three things to try"),
    ("~/installed/bin/vellum plan --memory 16G", "clone", "leaves of 1G"),
    ("~/installed/bin/vellum plan --memory 16G -o ~/plan.html", "clone", "open it in a browser"),
    ("cargo xtask dist", "clone", "target/dist/SHA256SUMS"),
    ("sha256sum --check SHA256SUMS", "clone/target/dist", "vellum-aarch64-linux: OK"),
    (CONTENTS, "clone/target/dist", "man1/vellum-plan.1"),
    (CONTENTS, "clone/target/dist", "doc/vellum/copyright"),
    ("clone/target/dist/vellum-x86_64-linux plan --memory 4T --page-size 4k", "", "leaves of 16G"),
    ("cargo xtask docs", "clone", "docs/guide/index.html"),
    ("cargo run --quiet -p vellum-pagetable --example own_kernel", "clone", ""),
    ("cargo run --quiet -p vellum-linearmap --example own_linear_map", "clone", ""),
];

/// Looks at a page of the site as the tests of `vellum report` look at theirs.
const LOOK: &str = include_str!("../../../cli/tests/report/common.js");

/// The step.
pub(super) fn found(say: Say<'_>) -> Outcome {
    match try_all(say) {
        Ok(outcome) => outcome,
        Err(failure) => Outcome::stopped("as others find it", failure),
    }
}

fn try_all(say: Say<'_>) -> Result<Outcome, Failure> {
    let folder = cargo::new_folder("found")?;
    fs::create_dir_all(&folder).map_err(|error| Failure::file(Path::new(&folder), &error))?;
    let clone = format!("git clone --quiet {} ~/clone", cargo::workspace().display());
    let mut outcome = Outcome::default();
    for (words, place, expected) in [(clone.as_str(), "", "")].into_iter().chain(ROWS) {
        say(words);
        let said = run(words, Path::new(&folder), place);
        if said.as_ref().is_ok_and(|said| said.contains(expected)) {
            outcome.passed += 1;
        } else {
            outcome.failed += 1;
            outcome.output += &format!("{words}: expected `{expected}`\n{}\n", said.unwrap_or_else(|why| why));
        }
    }
    let guide = Path::new(&folder).join("clone/target/site/docs/guide");
    for page in fs::read_dir(&guide).map_err(|error| Failure::file(&guide, &error))?.flatten() {
        say(&page.path().display().to_string());
        match [0, 1].map(|scheme| look(&page.path(), scheme)).into_iter().collect::<Result<Vec<_>, String>>() {
            Ok(_) => outcome.passed += 1,
            Err(why) => {
                outcome.failed += 1;
                outcome.output += &format!("{}: {why}\n", page.path().display());
            }
        }
    }
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

/// Opens a page in a colour scheme, dark or light: its words stand out, and its console is silent.
fn look(page: &Path, scheme: u8) -> Result<(), String> {
    let listening = "<head><script>window.errors = []; \
                     addEventListener('error', (event) => errors.push(event.message));</script>";
    let looking = format!("<script>{LOOK}standsOut();</script></body>");
    let text = fs::read_to_string(page).map_err(|error| error.to_string())?;
    let copy = page.with_extension("seen.html");
    fs::write(&copy, text.replacen("<head>", listening, 1).replacen("</body>", &looking, 1))
        .map_err(|error| error.to_string())?;
    let mut command = Command::new(chromium::path());
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]);
    command.arg(format!("--blink-settings=preferredColorScheme={scheme}")).arg(format!("file://{}", copy.display()));
    let output = command.stderr(Stdio::null()).output().map_err(|error| error.to_string());
    fs::remove_file(&copy).map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output?.stdout).into_owned();
    if said.contains("all is well</pre>") { Ok(()) } else { Err(said) }
}
