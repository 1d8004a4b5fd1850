//! Stage 2 as text: the line grammar of stage 1, with the words that stage 2 has.
//!
//! ```text
//! 0x0000000040000000-0x0000000080000000           1G PMD      R W x  SHD AF     BLK MEM/NORMAL
//! ```
//! Execution is `x ` for EL1 and EL0, `xp` for EL1 alone, `xu` for EL0 alone, `NX` for neither.

use std::io::{self, Write};

use image::{Root, Span, Table};
use vmsa::ptdump::{level_name, scale};
use vmsa::{Descriptor, Execute, Layout, Level, Stage2Attributes};

use super::Format;
use super::text::cut;
use crate::leaf;
use crate::only::Filter;

/// Writes runs of entries that print alike.
pub(super) struct Stage2Text<'a> {
    root: &'a Root,
    range: (u64, u64),
    filter: &'a Filter,
    out: &'a mut dyn Write,
    pending: Option<Line>,
}

struct Line {
    start: u64,
    end: u64,
    level: Level,
    words: String,
}

impl<'a> Stage2Text<'a> {
    pub(super) fn new(root: &'a Root, range: (u64, u64), filter: &'a Filter, out: &'a mut dyn Write) -> Self {
        Self { root, range, filter, out, pending: None }
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some(line) = self.pending.take() else { return Ok(()) };
        let (size, unit) = scale(line.end.wrapping_sub(line.start));
        let level = level_name(line.level, self.root.shape.start);
        writeln!(self.out, "{:#018x}-{:#018x}   {size:>9}{unit} {level}{}", line.start, line.end, line.words)
    }

    fn words(&self, span: &Span) -> String {
        if span.descriptor.bits() == 0 {
            return String::new();
        }
        let bits = Stage2Attributes::from_bits_retain(span.descriptor.bits());
        let execute = match bits.execute() {
            Execute::Everyone => "x ",
            Execute::Privileged => "xp",
            Execute::User => "xu",
            Execute::Nobody => "NX",
        };
        let is_shared = match self.root.shape.layout {
            Layout::Lpa2 => self.root.shareability == 3,
            _ => bits.shareability() == 3,
        };
        let is_block = span.level != Level::L3 && span.descriptor.bits() & Descriptor::TYPE == 0b01;
        let words = [
            if span.descriptor.is_valid() { " " } else { "F" },
            if bits.contains(Stage2Attributes::READ) { "R" } else { " " },
            if bits.contains(Stage2Attributes::WRITE) { "W" } else { " " },
            execute,
            if is_shared { "SHD" } else { "   " },
            if bits.contains(Stage2Attributes::AF) { "AF" } else { "  " },
            if span.descriptor.is_contiguous() { "CON" } else { "   " },
            if is_block { "BLK" } else { "   " },
            leaf::stage2_memory_name(self.root, span.descriptor),
        ];
        words.iter().flat_map(|word| [" ", word]).collect()
    }
}

impl Format for Stage2Text<'_> {
    fn span(&mut self, span: &Span) -> io::Result<()> {
        if !self.filter.shows(self.root, span) {
            return self.flush();
        }
        let is_hole = span.descriptor.bits() == 0;
        let start = if is_hole { span.input.max(self.range.0) } else { span.input };
        let end = span.input.wrapping_add(span.count << self.root.shape.shift(span.level));
        let end = if is_hole { cut(end, self.range.1) } else { end };
        let words = self.words(span);
        match &mut self.pending {
            Some(line) if line.level == span.level && line.end == start && line.words == words => line.end = end,
            _ => {
                self.flush()?;
                self.pending = Some(Line { start, end, level: span.level, words });
            }
        }
        Ok(())
    }

    fn table(&mut self, _: &Table, _: &[Descriptor]) -> io::Result<()> {
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.flush()
    }
}
