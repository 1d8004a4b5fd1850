//! A TOML document in which every value knows its line.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{At, refused};
use crate::test::Quantifier;
use crate::words;

/// A value as text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Text {
    pub(super) value: String,
    /// Line of its first letter.
    pub(super) line: usize,
}

/// A parsed document.
pub(super) struct Document<'a> {
    text: &'a str,
    root: Spanned<DeTable<'a>>,
}

impl<'a> Document<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, At> {
        match DeTable::parse(text) {
            Ok(root) => Ok(Self { text, root }),
            Err(error) => {
                let line = error.span().map_or(0, |span| line_of(text, span.start));
                Err(At::line(line, error.message()))
            }
        }
    }

    fn find(&self, path: &str) -> Option<&Spanned<DeValue<'a>>> {
        let mut parts = path.split('.');
        let mut found = self.root.get_ref().get(parts.next()?)?;
        for part in parts {
            found = found.get_ref().as_table()?.get(part)?;
        }
        Some(found)
    }

    fn text_of(&self, value: &Spanned<DeValue<'a>>) -> Option<Text> {
        let start = value.span().start;
        // What stands between """ and the end of its line is no part of the text if it is empty.
        let raw = &self.text[start..];
        let begins_below = raw.strip_prefix("\"\"\"").is_some_and(|raw| raw.starts_with(['\n', '\r']));
        let line = line_of(self.text, start) + usize::from(begins_below);
        let value = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            other => integer(other)?,
        };
        Some(Text { value, line })
    }

    /// The text at `path`.
    pub(super) fn string(&self, path: &str) -> Result<Text, At> {
        let found = self.find(path).ok_or_else(|| At::line(0, format!("there is no `{path}`")))?;
        self.text_of(found).ok_or_else(|| {
            At::line(line_of(self.text, found.span().start), format!("`{path}` is no text and no number"))
        })
    }

    /// A list of texts; empty if there is none.
    pub(super) fn strings(&self, path: &str) -> Result<Vec<String>, At> {
        let Some(found) = self.find(path) else { return Ok(Vec::new()) };
        let wrong = || At::line(line_of(self.text, found.span().start), format!("`{path}` is no list of texts"));
        let list = found.get_ref().as_array().ok_or_else(wrong)?;
        list.iter().map(|it| it.get_ref().as_str().map(str::to_owned).ok_or_else(wrong)).collect()
    }

    /// A list of numbers; empty if there is none.
    pub(super) fn numbers(&self, path: &str) -> Result<Vec<u64>, At> {
        let Some(found) = self.find(path) else { return Ok(Vec::new()) };
        let wrong = || At::line(line_of(self.text, found.span().start), format!("`{path}` is no list of numbers"));
        let list = found.get_ref().as_array().ok_or_else(wrong)?;
        let number =
            |it: &Spanned<DeValue<'a>>| self.text_of(it).and_then(|text| words::number(&text.value)).ok_or_else(wrong);
        list.iter().map(number).collect()
    }

    /// The value at `path`.
    pub(super) fn value(&self, path: &str) -> Result<&Spanned<DeValue<'a>>, At> {
        self.find(path).ok_or_else(|| At::line(0, format!("there is no `{path}`")))
    }

    /// The line of a value.
    pub(super) fn line(&self, value: &Spanned<DeValue<'a>>) -> usize {
        line_of(self.text, value.span().start)
    }

    /// `[[memory]]`: physical address, value, and whether it is code, for each word.
    pub(super) fn memory(&self) -> Result<Vec<(u64, u64, bool)>, At> {
        let found = self.value("memory")?;
        let wrong = |at: &Spanned<DeValue<'a>>| At::line(self.line(at), "expected addr, step and data".to_owned());
        let number = |it: &Spanned<DeValue<'a>>| integer(it.get_ref()).and_then(|text| words::number(&text));
        let mut words = Vec::new();
        for block in found.get_ref().as_array().ok_or_else(|| wrong(found))? {
            let table = block.get_ref().as_table().ok_or_else(|| wrong(block))?;
            let field = |name: &str| table.get(name).ok_or_else(|| wrong(block));
            let address = number(field("addr")?).ok_or_else(|| wrong(block))?;
            let step = number(field("step")?).ok_or_else(|| wrong(block))?;
            let is_code = table.get("kind").is_some_and(|kind| kind.get_ref().as_str() == Some("code"));
            let data = field("data")?;
            let list: Vec<&Spanned<DeValue<'a>>> = match data.get_ref().as_array() {
                Some(list) => list.iter().collect(),
                None => vec![data],
            };
            for (at, value) in list.into_iter().enumerate() {
                words.push((address + step * at as u64, number(value).ok_or_else(|| wrong(value))?, is_code));
            }
        }
        Ok(words)
    }

    fn keys(&self, path: &str) -> Vec<String> {
        let table = self.find(path).and_then(|it| it.get_ref().as_table());
        table.map(|table| table.keys().map(|key| format!("{path}.{}", key.get_ref())).collect()).unwrap_or_default()
    }

    /// Texts and numbers of a table by their names; none if there is no table.
    pub(super) fn table(&self, path: &str) -> Vec<(String, Text)> {
        let table = self.find(path).and_then(|it| it.get_ref().as_table());
        let entries = table.into_iter().flatten();
        entries.filter_map(|(key, value)| Some((key.get_ref().to_string(), self.text_of(value)?))).collect()
    }

    /// How the final condition is asked: whether some execution fulfils it, if nothing else is said.
    pub(super) fn quantifier(&self) -> Result<Quantifier, At> {
        let Ok(kind) = self.string("final.kind") else { return Ok(Quantifier::Exists) };
        match kind.value.as_str() {
            "forall" => Ok(Quantifier::Forall),
            "sat" | "exists" => Ok(Quantifier::Exists),
            other => Err(At::line(kind.line, format!("final.kind is `{other}`, expected `forall`, `sat` or `exists`"))),
        }
    }

    /// What would change the meaning of a test and is not read here.
    pub(super) fn refuse_others(&self) -> Result<(), At> {
        let mut paths: Vec<String> = ["self_modify", "constrained", "sizes"].map(str::to_owned).to_vec();
        paths.extend(self.threads().iter().flat_map(|thread| ["interrupt", "call"].map(|it| format!("{thread}.{it}"))));
        let found = paths.iter().find_map(|path| Some((path, self.find(path)?)));
        found.map_or(Ok(()), |(path, value)| {
            let name = path.rsplit('.').next().unwrap_or(path);
            Err(At::line(self.line(value), refused(name, format!("`{path}` is not supported"))))
        })
    }

    /// `thread.0`, `thread.1`, …, as far as they go without a gap.
    pub(super) fn threads(&self) -> Vec<String> {
        let keys = self.keys("thread");
        (0..keys.len()).map(|number| format!("thread.{number}")).take_while(|key| keys.contains(key)).collect()
    }

    /// Paths of the pieces of code outside threads.
    pub(super) fn sections(&self) -> Vec<String> {
        self.keys("section")
    }

    /// Registers of a thread at the start: what `reset` and `init` say.
    pub(super) fn registers(&self, thread: &str) -> Result<Vec<(String, Text)>, At> {
        let mut registers = Vec::new();
        for part in ["reset", "init", "regs"] {
            let Some(table) = self.find(&format!("{thread}.{part}")).and_then(|it| it.get_ref().as_table()) else {
                continue;
            };
            for (key, value) in table {
                let name = key.get_ref().to_string();
                if let Some(text) = self.text_of(value) {
                    registers.push((name, text));
                } else if !name.starts_with("__") {
                    let line = line_of(self.text, value.span().start);
                    return Err(At::line(line, format!("`{name}` is no text and no number")));
                }
            }
        }
        registers.retain(|(name, _)| !name.starts_with("__"));
        Ok(registers)
    }
}

/// A number as it is written, with its prefix.
pub(super) fn integer(value: &DeValue<'_>) -> Option<String> {
    let DeValue::Integer(number) = value else { return None };
    Some(match number.radix() {
        16 => format!("0x{}", number.as_str()),
        2 => format!("0b{}", number.as_str()),
        _ => number.as_str().to_owned(),
    })
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.get(..offset).map_or(0, |before| before.matches('\n').count())
}
