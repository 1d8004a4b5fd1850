//! Tables of a description that are not about CPUs, as words of the monitor's. The seed always stands among them: without
//! any word there would be no conflicts, and no realm.

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::Fault;

/// Addresses that may be listed.
const MAX_ADDRESSES: usize = 8;

/// One entry of a table, and the words that it becomes.
struct Entry<'e> {
    table: &'static str,
    name: &'e str,
    value: &'e Spanned<DeValue<'e>>,
}

impl Entry<'_> {
    fn wrong(&self, what: &str) -> Fault {
        (self.value.span(), format!("`{}`: expected {what}", self.name))
    }

    fn word(&self, name: &str, number: u64) -> String {
        format!("monitor.{}.{name}={number:#x}", self.table)
    }

    /// A number of a range, as an option of the same name.
    fn number(&self, least: u64, what: &str) -> Result<Vec<String>, Fault> {
        let number = integer(self.value.get_ref()).filter(|number| *number >= least);
        Ok(vec![self.word(self.name, number.ok_or_else(|| self.wrong(what))?)])
    }

    /// `true`, as an option of the same name without a value.
    fn flag(&self) -> Result<Vec<String>, Fault> {
        let is_set = self.value.get_ref().as_bool().ok_or_else(|| self.wrong("true or false"))?;
        Ok(is_set.then(|| format!("monitor.{}.{}", self.table, self.name)).into_iter().collect())
    }

    fn addresses(&self) -> Result<Vec<String>, Fault> {
        let list = self.value.get_ref().as_array().filter(|list| list.len() <= MAX_ADDRESSES);
        let list = list.ok_or_else(|| self.wrong("a list of at most 8 addresses"))?;
        let word = |address: &Spanned<DeValue>| {
            let address = integer(address.get_ref()).ok_or_else(|| self.wrong("a list of addresses"))?;
            Ok(self.word("address", address))
        };
        list.iter().map(word).collect()
    }
}

/// The words of a table, each entry's by `take`, which gives `None` for a name that it does not know.
fn words(
    table: &'static str,
    entries: &DeTable,
    known: &str,
    take: impl Fn(&Entry) -> Option<Result<Vec<String>, Fault>>,
) -> Result<Vec<String>, Fault> {
    let mut words = Vec::new();
    if entries.get("seed").is_none() {
        words.push(format!("monitor.{table}.seed=0x1"));
    }
    for (key, value) in entries.iter() {
        let name = key.get_ref().as_ref();
        match take(&Entry { table, name, value }) {
            Some(taken) => words.extend(taken?),
            None => return Err((key.span(), format!("`{name}`: unknown, expected {known}"))),
        }
    }
    Ok(words)
}

/// The words for TLB conflict aborts.
pub(super) fn conflict_words(entries: &DeTable) -> Result<Vec<String>, Fault> {
    let known = "seed, rate, after, burst, merciless, stage2, addresses";
    words("conflicts", entries, known, |entry| {
        Some(match entry.name {
            "seed" | "after" => entry.number(0, "a number"),
            "rate" | "burst" => entry.number(1, "a number above 0"),
            "merciless" | "stage2" => entry.flag(),
            "addresses" => entry.addresses(),
            _ => return None,
        })
    })
}

/// The words for a realm.
pub(super) fn realm_words(entries: &DeTable) -> Result<Vec<String>, Fault> {
    let known = "ipa_bits, devices, step, refuse, after, seed, addresses, error";
    words("realm", entries, known, |entry| {
        Some(match entry.name {
            "seed" | "after" => entry.number(0, "a number"),
            "refuse" | "step" => entry.number(1, "a number above 0"),
            "error" => entry.flag(),
            "addresses" => entry.addresses(),
            "ipa_bits" => match integer(entry.value.get_ref()) {
                Some(bits @ 33..=48) => Ok(vec![entry.word("bits", bits)]),
                _ => Err(entry.wrong("a number from 33 to 48")),
            },
            "devices" => match entry.value.get_ref().as_str() {
                Some("unprotected") => Ok(Vec::new()),
                Some("both") => Ok(vec!["monitor.realm.protected-devices".to_string()]),
                _ => Err(entry.wrong(r#""unprotected" or "both""#)),
            },
            _ => return None,
        })
    })
}

/// A number that is not negative, in any base.
pub(super) fn integer(value: &DeValue) -> Option<u64> {
    match value {
        DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    }
}
