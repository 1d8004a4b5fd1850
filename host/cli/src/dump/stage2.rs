//! Stage 2 as text: the line grammar of stage 1, with the words that stage 2 has.
//!
//! ```text
//! 0x0000000040000000-0x0000000080000000           1G PMD      R W x  SHD AF     BLK MEM/NORMAL
//! ```
//! Execution is `x ` for EL1 and EL0, `xp` for EL1 alone, `xu` for EL0 alone, `NX` for neither; `?` is what a register says that
//! nobody knows.

use std::io::{self, Write};

use image::{Root, Span, Table};
use vmsa::ptdump::{Permitted, level_name, scale};
use vmsa::{Descriptor, Execute, Layout, Level, Meaning, Permissions, Rights, Stage2Attributes, permission_index};

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
        match span.descriptor.meaning(self.root.shape.page_size, self.root.shape.layout, span.level) {
            Meaning::Leaf(..) => {}
            Meaning::Reserved => return " F reserved".to_owned(),
            _ if span.descriptor == Descriptor::INVALID => return String::new(),
            _ => {
                let output = self.root.shape.layout.output_mask(self.root.shape.shift(span.level));
                return format!(" F held {:#018x}", span.descriptor.bits() & !output);
            }
        }
        let bits = Stage2Attributes::from_bits_retain(span.descriptor.bits());
        let [read, write, execute] = match leaf::permitted(self.root, span.descriptor, span.inherited) {
            Permitted::Unknown => ["?", "?", "? "],
            Permitted::ByRegisters(permissions) => by_registers(permissions),
            Permitted::ByBits => by_bits(bits),
        };
        let is_shared = match self.root.shape.layout {
            Layout::Lpa2 => self.root.shareability == 3,
            _ => bits.shareability() == 3,
        };
        let is_block = span.level != Level::L3 && span.descriptor.bits() & Descriptor::TYPE == 0b01;
        let words = [
            " ",
            read,
            write,
            execute,
            if is_shared { "SHD" } else { "   " },
            if bits.contains(Stage2Attributes::AF) { "AF" } else { "  " },
            if span.descriptor.is_contiguous() { "CON" } else { "   " },
            if is_block { "BLK" } else { "   " },
            leaf::stage2_memory_name(self.root, span.descriptor),
        ];
        let words: String = words.iter().flat_map(|word| [" ", word]).collect();
        if read == "?" { format!("{words} PIIndex {}", permission_index(span.descriptor)) } else { words }
    }
}

/// `R`, `W`, and who executes.
fn words([reads, writes, privileged, unprivileged]: [bool; 4]) -> [&'static str; 3] {
    let execute = match (privileged, unprivileged) {
        (true, true) => "x ",
        (true, false) => "xp",
        (false, true) => "xu",
        (false, false) => "NX",
    };
    [if reads { "R" } else { " " }, if writes { "W" } else { " " }, execute]
}

fn by_bits(bits: Stage2Attributes) -> [&'static str; 3] {
    let execute = bits.execute();
    let is = |alone| execute == Execute::Everyone || execute == alone;
    let [read, write] = [Stage2Attributes::READ, Stage2Attributes::WRITE].map(|bit| bits.contains(bit));
    words([read, write, is(Execute::Privileged), is(Execute::User)])
}

/// What stage 2 lets be read and written is the same for EL1 and EL0.
fn by_registers(permissions: Permissions) -> [&'static str; 3] {
    let [read, write, execute] =
        [Rights::READ, Rights::WRITE, Rights::EXECUTE].map(|right| permissions.privileged.contains(right));
    words([read, write, execute, permissions.unprivileged.contains(Rights::EXECUTE)])
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
