//! What is not as a file says.

use crate::configuration::{Configuration, describe};

/// What is not as a file says, each with the configurations where that is so.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Misses(Vec<(String, Vec<Configuration>)>);

impl Misses {
    pub(crate) fn add(&mut self, what: String, configuration: Configuration) {
        match self.0.iter_mut().find(|(known, _)| *known == what) {
            Some((_, configurations)) => configurations.push(configuration),
            None => self.0.push((what, vec![configuration])),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Each in words.
    pub fn told(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(what, configurations)| match describe(configurations) {
            place if place.is_empty() => format!("in every configuration: {what}"),
            place => format!("at{place}: {what}"),
        })
    }
}
