//! The kernel's ELF file: what is loaded where, and what its addresses are called.

use std::collections::BTreeMap;

use a64::decode::decode;
use a64::instruction::Instruction;
use elf::ElfBytes;
use elf::abi::{EM_AARCH64, PT_LOAD, R_AARCH64_RELATIVE, STT_FILE, STT_SECTION};
use elf::endian::LittleEndian;

/// Where the image is loaded here: a 2 MiB boundary that is not the start of RAM.
pub const LOAD: u64 = 0x4020_0000;

/// A kernel, as its file has it.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    /// Link address of `image_start`.
    pub link: u64,
    /// Loaded 64-bit words, by physical address.
    pub words: BTreeMap<u64, u64>,
    symbols: BTreeMap<String, u64>,
    /// Names of code and data by link address, without those of the linker's own making.
    names: BTreeMap<u64, String>,
    /// Relocations: where, and what to add to the distance to the link address.
    pub relocations: Vec<(u64, u64)>,
}

impl Kernel {
    /// Reads an ELF file. Errors: in one line, what is wrong with the file.
    pub fn parse(file: &[u8]) -> Result<Self, String> {
        let elf = ElfBytes::<LittleEndian>::minimal_parse(file).map_err(|error| format!("not an ELF file: {error}"))?;
        if elf.ehdr.e_machine != EM_AARCH64 {
            return Err(format!("built for ELF machine {}, expected {EM_AARCH64} (AArch64)", elf.ehdr.e_machine));
        }
        let mut kernel = Self::default();
        kernel.read_symbols(&elf)?;
        kernel.link = kernel.symbol("image_start")?;
        for segment in elf.segments().ok_or("has no program headers")?.iter().filter(|it| it.p_type == PT_LOAD) {
            let bytes = elf.segment_data(&segment).map_err(|error| format!("a segment is cut short: {error}"))?;
            kernel.load(segment.p_paddr, bytes);
        }
        kernel.read_relocations()?;
        Ok(kernel)
    }

    fn read_symbols(&mut self, elf: &ElfBytes<'_, LittleEndian>) -> Result<(), String> {
        let table = elf.symbol_table().map_err(|error| format!("its symbols cannot be read: {error}"))?;
        let (symbols, strings) = table.ok_or("has no symbols: is it stripped?")?;
        for symbol in symbols.iter() {
            let Ok(name) = strings.get(symbol.st_name as usize) else { continue };
            if name.is_empty() || name.starts_with('$') || matches!(symbol.st_symtype(), STT_FILE | STT_SECTION) {
                continue;
            }
            self.symbols.insert(name.to_owned(), symbol.st_value);
            let place = self.names.entry(symbol.st_value).or_insert_with(|| name.to_owned());
            // Of several names for one place the shortest says most: others mark where sections begin.
            if name.len() < place.len() {
                name.clone_into(place);
            }
        }
        Ok(())
    }

    fn load(&mut self, at: u64, bytes: &[u8]) {
        for (number, chunk) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.words.insert(LOAD + at + 8 * number as u64, u64::from_le_bytes(word));
        }
    }

    fn read_relocations(&mut self) -> Result<(), String> {
        let (first, end) = (self.physical("relocations_start")?, self.physical("relocations_end")?);
        for place in (first..end).step_by(24) {
            let word = |offset| self.words.get(&(place + offset)).copied().unwrap_or(0);
            if word(8) as u32 != R_AARCH64_RELATIVE {
                return Err(format!("a relocation of kind {}, expected R_AARCH64_RELATIVE alone", word(8) as u32));
            }
            self.relocations.push((word(0), word(16)));
        }
        Ok(())
    }

    /// The link address of a symbol. Errors: there is no such symbol.
    pub fn symbol(&self, name: &str) -> Result<u64, String> {
        self.symbols.get(name).copied().ok_or_else(|| format!("has no symbol `{name}`"))
    }

    /// The link address of a symbol whose name holds `part`, the compiler having made the rest. Errors: there is none, or
    /// more than one.
    pub fn symbol_with(&self, part: &str) -> Result<u64, String> {
        let mut found = self.symbols.iter().filter(|(name, _)| name.contains(part));
        match (found.next(), found.next()) {
            (Some((_, address)), None) => Ok(*address),
            (None, _) => Err(format!("has no symbol with `{part}` in its name")),
            (Some(_), Some(_)) => Err(format!("has several symbols with `{part}` in their names")),
        }
    }

    /// The physical address of a symbol, where the image is loaded at [`LOAD`]. Errors: there is no such symbol.
    pub fn physical(&self, name: &str) -> Result<u64, String> {
        Ok(self.to_physical(self.symbol(name)?))
    }

    /// The physical addresses from a symbol to the next one.
    pub fn extent(&self, name: &str) -> Option<(u64, u64)> {
        let first = *self.symbols.get(name)?;
        let end = self.names.range(first + 1..).next().map_or(first, |(end, _)| *end);
        Some((self.to_physical(first), self.to_physical(end)))
    }

    /// The physical address of a link address; other addresses are physical already.
    pub fn to_physical(&self, address: u64) -> u64 {
        if address >= self.link { address - self.link + LOAD } else { address }
    }

    /// The link address of a physical address in the image.
    pub fn to_link(&self, physical: u64) -> u64 {
        physical.wrapping_sub(LOAD).wrapping_add(self.link)
    }

    /// What the code at an address is called: the symbol at or before it, and the distance.
    pub fn name(&self, address: u64) -> (&str, u64) {
        let link = if address >= self.link { address } else { self.to_link(address) };
        self.names.range(..=link).next_back().map_or(("?", 0), |(start, name)| (name, link - start))
    }

    /// The instruction word at a physical address.
    pub fn instruction_word(&self, physical: u64) -> Option<u32> {
        let word = self.words.get(&(physical & !7))?;
        Some((word >> (8 * (physical & 4))) as u32)
    }

    /// Every instruction from one physical address to another that is known, with its address.
    pub fn instructions(&self, first: u64, end: u64) -> impl Iterator<Item = (u64, Instruction)> + '_ {
        let known = move |place| Some((place, decode(self.instruction_word(place)?, place)?));
        (first..end).step_by(4).filter_map(known)
    }
}
