//! Initial values: which variables there are, what they and their descriptors hold, what registers hold.

use std::collections::{BTreeMap, BTreeSet};

use a64::instruction::Width;

use super::source::{Piece, Source};
use super::token::{Token, Tokens};
use super::value::{Descriptor, USER, Value, thread};
use super::variables::Variables;
use crate::error::{At, Wrong, refused};
use crate::layout;
use crate::tables::{Leaf, PAGE, Stage, Table};
use crate::words::width_of;

/// The state that a test begins in: variables, tables, memory and registers.
#[derive(Clone, Debug)]
pub(super) struct Initial {
    pub(super) variables: Variables,
    widths: BTreeMap<String, Width>,
    memory: BTreeMap<u64, u64>,
    registers: BTreeMap<(usize, usize), u64>,
    /// Registers that are said to be of 64 bits.
    doubles: BTreeSet<(usize, usize)>,
}

/// What has a value at the start and may have another at the end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// Thread and number.
    Register(usize, usize),
    /// The descriptor of a variable.
    Slot(String),
    Variable(String),
}

/// One initial value, or those of an array.
struct Entry {
    line: usize,
    width: Option<Width>,
    place: Place,
    count: Option<i128>,
    values: Vec<Value>,
}

impl Place {
    /// `0:X1`, `P0:X1`, `x`, `[x]`, `PTE(x)`.
    pub(super) fn read(tokens: &mut Tokens<'_>) -> Result<Self, Wrong> {
        if tokens.take("[") {
            let place = Self::read(tokens)?;
            tokens.expect("]")?;
            return Ok(place);
        }
        let of = match tokens.peek(0) {
            Some(Token::Number(number)) => usize::try_from(number).ok(),
            Some(Token::Word(word)) => thread(word),
            _ => None,
        };
        if let (Some(thread), true) = (of, tokens.is_sign(1, ":")) {
            tokens.step();
            tokens.step();
            return register(thread, tokens);
        }
        if let Some(Token::Number(number)) = tokens.peek(0) {
            return Err(format!("`{number}` is no place").into());
        }
        let word = tokens.word()?;
        match Value::of_word(word, tokens)? {
            Value::Slot(name) => Ok(Self::Slot(name)),
            Value::Address(name) => Ok(Self::Variable(name)),
            _ => Err(format!("`{word}` is no place").into()),
        }
    }
}

fn register(thread: usize, tokens: &mut Tokens<'_>) -> Result<Place, Wrong> {
    if tokens.is_sign(0, "%") {
        return Err(refused("symbolic register", "symbolic registers are not supported"));
    }
    let word = tokens.word()?;
    let number = word.strip_prefix(['X', 'x', 'W', 'w']).and_then(|number| number.parse().ok());
    let number = number.filter(|it: &usize| *it < 31);
    number.map(|number| Place::Register(thread, number)).ok_or_else(|| {
        let is_vector = word.starts_with(['V', 'D', 'S', 'Q', 'B', 'H', 'Z']);
        let construct = if is_vector { "vector register" } else { "register" };
        refused(construct, format!("`{word}` is no register that is known here"))
    })
}

impl Entry {
    fn read(piece: &Piece) -> Result<Self, At> {
        let tokens = &mut Tokens::read(&piece.text, piece.line)?;
        Self::of(tokens, piece.line).map_err(|wrong| At::line(tokens.line(), wrong))
    }

    fn of(tokens: &mut Tokens<'_>, line: usize) -> Result<Self, Wrong> {
        tokens.take_word(&["_Atomic"]);
        let has_type = match (tokens.peek(0), tokens.peek(1)) {
            (Some(Token::Word(_)), Some(Token::Word(_) | Token::Sign("*") | Token::Number(_))) => true,
            (Some(Token::Word(_)), Some(Token::Sign("["))) => matches!(tokens.peek(2), Some(Token::Word(_))),
            _ => false,
        };
        let mut width = if has_type { Some(width_of(tokens.word()?)?) } else { None };
        if tokens.take("*") {
            width = Some(Width::Double);
        }
        let place = Place::read(tokens)?;
        let mut entry = Self { line, width, place, count: None, values: Vec::new() };
        if let (true, Some(Token::Number(count))) = (tokens.is_sign(0, "["), tokens.peek(1)) {
            entry.count = Some(count);
            tokens.step();
            tokens.step();
            tokens.expect("]")?;
        }
        if tokens.take("=") && tokens.take("{") {
            while !tokens.take("}") {
                entry.values.push(Value::read(tokens)?);
                tokens.take(",");
            }
        } else if !tokens.is_at_end() {
            tokens.take("&");
            entry.values.push(Value::read(tokens)?);
        }
        let is_list = entry.count.is_some() && !entry.values.is_empty();
        if is_list && entry.count != Some(entry.values.len() as i128) {
            return Err("the array has not as many values as it says".into());
        }
        if tokens.is_at_end() { Ok(entry) } else { Err(format!("{} is left over", tokens.next_text()).into()) }
    }
}

impl Initial {
    pub(super) fn new(source: &Source) -> Result<Self, At> {
        let entries: Vec<Entry> = source.init.iter().map(Entry::read).collect::<Result<_, _>>()?;
        let mut initial = Self {
            variables: Variables { names: names(&entries), slots: BTreeMap::new() },
            widths: BTreeMap::new(),
            memory: BTreeMap::new(),
            registers: BTreeMap::new(),
            doubles: BTreeSet::new(),
        };
        initial.map();
        for entry in &entries {
            initial.enter(entry).map_err(|wrong| At::line(entry.line, wrong))?;
        }
        Ok(initial)
    }

    /// A page, a frame and a descriptor for each variable; tables at their own addresses, where EL0 may not access them.
    fn map(&mut self) {
        let mut table = Table::new(Stage::One, layout::STAGE1);
        for (number, name) in self.variables.names.clone().into_iter().enumerate() {
            let offset = number as u64 * PAGE;
            let leaf = Leaf::STAGE1.descriptor(3, layout::PHYSICAL + offset);
            table.set(&mut self.memory, layout::VIRTUAL + offset, 3, leaf);
            let slot = table.slot(&self.memory, layout::VIRTUAL + offset, 3);
            self.variables.slots.extend(slot.map(|slot| (name, slot)));
        }
        loop {
            let (before, pages): (usize, Vec<u64>) = (self.memory.len(), table.pages().collect());
            for page in pages {
                table.set(&mut self.memory, page, 3, Leaf(Leaf::STAGE1.0 & !USER).descriptor(3, page));
            }
            if self.memory.len() == before {
                return;
            }
        }
    }

    fn enter(&mut self, entry: &Entry) -> Result<(), Wrong> {
        let first = entry.values.first();
        match &entry.place {
            Place::Register(thread, number) => {
                let value = first.map_or(Ok(0), |value| value.bits(&self.variables, None))?;
                self.registers.insert((*thread, *number), value);
                if entry.width == Some(Width::Double) {
                    self.doubles.insert((*thread, *number));
                }
            }
            Place::Slot(name) => {
                let slot = self.variables.slot(name).ok_or_else(|| format!("`{name}` is no variable"))?;
                let plain = Value::Descriptor(Descriptor::DEFAULT);
                let descriptor = first.unwrap_or(&plain).bits(&self.variables, Some(name))?;
                self.memory.insert(slot, descriptor);
            }
            Place::Variable(name) => {
                let place = self.variables.physical(name).ok_or_else(|| format!("`{name}` is no variable"))?;
                // What is not a number has 64 bits.
                let is_word = entry.values.iter().all(|value| matches!(value, Value::Number(_)));
                let width = entry.width.unwrap_or(if is_word { Width::Word } else { Width::Double });
                self.widths.insert(name.clone(), width);
                for (index, value) in entry.values.iter().enumerate() {
                    let value = value.bits(&self.variables, None)?;
                    self.put(place + index as u64 * width.bytes(), width, value);
                }
            }
        }
        Ok(())
    }

    fn put(&mut self, place: u64, width: Width, value: u64) {
        let (word, shift) = (self.memory.entry(place & !7).or_insert(0), (place & 7) * 8);
        *word = *word & !(width.mask() << shift) | (value & width.mask()) << shift;
    }

    /// How wide a variable is, or what it is an array of.
    pub(super) fn width(&self, name: &str) -> Width {
        self.widths.get(name).copied().unwrap_or(Width::Word)
    }

    /// True for a register that was said to have 64 bits.
    pub(super) fn is_double(&self, thread: usize, number: usize) -> bool {
        self.doubles.contains(&(thread, number))
    }

    pub(super) fn registers(&self, thread: usize) -> [u64; 31] {
        std::array::from_fn(|number| self.registers.get(&(thread, number)).copied().unwrap_or(0))
    }

    pub(super) fn into_memory(self) -> BTreeMap<u64, u64> {
        self.memory
    }
}

/// Every variable that initial values speak of, in order.
fn names(entries: &[Entry]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for entry in entries {
        let place = match &entry.place {
            Place::Slot(name) | Place::Variable(name) => vec![name.as_str()],
            Place::Register(..) => Vec::new(),
        };
        for name in place.into_iter().chain(entry.values.iter().flat_map(Value::names)) {
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
    }
    names
}
