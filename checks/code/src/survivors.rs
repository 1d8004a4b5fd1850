//! The committed list of mutants that nothing here finds, each with its reason. It is exact both ways: a mutant that
//! survives must be on it, and one that is on it must survive.

/// One row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// Line of the file.
    pub line: usize,
    /// The symbol before the instruction.
    pub symbol: String,
    /// Which of the symbol's instructions of that name, counted from 1.
    pub number: usize,
    /// The instruction.
    pub original: String,
    /// What it became, in each of the row's mutants.
    pub weakened: Vec<String>,
    /// Why nothing here finds them.
    pub reason: String,
}

/// The list.
pub const LIST: &str = include_str!("../survivors.tsv");
/// Where it is.
pub const PATH: &str = "checks/code/survivors.tsv";

/// Reads a list: symbol, number, instruction, mutants with `, ` between them, reason; tabs between the columns. Errors: a
/// row that is not understood, with its line.
pub fn parse(text: &str) -> Result<Vec<Row>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines.map(|(at, line)| row(at + 1, line)).collect()
}

fn row(line: usize, text: &str) -> Result<Row, String> {
    let wrong = |what: &str| format!("{PATH}:{line}: {what}");
    let columns: Vec<&str> = text.split('\t').collect();
    let &[symbol, number, original, weakened, reason] = columns.as_slice() else {
        return Err(wrong(&format!(
            "{} columns, expected symbol, number, instruction, mutants, reason",
            columns.len()
        )));
    };
    let number = number.parse().map_err(|_| wrong(&format!("`{number}` is no number")))?;
    if reason.trim().is_empty() {
        return Err(wrong("no reason is given"));
    }
    let weakened = weakened.split(", ").map(str::to_owned).collect();
    Ok(Row {
        line,
        symbol: symbol.to_owned(),
        number,
        original: original.to_owned(),
        weakened,
        reason: reason.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_five_columns_and_a_reason() {
        let rows = parse("# a comment\n\nentry\t2\tISB\tnothing, DSB SY\tno caches\n").expect("a good list");
        assert_eq!((rows.len(), rows[0].line, rows[0].number), (1, 3, 2));
        assert_eq!(rows[0].weakened, ["nothing", "DSB SY"]);
        for (text, what) in [
            ("entry\t2\tISB\tnothing", "4 columns"),
            ("entry\tx\tISB\tnothing\twhy", "`x` is no number"),
            ("entry\t2\tISB\tnothing\t ", "no reason"),
        ] {
            assert!(parse(text).is_err_and(|error| error.contains(what)), "{text}");
        }
        parse(LIST).expect("the committed list");
    }
}
