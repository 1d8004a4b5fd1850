//! What every page is that this command writes: one file with all it needs, in the colours that the reader likes.

use std::fs;
use std::io;
use std::path::Path;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::say;
use crate::select::Failure;

const STYLE: &str = include_str!("page.css");

/// A page with this title and these sections; `skip` is the name and the words of the one that readers may go to at once. `last`
/// stands behind all, as scripts do.
pub(crate) fn framed(title: &str, skip: (&str, &str), sections: &Markup, last: &Markup) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                link rel="icon" href="data:,";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href=(format!("#{}", skip.0)) { (skip.1) }
                header { h1 { (title) } p { "Written by vellum " (env!("CARGO_PKG_VERSION")) "." } }
                main { (sections) }
                (last)
            }
        }
    }
    .into_string()
}

/// A place that cannot be written is told before a guest is stopped. What is there stays until there is a page.
pub(crate) fn claim(file: &Path) -> Result<(), Failure> {
    let is_new = !file.exists();
    let opened = fs::OpenOptions::new().append(true).create(true).open(file);
    let kept = opened.and_then(|_| if is_new { fs::remove_file(file) } else { Ok(()) });
    kept.map_err(|error| cannot_write(file, &error))
}

/// Writes the page, and says what to do with it.
pub(crate) fn write(file: &Path, page: &str) -> Result<(), Failure> {
    fs::write(file, page).map_err(|error| cannot_write(file, &error))?;
    say::note(format!("{} is written: open it in a browser", file.display()));
    Ok(())
}

fn cannot_write(file: &Path, error: &io::Error) -> Failure {
    Failure(format!("{}: {error}: name another file with -o", file.display()))
}
