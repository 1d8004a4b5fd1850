//! `verdicts.tsv`: for each file of a folder what its authors say, what we find, and the reason where the two words differ.
//!
//! ```text
//! file  without FEAT_ETS2: published, ours  with FEAT_ETS2: published, ours  break-before-make: published, ours  reason
//! ```
//! Published: `F` forbidden, `A` allowed, `R` required, `-` nothing. Break-before-make: `flag`, `silent`, `-`. Ours may be `-`
//! too: then only the published word is held against what is found. Fields that a row lacks at its end are `-`.

use std::collections::BTreeMap;
use std::fmt;

use crate::error::At;
use crate::judge::Result as Ours;

/// What a test's authors say.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Published {
    /// No execution fulfils the condition.
    Forbidden,
    /// Some may.
    Allowed,
    /// Every one does.
    Required,
    /// Nothing.
    Open,
}

impl Published {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "F" => Self::Forbidden,
            "A" => Self::Allowed,
            "R" => Self::Required,
            "-" => Self::Open,
            _ => return None,
        })
    }

    /// True when `ours` contradicts it: we do what is forbidden, or not what is required. Doing less than is allowed is no
    /// contradiction, but needs a reason.
    pub fn contradicts(self, ours: Ours) -> bool {
        match self {
            Self::Forbidden => matches!(ours, Ours::Reached | Ours::Always),
            Self::Required => matches!(ours, Ours::NotAlways | Ours::Never),
            Self::Allowed | Self::Open => false,
        }
    }

    fn wants_reason(self, ours: Ours) -> bool {
        !ours.has_run() || self.contradicts(ours) || self == Self::Allowed && ours == Ours::Never
    }
}

impl fmt::Display for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Forbidden => "forbidden",
            Self::Allowed => "allowed",
            Self::Required => "required",
            Self::Open => "-",
        })
    }
}

/// One row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// Line in the table.
    pub line: usize,
    /// Without FEAT_ETS2 and with it: what is published, and what we find, if the row says that.
    pub verdicts: [(Published, Option<Ours>); 2],
    /// A break-before-make violation: published, and found.
    pub flags: [Option<bool>; 2],
    /// Why we differ, or do not run it.
    pub reason: String,
}

/// Fields of a row at most.
const FIELDS: usize = 8;

/// Rows by file.
pub type Table = BTreeMap<String, Row>;

/// Reads a table. Errors: a row that is not understood, or lacks a reason that it needs.
pub fn parse(text: &str) -> Result<Table, At> {
    let mut table = Table::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#') && !line.is_empty()) {
        let line_number = number + 1;
        let (file, row) = row(line_number, line).map_err(|what| At::line(line_number, what))?;
        if table.insert(file.clone(), row).is_some() {
            return Err(At::line(line_number, format!("`{file}` has a row already")));
        }
    }
    Ok(table)
}

fn row(line: usize, text: &str) -> Result<(String, Row), String> {
    let fields: Vec<&str> = text.split('\t').map(str::trim).collect();
    if !(2..=FIELDS).contains(&fields.len()) {
        return Err(format!("a row has 2 to {FIELDS} fields between tabs, this one {}", fields.len()));
    }
    let field = |at: usize| fields.get(at).copied().filter(|it| !it.is_empty()).unwrap_or("-");
    let [file, without, ours_without, with, ours_with, flag, our_flag, reason] = std::array::from_fn(field);
    let published = |word| Published::parse(word).ok_or_else(|| format!("`{word}` is none of F, A, R and -"));
    let ours = |word| match word {
        "-" => Ok(None),
        _ => Ours::parse(word).map(Some).ok_or_else(|| format!("`{word}` is no result, expected {}", Ours::words())),
    };
    let flag_of = |word| match word {
        "flag" => Ok(Some(true)),
        "silent" => Ok(Some(false)),
        "-" => Ok(None),
        _ => Err(format!("`{word}` is none of flag, silent and -")),
    };
    let verdicts = [(published(without)?, ours(ours_without)?), (published(with)?, ours(ours_with)?)];
    let flags = [flag_of(flag)?, flag_of(our_flag)?];
    let differs = verdicts.iter().any(|(published, ours)| ours.is_some_and(|ours| published.wants_reason(ours)));
    if reason == "-" && (differs || matches!(flags, [Some(one), Some(other)] if one != other)) {
        return Err("a row where we differ from what is published needs a reason".to_owned());
    }
    Ok((file.to_owned(), Row { line, verdicts, flags, reason: reason.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_and_mistakes_named() {
        let table = parse("# head\na.toml\tF\tnever\t-\tnever\tflag\tflag\t\n").expect("a good table");
        assert_eq!(table["a.toml"].verdicts[0], (Published::Forbidden, Some(Ours::Never)));
        assert_eq!((table["a.toml"].flags, table["a.toml"].line), ([Some(true), Some(true)], 2));
        for (text, word) in [
            ("a", "2 to 8 fields"),
            ("a\tF\t\t\t\t\t\t\t\t", "2 to 8 fields"),
            ("a\tA\treached\tA\treached\tflag\tsilent", "reason"),
            ("a\tX\tnever\t-\tnever\t-\t-\t", "`X`"),
            ("a\tF\tsometimes\t-\tnever\t-\t-\t", "`sometimes`"),
            ("a\tA\tnever\t-\tnever\t-\t-\t", "reason"),
            ("a\tF\tunread\tF\tunread\t-\t-\t", "reason"),
            ("a\tF\tnever\tF\tnever\tmaybe\t-\t", "`maybe`"),
        ] {
            assert!(parse(text).expect_err(text).what().contains(word), "{text}");
        }
    }

    #[test]
    fn what_we_find_need_not_be_told() {
        let table = parse("a.litmus\tF\r\nb.litmus\tR\t-\tA\t\tflag\n").expect("a good table");
        assert_eq!(table["a.litmus"].verdicts, [(Published::Forbidden, None), (Published::Open, None)]);
        assert_eq!(table["b.litmus"].verdicts, [(Published::Required, None), (Published::Allowed, None)]);
        assert_eq!(table["b.litmus"].flags, [Some(true), None]);
    }

    #[test]
    fn only_what_is_forbidden_or_required_can_be_contradicted() {
        for (published, ours, contradicts) in [
            (Published::Forbidden, Ours::Reached, true),
            (Published::Forbidden, Ours::Never, false),
            (Published::Required, Ours::NotAlways, true),
            (Published::Required, Ours::Always, false),
            (Published::Allowed, Ours::Never, false),
            (Published::Open, Ours::Reached, false),
        ] {
            assert_eq!(published.contradicts(ours), contradicts, "{published} {ours}");
        }
    }
}
