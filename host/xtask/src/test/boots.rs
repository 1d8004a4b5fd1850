//! The boots that must be green: `boots.toml` as data, with README's rows and the matrix, which
//! follow from what CPU models have.

pub(crate) mod boot;
mod matrix;
mod rows;

use serde::Deserialize;

use boot::Boot;

/// The file of boots.
#[derive(Deserialize)]
struct File {
    boots: Vec<Group>,
}

/// Boots that have much in common.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    name: String,
    options: String,
    #[serde(default)]
    expect: Vec<String>,
    #[serde(default)]
    at: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Group {
    fn boots(&self) -> impl Iterator<Item = Boot> {
        self.rows.iter().flat_map(move |row| {
            let (name, rest) = row.split_first().expect("a name");
            let (options, rest) = rest.split_at(usize::from(self.options.contains("{}")));
            let (own, rest): (Vec<_>, Vec<_>) = rest.iter().partition(|text| text.starts_with("at "));
            let own: Vec<String> = own.iter().map(|text| text[3..].to_owned()).collect();
            let mut settings = if own.is_empty() { self.at.clone() } else { own };
            if settings.is_empty() {
                settings.push(String::new());
            }
            settings.into_iter().map(move |setting| {
                let set = |text: &str| {
                    let text = text.replace("{name}", name).replace("{}", options.first().map_or("", String::as_str));
                    substituted(text.trim_end(), &setting)
                };
                let expectations = self.expect.iter().chain(rest.iter().copied()).map(|text| set(text));
                Boot::new(set(&self.name), set(&self.options), expectations.collect())
            })
        })
    }
}

/// A text for one setting: page size, CPUs, exception level of entry.
fn substituted(text: &str, setting: &str) -> String {
    let mut words = setting.split(' ');
    let [size, cpus, level] = [(); 3].map(|()| words.next().unwrap_or_default());
    let entry = if level == "2" { " -- -M virtualization=on" } else { "" };
    let plural = if cpus == "1" { "CPU" } else { "CPUs" };
    let text = text.replace("{size}", size).replace("{cpus}", cpus).replace("{CPUs}", &format!("{cpus} {plural}"));
    text.replace("{level}", level).replace("{el2}", entry)
}

/// The boots of a default run, or with the whole matrix.
pub(crate) fn all(is_whole_matrix: bool) -> Vec<Boot> {
    let file: File = toml::from_str(include_str!("boots.toml")).expect("the tests read it");
    let mut boots: Vec<Boot> = file.boots.iter().flat_map(Group::boots).collect();
    boots.extend(rows::all());
    boots.extend(if is_whole_matrix { matrix::whole() } else { matrix::pairwise() });
    boots
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::{
        boot::{options, transcript::Transcript, tree::shapes::SHAPES},
        test::expect,
    };

    #[test]
    fn every_boot_has_a_name_of_its_own_and_can_be_asked_for() {
        let boots = all(true);
        let names: HashSet<&str> = boots.iter().map(|boot| boot.name.as_str()).collect();
        assert_eq!(names.len(), boots.len());
        for boot in &boots {
            assert!(options::of(&boot.options).is_ok(), "{}", boot.options);
            for text in &boot.expect {
                let found = expect::check(text, &Transcript::new(b""));
                assert!(!found.is_err_and(|line| line.starts_with(expect::UNKNOWN)), "{}: {text}", boot.name);
            }
        }
    }

    #[test]
    fn every_tree_is_booted() {
        let boots = all(false);
        for shape in SHAPES {
            let words = format!("--tree {} ", shape.name);
            assert!(boots.iter().any(|boot| format!("{} ", boot.options).contains(&words)), "{}", shape.name);
        }
    }
}
