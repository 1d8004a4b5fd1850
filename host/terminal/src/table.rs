//! Rows whose columns line up.

use std::fmt;

/// Rows whose columns line up, two blanks between them.
#[derive(Default)]
pub struct Table {
    indent: &'static str,
    /// Columns whose text stands on the right, as numbers do.
    right: &'static [usize],
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table that begins each line with `indent`.
    pub fn new(indent: &'static str) -> Self {
        Self { indent, ..Self::default() }
    }

    /// The same with these columns, counted from 0, on the right.
    pub fn right(self, columns: &'static [usize]) -> Self {
        Self { right: columns, ..self }
    }

    /// Adds a row.
    pub fn row(&mut self, row: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(row.into_iter().map(Into::into).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width =
            |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|text| text.chars().count()).max();
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        for row in &self.rows {
            let aligned = row.iter().zip(&widths).enumerate().map(|(column, (text, &width))| {
                if self.right.contains(&column) { format!("{text:>width$}") } else { format!("{text:<width$}") }
            });
            writeln!(f, "{}{}", self.indent, aligned.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new("  ").right(&[1]);
        table.row(["name", "count", "note"]);
        table.row(["a", "7", ""]);
        table.row(["longer", "12"]);
        assert_eq!(table.to_string(), "  name    count  note\n  a           7\n  longer     12\n");
    }
}
