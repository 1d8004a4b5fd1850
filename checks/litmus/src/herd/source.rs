//! A file in its parts, each with its lines.

use std::collections::BTreeSet;

use a64::interpreter::OnFault;

use crate::error::{At, Wrong, refused};

/// A piece of text and the line of its first letter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    pub(super) text: String,
    pub(super) line: usize,
}

/// Threads whose hardware updates descriptors.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Hardware {
    pub(super) access_flag: BTreeSet<usize>,
    pub(super) dirty_state: BTreeSet<usize>,
}

/// What stands above the initial values.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Header {
    pub(super) name: String,
    pub(super) hardware: Hardware,
    /// What a thread without a handler does when it faults.
    pub(super) on_fault: Option<OnFault>,
    /// Threads at EL0.
    pub(super) users: BTreeSet<usize>,
}

/// The code of one thread, or of its fault handler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Column {
    pub(super) thread: usize,
    pub(super) is_handler: bool,
    cells: Vec<Piece>,
}

impl Column {
    pub(super) fn lines(&self) -> Vec<(usize, &str)> {
        self.cells.iter().map(|cell| (cell.line, cell.text.as_str())).collect()
    }
}

/// A file in its parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Source {
    pub(super) header: Header,
    pub(super) init: Vec<Piece>,
    pub(super) columns: Vec<Column>,
    pub(super) condition: Piece,
}

/// No test has more threads.
const THREADS: usize = 16;

impl Source {
    pub(super) fn split(text: &str) -> Result<Self, At> {
        let text = without_comments(text)?;
        let line_at = |offset: usize| 1 + text[..offset].matches('\n').count();
        let open = text.find('{').ok_or_else(|| At::line(0, "there is no `{`"))?;
        let close = open + closing(&text[open..]).ok_or_else(|| At::line(line_at(open), "there is no `}`"))?;
        let init = pieces(&text[open + 1..close], line_at(open), ';');
        let body_line = line_at(close);
        let body = &text[close + 1..];
        let end = condition_start(body).ok_or_else(|| At::line(0, "there is no condition"))?;
        let columns = columns(&pieces(&body[..end], body_line, ';'))?;
        let threads = columns.iter().filter(|column| !column.is_handler).count();
        let header = header(&text[..open], threads)?;
        let before = body[..end].matches('\n').count();
        let condition = Piece { text: body[end..].to_owned(), line: body_line + before };
        Ok(Self { header, init, columns, condition })
    }
}

/// Where the brace that `text` begins with is closed: arrays have braces inside.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    let mut braces = text.match_indices(['{', '}']);
    braces.find_map(|(at, brace)| {
        depth = if brace == "{" { depth + 1 } else { depth - 1 };
        (depth == 0).then_some(at)
    })
}

/// Blanks out `(* … *)`, which may nest, but keeps its line ends.
fn without_comments(text: &str) -> Result<String, At> {
    let mut kept = String::with_capacity(text.len());
    let (mut depth, mut rest, mut line) = (0usize, text, 1);
    while let Some(letter) = rest.chars().next() {
        if rest.starts_with("(*") {
            depth += 1;
            rest = &rest[2..];
            continue;
        }
        if rest.starts_with("*)") && depth > 0 {
            depth -= 1;
            rest = &rest[2..];
            continue;
        }
        line += usize::from(letter == '\n');
        if depth == 0 || letter == '\n' {
            kept.push(letter);
        }
        rest = &rest[letter.len_utf8()..];
    }
    if depth == 0 { Ok(kept) } else { Err(At::line(line, "a comment has no end")) }
}

/// Non-empty pieces between `separator`s, trimmed, each with its line.
fn pieces(text: &str, first: usize, separator: char) -> Vec<Piece> {
    let mut found = Vec::new();
    let mut line = first;
    for piece in text.split(separator) {
        let start = piece.len() - piece.trim_start().len();
        let at = line + piece[..start].matches('\n').count();
        if !piece.trim().is_empty() {
            found.push(Piece { text: piece.trim().to_owned(), line: at });
        }
        line += piece.matches('\n').count();
    }
    found
}

/// Where a line begins with one of the words that begin a condition.
fn condition_start(body: &str) -> Option<usize> {
    let words = ["exists", "~exists", "forall", "locations", "filter"];
    let mut offset = 0;
    for line in body.split_inclusive('\n') {
        if words.iter().any(|word| line.trim_start().starts_with(word)) {
            return Some(offset);
        }
        offset += line.len();
    }
    None
}

/// `P0 | P1 | P1.F`, then rows.
fn columns(rows: &[Piece]) -> Result<Vec<Column>, At> {
    let [head, rows @ ..] = rows else { return Err(At::line(0, "there is no code")) };
    let mut columns = Vec::new();
    for name in head.text.split('|').map(str::trim) {
        let (thread, is_handler) = name.strip_suffix(".F").map_or((name, false), |name| (name, true));
        let thread = thread.strip_prefix('P').and_then(|number| number.parse().ok()).filter(|it| *it < THREADS);
        let thread = thread.ok_or_else(|| At::line(head.line, format!("`{name}` is no thread")))?;
        columns.push(Column { thread, is_handler, cells: Vec::new() });
    }
    let bodies = columns.iter().filter(|column| !column.is_handler).map(|column| column.thread);
    if !bodies.eq(0..columns.iter().filter(|column| !column.is_handler).count()) {
        return Err(At::line(head.line, "threads are P0, P1, … in order"));
    }
    for row in rows {
        let cells: Vec<&str> = row.text.split('|').collect();
        if cells.len() > columns.len() {
            return Err(At::line(row.line, format!("{} cells for {} columns", cells.len(), columns.len())));
        }
        for (column, cell) in columns.iter_mut().zip(cells) {
            if !cell.trim().is_empty() {
                column.cells.push(Piece { text: cell.replace('\n', " "), line: row.line });
            }
        }
    }
    Ok(columns)
}

fn header(text: &str, threads: usize) -> Result<Header, At> {
    let mut header = Header::default();
    for (number, line) in text.lines().enumerate() {
        let line_number = number + 1;
        let line = line.trim();
        if number == 0 {
            let name = line.strip_prefix("AArch64").map(str::trim).filter(|name| !name.is_empty());
            header.name = name.ok_or_else(|| At::line(1, "expected `AArch64 NAME`"))?.to_owned();
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let wrong = |wrong: Wrong| At::line(line_number, wrong);
        // Letters are the same in either case, as they are to herd.
        match key.trim().to_ascii_lowercase().as_str() {
            "tthm" => header.hardware = hardware(value, threads).map_err(|what| At::line(line_number, what))?,
            "variant" => header.on_fault = on_fault(value).map_err(wrong)?,
            "el0" | "user" => {
                let users = value.split([',', ' ']).map(str::trim).filter(|word| !word.is_empty());
                let users: Option<BTreeSet<usize>> = users.map(|word| word.strip_prefix('P')?.parse().ok()).collect();
                header.users = users.ok_or_else(|| At::line(line_number, format!("`{value}` are no threads")))?;
            }
            _ => {}
        }
    }
    Ok(header)
}

/// What becomes of a thread that faults. A variant that means another machine is refused; each test runs with and without
/// ETS2, accesses may be of any size, and no loop is cut off.
fn on_fault(variants: &str) -> Result<Option<OnFault>, Wrong> {
    let words = variants.split([',', ' ']).map(|word| word.trim().to_ascii_lowercase()).filter(|word| !word.is_empty());
    words.into_iter().try_fold(None, |known, word| match word.as_str() {
        "imprecise" | "handled" => Ok(Some(OnFault::Retry)),
        "skip" | "faulttonext" => Ok(Some(OnFault::Skip)),
        "precise" | "fatal" => Ok(Some(OnFault::End)),
        "vmsa" | "kvm" | "ets2" | "ets3" | "mixed" | "cutoff" => Ok(known),
        _ => Err(refused(
            format!("variant {word}"),
            format!(
                "variant `{word}` is not supported, expected vmsa, fatal, handled, precise, imprecise, skip or ets2"
            ),
        )),
    })
}

/// `HA`, `HA HD`, `P0:HA P1:HD`.
fn hardware(text: &str, threads: usize) -> Result<Hardware, String> {
    let mut hardware = Hardware::default();
    for word in text.split([' ', ',']).filter(|word| !word.is_empty()) {
        let (of, flag) = match word.split_once(':') {
            Some((thread, flag)) => {
                let thread = thread.strip_prefix('P').and_then(|number| number.parse().ok());
                let thread: usize = thread.ok_or_else(|| format!("`{word}` names no thread"))?;
                (thread..thread + 1, flag)
            }
            None => (0..threads, word),
        };
        match flag {
            "HA" => hardware.access_flag.extend(of),
            "HD" => hardware.dirty_state.extend(of),
            "SW" => {}
            _ => return Err(format!("`{flag}` is none of HA, HD and SW")),
        }
    }
    Ok(hardware)
}
