//! The configurations of the acceptance matrix: BBM level × FEAT_ETS.

use std::fmt;

/// What ID_AA64MMFR2_EL1.BBM and ID_AA64MMFR1_EL1.ETS of every CPU hold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Configuration {
    /// BBM level, 0 to 3.
    pub bbm: u8,
    /// ETS: 0 (none), 2 or 3.
    pub ets: u8,
}

const LEVELS: [u8; 4] = [0, 1, 2, 3];
const ETS: [u8; 3] = [0, 2, 3];

impl Configuration {
    /// Every configuration, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        LEVELS.into_iter().flat_map(|bbm| ETS.into_iter().map(move |ets| Self { bbm, ets }))
    }
}

impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bbm={} ets={}", self.bbm, self.ets)
    }
}

/// Some of the configurations: those with one of these levels and one of these values of ETS.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Configurations {
    bbm: Vec<u8>,
    ets: Vec<u8>,
}

impl Default for Configurations {
    fn default() -> Self {
        Self { bbm: LEVELS.to_vec(), ets: ETS.to_vec() }
    }
}

impl Configurations {
    /// Narrows by one condition, `bbm=0,1` or `ets=2,3`. Errors: what stands there instead.
    pub fn narrow(&mut self, condition: &str) -> Result<(), String> {
        let (chosen, values, known) = match condition.split_once('=') {
            Some(("bbm", values)) => (&mut self.bbm, values, &LEVELS[..]),
            Some(("ets", values)) => (&mut self.ets, values, &ETS[..]),
            _ => return Err(format!("`{condition}`, expected a condition such as bbm=0,1 or ets=2,3")),
        };
        let value = |it: &str| it.parse().ok().filter(|it| known.contains(it));
        let parsed: Option<Vec<u8>> = values.split(',').map(value).collect();
        *chosen = parsed.ok_or_else(|| format!("`{condition}`, expected values out of {known:?}"))?;
        Ok(())
    }

    /// Whether `configuration` is one of them.
    pub fn contains(&self, configuration: Configuration) -> bool {
        self.bbm.contains(&configuration.bbm) && self.ets.contains(&configuration.ets)
    }
}

/// The shortest true description of some configurations: nothing for all of them.
pub fn describe(configurations: &[Configuration]) -> String {
    let levels: Vec<u8> = LEVELS.into_iter().filter(|bbm| configurations.iter().any(|it| it.bbm == *bbm)).collect();
    let ets: Vec<u8> = ETS.into_iter().filter(|ets| configurations.iter().any(|it| it.ets == *ets)).collect();
    if levels.len() * ets.len() != configurations.len() {
        return configurations.iter().map(|it| format!(" bbm {} ets {}", it.bbm, it.ets)).collect::<Vec<_>>().join(",");
    }
    let list = |values: &[u8]| values.iter().map(u8::to_string).collect::<Vec<_>>().join(" ");
    let part = |name, values: &[u8], all: usize| match values.len() == all {
        true => String::new(),
        false => format!(" {name} {}", list(values)),
    };
    part("bbm", &levels, LEVELS.len()) + &part("ets", &ets, ETS.len())
}

/// What was found in which configurations, in one line; nothing found is legal.
pub(crate) fn summary(found: impl Iterator<Item = (Configuration, String)>) -> String {
    let mut kinds: Vec<(String, Vec<Configuration>)> = Vec::new();
    for (configuration, name) in found {
        let name = if name.is_empty() { String::from("legal") } else { name };
        match kinds.iter_mut().find(|(known, _)| *known == name) {
            Some((_, configurations)) => configurations.push(configuration),
            None => kinds.push((name, vec![configuration])),
        }
    }
    let is_one = kinds.len() == 1;
    let told = |(name, configurations): &(String, Vec<Configuration>)| match is_one {
        true => name.clone(),
        false => format!("{name}{}", describe(configurations)),
    };
    kinds.iter().map(told).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_told_as_shortly_as_is_true() {
        let some = |is_in: fn(&Configuration) -> bool| Configuration::all().filter(is_in).collect::<Vec<_>>();
        assert_eq!(describe(&some(|_| true)), "");
        assert_eq!(describe(&some(|it| it.bbm < 2)), " bbm 0 1");
        assert_eq!(describe(&some(|it| it.ets == 0)), " ets 0");
        assert_eq!(describe(&some(|it| it.ets == 0 && it.bbm == 3)), " bbm 3 ets 0");
        assert_eq!(
            describe(&some(|it| it.ets == 0 && it.bbm == 3 || it.ets == 2 && it.bbm == 0)),
            " bbm 0 ets 2, bbm 3 ets 0"
        );
    }

    #[test]
    fn conditions_narrow() {
        let mut configurations = Configurations::default();
        assert_eq!(Configuration::all().filter(|it| configurations.contains(*it)).count(), 12);
        configurations.narrow("bbm=0,3").expect("a condition");
        configurations.narrow("ets=2").expect("a condition");
        assert_eq!(Configuration::all().filter(|it| configurations.contains(*it)).count(), 2);
        for wrong in ["bbm=4", "ets=1", "bbm", "tlb=1", "bbm="] {
            assert!(configurations.narrow(wrong).is_err(), "{wrong}");
        }
    }
}
