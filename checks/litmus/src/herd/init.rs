//! Initial values: which variables there are, what they and their descriptors hold, what registers hold.

use std::collections::{BTreeMap, BTreeSet};

use a64::instruction::Width;

use super::source::{Piece, Source};
use super::value::{descriptor_of, value, variables};
use crate::error::At;
use crate::layout;
use crate::tables::{Leaf, PAGE, Stage, Table};

/// Variables, tables, memory and registers.
#[derive(Clone, Debug)]
pub(super) struct World {
    names: Vec<String>,
    /// Variables of 64 bits.
    doubles: BTreeSet<String>,
    slots: BTreeMap<String, u64>,
    memory: BTreeMap<u64, u64>,
    registers: BTreeMap<(usize, usize), u64>,
}

/// One initial value.
struct Entry<'a> {
    type_name: Option<&'a str>,
    /// `x`, `pte_x`, `0:X1`.
    place: &'a str,
    value: Option<&'a str>,
    line: usize,
}

impl<'a> Entry<'a> {
    fn read(piece: &'a Piece) -> Self {
        let (place, value) = match piece.text.split_once('=') {
            Some((place, value)) => (place.trim(), Some(value.trim())),
            None => (piece.text.as_str(), None),
        };
        let (type_name, place) = match place.rsplit_once(char::is_whitespace) {
            Some((type_name, place)) if !type_name.starts_with('[') => (Some(type_name.trim()), place),
            _ => (None, place),
        };
        let place = place.strip_prefix('[').and_then(|place| place.strip_suffix(']')).unwrap_or(place).trim();
        Self { type_name, place, value, line: piece.line }
    }

    /// `0:X1`: thread and register.
    fn register(&self) -> Option<(usize, usize)> {
        let (thread, register) = self.place.split_once(':')?;
        let thread = thread.trim_start_matches('P').parse().ok()?;
        let number = register.strip_prefix(['X', 'x', 'W', 'w'])?.parse().ok()?;
        (number < 31).then_some((thread, number))
    }
}

impl World {
    pub(super) fn new(source: &Source) -> Result<Self, At> {
        let entries: Vec<Entry<'_>> = source.init.iter().map(Entry::read).collect();
        let mut world = Self {
            names: names(&entries),
            doubles: BTreeSet::new(),
            slots: BTreeMap::new(),
            memory: BTreeMap::new(),
            registers: BTreeMap::new(),
        };
        world.map();
        for entry in &entries {
            world.enter(entry).map_err(|what| At::line(entry.line, what))?;
        }
        Ok(world)
    }

    /// A page, a frame and a descriptor for each variable; tables at their own addresses.
    fn map(&mut self) {
        let mut table = Table::new(Stage::One, layout::STAGE1);
        for (number, name) in self.names.clone().into_iter().enumerate() {
            let offset = number as u64 * PAGE;
            let leaf = Leaf::STAGE1.descriptor(3, layout::PHYSICAL + offset);
            table.set(&mut self.memory, layout::VIRTUAL + offset, 3, leaf);
            self.slots.extend(table.slot(&self.memory, layout::VIRTUAL + offset, 3).map(|slot| (name, slot)));
        }
        loop {
            let (before, pages): (usize, Vec<u64>) = (self.memory.len(), table.pages().collect());
            for page in pages {
                table.set(&mut self.memory, page, 3, Leaf::STAGE1.descriptor(3, page));
            }
            if self.memory.len() == before {
                return;
            }
        }
    }

    fn enter(&mut self, entry: &Entry<'_>) -> Result<(), String> {
        let is_double = entry.type_name.is_some_and(|name| name.contains("64") || name == "pteval_t");
        if let Some((thread, number)) = entry.register() {
            let value = entry.value.map_or(Ok(0), |text| value(text, self, None))?;
            self.registers.insert((thread, number), value);
            return Ok(());
        }
        if let Some(name) = descriptor_of(entry.place) {
            let slot = self.slot(name).ok_or_else(|| format!("`{name}` is no variable"))?;
            let descriptor = value(entry.value.unwrap_or("()"), self, Some(name))?;
            self.memory.insert(slot, descriptor);
            return Ok(());
        }
        let is_below_zero = entry.value.is_some_and(|text| text.starts_with('-'));
        let place = self.physical(entry.place).ok_or_else(|| format!("`{}` is no variable", entry.place))?;
        let value = entry.value.map_or(Ok(0), |text| value(text, self, None))?;
        if is_double {
            self.doubles.insert(entry.place.to_owned());
        }
        self.memory.insert(place, if is_double || !is_below_zero { value } else { value & u64::from(u32::MAX) });
        Ok(())
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.names.iter().position(|other| other == name).map(|number| number as u64)
    }

    /// The virtual address of a variable.
    pub(super) fn address(&self, name: &str) -> Option<u64> {
        self.number(name).map(|number| layout::VIRTUAL + number * PAGE)
    }

    /// The physical address of a variable, by its descriptor's default.
    pub(super) fn physical(&self, name: &str) -> Option<u64> {
        self.number(name).map(|number| layout::PHYSICAL + number * PAGE)
    }

    /// The address of a variable's descriptor.
    pub(super) fn slot(&self, name: &str) -> Option<u64> {
        self.slots.get(name).copied()
    }

    /// How wide a variable is.
    pub(super) fn width(&self, name: &str) -> Width {
        if self.doubles.contains(name) { Width::Double } else { Width::Word }
    }

    pub(super) fn registers(&self, thread: usize) -> [u64; 31] {
        std::array::from_fn(|number| self.registers.get(&(thread, number)).copied().unwrap_or(0))
    }

    pub(super) fn into_memory(self) -> BTreeMap<u64, u64> {
        self.memory
    }
}

/// Every variable that initial values speak of, in order.
fn names(entries: &[Entry<'_>]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for entry in entries {
        let place = if entry.register().is_some() { Vec::new() } else { variables(entry.place) };
        for name in place.into_iter().chain(entry.value.map(variables).unwrap_or_default()) {
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
    }
    names
}
