//! Modules: relocatable ELF objects for AArch64, linked against what a kernel exports.
//!
//! ```text
//! sections ──┬─ executable ──▶ text        each room one range of addresses, sections side by side in it
//!            ├─ constant   ──▶ constants
//!            └─ writable   ──▶ data        relocations (ELF for the Arm 64-bit Architecture, IHI 0056, 5.7) tie them together
//! ```

use elf::ElfBytes;
use elf::abi::*;
use elf::endian::LittleEndian;
use elf::file::Class;
use elf::string_table::StringTable;
use elf::symbol::{Symbol, SymbolTable};
use thiserror::Error;

use crate::list::List;

/// Sections that are loaded; an object with more is refused.
pub const MAX_SECTIONS: usize = 64;
/// Bytes of a room; an object with more is refused.
pub const MOST_BYTES: u64 = 1 << 20;

/// What a section is for, and where it goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// What is executed.
    Text,
    /// What is read.
    Constants,
    /// What is read and written.
    Data,
}

/// How many kinds of room there are.
pub const ROOMS: usize = 3;

/// Why an object is not loaded. The text of a symbol is the object's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Problem<'d> {
    /// No ELF file of 64 bits, little-endian, or one whose tables make no sense.
    #[error("not an ELF file of 64 bits, or a damaged one")]
    NotElf,
    /// For another machine, or no object.
    #[error("ELF machine {0}, type {1}: expected a relocatable object for AArch64")]
    NotAnObject(u16, u16),
    /// More sections than [`MAX_SECTIONS`], or a room of more than [`MOST_BYTES`].
    #[error("too large: expected at most 64 sections to load, and 1M of text, of constants and of data each")]
    TooLarge,
    /// A section that must not be.
    #[error("section {0} can be written and executed")]
    WritableText(usize),
    /// A symbol that nobody has.
    #[error("`{0}` is neither its own nor exported")]
    Unresolved(&'d str),
    /// A kind of relocation that is not known.
    #[error("section {0} has a relocation of type {1}, which is not known")]
    UnknownRelocation(usize, u32),
    /// A relocation that does not lie in its section, or whose value does not fit.
    #[error("section {0}: the relocation at {1:#x} is out of range")]
    OutOfRange(usize, u64),
}

/// A section that is loaded.
#[derive(Clone, Copy, Debug)]
struct Placed {
    section: usize,
    room: Room,
    /// In its room.
    offset: u64,
}

/// An object that can be loaded.
pub struct Module<'d> {
    elf: ElfBytes<'d, LittleEndian>,
    symbols: SymbolTable<'d, LittleEndian>,
    names: StringTable<'d>,
    placed: List<Placed, MAX_SECTIONS>,
    bytes: [u64; ROOMS],
}

impl<'d> Module<'d> {
    /// Reads an object and lays its sections out.
    pub fn read(file: &'d [u8]) -> Result<Self, Problem<'d>> {
        let elf = ElfBytes::minimal_parse(file).map_err(|_| Problem::NotElf)?;
        if elf.ehdr.class != Class::ELF64 {
            return Err(Problem::NotElf);
        }
        if elf.ehdr.e_machine != EM_AARCH64 || elf.ehdr.e_type != ET_REL {
            return Err(Problem::NotAnObject(elf.ehdr.e_machine, elf.ehdr.e_type));
        }
        let (headers, sections) = elf.section_headers_with_strtab().map_err(|_| Problem::NotElf)?;
        let (headers, sections) = headers.zip(sections).ok_or(Problem::NotElf)?;
        let (symbols, names) = elf.symbol_table().ok().flatten().ok_or(Problem::NotElf)?;
        let empty = Placed { section: 0, room: Room::Text, offset: 0 };
        let mut module = Self { elf, symbols, names, placed: List::new(empty), bytes: [0; ROOMS] };
        for (section, header) in headers.iter().enumerate() {
            let has = |flag: u32| header.sh_flags & u64::from(flag) != 0;
            let name = sections.get(header.sh_name as usize).unwrap_or_default();
            // Nobody unwinds.
            if !has(SHF_ALLOC) || header.sh_size == 0 || name == ".eh_frame" {
                continue;
            }
            let room = match (has(SHF_EXECINSTR), has(SHF_WRITE)) {
                (true, true) => return Err(Problem::WritableText(section)),
                (true, false) => Room::Text,
                // Relocation alone writes it.
                (false, true) if !name.starts_with(".data.rel.ro") => Room::Data,
                (false, _) => Room::Constants,
            };
            let bytes = &mut module.bytes[room as usize];
            let alignment = header.sh_addralign.max(4);
            if !alignment.is_power_of_two() || alignment > 64 {
                return Err(Problem::NotElf);
            }
            let offset = bytes.next_multiple_of(alignment);
            let end = offset.checked_add(header.sh_size).filter(|end| *end <= MOST_BYTES).ok_or(Problem::TooLarge)?;
            *bytes = end.next_multiple_of(4);
            module.placed.push(Placed { section, room, offset }).map_err(|_| Problem::TooLarge)?;
        }
        Ok(module)
    }

    /// How many bytes a room takes: a multiple of 4. It begins on a multiple of 64.
    pub fn bytes(&self, room: Room) -> u64 {
        self.bytes[room as usize]
    }

    /// Writes what rooms hold that will begin at the addresses `at`, each into a buffer of [`Self::bytes`] zeros. `export` tells where
    /// the kernel has what the object does not.
    pub fn link(
        &self,
        at: [u64; ROOMS],
        rooms: &mut [&mut [u8]; ROOMS],
        export: impl Fn(&str) -> Option<u64>,
    ) -> Result<(), Problem<'d>> {
        let headers = self.elf.section_headers().ok_or(Problem::NotElf)?;
        for placed in self.placed.iter() {
            let header = headers.get(placed.section).map_err(|_| Problem::NotElf)?;
            if header.sh_type != SHT_NOBITS {
                let (content, compression) = self.elf.section_data(&header).map_err(|_| Problem::NotElf)?;
                let to = rooms[placed.room as usize].get_mut(placed.offset as usize..).ok_or(Problem::NotElf)?;
                let to = to.get_mut(..content.len()).filter(|_| compression.is_none()).ok_or(Problem::NotElf)?;
                to.copy_from_slice(content);
            }
        }
        for header in headers.iter() {
            let Some(placed) = self.placed.iter().find(|placed| placed.section == header.sh_info as usize) else {
                continue;
            };
            match header.sh_type {
                SHT_REL => return Err(Problem::NotElf),
                SHT_RELA => {}
                _ => continue,
            }
            let section = headers.get(placed.section).map_err(|_| Problem::NotElf)?;
            for relocation in self.elf.section_data_as_relas(&header).map_err(|_| Problem::NotElf)? {
                let number = relocation.r_sym as usize;
                let value = self.value(number, at, &export)?.wrapping_add_signed(relocation.r_addend);
                let out = Problem::OutOfRange(placed.section, relocation.r_offset);
                let kind = Kind::of(relocation.r_type);
                let kind = kind.ok_or(Problem::UnknownRelocation(placed.section, relocation.r_type))?;
                let end = relocation.r_offset.checked_add(kind.bytes()).filter(|end| *end <= section.sh_size);
                let end = end.ok_or(out)? + placed.offset;
                let place = end - kind.bytes();
                let word = rooms[placed.room as usize].get_mut(place as usize..end as usize).ok_or(out)?;
                kind.apply(word, value, at[placed.room as usize] + place).ok_or(out)?;
            }
        }
        Ok(())
    }

    /// What `.modinfo` says of a key.
    pub fn info(&self, key: &str) -> Option<&'d str> {
        let header = self.elf.section_header_by_name(".modinfo").ok()??;
        let (content, _) = self.elf.section_data(&header).ok()?;
        let mut all = content.split(|byte| *byte == 0).filter_map(|text| core::str::from_utf8(text).ok());
        all.find_map(|text| text.strip_prefix(key)?.strip_prefix('='))
    }

    /// Where a symbol of the object's is, that others may name.
    pub fn find(&self, name: &str, at: [u64; ROOMS]) -> Option<u64> {
        let is_it = |symbol: &Symbol| symbol.st_bind() == STB_GLOBAL && self.name(symbol) == Some(name);
        self.own(&self.symbols.iter().find(is_it)?, at)
    }

    fn name(&self, symbol: &Symbol) -> Option<&'d str> {
        self.names.get(symbol.st_name as usize).ok()
    }

    /// Where a symbol is that the object defines.
    fn own(&self, symbol: &Symbol, at: [u64; ROOMS]) -> Option<u64> {
        let placed = self.placed.iter().find(|placed| placed.section == usize::from(symbol.st_shndx))?;
        Some((at[placed.room as usize] + placed.offset).wrapping_add(symbol.st_value))
    }

    fn value(
        &self,
        number: usize,
        at: [u64; ROOMS],
        export: &impl Fn(&str) -> Option<u64>,
    ) -> Result<u64, Problem<'d>> {
        let symbol = self.symbols.get(number).map_err(|_| Problem::NotElf)?;
        match symbol.st_shndx {
            SHN_ABS => Ok(symbol.st_value),
            SHN_UNDEF => {
                let name = self.name(&symbol).ok_or(Problem::NotElf)?;
                export(name).ok_or(Problem::Unresolved(name))
            }
            _ => self.own(&symbol, at).ok_or(Problem::NotElf),
        }
    }
}

/// What a relocation does with its value, S + A.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    None,
    /// So many bytes of it.
    Absolute(u64),
    /// So many bytes of its distance from the place.
    Relative(u64),
    /// The distance in pages of 4 KiB, in ADRP.
    Page,
    /// The low 12 bits, in multiples of `1 << n`, in an instruction's bits from 10 on.
    Low(u32),
    /// The distance in words, of so many bits, in an instruction's bits from this one on.
    Branch(u32, u32),
}

impl Kind {
    fn of(number: u32) -> Option<Self> {
        Some(match number {
            R_AARCH64_NONE => Self::None,
            R_AARCH64_ABS64 => Self::Absolute(8),
            R_AARCH64_ABS32 => Self::Absolute(4),
            R_AARCH64_PREL64 => Self::Relative(8),
            R_AARCH64_PREL32 => Self::Relative(4),
            R_AARCH64_ADR_PREL_PG_HI21 => Self::Page,
            R_AARCH64_ADD_ABS_LO12_NC | R_AARCH64_LDST8_ABS_LO12_NC => Self::Low(0),
            R_AARCH64_LDST16_ABS_LO12_NC => Self::Low(1),
            R_AARCH64_LDST32_ABS_LO12_NC => Self::Low(2),
            R_AARCH64_LDST64_ABS_LO12_NC => Self::Low(3),
            R_AARCH64_LDST128_ABS_LO12_NC => Self::Low(4),
            R_AARCH64_TSTBR14 => Self::Branch(14, 5),
            R_AARCH64_CONDBR19 => Self::Branch(19, 5),
            R_AARCH64_JUMP26 | R_AARCH64_CALL26 => Self::Branch(26, 0),
            _ => return None,
        })
    }

    const fn bytes(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Absolute(bytes) | Self::Relative(bytes) => bytes,
            Self::Page | Self::Low(_) | Self::Branch(..) => 4,
        }
    }

    /// Writes `value` into what lies at `place`; `None` if it does not fit.
    fn apply(self, word: &mut [u8], value: u64, place: u64) -> Option<()> {
        let distance = value.wrapping_sub(place) as i64;
        match self {
            Self::None => {}
            Self::Absolute(8) => word.copy_from_slice(&value.to_le_bytes()),
            Self::Absolute(_) => word.copy_from_slice(&u32::try_from(value).ok()?.to_le_bytes()),
            Self::Relative(8) => word.copy_from_slice(&distance.to_le_bytes()),
            Self::Relative(_) => word.copy_from_slice(&i32::try_from(distance).ok()?.to_le_bytes()),
            Self::Page => {
                let pages = (value & !0xfff).wrapping_sub(place & !0xfff) as i64 >> 12;
                let field = signed(pages, 21)?;
                insert(word, 0x3 << 29 | 0x7_ffff << 5, (field & 3) << 29 | (field >> 2) << 5);
            }
            Self::Low(shift) => {
                let low = (value & 0xfff) as u32;
                insert(word, 0xfff << 10, (low >> shift) << 10);
                return low.is_multiple_of(1 << shift).then_some(());
            }
            Self::Branch(bits, at) => {
                let field = signed(distance >> 2, bits).filter(|_| distance & 3 == 0)?;
                insert(word, ((1 << bits) - 1) << at, field << at);
            }
        }
        Some(())
    }
}

/// The low bits of a number that is that many bits wide, with its sign.
fn signed(number: i64, bits: u32) -> Option<u32> {
    let half = 1 << (bits - 1);
    (-half..half).contains(&number).then_some(number as u32 & ((1 << bits) - 1))
}

/// Puts bits where `mask` has some.
fn insert(word: &mut [u8], mask: u32, bits: u32) {
    if let Ok(bytes) = <[u8; 4]>::try_from(&*word) {
        word.copy_from_slice(&(u32::from_le_bytes(bytes) & !mask | bits).to_le_bytes());
    }
}
