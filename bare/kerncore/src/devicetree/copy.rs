//! A copy of a device tree for somebody else: with other boot arguments, and without memory that is to be hidden.
//!
//! ```text
//! header │ reservations │ structure │ strings
//!        └ as it was    └ token by token, two properties replaced
//! ```
//! The strings block stays as it is, so that every name keeps its offset.

use thiserror::Error;
use vmsa::PhysAddr;

use crate::finding::Findings;
use crate::list::List;
use crate::range::PhysicalRange;

use super::blob::{BEGIN_NODE, Blob, END, END_NODE, HEADER_BYTES, MAGIC, OLDEST, PROPERTY, Token, Tokens, VERSION};
use super::cells::{CellCounts, Reg};
use super::memory;
use super::problem::Problem;

/// Ranges that can be hidden at a time.
pub const MAX_HIDDEN: usize = 4;

/// What is different in the copy.
#[derive(Clone, Copy, Debug)]
pub struct Edits<'e> {
    /// `/chosen/bootargs`, where the original has one.
    pub bootargs: &'e str,
    /// What the copy's memory nodes do not have.
    pub hidden: List<PhysicalRange, MAX_HIDDEN>,
}

/// Why there is no copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CopyError<'a> {
    /// The original is damaged.
    #[error("{0}")]
    Original(Problem<'a>),
    /// The copy needs more than this many bytes.
    #[error("its copy for the guest does not fit {0} bytes")]
    NoRoom(usize),
}

impl<'a> From<Problem<'a>> for CopyError<'a> {
    fn from(problem: Problem<'a>) -> Self {
        Self::Original(problem)
    }
}

/// Writes a copy of the device tree `bytes` to the front of `to`; gives how many bytes it has.
pub fn copy<'a>(bytes: &'a [u8], edits: &Edits, to: &mut [u8]) -> Result<usize, CopyError<'a>> {
    // Damage that leaves something to read does not keep the rest from being copied.
    let mut findings = Findings::new();
    let blob = Blob::open(bytes, &mut findings)?;
    let mut out = Writer { to, length: HEADER_BYTES };
    let reservations = out.length;
    for (address, size) in blob.reservations().take_while(|entry| *entry != (0, 0)) {
        out.numbers(&[address, size])?;
    }
    out.numbers(&[0, 0])?;
    let structure = out.length;
    copy_structure(blob.tokens(), edits, &mut out)?;
    let strings = out.length;
    out.bytes(blob.strings())?;
    let total = out.length;
    let header = [
        MAGIC as usize,
        total,
        structure,
        strings,
        reservations,
        VERSION as usize,
        OLDEST as usize,
        blob.boot_cpu() as usize,
        total - strings,
        strings - structure,
    ];
    out.length = 0;
    header.iter().try_for_each(|field| out.cell(*field as u32))?;
    Ok(total)
}

/// What the properties of the node that is being copied are to become.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Chosen,
    /// Memory, with the cells of its `reg`.
    Memory(CellCounts),
    Other,
}

fn copy_structure<'a>(mut tokens: Tokens<'a>, edits: &Edits, out: &mut Writer) -> Result<(), CopyError<'a>> {
    let mut depth = 0u32;
    let mut counts = CellCounts::DEFAULT;
    let mut role = Role::Other;
    loop {
        let token = tokens.next()?;
        match token {
            Token::Begin { name } => {
                role = match depth {
                    0 => {
                        counts = CellCounts::of_children(&tokens);
                        Role::Other
                    }
                    1 if name.0 == b"chosen" => Role::Chosen,
                    1 if memory::is_memory(name, tokens.find_property("device_type")) => Role::Memory(counts),
                    _ => Role::Other,
                };
                depth += 1;
                // A node of memory that is hidden altogether is left out.
                if let Role::Memory(counts) = role
                    && seen_banks(tokens.find_property("reg").unwrap_or(&[]), counts, edits).is_empty()
                {
                    skip_node(&mut tokens)?;
                    depth -= 1;
                    continue;
                }
                out.begin(name.0)?;
            }
            Token::Property(property) => {
                let (name, value) = (tokens.name_offset(&property), property.value);
                match role {
                    Role::Chosen if property.is_called(b"bootargs") => {
                        out.property(name, &[edits.bootargs.as_bytes(), &[0]])?;
                    }
                    Role::Memory(counts) if property.is_called(b"reg") => {
                        out.banks(name, &seen_banks(value, counts, edits), counts)?;
                    }
                    _ => out.property(name, &[value])?,
                }
            }
            Token::End => {
                role = Role::Other;
                depth = depth.saturating_sub(1);
                out.cell(END_NODE)?;
            }
            Token::Last => return out.cell(END).map_err(CopyError::from),
        }
    }
}

/// Banks that a memory node may have, and pieces of them that are left.
const MAX_BANKS: usize = 64 + MAX_HIDDEN;

type Banks = List<PhysicalRange, MAX_BANKS>;

/// What is left of the banks of a `reg`. Banks beyond the list's end are not told of.
fn seen_banks(reg: &[u8], counts: CellCounts, edits: &Edits) -> Banks {
    let mut banks = Banks::new(PhysicalRange::EMPTY);
    for (address, size) in Reg::new(reg, counts) {
        let bank = PhysicalRange::from_size(PhysAddr::new(address), size);
        for rest in bank.without(&edits.hidden) {
            // What is too much for the list is not told of, and so not used.
            if banks.push(rest).is_err() {
                break;
            }
        }
    }
    banks
}

/// Goes behind the end of the node that has just begun.
fn skip_node<'a>(tokens: &mut Tokens<'a>) -> Result<(), Problem<'a>> {
    let mut open = 1;
    while open > 0 {
        let offset = tokens.offset;
        match tokens.next()? {
            Token::Begin { .. } => open += 1,
            Token::End => open -= 1,
            Token::Property(_) => {}
            Token::Last => return Err(Problem::Unbalanced { offset }),
        }
    }
    Ok(())
}

/// The copy as far as it goes.
struct Writer<'t> {
    to: &'t mut [u8],
    length: usize,
}

/// The copy does not fit.
struct NoRoom(usize);

impl From<NoRoom> for CopyError<'_> {
    fn from(NoRoom(bytes): NoRoom) -> Self {
        Self::NoRoom(bytes)
    }
}

impl Writer<'_> {
    fn bytes(&mut self, bytes: &[u8]) -> Result<(), NoRoom> {
        let room = self.to.len();
        let place = self.to.get_mut(self.length..).and_then(|rest| rest.get_mut(..bytes.len()));
        place.ok_or(NoRoom(room))?.copy_from_slice(bytes);
        self.length += bytes.len();
        Ok(())
    }

    fn pad(&mut self) -> Result<(), NoRoom> {
        let padding = self.length.next_multiple_of(4) - self.length;
        self.bytes(&[0; 4][..padding])
    }

    fn cell(&mut self, cell: u32) -> Result<(), NoRoom> {
        self.bytes(&cell.to_be_bytes())
    }

    fn numbers(&mut self, numbers: &[u64]) -> Result<(), NoRoom> {
        numbers.iter().try_for_each(|number| self.bytes(&number.to_be_bytes()))
    }

    fn begin(&mut self, name: &[u8]) -> Result<(), NoRoom> {
        self.cell(BEGIN_NODE)?;
        self.bytes(name)?;
        self.bytes(&[0])?;
        self.pad()
    }

    fn property(&mut self, name: u32, value: &[&[u8]]) -> Result<(), NoRoom> {
        self.cell(PROPERTY)?;
        self.cell(value.iter().map(|part| part.len() as u32).sum())?;
        self.cell(name)?;
        value.iter().try_for_each(|part| self.bytes(part))?;
        self.pad()
    }

    /// A `reg`. What has more bits than cells was not in the original either.
    fn banks(&mut self, name: u32, banks: &Banks, counts: CellCounts) -> Result<(), NoRoom> {
        let bytes = banks.len() as u32 * 4 * (counts.address + counts.size);
        [PROPERTY, bytes, name].into_iter().try_for_each(|cell| self.cell(cell))?;
        banks.iter().try_for_each(|bank| {
            self.number(bank.start.bits(), counts.address)?;
            self.number(bank.size_bytes(), counts.size)
        })
    }

    fn number(&mut self, number: u64, cells: u32) -> Result<(), NoRoom> {
        (0..cells).rev().try_for_each(|place| self.cell(number.checked_shr(32 * place).unwrap_or(0) as u32))
    }
}
