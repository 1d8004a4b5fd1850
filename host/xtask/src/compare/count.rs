//! What `vellum` counts in a page table, and how it is shown.

use serde_json::{Value, json};

/// Leaves and tables of a page table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Count {
    blocks: u64,
    /// Of contiguous groups.
    grouped_blocks: u64,
    pages: u64,
    grouped_pages: u64,
    pub(crate) tables: u64,
    pub(crate) table_bytes: u64,
}

/// One boot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    pub(crate) machine: &'static str,
    pub(crate) kernel: String,
    pub(crate) count: Count,
}

impl Count {
    /// Reads the record with which `vellum dump --json` ends.
    pub(crate) fn read(line: &str) -> Option<Count> {
        let record: Value = serde_json::from_str(line).ok()?;
        let mut count = Count {
            tables: record["tables"].as_u64()?,
            table_bytes: record["table_bytes"].as_u64()?,
            ..Count::default()
        };
        for (level, leaves) in record["leaves_by_level"].as_object()? {
            let leaves = leaves.as_u64()?;
            match level.as_str() {
                "3" => count.pages += leaves,
                "3c" => count.grouped_pages += leaves,
                block if block.ends_with('c') => count.grouped_blocks += leaves,
                _ => count.blocks += leaves,
            }
        }
        (record["leaves"].as_u64() == Some(count.leaves())).then_some(count)
    }

    pub(crate) fn leaves(&self) -> u64 {
        self.blocks + self.grouped_blocks + self.pages + self.grouped_pages
    }

    /// The columns of the table.
    fn columns(&self) -> [(&'static str, u64); 7] {
        [
            ("blocks", self.blocks),
            ("in groups", self.grouped_blocks),
            ("pages", self.pages),
            ("in groups", self.grouped_pages),
            ("leaves", self.leaves()),
            ("tables", self.tables),
            ("KiB", self.table_bytes >> 10),
        ]
    }
}

/// The rows as aligned lines, beneath the names of the columns.
pub(crate) fn table(rows: &[Row]) -> String {
    const NAME: usize = 20;
    const KERNEL: usize = 32;
    const NUMBER: usize = 10;
    let line = |name: &str, kernel: &str, cells: &mut dyn Iterator<Item = String>| {
        let cells: String = cells.map(|cell| format!("{cell:>NUMBER$}")).collect();
        format!("{name:NAME$}{kernel:KERNEL$}{cells}\n")
    };
    let mut text = "The kernel's half of addresses\n".to_owned();
    text += &line("machine", "kernel", &mut Count::default().columns().into_iter().map(|(name, _)| name.to_owned()));
    for row in rows {
        text +=
            &line(row.machine, &row.kernel, &mut row.count.columns().into_iter().map(|(_, number)| number.to_string()));
    }
    text
}

/// The rows as records, one a line.
pub(crate) fn records(rows: &[Row]) -> String {
    let record = |row: &Row| {
        let Row { machine, kernel, count } = row;
        let record = json!({
            "machine": machine, "kernel": kernel, "blocks": count.blocks, "grouped_blocks": count.grouped_blocks,
            "pages": count.pages, "grouped_pages": count.grouped_pages, "leaves": count.leaves(),
            "tables": count.tables, "table_bytes": count.table_bytes,
        });
        format!("{record}\n")
    };
    rows.iter().map(record).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOTALS: &str = "{\"invalid\":0,\"kind\":\"totals\",\"leaves\":9449,\"leaves_by_level\":{\"2\":217,\"2c\":960,\
                          \"3\":2000,\"3c\":6272},\"table_bytes\":167936,\"tables\":41,\"tables_by_level\":{\"0\":1}}";

    fn row() -> Row {
        let count = Count::read(TOTALS).expect("totals");
        Row { machine: "all-resize", kernel: "linux-binary-7.3".into(), count }
    }

    #[test]
    fn totals_are_read_and_must_add_up() {
        assert_eq!(row().count.leaves(), 9449);
        assert_eq!(Count::read(&TOTALS.replace("9449", "9448")), None);
        assert_eq!(Count::read("{}"), None);
        assert_eq!(Count::read("vellum: no"), None);
    }

    #[test]
    fn a_record_is_one_line() {
        let text = records(&[row(), row()]);
        assert_eq!(text.lines().count(), 2);
        let record: Value = serde_json::from_str(text.lines().next().expect("a line")).expect("a record");
        assert_eq!((record["grouped_pages"].as_u64(), record["table_bytes"].as_u64()), (Some(6272), Some(167_936)));
    }
}
