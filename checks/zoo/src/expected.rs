//! What must be found, and where: `RULE [bbm=…] [ets=…] [hole]; …`.

use crate::configuration::Configurations;

/// The numbers of rules.
const RULES: u32 = 12;
/// What only programs on the engine find: an access sees what it must not.
const SEEN: &str = "seen";

/// What must be found at a step of the buggy version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expected {
    /// The rule's label, `V1` to `V12`.
    pub rule: String,
    /// Where.
    pub configurations: Configurations,
    /// The rules are known not to find it yet.
    pub is_hole: bool,
}

/// Reads what stands behind `!`, or at the end of a counterpart.
pub(crate) fn expectations(text: &str) -> Result<Vec<Expected>, String> {
    text.split(';').map(expectation).collect()
}

fn expectation(text: &str) -> Result<Expected, String> {
    let mut words = text.split_whitespace();
    let rule = words.next().unwrap_or_default().to_owned();
    let number = rule.strip_prefix('V').and_then(|it| it.parse::<u32>().ok());
    if !number.is_some_and(|it| (1..=RULES).contains(&it)) && rule != SEEN {
        return Err(format!("`{rule}`, expected a rule, V1 to V{RULES}"));
    }
    let mut expected = Expected { rule, configurations: Configurations::default(), is_hole: false };
    for word in words {
        match word {
            "hole" => expected.is_hole = true,
            _ => expected.configurations.narrow(word)?,
        }
    }
    Ok(expected)
}
