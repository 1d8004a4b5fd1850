//! The rules for manifests: arrows between crates, and versions and lints in one place.

use cargo_metadata::{DependencyKind, Package};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::finding::Finding;
use super::house::{self, Room};

/// The keys that every member takes from `[workspace.package]`.
const INHERITED: [&str; 4] = ["version", "edition", "rust-version", "license"];
const DEPENDENCY_TABLES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// A `Cargo.toml`: its path from the workspace's root, and its text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manifest<'t> {
    pub(crate) path: &'t str,
    pub(crate) text: &'t str,
}

impl Manifest<'_> {
    fn finding(&self, at: usize, text: String) -> Finding {
        let line = 1 + self.text[..at.min(self.text.len())].matches('\n').count();
        Finding { path: self.path.to_string(), line, text }
    }

    fn parse(&self) -> Result<DeTable<'_>, Finding> {
        DeTable::parse(self.text).map(Spanned::into_inner).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            self.finding(at, format!("{}, expected TOML", error.message()))
        })
    }

    /// Where a dependency is named, in bytes.
    fn place_of(&self, dependency: &str) -> usize {
        let Ok(table) = self.parse() else { return 0 };
        let places = dependency_tables(&table).into_iter().filter_map(|(_, table)| {
            table.iter().find(|(name, _)| name.get_ref() == dependency).map(|(name, _)| name.span().start)
        });
        places.min().unwrap_or(0)
    }
}

/// The arrows of one crate of `cargo metadata`, held against the list.
pub(crate) fn arrows(manifest: Manifest<'_>, package: &Package, rooms: &[Room], members: &[&str]) -> Vec<Finding> {
    let name = package.name.as_str();
    let Some(room) = rooms.iter().find(|room| room.name == name) else {
        return vec![manifest.finding(0, format!("crate `{name}`, expected a crate listed in tidy/house.rs"))];
    };
    let mut found = Vec::new();
    for dependency in &package.dependencies {
        let used = dependency.name.as_str();
        let written = dependency.rename.as_deref().unwrap_or(used);
        let is_for_tests = dependency.kind == DependencyKind::Development && house::FOR_TESTS.contains(&used);
        if used == name || is_for_tests {
            continue;
        }
        let expected = if members.contains(&used) {
            (!room.may_use.contains(&used)).then(|| format!("only {}", listed(room.may_use)))
        } else {
            let is_engine = manifest.path.starts_with(house::ENGINE) && dependency.kind != DependencyKind::Development;
            let is_refused = is_engine && !house::ENGINE_DEPENDENCIES.contains(&used);
            is_refused.then(|| format!("only {} from outside", listed(house::ENGINE_DEPENDENCIES)))
        };
        if let Some(expected) = expected {
            found.push(
                manifest.finding(manifest.place_of(written), format!("`{name}` uses `{used}`, expected {expected}")),
            );
        }
    }
    found
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() { "nothing of the workspace".into() } else { format!("`{}`", names.join("`, `")) }
}

/// A member takes versions and lints from the workspace.
pub(crate) fn member(manifest: Manifest<'_>) -> Vec<Finding> {
    let table = match manifest.parse() {
        Ok(table) => table,
        Err(finding) => return vec![finding],
    };
    let mut found = Vec::new();
    for key in INHERITED {
        let value = value_of(&table, "package").and_then(|package| package.get(key));
        if !value.is_some_and(is_workspace) {
            let at = value.map_or(0, |value| value.span().start);
            found.push(manifest.finding(at, format!("`{key}` of its own, expected `{key}.workspace = true`")));
        }
    }
    let lints = table.get("lints");
    if !lints.is_some_and(is_workspace) {
        let at = lints.map_or(0, |lints| lints.span().start);
        found.push(manifest.finding(at, "lints of its own, expected `[lints]` with `workspace = true`".into()));
    }
    for (kind, dependencies) in dependency_tables(&table) {
        for (name, _) in dependencies.iter().filter(|(_, value)| !is_workspace(value) && !is_itself(value)) {
            let name_text = name.get_ref();
            let text = format!("`{name_text}` of {kind} with a version of its own, expected `workspace = true`");
            found.push(manifest.finding(name.span().start, text));
        }
    }
    found
}

/// The root pins each version exactly, so that a build of today is the build of tomorrow.
pub(crate) fn root(manifest: Manifest<'_>) -> Vec<Finding> {
    let table = match manifest.parse() {
        Ok(table) => table,
        Err(finding) => return vec![finding],
    };
    let dependencies = value_of(&table, "workspace").and_then(|workspace| as_table(workspace.get("dependencies")?));
    let mut found = Vec::new();
    for (name, value) in dependencies.into_iter().flat_map(|dependencies| dependencies.iter()) {
        let details = as_table(value);
        if details.is_some_and(|details| details.contains_key("path")) {
            continue;
        }
        let version = details.map_or(Some(value), |details| details.get("version"));
        let version = version.and_then(|version| version.get_ref().as_str()).unwrap_or_default();
        if !version.starts_with('=') {
            let text = format!("`{}` at version `{version}`, expected one pinned with `=`", name.get_ref());
            found.push(manifest.finding(name.span().start, text));
        }
    }
    found
}

fn as_table<'t, 'i>(value: &'t Spanned<DeValue<'i>>) -> Option<&'t DeTable<'i>> {
    value.get_ref().as_table()
}

fn value_of<'t, 'i>(table: &'t DeTable<'i>, key: &str) -> Option<&'t DeTable<'i>> {
    as_table(table.get(key)?)
}

fn is_workspace(value: &Spanned<DeValue<'_>>) -> bool {
    as_table(value).and_then(|table| table.get("workspace")?.get_ref().as_bool()) == Some(true)
}

/// A crate that is its own development dependency, to be tested with features of its own.
fn is_itself(value: &Spanned<DeValue<'_>>) -> bool {
    let Some(table) = as_table(value) else { return false };
    !table.contains_key("version") && table.get("path").and_then(|path| path.get_ref().as_str()) == Some(".")
}

/// The tables of dependencies with their names, those of `[target.…]` too.
fn dependency_tables<'t, 'i>(table: &'t DeTable<'i>) -> Vec<(&'static str, &'t DeTable<'i>)> {
    let targets = value_of(table, "target").into_iter().flat_map(|targets| targets.values()).filter_map(as_table);
    let places = std::iter::once(table).chain(targets);
    places
        .flat_map(|place| DEPENDENCY_TABLES.into_iter().filter_map(|kind| Some((kind, value_of(place, kind)?))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cargo;

    const GOOD: &str = "[package]\nname = \"a\"\nversion.workspace = true\nedition.workspace = true\n\
                        rust-version.workspace = true\nlicense.workspace = true\n\n[lints]\nworkspace = true\n\n\
                        [dependencies]\nvellum-vmsa.workspace = true\nb = { workspace = true, features = [\"x\"] }\n";

    fn lines(found: Vec<Finding>) -> Vec<String> {
        found.iter().map(Finding::to_string).collect()
    }

    fn member_lines(text: &str) -> Vec<String> {
        lines(member(Manifest { path: "m/Cargo.toml", text }))
    }

    #[test]
    fn a_member_that_takes_all_from_the_workspace_is_fine() {
        assert_eq!(member_lines(GOOD), [""; 0]);
    }

    #[test]
    fn versions_and_lints_of_its_own_are_found() {
        for (good, bad, expected) in [
            ("version.workspace = true", "version = \"1.0.0\"", "m/Cargo.toml:3: `version` of its own"),
            ("license.workspace = true\n", "", "m/Cargo.toml:1: `license` of its own"),
            ("[lints]\nworkspace = true\n", "", "m/Cargo.toml:1: lints of its own"),
            ("[lints]\nworkspace = true", "[lints.rust]\nmissing_docs = \"allow\"", "m/Cargo.toml:8: lints of its own"),
            ("vellum-vmsa.workspace = true", "vellum-vmsa = \"1\"", "m/Cargo.toml:12: `vellum-vmsa` of dependencies"),
            ("workspace = true, features", "version = \"1\", features", "m/Cargo.toml:13: `b` of dependencies"),
            (
                "[dependencies]",
                "[target.x.dev-dependencies]\nc = \"1\"\n[dependencies]",
                ":12: `c` of dev-dependencies",
            ),
        ] {
            let text = GOOD.replacen(good, bad, 1);
            let found = member_lines(&text);
            assert!(found.len() == 1 && found[0].contains(expected), "{expected} is not {found:?}");
        }
        assert!(member_lines("[package\n")[0].starts_with("m/Cargo.toml:1: "));
    }

    #[test]
    fn a_crate_may_test_itself_with_its_features() {
        let with = |details: &str| member_lines(&format!("{GOOD}\n[dev-dependencies]\na = {{ {details} }}\n"));
        assert_eq!(with("path = \".\", features = [\"x\"]"), [""; 0]);
        assert_eq!(with("path = \".\", version = \"1\"").len(), 1);
        assert_eq!(with("path = \"../b\"").len(), 1);
        assert_eq!(arrow_lines("engine/vmsa/Cargo.toml", "vellum-vmsa", &[("vellum-vmsa", Some("dev"))]), [""; 0]);
    }

    #[test]
    fn the_root_pins() {
        let text = "[workspace.dependencies]\na = \"=1.2.3\"\nb = \"1.2\"\nc = { version = \"^1\" }\n\
                    d = { version = \"=2.0.0\", features = [] }\ne = { path = \"e\", version = \"0.1.0\" }\n";
        let found = lines(root(Manifest { path: "Cargo.toml", text }));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("Cargo.toml:3: `b` at version `1.2`"), "{found:?}");
        assert!(found[1].starts_with("Cargo.toml:4: `c` at version `^1`"), "{found:?}");
    }

    fn arrow_lines(path: &str, name: &str, dependencies: &[(&str, Option<&str>)]) -> Vec<String> {
        let package = &cargo::sample(&[(name, path, dependencies)]).packages[0];
        let text = "[package]\n\n[dependencies]\nvellum-vmsa.workspace = true\nmachine.workspace = true\nrand.workspace = true\n";
        lines(arrows(
            Manifest { path, text },
            package,
            house::ROOMS,
            &["vellum-vmsa", "machine", "vellum-pagetable", "seed"],
        ))
    }

    #[test]
    fn arrows_are_on_the_list() {
        let path = "engine/pagetable/Cargo.toml";
        let good = [("vellum-vmsa", None), ("bitflags", None), ("proptest", Some("dev")), ("seed", Some("dev"))];
        assert_eq!(arrow_lines(path, "vellum-pagetable", &good), [""; 0]);
        for (used, kind, expected) in [
            ("machine", None, ":5: `vellum-pagetable` uses `machine`, expected only `vellum-vmsa`"),
            ("machine", Some("dev"), ":5: `vellum-pagetable` uses `machine`, expected only `vellum-vmsa`"),
            ("seed", None, ":1: `vellum-pagetable` uses `seed`, expected only `vellum-vmsa`"),
            ("rand", None, ":6: `vellum-pagetable` uses `rand`, expected only `bitflags` from outside"),
            ("rand", Some("build"), ":6: `vellum-pagetable` uses `rand`, expected only `bitflags` from outside"),
        ] {
            let found = arrow_lines(path, "vellum-pagetable", &[(used, kind)]);
            assert_eq!(found, [format!("{path}{expected}")]);
        }
    }

    #[test]
    fn outside_the_engine_other_parts_are_free() {
        assert_eq!(arrow_lines("host/xtask/Cargo.toml", "xtask", &[("rand", None)]), [""; 0]);
        let found = arrow_lines("host/xtask/Cargo.toml", "xtask", &[("vellum-vmsa", None)]);
        assert_eq!(
            found,
            ["host/xtask/Cargo.toml:4: `xtask` uses `vellum-vmsa`, expected only nothing of the workspace"]
        );
    }

    #[test]
    fn a_crate_that_is_not_listed_is_found() {
        let found = arrow_lines("host/new/Cargo.toml", "new", &[]);
        assert_eq!(found, ["host/new/Cargo.toml:1: crate `new`, expected a crate listed in tidy/house.rs"]);
    }
}
