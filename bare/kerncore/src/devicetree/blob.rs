//! The flattened blob: its header, its blocks and the tokens of its structure (Devicetree Specification 0.4, chapter 5).
//!
//! A reader of our own, because of what `dtoolkit`, which survives our fuzzer, does otherwise. It takes a blob whole or not
//! at all; a kernel wants the console out of a damaged one, to say there what is damaged. It refuses names longer than 31
//! characters, which exist. It walks over all that a node contains to find the next, which is quadratic in the nesting:
//! 4.3 s for 480 KB, here 1 ms. The tests write blobs with it, and hold this reader against it.

use crate::finding::Findings;
use crate::text::Text;

use super::problem::Problem;

pub(super) const HEADER_BYTES: usize = 40;
pub(super) const MAGIC: u32 = 0xd00d_feed;
pub(super) const VERSION: u32 = 17;
/// The oldest version that a reader of [`VERSION`] may have been written for and still read it.
pub(super) const OLDEST: u32 = 16;
pub(super) const BEGIN_NODE: u32 = 1;
pub(super) const END_NODE: u32 = 2;
pub(super) const PROPERTY: u32 = 3;
const NOP: u32 = 4;
pub(super) const END: u32 = 9;

/// The big-endian 32-bit word at `offset`.
pub(super) fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(offset..)?.first_chunk()?))
}

/// The blocks of a blob, each inside it whatever the header says.
#[derive(Clone, Copy)]
pub(super) struct Blob<'a> {
    /// Up to the end of the structure block, so that offsets count from the start of the blob.
    structure: &'a [u8],
    structure_offset: usize,
    strings: &'a [u8],
    reservations: &'a [u8],
    boot_cpu: u32,
}

impl<'a> Blob<'a> {
    /// Checks the header. Damage that leaves something to read is a finding and a blob; the rest is an error.
    pub(super) fn open(bytes: &'a [u8], findings: &mut Findings<'a>) -> Result<Self, Problem<'a>> {
        match word(bytes, 0) {
            None if bytes.is_empty() => return Err(Problem::Missing),
            Some(MAGIC) if bytes.len() >= HEADER_BYTES => {}
            None | Some(MAGIC) => return Err(Problem::BadSize { size: bytes.len() }),
            Some(found) => return Err(Problem::BadMagic { found }),
        }
        let field = |index: usize| word(bytes, 4 * index).unwrap_or(0);
        let [total, structure, strings, reservations] = [field(1), field(2), field(3), field(4)];
        let [version, compatible, strings_size, structure_size] = [field(5), field(6), field(8), field(9)];
        if version < VERSION || compatible > VERSION {
            return Err(Problem::BadVersion { version, compatible });
        }
        if (total as usize) < HEADER_BYTES {
            return Err(Problem::BadSize { size: total as usize });
        }
        let is_truncated = bytes.len() < total as usize;
        if is_truncated {
            findings.push(Problem::Truncated { expected: total, found: bytes.len() });
        }
        let bytes = &bytes[..bytes.len().min(total as usize)];
        let mut block = |block, offset: u32, size: u32, alignment: u32| {
            let end = offset as usize + size as usize;
            // Of a truncated blob, blocks beyond its end are no news.
            if !is_truncated && (!offset.is_multiple_of(alignment) || end > bytes.len()) {
                findings.push(Problem::BadBlock { block, offset, size });
            }
            end.min(bytes.len())
        };
        let structure_end = block("structure", structure, structure_size, 4);
        let strings_end = block("strings", strings, strings_size, 1);
        block("reservation", reservations, 16, 8);
        Ok(Self {
            structure: &bytes[..structure_end],
            structure_offset: structure as usize,
            strings: bytes.get(strings as usize..strings_end).unwrap_or(&[]),
            reservations: bytes.get(reservations as usize..).unwrap_or(&[]),
            boot_cpu: field(7),
        })
    }

    /// The names of properties, one after the other.
    pub(super) fn strings(&self) -> &'a [u8] {
        self.strings
    }

    /// The physical identifier of the CPU that boots.
    pub(super) fn boot_cpu(&self) -> u32 {
        self.boot_cpu
    }

    /// The structure from its beginning.
    pub(super) fn tokens(&self) -> Tokens<'a> {
        Tokens { blob: *self, offset: self.structure_offset }
    }

    /// Entries of the reservation block, (address, size), up to the one of two zeros or to the end of the blob.
    pub(super) fn reservations(&self) -> impl Iterator<Item = (u64, u64)> + use<'a> {
        let (entries, _) = self.reservations.as_chunks::<8>();
        let mut values = entries.iter().map(|bytes| u64::from_be_bytes(*bytes));
        core::iter::from_fn(move || Some((values.next()?, values.next()?)))
    }
}

/// One token of the structure block.
#[derive(Clone, Copy)]
pub(super) enum Token<'a> {
    Begin { name: Text<'a> },
    Property(Property<'a>),
    End,
    Last,
}

/// A property where it stands.
#[derive(Clone, Copy)]
pub(super) struct Property<'a> {
    /// The strings block from the property's name on.
    name: &'a [u8],
    pub(super) value: &'a [u8],
}

impl Property<'_> {
    /// Whether it is called `name`; costs no more than the length of `name`.
    pub(super) fn is_called(&self, name: &[u8]) -> bool {
        self.name.starts_with(name) && self.name.get(name.len()) == Some(&0)
    }
}

/// A place in the structure block; a copy of it is a bookmark.
#[derive(Clone, Copy)]
pub(super) struct Tokens<'a> {
    blob: Blob<'a>,
    pub(super) offset: usize,
}

impl<'a> Tokens<'a> {
    /// Where the name of a property of this blob starts in the strings block.
    pub(super) fn name_offset(&self, property: &Property<'_>) -> u32 {
        (self.blob.strings.len() - property.name.len()) as u32
    }

    /// The value of the first property called `name` among those that come next.
    pub(super) fn find_property(mut self, name: &str) -> Option<&'a [u8]> {
        while self.at_property() {
            match self.next() {
                Ok(Token::Property(property)) if property.is_called(name.as_bytes()) => return Some(property.value),
                Ok(_) => {}
                Err(_) => return None,
            }
        }
        None
    }

    /// Whether the next token, no-operations skipped, is a property.
    pub(super) fn at_property(&mut self) -> bool {
        while word(self.blob.structure, self.offset) == Some(NOP) {
            self.offset += 4;
        }
        word(self.blob.structure, self.offset) == Some(PROPERTY)
    }

    /// Reads a token and steps over it; time is linear in its length.
    pub(super) fn next(&mut self) -> Result<Token<'a>, Problem<'a>> {
        loop {
            let offset = self.offset;
            let cut = Problem::CutShort { offset, within: "the structure" };
            let token = word(self.blob.structure, offset).ok_or(cut)?;
            self.offset += 4;
            return match token {
                BEGIN_NODE => self.begin(),
                END_NODE => Ok(Token::End),
                PROPERTY => self.property(),
                NOP => continue,
                END => Ok(Token::Last),
                found => Err(Problem::BadToken { offset, found }),
            };
        }
    }

    /// After a begin token: the node's name, ended by a zero, filled up to a multiple of 4.
    fn begin(&mut self) -> Result<Token<'a>, Problem<'a>> {
        let rest = self.blob.structure.get(self.offset..).unwrap_or(&[]);
        let length = rest.iter().position(|&byte| byte == 0);
        let length = length.ok_or(Problem::CutShort { offset: self.offset, within: "the name of a node" })?;
        self.skip(length + 1);
        Ok(Token::Begin { name: Text(&rest[..length]) })
    }

    /// After a property token: length of the value, offset of the name, value, filled up to a multiple of 4.
    fn property(&mut self) -> Result<Token<'a>, Problem<'a>> {
        let offset = self.offset - 4;
        let cut = Problem::CutShort { offset, within: "a property" };
        let length = word(self.blob.structure, self.offset).ok_or(cut)? as usize;
        let name_offset = word(self.blob.structure, self.offset + 4).ok_or(cut)?;
        self.offset += 8;
        let value = self.blob.structure.get(self.offset..).and_then(|rest| rest.get(..length)).ok_or(cut)?;
        self.skip(length);
        match self.blob.strings.get(name_offset as usize..) {
            Some(name) if !name.is_empty() => Ok(Token::Property(Property { name, value })),
            _ => Err(Problem::BadPropertyName { offset, name_offset }),
        }
    }

    fn skip(&mut self, bytes: usize) {
        self.offset = (self.offset + bytes).next_multiple_of(4);
    }
}
