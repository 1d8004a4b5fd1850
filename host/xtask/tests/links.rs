//! Links of README, of the guide, and of every page that one of them leads to: each leads to a
//! file, and to a heading or a named place in it, as a forge names headings.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Component, Path, PathBuf},
};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// The links of a page, and the places that it has.
fn read(text: &str) -> (Vec<String>, BTreeSet<String>) {
    let (mut links, mut places, mut known) = (Vec::new(), BTreeSet::new(), BTreeMap::<String, usize>::new());
    let mut words = String::new();
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => links.push(dest_url.to_string()),
            Event::Start(Tag::Heading { .. }) => words.clear(),
            Event::Text(text) | Event::Code(text) => words += &text,
            Event::Html(html) | Event::InlineHtml(html) => {
                places
                    .extend(html.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned));
            }
            Event::End(TagEnd::Heading(_)) => {
                let mut name = words.to_lowercase().replace(' ', "-");
                name.retain(|letter| letter.is_alphanumeric() || "-_".contains(letter));
                let count = known.entry(name.clone()).or_default();
                places.insert(if *count > 0 { format!("{name}-{count}") } else { name });
                *count += 1;
            }
            _ => {}
        }
    }
    (links, places)
}

/// The place of a link from `page`, from the root; none if it leaves the workspace.
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

/// The number of pages below `root` that `starts` lead to, and every link that leads nowhere.
fn check(root: &Path, starts: &[&str]) -> (usize, Vec<String>) {
    let mut left: Vec<PathBuf> = starts.iter().map(PathBuf::from).collect();
    let (mut done, mut inner, mut broken) = (BTreeMap::new(), Vec::new(), Vec::new());
    while let Some(page) = left.pop() {
        if done.contains_key(&page) {
            continue;
        }
        let (links, places) = read(&fs::read_to_string(root.join(&page)).expect("a page"));
        done.insert(page.clone(), places);
        for link in links.into_iter().filter(|link| !link.contains("://")) {
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let to = if path.is_empty() { Some(page.clone()) } else { joined(&page, path) };
            match to.filter(|to| root.join(to).exists()) {
                None => broken.push(format!("{}: {link}", page.display())),
                Some(to) if to.extension().is_some_and(|ending| ending == "md") => {
                    inner.extend((!anchor.is_empty()).then(|| (page.clone(), to.clone(), anchor.to_owned())));
                    left.push(to);
                }
                Some(_) => {}
            }
        }
    }
    inner.retain(|(_, to, anchor)| !done[to].contains(anchor));
    broken.extend(inner.iter().map(|(page, to, anchor)| format!("{}: {}#{anchor}", page.display(), to.display())));
    (done.len(), broken)
}

#[test]
fn every_link_of_the_pages_leads_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (pages, broken) = check(&root, &["README.md", "docs/guide/index.md"]);
    assert_eq!(broken, [""; 0]);
    assert!(pages >= 20, "{pages} pages");
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let root = std::env::temp_dir().join(format!("vellum-pages-{}", std::process::id()));
    fs::create_dir_all(root.join("guide")).expect("a folder");
    let page = "# A `dump`, and more\n\n## Twice\n\n## Twice\n\n<a id=\"here\"></a>x [1](#a-dump-and-more) [2](#twice-1) [3](#here) \
                [4](guide/other.md#over-there) [5](#twice-2) [6](guide/other.md#here) [7](gone.md) [8](../outside.md) [9](guide)";
    fs::write(root.join("one.md"), page).expect("written");
    fs::write(root.join("guide/other.md"), "# Over there\n\n[back](../one.md)").expect("written");
    let (pages, broken) = check(&root, &["one.md"]);
    fs::remove_dir_all(&root).expect("removed");
    assert_eq!(pages, 2);
    assert_eq!(
        broken,
        ["one.md: gone.md", "one.md: ../outside.md", "one.md: one.md#twice-2", "one.md: guide/other.md#here"]
    );
}
