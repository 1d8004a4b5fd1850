//! What Linux prints of memory: a word of `/proc/PID/pagemap`, and a line of `kernel_page_tables`.

use image::number;
use vmsa::Level;
use vmsa::fields::{Field, Register, Values};

use super::{Words, register};
use crate::dump;
use crate::select::Failure;

const fn field(name: &'static str, high: u8, low: u8, purpose: &'static str) -> Field {
    Field { name, high, low, purpose, values: Values::Number }
}

const STATE: [Field; 8] = [
    field("present", 63, 63, "in memory"),
    field("swapped", 62, 62, "in swap, or kept for migration"),
    field("file", 61, 61, "a page of a file, or of shared anonymous memory"),
    field("guard", 58, 58, "a guard region: an access ends in SIGSEGV (6.15)"),
    field("uffd-wp", 57, 57, "userfaultfd watches writes (5.13)"),
    field("exclusive", 56, 56, "mapped once (4.2)"),
    field("soft-dirty", 55, 55, "written since clear_refs was told to forget"),
    field("PFN", 54, 0, "number of the page's frame"),
];
const SWAP: [Field; 2] = [
    field("offset", 54, 5, "where in the swap area"),
    Field { name: "type", high: 4, low: 0, purpose: "swap area", values: Values::Number },
];

/// A word of `/proc/PID/pagemap`.
pub(super) fn pagemap(value: u64) -> Words {
    let is = |name: &str| STATE.iter().any(|field| field.name == name && field.get(value) != 0);
    let fields: Vec<Field> = match is("swapped") {
        true => [&STATE[..7], &SWAP].concat(),
        false => STATE.to_vec(),
    };
    let register = Register { name: "pagemap", section: "", fields: fields.leak() };
    let frame = STATE[7].get(value);
    let mut conclusions = Vec::new();
    match (is("present"), is("swapped")) {
        (true, false) if frame == 0 => {
            conclusions.push("PFN is hidden: /proc/PID/pagemap shows it to CAP_SYS_ADMIN alone".to_owned());
        }
        (true, false) => {
            let at = |shift: u32| format!("{:#x}", u128::from(frame) << shift);
            conclusions.push(format!("physical address {} (4K pages; {} 16K, {} 64K)", at(12), at(14), at(16)));
        }
        (true, true) => conclusions.push("present and swapped at once: no word of pagemap".to_owned()),
        (false, true) => {}
        (false, false) => conclusions.push("no page: never touched, or given back".to_owned()),
    }
    let unnamed = register.unnamed(value);
    if unnamed != 0 {
        conclusions.push(format!("bits that pagemap has as zero are set: {unnamed:#x}"));
    }
    Words { head: format!("pagemap {value:#018x}"), fields: register::fields(&register, value), conclusions }
}

/// A word of the text, the bits of a descriptor that it stands for, and what these say.
const WORDS: [(&str, &str, &str); 18] = [
    ("F", "[0] = 0", "invalid: every access is a translation fault"),
    ("USR", "[6] = 1", "AP[1]: EL0 accesses it as EL1 does"),
    ("RW", "[7] = 0", "AP[2]: may be written"),
    ("ro", "[7] = 1", "AP[2]: may only be read"),
    ("NX", "[53] = 1", "PXN: EL1 may not execute"),
    ("x", "[53] = 0", "PXN: EL1 may execute"),
    ("SHD", "[9:8] = 3", "SH: inner shareable"),
    ("AF", "[10] = 1", "accessed"),
    ("NG", "[11] = 1", "nG: belongs to one ASID"),
    ("CON", "[52] = 1", "one of a contiguous group"),
    ("BLK", "[1:0] = 1", "a block"),
    ("TBL", "[1:0] = 3", "a table, or a page"),
    ("UXN", "[54] = 1", "UXN: EL0 may not execute"),
    ("GP", "[50] = 1", "guarded: indirect branches must land on BTI"),
    ("R", "[6] = 1", "stage 2: may be read"),
    ("W", "[7] = 1", "stage 2: may be written"),
    ("px", "[54:53]", "stage 2: EL1 may execute"),
    ("ux", "[54:53]", "stage 2: EL0 may execute"),
];
const LEVELS: [(&str, Option<Level>); 5] = [
    ("PGD", None),
    ("P4D", Some(Level::L0)),
    ("PUD", Some(Level::L1)),
    ("PMD", Some(Level::L2)),
    ("PTE", Some(Level::L3)),
];

/// A line of `/sys/kernel/debug/kernel_page_tables`, or of a dump.
pub(super) fn ptdump(line: &str) -> Result<Words, Failure> {
    let expected = "expected a line of kernel_page_tables: 0xSTART-0xEND SIZE LEVEL WORDS";
    let wrong = |what: &str| Failure(format!("`{what}`: {expected}"));
    let mut words = line.split_whitespace();
    let range = words.next().unwrap_or_default();
    let (start, end) = range.split_once('-').ok_or_else(|| wrong(line.trim()))?;
    let (start, end) = (number(start)?, number(end)?);
    let _size = words.next();
    let name = words.next().unwrap_or_default();
    let (_, level) = LEVELS.iter().find(|(known, _)| *known == name).ok_or_else(|| wrong(name))?;
    let level = level.map_or_else(|| "the root's level".to_owned(), |level| level.to_string());
    let bytes = end.wrapping_sub(start);
    let head =
        format!("{start:#x} to {:#x}: {} in entries of {level} ({name})", end.wrapping_sub(1), dump::size(bytes));
    let words: Vec<&str> = words.collect();
    if words.is_empty() {
        return Ok(Words { head, fields: Vec::new(), conclusions: vec!["nothing is mapped".to_owned()] });
    }
    let row = |word: &&str| match WORDS.iter().find(|(known, ..)| known == word) {
        Some((_, bits, says)) => [(*word).to_owned(), (*bits).to_owned(), String::new(), (*says).to_owned()],
        None if word == &"reserved" || word == &"held" || word.starts_with("0x") => {
            [(*word).to_owned(), String::new(), String::new(), "what the entry holds, which no walk reads".to_owned()]
        }
        None if word.contains('/') => {
            [(*word).to_owned(), "[4:2]".to_owned(), String::new(), "memory type, by MAIR".to_owned()]
        }
        None => [(*word).to_owned(), String::new(), String::new(), "no word of this format".to_owned()],
    };
    Ok(Words { head, fields: words.iter().map(row).collect(), conclusions: sayings(&words) })
}

/// What the words say together, and those that are missing.
fn sayings(words: &[&str]) -> Vec<String> {
    let has = |word: &str| words.contains(&word);
    if has("F") || has("R") || has("W") {
        return Vec::new();
    }
    let (is_user, writes) = (has("USR"), has("RW"));
    // What EL0 may write, EL1 never executes.
    let executes = has("x") && !(is_user && writes);
    let verbs = |data: bool, executes: bool| {
        let verbs = [(data, "reads"), (data && writes, "writes"), (executes, "executes")];
        let can: Vec<&str> = verbs.into_iter().filter_map(|(can, verb)| can.then_some(verb)).collect();
        if can.is_empty() { "nothing".to_owned() } else { can.join(", ") }
    };
    let mut lines = vec![format!("EL1 {}; EL0 {}", verbs(true, executes), verbs(is_user, !has("UXN")))];
    if writes && executes {
        lines.push("writable and executable by EL1".to_owned());
    }
    if !has("UXN") && !is_user {
        lines.push("no UXN: EL0 executes what it cannot read".to_owned());
    }
    if !has("AF") {
        lines.push("no AF: the first access faults, unless hardware sets it (TCR.HA)".to_owned());
    }
    if words.iter().any(|word| word.starts_with("DEVICE")) && (executes || !has("UXN")) {
        lines.push("a device that may be executed: instructions may be fetched from it by speculation".to_owned());
    }
    lines
}
