//! Values: numbers, addresses of variables and of their descriptors, labels, and descriptors written as fields.

use super::token::{Token, Tokens};
use super::variables::Variables;
use crate::error::{Wrong, refused};
use crate::tables::{ADDRESS, Leaf};

/// AP\[1\]: accessible from EL0.
pub(super) const USER: u64 = 1 << 6;
/// AP\[2\]: read-only.
const READ_ONLY: u64 = 1 << 7;
const ACCESS_FLAG: u64 = 1 << 10;
const DIRTY_MODIFIER: u64 = 1 << 51;
const NEVER_EXECUTED: u64 = 3 << 53;

/// A value, before variables have addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Value {
    Number(i128),
    /// `x`: the virtual address of a variable.
    Address(String),
    /// `PTE(x)`: the address of its descriptor.
    Slot(String),
    /// `PA(x)`: its physical address.
    Physical(String),
    Descriptor(Descriptor),
    /// `P0:L0`.
    Label(usize, String),
    /// `parel1_t:(oa:PA(x))`, `parel1_t:(f:1)`: what AT leaves in PAR_EL1.
    Translated(Option<Box<Value>>),
}

/// A descriptor of level 3, without its output address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Descriptor {
    output: Option<Box<Value>>,
    leaf: Leaf,
    is_valid: bool,
}

/// The variable whose descriptor or physical address a name of the older form means: `pte_x`, `phy_x`.
fn named(name: &str) -> Value {
    if let Some(name) = name.strip_prefix("pte_") {
        return Value::Slot(name.to_owned());
    }
    match name.strip_prefix("phy_") {
        Some(name) => Value::Physical(name.to_owned()),
        None => Value::Address(name.to_owned()),
    }
}

/// The thread that `P0` names.
pub(super) fn thread(word: &str) -> Option<usize> {
    word.strip_prefix('P')?.parse().ok()
}

impl Value {
    pub(super) fn read(tokens: &mut Tokens<'_>) -> Result<Self, Wrong> {
        if tokens.is_sign(0, "(") {
            return Descriptor::read(tokens).map(Self::Descriptor);
        }
        if let Some(Token::Number(number)) = tokens.peek(0) {
            tokens.step();
            return Ok(Self::Number(number));
        }
        if tokens.is_sign(0, "`") || tokens.is_sign(0, "%") {
            return Err(refused("symbolic value", format!("{} is not supported", tokens.next_text())));
        }
        let word = tokens.word()?;
        match word {
            "label" => return label(tokens),
            "instr" | "NOP" | "nop" => return Err(refused("code as data", "code as data is not supported")),
            "parel1_t" => return translated(tokens),
            _ => {}
        }
        if let (Some(thread), true) = (thread(word), tokens.is_sign(0, ":")) {
            tokens.step();
            return Ok(Self::Label(thread, tokens.word()?.to_owned()));
        }
        Self::of_word(word, tokens)
    }

    /// `x`, `PTE(x)`, `PA(x)`, of which the first word is read.
    pub(super) fn of_word(word: &str, tokens: &mut Tokens<'_>) -> Result<Self, Wrong> {
        if tokens.is_sign(0, ":") {
            return Err(refused("tag", format!("`{word}:` would be a tag or a capability, which are not supported")));
        }
        if !tokens.is_sign(0, "(") || !matches!(word, "PTE" | "TTD" | "PA") {
            return Ok(named(word));
        }
        tokens.step();
        let name = tokens.word()?.to_owned();
        if tokens.is_sign(0, "(") {
            return Err(refused("descriptor of a descriptor", format!("`{word}({name}(…))` is not supported")));
        }
        if tokens.is_sign(0, ",") {
            return Err(refused("level of a descriptor", format!("`{word}({name}, …)` is not supported")));
        }
        tokens.expect(")")?;
        Ok(if word == "PA" { Self::Physical(name) } else { Self::Slot(name) })
    }

    /// The variables that it speaks of.
    pub(super) fn names(&self) -> Vec<&str> {
        match self {
            Self::Address(name) | Self::Slot(name) | Self::Physical(name) => vec![name],
            Self::Descriptor(Descriptor { output: Some(inner), .. }) | Self::Translated(Some(inner)) => inner.names(),
            _ => Vec::new(),
        }
    }

    /// Its bits; a descriptor that names no output address has that of `owner`. A label has none yet.
    pub(super) fn bits(&self, variables: &Variables, owner: Option<&str>) -> Result<u64, Wrong> {
        let unknown = |name: &str| Wrong::from(format!("`{name}` is no variable"));
        match self {
            Self::Number(number) => Ok(*number as u64),
            Self::Address(name) => variables.address(name).ok_or_else(|| unknown(name)),
            Self::Slot(name) => variables.slot(name).ok_or_else(|| unknown(name)),
            Self::Physical(name) => variables.physical(name).ok_or_else(|| unknown(name)),
            Self::Descriptor(it) => it.bits(variables, owner),
            Self::Label(..) => Err(refused("label as data", "a label is no value here")),
            Self::Translated(Some(output)) => output.bits(variables, None),
            Self::Translated(None) => Ok(1),
        }
    }

    /// The bits that say whether something has this value.
    pub(super) const fn mask(&self) -> u64 {
        match self {
            Self::Translated(Some(_)) => ADDRESS | 1,
            Self::Translated(None) => 1,
            _ => !0,
        }
    }
}

/// `"P0:L0"` behind `label:`.
fn label(tokens: &mut Tokens<'_>) -> Result<Value, Wrong> {
    tokens.expect(":")?;
    let Some(Token::Quoted(text)) = tokens.peek(0) else { return Err("expected `\"P0:L0\"` after `label:`".into()) };
    tokens.step();
    let parts = text.split_once(':').and_then(|(of, label)| Some((of.trim_start_matches('P').parse().ok()?, label)));
    let (thread, label) = parts.ok_or_else(|| format!("`{text}` names no label of a thread"))?;
    Ok(Value::Label(thread, label.to_owned()))
}

/// `:(f:1)` or `:(oa:PA(x))` behind `parel1_t`.
fn translated(tokens: &mut Tokens<'_>) -> Result<Value, Wrong> {
    tokens.expect(":")?;
    tokens.expect("(")?;
    let field = tokens.word()?;
    tokens.expect(":")?;
    let value = match (field, Value::read(tokens)?) {
        ("f", Value::Number(1)) => None,
        ("oa", output) => Some(Box::new(output)),
        _ => {
            return Err(refused(
                format!("PAR_EL1 field {field}"),
                format!("field `{field}` of PAR_EL1 is not supported"),
            ));
        }
    };
    tokens.expect(")")?;
    Ok(Value::Translated(value))
}

impl Descriptor {
    /// What `()` would be: as a variable's at the start.
    pub(super) const DEFAULT: Self = Self { output: None, leaf: Leaf::STAGE1, is_valid: true };

    /// `(oa:PA(y), valid:1, af:1, db:1, dbm:0, attrs:(Normal,iNC,oNC))`; what is left out is as in this line, but Normal
    /// write-back.
    fn read(tokens: &mut Tokens<'_>) -> Result<Self, Wrong> {
        let (mut it, mut attributes) = (Self::DEFAULT, Vec::new());
        tokens.expect("(")?;
        while !tokens.take(")") {
            let name = tokens.word()?;
            match name {
                _ if !tokens.take(":") => attributes.push(name),
                "oa" => it.output = Some(Box::new(Value::read(tokens)?)),
                "attrs" | "Attrs" => {
                    tokens.expect("(")?;
                    while !tokens.take(")") {
                        attributes.push(tokens.word()?);
                        tokens.take(",");
                    }
                }
                _ => it.set(name, tokens)?,
            }
            if !tokens.take(",") && !tokens.is_sign(0, ")") {
                return Err(format!("expected `,` or `)` at {}", tokens.next_text()).into());
            }
        }
        if !attributes.is_empty() {
            it.leaf.0 |= attribute_index(&attributes)? << 2;
        }
        Ok(it)
    }

    fn set(&mut self, name: &str, tokens: &mut Tokens<'_>) -> Result<(), Wrong> {
        let is_set = match tokens.peek(0) {
            Some(Token::Number(0)) => false,
            Some(Token::Number(1)) => true,
            Some(Token::Number(number)) => return Err(format!("field `{name}:{number}` is neither 0 nor 1").into()),
            _ => return Err(format!("field `{name}` is {}, expected 0 or 1", tokens.next_text()).into()),
        };
        tokens.step();
        let (mask, sets) = match name {
            "valid" => {
                self.is_valid = is_set;
                return Ok(());
            }
            "af" => (ACCESS_FLAG, is_set),
            "db" => (READ_ONLY, !is_set),
            "dbm" => (DIRTY_MODIFIER, is_set),
            "el0" => (USER, is_set),
            "x" => (NEVER_EXECUTED, !is_set),
            _ => return Err(refused(format!("descriptor field {name}"), format!("field `{name}` is not known"))),
        };
        self.leaf.0 = if sets { self.leaf.0 | mask } else { self.leaf.0 & !mask };
        Ok(())
    }

    fn bits(&self, variables: &Variables, owner: Option<&str>) -> Result<u64, Wrong> {
        let output = match &self.output {
            // `oa:x` is an older form of `oa:PA(x)`.
            Some(output) => match &**output {
                Value::Address(name) | Value::Physical(name) => {
                    variables.physical(name).ok_or_else(|| format!("`{name}` is no variable"))?
                }
                Value::Slot(_) => {
                    return Err(refused("descriptor of a descriptor", "`oa:PTE(…)` is not supported"));
                }
                other => other.bits(variables, None)?,
            },
            None => owner.and_then(|owner| variables.physical(owner)).unwrap_or(0),
        };
        let descriptor = self.leaf.descriptor(3, output);
        Ok(if self.is_valid { descriptor } else { descriptor & !1 })
    }
}

/// The index in MAIR of a memory type.
fn attribute_index(names: &[&str]) -> Result<u64, Wrong> {
    match names {
        ["Normal"] | ["Normal", "iWB", "oWB"] | ["Normal", "ISH", "iWB", "oWB"] => Ok(0),
        ["Device-GRE"] => Ok(1),
        ["Normal", "iNC", "oNC"] => Ok(2),
        ["Device-nGRE"] => Ok(3),
        ["Device-nGnRE"] => Ok(4),
        ["Device-nGnRnE"] => Ok(5),
        ["Normal", "iWT", "oWT"] => Ok(6),
        _ => Err(refused("memory type", format!("memory type `{}` is not known", names.join(",")))),
    }
}
