//! `cargo xtask docs`: the guide, and every page that it leads to, as one site that is read without a network.
//!
//! ```text
//! docs/guide/index.md ──link──▶ page ──link──▶ …      each once; a link that leads nowhere fails, in a page too
//! ```
//! Pages keep their places, so that links between them hold; what is no page and is linked is copied. Rustdoc stands beside.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fs,
    path::{Component, Path, PathBuf},
};

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

use crate::{
    api, cargo,
    help::{self, NoOptions},
    outcome::{Failure, Status},
    terminal,
};

const START: &str = "docs/guide/index.md";
const STYLE: &str = include_str!("docs/site.css");

/// Entry of `cargo xtask docs`.
pub(crate) fn main(arguments: &[OsString]) -> Result<Status, Failure> {
    let Some(NoOptions {}) = help::options("docs", arguments)? else { return Ok(help::show(help::DOCS)) };
    let target: PathBuf = cargo::metadata()?.target_directory.into();
    let site = target.join("site");
    let _ = fs::remove_dir_all(&site);
    let (pages, broken) = build(&cargo::workspace(), &site)?;
    if !broken.is_empty() {
        return Err(Failure::new(Status::Failed, format!("links that lead nowhere: {}", broken.join("; "))));
    }
    // Not where others document: a folder of its own has the published crates, and no other.
    let crates = target.join("published-doc");
    let mut command = cargo::cargo(&["doc", "--quiet", "--no-deps", "--all-features", "--target-dir"]);
    command.arg(&crates);
    api::PUBLISHED.iter().for_each(|name| _ = command.args(["--package", name]));
    cargo::build_here("the documentation", command)?;
    copy_folder(&crates.join("doc"), &site.join("rustdoc"))?;
    eprintln!("cargo xtask: {pages} pages, and rustdoc");
    terminal::print(format_args!("{}\n", site.join("docs/guide/index.html").display()));
    Ok(Status::Passed)
}

/// Writes the site from the workspace `root`; how many pages there are, and which links lead nowhere.
fn build(root: &Path, site: &Path) -> Result<(usize, Vec<String>), Failure> {
    let (mut done, mut left, mut broken) = (BTreeMap::new(), vec![PathBuf::from(START)], Vec::new());
    // Links into pages: from, to, and the name there.
    let mut inner: Vec<(PathBuf, PathBuf, String)> = Vec::new();
    while let Some(page) = left.pop() {
        if done.contains_key(&page) {
            continue;
        }
        let from = root.join(&page);
        let text = fs::read_to_string(&from).map_err(|error| Failure::file(&from, &error))?;
        let mut events: Vec<Event<'_>> = Parser::new_ext(&text, Options::ENABLE_TABLES).collect();
        name_headings(&mut events);
        let mut is_folder = false;
        for event in &mut events {
            if is_folder && matches!(event, Event::End(TagEnd::Link)) {
                (is_folder, *event) = (false, Event::Text(CowStr::from("")));
            }
            let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event else { continue };
            let (path, anchor) = dest_url.split_once('#').map_or((&**dest_url, ""), |(path, anchor)| (path, anchor));
            if path.contains("://") {
                continue;
            }
            if path.is_empty() {
                inner.push((page.clone(), page.clone(), anchor.to_owned()));
                continue;
            }
            let Some(place) = joined(&page, path).filter(|place| root.join(place).exists()) else {
                broken.push(format!("{}: {path}", page.display()));
                continue;
            };
            if let Some(name) = path.strip_suffix(".md") {
                if !anchor.is_empty() {
                    inner.push((page.clone(), place.clone(), anchor.to_owned()));
                }
                *dest_url = CowStr::from(format!("{name}.html{}{anchor}", if anchor.is_empty() { "" } else { "#" }));
                left.push(place);
            } else if root.join(&place).is_file() {
                write(&site.join(&place), &fs::read(root.join(&place)).unwrap_or_default())?;
            } else {
                // A folder of sources: a reader of the site has none, and its name is told without a link.
                (is_folder, *event) = (true, Event::Text(CowStr::from("")));
            }
        }
        let mut body = String::new();
        html::push_html(&mut body, events.into_iter());
        let title = text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or("Vellum");
        write(&site.join(page.with_extension("html")), framed(&page, title, &body).as_bytes())?;
        let names = body.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next());
        done.insert(page, names.map(str::to_owned).collect::<BTreeSet<_>>());
    }
    inner.retain(|(_, to, name)| !done[to].contains(name));
    broken.extend(inner.iter().map(|(from, to, name)| format!("{}: {}#{name}", from.display(), to.display())));
    Ok((done.len(), broken))
}

/// Gives each heading the name by which links know it, as GitHub does.
fn name_headings(events: &mut [Event<'_>]) {
    let (mut known, mut start, mut words) = (BTreeMap::<String, usize>::new(), 0, String::new());
    for at in 0..events.len() {
        match &events[at] {
            Event::Start(Tag::Heading { .. }) => (start, words) = (at, String::new()),
            Event::Text(text) | Event::Code(text) => words += text,
            Event::End(TagEnd::Heading(_)) => {
                let mut name = words.to_lowercase().replace(' ', "-");
                name.retain(|letter| letter.is_alphanumeric() || "-_".contains(letter));
                let before = known.entry(name.clone()).or_default();
                if *before > 0 {
                    name = format!("{name}-{before}");
                }
                *before += 1;
                if let Event::Start(Tag::Heading { id, .. }) = &mut events[start] {
                    *id = Some(CowStr::from(name));
                }
            }
            _ => {}
        }
    }
}

/// Where a link of `page` leads, from the root; none if it leaves the workspace.
fn joined(page: &Path, link: &str) -> Option<PathBuf> {
    let mut place = page.parent()?.to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::Normal(name) => place.push(name),
            Component::ParentDir => place.pop().then_some(())?,
            _ => {}
        }
    }
    Some(place)
}

fn framed(page: &Path, title: &str, body: &str) -> String {
    let up = "../".repeat(page.components().count() - 1);
    let title = title.replace('&', "&amp;").replace('<', "&lt;").replace('`', "");
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{title} · Vellum</title>\
         <style>{STYLE}</style></head><body><nav><a href=\"{up}docs/guide/index.html\">The guide</a> \
         <a href=\"{up}rustdoc/vellum_pagetable/index.html\">The crates</a></nav>\
         <main>{body}</main></body></html>\n"
    )
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let failed = |error| Failure::file(path, &error);
    path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
    fs::write(path, bytes).map_err(failed)
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), Failure> {
    let entries = fs::read_dir(from).map_err(|error| Failure::file(from, &error))?;
    for entry in entries.flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy_folder(&from, &to)?;
        } else {
            write(&to, &fs::read(&from).map_err(|error| Failure::file(&from, &error))?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_of_the_guide_leads_somewhere() {
        let site = std::env::temp_dir().join(format!("vellum-site-{}", std::process::id()));
        let (pages, broken) = build(&cargo::workspace(), &site).expect("a site");
        fs::remove_dir_all(&site).expect("removed");
        assert_eq!(broken, Vec::<String>::new());
        assert!(pages >= 10, "{pages} pages");
    }

    #[test]
    fn links_into_pages_lead_to_headings_and_named_places() {
        let root = std::env::temp_dir().join(format!("vellum-pages-{}", std::process::id()));
        let page = "# A `dump`, and more\n\n## Twice\n\n## Twice\n\n<a id=\"here\"></a>x [1](#a-dump-and-more) [2](#twice-1) [3](#here) \
                    [4](other.md#over-there) [5](#twice-2) [6](other.md#here)";
        write(&root.join(START), page.as_bytes()).expect("written");
        write(&root.join("docs/guide/other.md"), b"# Over there").expect("written");
        let (pages, broken) = build(&root, &root.join("site")).expect("a site");
        fs::remove_dir_all(&root).expect("removed");
        assert_eq!(pages, 2);
        assert_eq!(
            broken,
            ["docs/guide/index.md: docs/guide/index.md#twice-2", "docs/guide/index.md: docs/guide/other.md#here"]
        );
    }

    #[test]
    fn a_folder_is_named_without_a_link() {
        let root = std::env::temp_dir().join(format!("vellum-folders-{}", std::process::id()));
        write(&root.join(START), b"# Here\n\nsee [the `traces`](traces), [here](#here)").expect("written");
        write(&root.join("docs/guide/traces/one.trace"), b"").expect("written");
        let (_, broken) = build(&root, &root.join("site")).expect("a site");
        let text = fs::read_to_string(root.join("site/docs/guide/index.html")).expect("a page");
        fs::remove_dir_all(&root).expect("removed");
        assert_eq!(broken, Vec::<String>::new());
        assert!(text.contains("see the <code>traces</code>, <a href=\"#here\">here</a>"), "{text}");
    }

    #[test]
    fn links_are_relative_to_their_page() {
        let of = |link| joined(Path::new("docs/guide/index.md"), link);
        assert_eq!(of("try-it.md"), Some("docs/guide/try-it.md".into()));
        assert_eq!(of("../../CAVEATS.md"), Some("CAVEATS.md".into()));
        assert_eq!(of("../../../outside.md"), None);
    }
}
