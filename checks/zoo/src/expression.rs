//! Words of a case: numbers, and names that begin with a capital, joined by `*`, `<<` and `>>`, `+`, `|`, of which the
//! first bind closest. `Asid<<48|Pages+1` is `(Asid << 48) | (Pages + 1)`.

use std::collections::BTreeMap;

/// What names stand for.
pub type Names = BTreeMap<String, u64>;

/// An operator that joins two numbers.
type Join = fn(u64, u64) -> u64;

/// Operators, those that bind least first.
const OPERATORS: [&[(&str, Join)]; 4] = [
    &[("|", |one, other| one | other)],
    &[("+", u64::wrapping_add)],
    &[("<<", |one, other| one << (other & 63)), (">>", |one, other| one >> (other & 63))],
    &[("*", u64::wrapping_mul)],
];

/// True for a name.
pub fn is_name(word: &str) -> bool {
    word.starts_with(|it: char| it.is_ascii_uppercase()) && word.chars().all(|it| it.is_ascii_alphanumeric())
}

/// The value of an expression. Errors: the part that is no number and no known name.
pub fn evaluate(text: &str, names: &Names) -> Result<u64, String> {
    for operators in OPERATORS {
        let last =
            operators.iter().filter_map(|(sign, join)| Some((text.rfind(sign)?, sign, join))).max_by_key(|it| it.0);
        if let Some((at, sign, join)) = last {
            let one = evaluate(&text[..at], names)?;
            return Ok(join(one, evaluate(&text[at + sign.len()..], names)?));
        }
    }
    if is_name(text) {
        return names.get(text).copied().ok_or_else(|| format!("`{text}` is no name that stands for anything here"));
    }
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("`{text}`, expected a number, or a name that begins with a capital"))
}

/// A word of a line as a trace has it: an expression by its value, anything else as it stands. Errors: an expression that
/// has no value.
pub fn expand(word: &str, names: &Names) -> Result<String, String> {
    let is_expression = word.contains(|it: char| it.is_ascii_uppercase() || "|+*<>".contains(it));
    if is_expression { evaluate(word, names).map(|it| format!("{it:#x}")) } else { Ok(word.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_bind_as_they_are_told_to() {
        let names = Names::from([("A".into(), 1), ("Page".into(), 0x703)]);
        let is = |text, value| assert_eq!(evaluate(text, &names), Ok(value), "{text}");
        is("0x10", 16);
        is("A<<48|Page+1", 1 << 48 | 0x704);
        is("0x1000+8*A", 0x1008);
        is("64>>2>>1", 8);
        is("A+2*3<<4", 1 + (6 << 4));
        for wrong in ["B", "A+", "a", "0xg", "", "A B"] {
            assert!(evaluate(wrong, &names).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_no_expression_stays() {
        let names = Names::from([("A".into(), 1)]);
        let is = |text, word: &str| assert_eq!(expand(text, &names), Ok(word.to_owned()), "{text}");
        is("vaale1is", "vaale1is");
        is("0x40", "0x40");
        is("r--/---", "r--/---");
        is("A+1", "0x2");
    }
}
