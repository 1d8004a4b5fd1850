//! Reads dumps back: JSON records, or text in the format of `kernel_page_tables`, whoever printed it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::rc::Rc;

use image::number;
use serde_json::Value;
use vmsa::ptdump::{Naming, Permitted};
use vmsa::registers::MemoryTypes;
use vmsa::{Descriptor, Layout, Level, PageSize, Permissions, Rights};

use crate::progress::Progress;
use crate::words::words;

/// Neighbouring leaves that print alike.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Region {
    pub(super) input: u64,
    pub(super) last: u64,
    pub(super) entry: Entry,
}

/// What leaves look like: their size and the words of the text format.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Entry {
    pub(super) leaf_bytes: u64,
    /// A dump has a million leaves, and a handful of different words.
    pub(super) words: Rc<str>,
}

impl Entry {
    /// The words without those that tell the size.
    pub(super) fn permissions(&self) -> impl Iterator<Item = &str> {
        self.words.split(' ').filter(|word| !matches!(*word, "CON" | "BLK"))
    }

    pub(super) fn is_contiguous(&self) -> bool {
        self.words.split(' ').any(|word| word == "CON")
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>4} {}", crate::dump::size(self.leaf_bytes), self.words)
    }
}

/// One page table of a dump.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Section {
    pub(super) name: String,
    pub(super) regions: Vec<Region>,
    tables: u64,
    table_bytes: u64,
    /// Larger granules that its text, which tells none, makes sense with too.
    others: Vec<PageSize>,
}

/// Sums over a page table.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Sums {
    /// By bytes of a leaf, and whether it is one of a contiguous group.
    pub(super) leaves: BTreeMap<(u64, bool), u64>,
    pub(super) mapped: u64,
    pub(super) tables: u64,
    pub(super) table_bytes: u64,
}

impl Section {
    pub(super) fn totals(&self) -> Sums {
        let mut sums = Sums { tables: self.tables, table_bytes: self.table_bytes, ..Sums::default() };
        // Words that are kept once are told apart by where they are kept.
        let mut by_entry: HashMap<(u64, *const str), (&Entry, u64)> = HashMap::new();
        for region in &self.regions {
            let (entry, bytes) = (&region.entry, (region.last - region.input).saturating_add(1));
            by_entry.entry((entry.leaf_bytes, Rc::as_ptr(&entry.words))).or_insert((entry, 0)).1 +=
                bytes / entry.leaf_bytes.max(1);
            sums.mapped = sums.mapped.saturating_add(bytes);
        }
        for (entry, leaves) in by_entry.into_values() {
            *sums.leaves.entry((entry.leaf_bytes, entry.is_contiguous())).or_default() += leaves;
        }
        sums
    }

    fn add(&mut self, input: u64, last: u64, leaf_bytes: u64, words: Rc<str>) -> Result<(), String> {
        if last < input || self.regions.last().is_some_and(|region| region.last >= input) {
            return Err(format!("the range at {input:#x} is not after the one before"));
        }
        self.regions.push(Region { input, last, entry: Entry { leaf_bytes, words } });
        Ok(())
    }
}

/// The page tables of a dump.
pub(crate) fn parse(text: &str, page_size: PageSize) -> Result<Vec<Section>, String> {
    let sections = if text.trim_start().starts_with('{') { json(text) } else { lines(text, page_size) }?;
    if sections.iter().all(|section| section.regions.is_empty()) {
        return Err("no page table in it: expected text of `vellum dump` or kernel_page_tables, or --json".to_owned());
    }
    Ok(sections)
}

fn lines(text: &str, page_size: PageSize) -> Result<Vec<Section>, String> {
    let start = start(text);
    let mut sections = vec![Section::default()];
    let (mut counter, mut known) = (Tables::new(page_size, start), Known::default());
    let mut progress = progress(text);
    for (place, line) in (1..).zip(text.lines()) {
        progress.step();
        if let Some(name) = line.strip_prefix("# ") {
            if sections.last().is_some_and(|section| !section.regions.is_empty()) {
                sections.push(Section::default());
                counter = Tables::new(page_size, start);
            }
            sections.last_mut().into_iter().for_each(|section| section.name = name.to_owned());
        } else if line.starts_with("0x") {
            let section = sections.last_mut().ok_or("no section")?;
            self::line(line, section, &mut counter, &mut known).map_err(|error| format!("line {place}: {error}"))?;
            (section.tables, section.table_bytes) = counter.sums();
            section.others.clone_from(&counter.others);
        }
    }
    Ok(sections)
}

/// A larger granule that the text makes sense with, too.
pub(super) fn other_granule(sections: &[Section]) -> Option<PageSize> {
    let fits = |size: &PageSize| sections.iter().all(|section| section.others.contains(size));
    PageSize::ALL.into_iter().rev().find(fits)
}

/// Shown while a text is read: most lines are of one length, so that those at its beginning tell how many there are.
fn progress(text: &str) -> Progress {
    const LOOK: usize = 1 << 16;
    let look = &text.as_bytes()[..text.len().min(LOOK)];
    let lines = look.iter().filter(|byte| **byte == b'\n').count();
    Progress::new(
        "reading {wide_bar} line {pos} of about {len}, {eta} left",
        (text.len() / look.len().max(1) * lines) as u64,
    )
}

/// Words of lines, each kept once. A line mostly ends as one of the last two did.
#[derive(Default)]
struct Known<'t> {
    all: HashMap<&'t str, Rc<str>>,
    last: [(&'t str, Rc<str>); 2],
}

impl<'t> Known<'t> {
    fn words(&mut self, rest: &'t str) -> Rc<str> {
        if let Some((_, words)) = self.last.iter().find(|(known, _)| *known == rest) {
            return Rc::clone(words);
        }
        let join = || rest.split_whitespace().collect::<Vec<_>>().join(" ").into();
        let words = self.all.entry(rest).or_insert_with(join);
        self.last.swap(0, 1);
        self.last[0] = (rest, Rc::clone(words));
        Rc::clone(words)
    }
}

/// `0xSTART-0xEND SIZE LEVEL WORDS…`; a hole has no words.
fn line<'t>(line: &'t str, section: &mut Section, counter: &mut Tables, known: &mut Known<'t>) -> Result<(), String> {
    let mut rest = line;
    let range = word(&mut rest);
    let (start, end) = range.split_once('-').ok_or_else(|| format!("`{range}` is no range"))?;
    let address = |text: &str| number(text).map_err(|error| error.to_string());
    let (input, last) = (address(start)?, address(end)?.wrapping_sub(1));
    let (_, name) = (word(&mut rest), word(&mut rest));
    let level = level(name, counter.start).ok_or_else(|| format!("`{name}` is no level"))?;
    counter.line(input, last, level);
    let words = known.words(rest);
    if words.is_empty() || words.starts_with("F ") || &*words == "F" {
        return Ok(());
    }
    counter.leaves(input, last, level, words.split(' ').any(|word| word == "CON"))?;
    section.add(input, last, 1 << counter.page_size.level_shift(level), words)
}

/// Takes the next word off a line.
fn word<'t>(rest: &mut &'t str) -> &'t str {
    let text = rest.trim_ascii_start();
    let (word, after) = text.split_at(text.find(' ').unwrap_or(text.len()));
    *rest = after;
    word.trim_ascii_end()
}

/// The level of a root: names of levels below it tell, for a page table has holes or leaves at each.
fn start(text: &str) -> Level {
    const BELOW: [(&str, Level); 3] = [(" P4D", Level::MINUS_1), (" PUD", Level::L0), (" PMD", Level::L1)];
    BELOW.iter().find(|(below, _)| text.contains(below)).map_or(Level::L2, |(_, start)| *start)
}

/// The level of a name.
fn level(name: &str, start: Level) -> Option<Level> {
    Some(match name {
        "PTE" => Level::L3,
        "PMD" => Level::L2,
        "PUD" => Level::L1,
        "P4D" => Level::L0,
        "PGD" => start,
        _ => return None,
    })
}

/// Counts tables by the lines of a dump: whatever is printed at a level stands in a table of that level.
struct Tables {
    page_size: PageSize,
    start: Level,
    /// Larger granules with which all leaves so far are possible.
    others: Vec<PageSize>,
    /// For each level from 0 on: tables so far, and the end of the last one's reach.
    levels: [(u64, u64); 4],
}

impl Tables {
    fn new(page_size: PageSize, start: Level) -> Self {
        let others = PageSize::ALL.into_iter().filter(|size| size.shift() > page_size.shift()).collect();
        Self { page_size, start, others, levels: Default::default() }
    }

    /// Leaves begin and end at multiples of their size, groups of them at multiples of the group's.
    fn leaves(&mut self, input: u64, last: u64, level: Level, is_group: bool) -> Result<(), String> {
        let is_whole = |of: PageSize, groups: bool| {
            let group = of.contiguous_shift(level).filter(|_| groups).unwrap_or(0);
            (input | last.wrapping_add(1)).trailing_zeros() >= of.level_shift(level) + group
        };
        if !is_whole(self.page_size, false) {
            let fit = PageSize::ALL.into_iter().filter(|of| is_whole(*of, is_group));
            let fit: Vec<String> = fit.map(|of| of.to_string().to_lowercase()).collect();
            let give = if fit.is_empty() { String::new() } else { format!(": give --granule {}", fit.join(" or ")) };
            let (bytes, size) =
                (crate::dump::size(last.wrapping_sub(input).saturating_add(1)), self.page_size.level_shift(level));
            return Err(format!("{bytes} at {input:#x} are no leaves of {}{give}", crate::dump::size(1 << size)));
        }
        self.others.retain(|of| is_whole(*of, is_group));
        Ok(())
    }

    fn line(&mut self, input: u64, last: u64, lowest: Level) {
        for level in Level::ALL.into_iter().filter(|level| *level > self.start && *level <= lowest) {
            let shift = self.page_size.level_shift(level) + self.page_size.index_bits();
            let (count, reached) = &mut self.levels[level.number() as usize];
            // No granule but 4K reaches so far: one table is all that there is.
            let of = |address: u64| address.checked_shr(shift).unwrap_or(0);
            let (first, end) = (of(input), of(last));
            let first = if *count > 0 { first.max(*reached + 1) } else { first };
            if first <= end {
                *count += end - first + 1;
                *reached = end;
            }
        }
    }

    /// Tables, and the bytes they take; the root counts as a whole table.
    fn sums(&self) -> (u64, u64) {
        let count = 1 + self.levels.iter().map(|(count, _)| count).sum::<u64>();
        (count, count * self.page_size.size_bytes())
    }
}

fn json(text: &str) -> Result<Vec<Section>, String> {
    let mut sections: Vec<Section> = Vec::new();
    let mut reader = None;
    let mut progress = progress(text);
    for (place, line) in (1..).zip(text.lines()) {
        progress.step();
        let record: Value = serde_json::from_str(line).map_err(|error| format!("line {place}: {error}"))?;
        if record["kind"] == "root" {
            let read = Reader::of(&record).ok_or_else(|| format!("line {place}: no root of a dump"))?;
            sections.push(Section { name: read.name.clone(), ..Section::default() });
            reader = Some(read);
        } else if let (Some(reader), Some(section)) = (&reader, sections.last_mut()) {
            reader.record(&record, section).ok_or_else(|| format!("line {place}: a record without its fields"))??;
        }
    }
    Ok(sections)
}

/// What a root's record tells of those after it.
struct Reader {
    name: String,
    naming: Naming,
    is_by_registers: bool,
}

impl Reader {
    fn of(record: &Value) -> Option<Self> {
        let page_size = PageSize::ALL.into_iter().find(|size| record["page_size"] == size.to_string().as_str())?;
        let layouts = [Layout::Bits48, Layout::Lpa, Layout::Lpa2];
        let layout = layouts.into_iter().find(|layout| record["layout"] == format!("{layout:?}").as_str())?;
        let memory = hex(&record["mair"]).map_or(MemoryTypes::COMMON, MemoryTypes);
        let name = format!("{} root at {}", record["register"].as_str()?, record["address"].as_str()?);
        let is_by_registers = record["permissions"] == "by registers";
        let naming = Naming {
            page_size,
            start: Level::MINUS_1,
            layout,
            memory,
            shareability: 3,
            has_one_privilege: record["one_privilege"] == true,
        };
        Some(Self { name, naming, is_by_registers })
    }

    /// Where registers say what a leaf permits, its record has what they said when it was made.
    fn permitted(&self, record: &Value) -> Option<Permitted> {
        match (self.is_by_registers, &record["privileged"], &record["unprivileged"]) {
            (false, ..) => Some(Permitted::ByBits),
            (true, Value::Null, _) => Some(Permitted::Unknown),
            (true, privileged, unprivileged) => Some(Permitted::ByRegisters(Permissions {
                privileged: rights(privileged.as_str()?),
                unprivileged: rights(unprivileged.as_str()?),
            })),
        }
    }

    fn record(&self, record: &Value, section: &mut Section) -> Option<Result<(), String>> {
        match record["kind"].as_str()? {
            "leaves" => {
                let level = Level::new(i8::try_from(record["level"].as_i64()?).ok()?)?;
                let (input, last) = (hex(&record["input"])?, hex(&record["end"])?.wrapping_sub(1));
                let descriptor = Descriptor::new(hex(&record["descriptor"])?);
                let words = words(self.naming, level, (descriptor, self.permitted(record)?));
                let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
                let stage2 = record["memory"].as_str()?;
                let words = if words.contains(stage2) { words } else { format!("{words} {stage2}") };
                Some(section.add(input, last, 1 << self.naming.page_size.level_shift(level), words.into()))
            }
            "totals" => {
                section.tables = record["tables"].as_u64()?;
                section.table_bytes = record["table_bytes"].as_u64()?;
                Some(Ok(()))
            }
            _ => Some(Ok(())),
        }
    }
}

/// `rwx` with dashes, as records have it.
fn rights(letters: &str) -> Rights {
    [('r', Rights::READ), ('w', Rights::WRITE), ('x', Rights::EXECUTE), ('s', Rights::STACK)]
        .into_iter()
        .filter(|(letter, _)| letters.contains(*letter))
        .map(|(_, right)| right)
        .collect()
}

fn hex(value: &Value) -> Option<u64> {
    number(value.as_str()?).ok()
}
