//! The kernel's text on a terminal: the parts a person looks for, in colour.
//!
//! Piped, none of this happens: the text passes through as it is.

use std::{
    collections::VecDeque,
    io::{self, Write},
};

use anstyle::Style;

use super::transcript::{CHECKS, section_start};
use crate::terminal::{DIM, GREEN, PLAIN, RED, TITLE, YELLOW, painted};

/// Sections that are shown only with `--verbose`.
const LONG_SECTIONS: [&str; 3] = ["memory map", "linear map", "times"];
/// Lines that are shown wherever they stand, with the indented lines that follow them.
const REPORTS: [(&str, Style); 4] = [("warning: ", YELLOW), ("error: ", RED), ("panic", RED), ("exception: ", RED)];
/// How much of what was hidden is shown when the machine ends without a verdict.
const TAIL_LINES: usize = 20;

/// Writes the kernel's text to `out`, line by line, as it arrives.
#[derive(Debug)]
pub(crate) struct View<W> {
    out: W,
    is_coloured: bool,
    is_verbose: bool,
    /// A line whose end has not arrived.
    partial: Vec<u8>,
    is_in_long_section: bool,
    is_in_checks: bool,
    report: Option<Style>,
    hidden: VecDeque<String>,
    has_hidden: bool,
}

impl<W: Write> View<W> {
    pub(crate) fn new(out: W, is_coloured: bool, is_verbose: bool) -> View<W> {
        View {
            out,
            is_coloured,
            is_verbose,
            partial: Vec::new(),
            is_in_long_section: false,
            is_in_checks: false,
            report: None,
            hidden: VecDeque::new(),
            has_hidden: false,
        }
    }

    /// Takes the next bytes of the kernel's text and shows the lines they complete.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> io::Result<()> {
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.partial.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.take_line()?;
            }
        }
        self.out.flush()
    }

    /// Shows what is left when the machine has ended: an unfinished line, and without a verdict also what was hidden
    /// last, for there lies the reason.
    pub(crate) fn finish(&mut self, has_verdict: bool) -> io::Result<()> {
        if !self.partial.is_empty() {
            self.take_line()?;
        }
        if has_verdict && self.has_hidden {
            self.paint(DIM, "(--verbose shows the memory map, the linear map and the times)")?;
        } else if !has_verdict && !self.hidden.is_empty() {
            self.paint(DIM, "(the last lines, which are shown only with --verbose)")?;
            for line in std::mem::take(&mut self.hidden) {
                self.paint(PLAIN, &line)?;
            }
        }
        self.out.flush()
    }

    fn take_line(&mut self) -> io::Result<()> {
        let bytes = std::mem::take(&mut self.partial);
        let text = String::from_utf8_lossy(&bytes);
        let line = text.trim_end_matches(['\n', '\r']);
        if let Some(name) = section_start(line) {
            self.is_in_long_section = LONG_SECTIONS.contains(&name);
            self.is_in_checks = CHECKS.contains(&name);
            self.report = None;
            return self.show(TITLE, line, !self.is_in_long_section);
        }
        let is_continued = self.report.is_some() && line.starts_with([' ', '\t']);
        if !is_continued {
            self.report = REPORTS.iter().find(|(start, _)| line.starts_with(start)).map(|(_, colour)| *colour);
        }
        match self.report {
            Some(colour) => self.show(if is_continued { PLAIN } else { colour }, line, true),
            None if self.is_in_checks && line.starts_with("check ") => self.show_check(line),
            None => self.show(colour_of(line), line, !self.is_in_long_section),
        }
    }

    /// Shows a line, or keeps it as one of the last hidden ones.
    fn show(&mut self, colour: Style, line: &str, is_wanted: bool) -> io::Result<()> {
        if is_wanted || self.is_verbose {
            self.hidden.clear();
            return self.paint(colour, line);
        }
        self.has_hidden = true;
        if self.hidden.len() == TAIL_LINES {
            self.hidden.pop_front();
        }
        self.hidden.push_back(line.to_string());
        Ok(())
    }

    /// A check's outcome is coloured, its detail dimmed.
    fn show_check(&mut self, line: &str) -> io::Result<()> {
        self.hidden.clear();
        let Some((name, outcome)) = line.split_once(": ") else { return self.paint(RED, line) };
        let (word, detail) = outcome.split_once(' ').unwrap_or((outcome, ""));
        let colour = if word == "ok" { GREEN } else { RED };
        write!(self.out, "{name}: ")?;
        self.paint_part(colour, word)?;
        if !detail.is_empty() {
            self.out.write_all(b" ")?;
            self.paint_part(DIM, detail)?;
        }
        self.out.write_all(b"\n")
    }

    fn paint(&mut self, colour: Style, line: &str) -> io::Result<()> {
        self.paint_part(colour, line)?;
        self.out.write_all(b"\n")
    }

    fn paint_part(&mut self, colour: Style, text: &str) -> io::Result<()> {
        write!(self.out, "{}", painted(text, colour, self.is_coloured))
    }
}

fn colour_of(line: &str) -> Style {
    match line.strip_prefix("verdict: ") {
        Some(verdict) if verdict.starts_with("passed") => GREEN,
        Some(_) => RED,
        None => PLAIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# detected\r\ncpu 0\r\n# linear map\r\n0xffff\r\nwarning: odd\r\n0xfffe\r\n# checks\r\n\
                        check a: ok (x)\r\ncheck b: FAILED (y z)\r\n# times\r\nboot 1 s\r\n# verdict\r\n\
                        verdict: failed (1 of 2 checks)\r\n";

    fn shown(text: &str, is_coloured: bool, is_verbose: bool, has_verdict: bool) -> String {
        let mut out = Vec::new();
        let mut view = View::new(&mut out, is_coloured, is_verbose);
        // Byte by byte: where a chunk ends must not matter.
        for byte in text.bytes() {
            view.feed(&[byte]).expect("a vector takes all");
        }
        view.finish(has_verdict).expect("a vector takes all");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn long_sections_are_hidden_but_never_a_warning() {
        assert_eq!(
            shown(TEXT, false, false, true),
            "# detected\ncpu 0\nwarning: odd\n# checks\ncheck a: ok (x)\ncheck b: FAILED (y z)\n# verdict\n\
             verdict: failed (1 of 2 checks)\n(--verbose shows the memory map, the linear map and the times)\n"
        );
    }

    #[test]
    fn verbose_shows_all_of_it() {
        assert_eq!(shown(TEXT, false, true, true), TEXT.replace("\r\n", "\n"));
    }

    #[test]
    fn colours_follow_the_meaning() {
        let text = shown(TEXT, true, false, true);
        for part in [
            "\x1b[1m\x1b[36m# detected\x1b[0m\ncpu 0\n",
            "\x1b[33mwarning: odd\x1b[0m\n",
            "check a: \x1b[32mok\x1b[0m \x1b[2m(x)\x1b[0m\n",
            "check b: \x1b[1m\x1b[31mFAILED\x1b[0m \x1b[2m(y z)\x1b[0m\n",
            "\x1b[1m\x1b[31mverdict: failed (1 of 2 checks)\x1b[0m\n",
        ] {
            assert!(text.contains(part), "{part:?} is not in {text:?}");
        }
        assert!(
            shown("# verdict\nverdict: passed (1 checks)\n", true, false, true).contains("\x1b[32mverdict: passed")
        );
    }

    #[test]
    fn a_report_keeps_its_indented_lines() {
        let text = "# memory map\nhidden\nexception: data abort\n  level 0\n\tlevel 1\nhidden too\n# verdict\n";
        assert!(
            shown(text, false, false, true).starts_with("exception: data abort\n  level 0\n\tlevel 1\n# verdict\n")
        );
    }

    #[test]
    fn without_a_verdict_the_last_hidden_lines_come_out() {
        let mut text = String::from("# chosen\n4K\n# linear map\n");
        (0..30).for_each(|number| text.push_str(&format!("line {number}\n")));
        text.push_str("cut");
        let shown = shown(&text, false, false, false);
        assert!(shown.starts_with("# chosen\n4K\n(the last lines"), "{shown}");
        assert!(shown.ends_with("line 28\nline 29\ncut\n") && !shown.contains("line 10\n"), "{shown}");
    }
}
