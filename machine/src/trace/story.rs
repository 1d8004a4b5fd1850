//! A finding in words, with the lines of the trace in place of the machine's events.

use core::fmt::{self, Write};

use super::judge::Judge;
use super::line::printable;
use crate::finding::{Finding, Names};

/// A finding in words. It names no file: whoever prints it knows that.
#[derive(Clone, Copy, Debug)]
pub struct Story<'j, 't> {
    judge: &'j Judge<'t>,
    finding: &'j Finding,
}

impl<'t> Judge<'t> {
    /// A finding in words, with lines of the trace where the machine has events.
    pub fn story<'j>(&'j self, finding: &'j Finding) -> Story<'j, 't> {
        Story { judge: self, finding }
    }
}

impl Story<'_, '_> {
    /// `line 12 (`0 dsb ish`) [mm/tlb.c:40]`
    fn write_line(&self, f: &mut fmt::Formatter<'_>, line: usize) -> fmt::Result {
        let trace = self.judge.trace();
        write!(f, "line {line} (`")?;
        for (at, part) in trace.quote(line).lines().enumerate() {
            f.write_str(if at == 0 { "" } else { " " })?;
            printable(part.trim()).try_for_each(|it| f.write_char(it))?;
        }
        f.write_str("`)")?;
        let Some(comment) = trace.comment(line) else { return Ok(()) };
        f.write_str(" [")?;
        printable(comment).try_for_each(|it| f.write_char(it))?;
        f.write_str("]")
    }
}

impl Names for Story<'_, '_> {
    fn event(&self, f: &mut fmt::Formatter<'_>, event: u64) -> fmt::Result {
        match self.judge.line_of(event) {
            Some(line) => self.write_line(f, line),
            None => write!(f, "the start"),
        }
    }

    fn writer(&self, f: &mut fmt::Formatter<'_>, finding: &Finding, address: u64, what: &str) -> fmt::Result {
        let own = self.judge.line_of(finding.event).unwrap_or_default();
        let Some(line) = self.judge.writer(address, own) else { return Ok(()) };
        write!(f, "  {what} at ")?;
        self.write_line(f, line)?;
        writeln!(f, ".")
    }
}

impl fmt::Display for Story<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.finding.tell(f, self)
    }
}
