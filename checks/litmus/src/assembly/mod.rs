//! Assembly text to instructions: labels get addresses first, then each statement is decoded by its mnemonic.

mod memory;
mod names;
mod operands;
mod statement;

use std::collections::BTreeMap;

use a64::instruction::Instruction;

use crate::error::At;

/// Assembled code.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Assembled {
    /// Instructions by address.
    pub instructions: BTreeMap<u64, Instruction>,
    /// How they were written.
    pub source: BTreeMap<u64, String>,
    /// Addresses by label, without numeric labels.
    pub labels: BTreeMap<String, u64>,
    /// Address behind the last instruction.
    pub end: u64,
}

/// The labels of a piece of code, in order.
struct Labels<'a>(Vec<(&'a str, u64)>);

impl Labels<'_> {
    /// The address that `name` means in a statement at `place`: `1f` and `1b` look forward and back.
    fn find(&self, name: &str, place: u64) -> Option<u64> {
        let is = |label: &&(&str, u64), wanted: &str| label.0 == wanted;
        let split = name.len().saturating_sub(1);
        match name.split_at_checked(split) {
            Some((digits, "f")) if is_number(digits) => {
                self.0.iter().filter(|it| it.1 > place).find(|it| is(it, digits)).map(|it| it.1)
            }
            Some((digits, "b")) if is_number(digits) => {
                self.0.iter().rev().filter(|it| it.1 <= place).find(|it| is(it, digits)).map(|it| it.1)
            }
            _ => self.0.iter().find(|it| is(it, name)).map(|it| it.1),
        }
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Assembles numbered lines of text, the first instruction at `base`. Errors: an unknown mnemonic, label, register or
/// operand, with its line.
pub fn assemble(base: u64, lines: &[(usize, &str)]) -> Result<Assembled, At> {
    assemble_with(base, lines, &BTreeMap::new())
}

/// Assembles code that also sees the labels of `others`. Errors: as [`assemble`].
pub fn assemble_with(base: u64, lines: &[(usize, &str)], others: &BTreeMap<String, u64>) -> Result<Assembled, At> {
    let mut labels = Labels(Vec::new());
    let mut statements = Vec::new();
    let mut place = base;
    for (line, text) in lines {
        let mut text = without_comment(text).trim();
        while let Some((label, rest)) = split_label(text) {
            labels.0.push((label, place));
            text = rest.trim();
        }
        if !text.is_empty() {
            statements.push((*line, place, text));
            place += 4;
        }
    }
    let (mut instructions, mut source) = (BTreeMap::new(), BTreeMap::new());
    for (line, place, text) in statements {
        let label = |name: &str| labels.find(name, place).or_else(|| others.get(name).copied());
        let instruction = statement::parse(text, &label).map_err(|wrong| At::line(line, wrong))?;
        instructions.insert(place, instruction);
        source.insert(place, text.to_owned());
    }
    let named = labels.0.iter().filter(|it| !is_number(it.0));
    let labels = named.map(|(name, at)| ((*name).to_owned(), *at)).collect();
    Ok(Assembled { instructions, source, labels, end: place })
}

fn without_comment(text: &str) -> &str {
    text.split("//").next().unwrap_or_default()
}

/// `L0: rest`, if the text begins with a label.
fn split_label(text: &str) -> Option<(&str, &str)> {
    let (label, rest) = text.split_once(':')?;
    let is_label = !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_label.then_some((label, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use a64::instruction::When;

    fn code(text: &str) -> Result<Assembled, At> {
        let lines: Vec<(usize, &str)> = text.lines().enumerate().map(|(at, text)| (at + 1, text)).collect();
        assemble(0x1000, &lines)
    }

    #[test]
    fn labels_are_found_forward_and_back() {
        let code = code("0: CBZ X0, 1f\n B 0b // back\n1:\nL0: NOP\n B.EQ L0").expect("good code");
        let target = |place| match code.instructions[&place] {
            Instruction::Branch { target, .. } => target,
            other => panic!("{other:?}"),
        };
        assert_eq!((target(0x1000), target(0x1004), target(0x100c)), (0x1008, 0x1000, 0x1008));
        assert_eq!(code.labels, BTreeMap::from([("L0".to_owned(), 0x1008)]));
        assert_eq!(code.end, 0x1010);
        assert!(matches!(code.instructions[&0x100c], Instruction::Branch { when: When::Flag(_), .. }));
    }

    #[test]
    fn errors_name_their_line() {
        for (text, line, word) in [
            ("NOP\nFOO X0", 2, "FOO"),
            ("B nowhere", 1, "nowhere"),
            ("LDR X0,[X1", 1, "LDR"),
            ("MOV X0", 1, "MOV"),
            ("TLBI FOO,X0", 1, "FOO"),
            ("MSR FOO_EL1,X0", 1, "FOO_EL1"),
            ("ADD X0,X1,X99", 1, "X99"),
            ("NOP X1", 1, "NOP"),
        ] {
            let error = code(text).expect_err(text);
            assert_eq!(error.line, line, "{text}");
            assert!(error.what().contains(word), "{text}: {}", error.what());
        }
    }
}
