//! vmcoreinfo: what a Linux kernel says of itself for those who read its dumps, as lines of text in an ELF note.

use std::collections::BTreeMap;

use vmsa::{AddressHalf, Layout, PageSize, PhysAddr};

use crate::memory::{Memory, ReadError, searched};
use crate::root::{Origin, Regime, Root};
use crate::shape::Shape;
use crate::translate::translate;

/// The note's name.
pub(crate) const NOTE_NAME: &str = "VMCOREINFO";

/// Characters of a release that are shown (`__NEW_UTS_LEN`).
const LONGEST: usize = 64;

/// The lines of the note.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct VmcoreInfo(BTreeMap<String, String>);

impl VmcoreInfo {
    /// The lines of a note, `KEY=VALUE` each; others are left out.
    pub fn parse(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let lines = text.lines().filter_map(|line| line.split_once('='));
        Self(lines.map(|(key, value)| (key.to_owned(), value.trim_end_matches('\0').to_owned())).collect())
    }

    /// The text that belongs to a key.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// A number that the kernel writes as C's `%d` or `0x%lx`.
    pub fn number(&self, key: &str) -> Option<u64> {
        let text = self.text(&format!("NUMBER({key})")).or_else(|| self.text(key))?;
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse::<i64>().ok().map(|number| number as u64),
        }
    }

    /// The virtual address of a symbol.
    pub fn symbol(&self, name: &str) -> Option<u64> {
        u64::from_str_radix(self.text(&format!("SYMBOL({name})"))?.trim_start_matches("0x"), 16).ok()
    }

    /// Which kernel it is, in a few words: its release, and how far KASLR moved it from the addresses of its symbols.
    pub(crate) fn kernel(&self) -> Option<String> {
        let moved = self.text("KERNELOFFSET").and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let moved = match moved.unwrap_or(0) {
            0 => String::new(),
            bytes => format!(", {bytes:#x} above the addresses of its vmlinux (KASLR)"),
        };
        // What a terminal shows of a text that anybody may have written.
        let release: String = self.text("OSRELEASE")?.chars().filter(char::is_ascii_graphic).take(LONGEST).collect();
        Some(format!("Linux {release}{moved}"))
    }

    /// The first address of the linear map, and the physical address that it maps.
    pub(crate) fn linear_map(&self) -> Option<(u64, u64)> {
        let bits = self.number("VA_BITS").filter(|bits| (25..=52).contains(bits))?;
        Some((u64::MAX << bits, self.number("PHYS_OFFSET")?))
    }

    /// The kernel's own page table, and whether it maps itself where the note says.
    pub(crate) fn root(&self, memory: &mut dyn Memory) -> Result<Root, String> {
        let need = |value: Option<u64>, key: &str| value.ok_or_else(|| format!("vmcoreinfo has no {key}"));
        let table = need(self.symbol("swapper_pg_dir"), "SYMBOL(swapper_pg_dir)")?;
        let offset = need(self.number("kimage_voffset"), "NUMBER(kimage_voffset)")?;
        let bits = need(self.number("VA_BITS"), "NUMBER(VA_BITS)")?;
        let width = self.number("TCR_EL1_T1SZ").unwrap_or(64u64.wrapping_sub(bits));
        let page_size = match self.number("PAGESIZE") {
            Some(0x1000) => PageSize::Size4K,
            Some(0x4000) => PageSize::Size16K,
            Some(0x1_0000) => PageSize::Size64K,
            other => return Err(format!("vmcoreinfo's PAGESIZE is {other:?}, expected 4096, 16384 or 65536")),
        };
        let input_bits = 64u32.saturating_sub(u32::try_from(width).unwrap_or(64));
        let layout = match page_size {
            PageSize::Size64K => Layout::Lpa,
            _ if input_bits > 48 => Layout::Lpa2,
            _ => Layout::Bits48,
        };
        let shape =
            Shape::stage1(page_size, layout, input_bits, AddressHalf::Upper).map_err(|error| error.to_string())?;
        let physical = table.wrapping_sub(offset).wrapping_add(unused_root_bytes(page_size, bits, shape));
        let mut root = Root::bare(Regime::El1Upper, PhysAddr::new(physical), shape, Origin::VmcoreInfo(false));
        let is_confirmed = translate(memory, &root, table) == Some(table.wrapping_sub(offset));
        root.origin = Origin::VmcoreInfo(is_confirmed);
        Ok(root)
    }
}

/// A 64 KiB kernel built for 52 bits that runs with 48 uses only the end of its root.
fn unused_root_bytes(page_size: PageSize, built_for_bits: u64, shape: Shape) -> u64 {
    if page_size == PageSize::Size64K && built_for_bits == 52 && shape.input_bits == 48 {
        ((1 << 10) - (1 << 6)) * 8
    } else {
        0
    }
}

/// More bytes than any note has.
const MOST_BYTES: usize = 1 << 20;

/// Finds the note in memory: Linux keeps it at the start of a page.
pub(crate) fn find_in_memory(memory: &mut dyn Memory) -> Result<Option<VmcoreInfo>, ReadError> {
    let mut chunk = vec![0; 1 << 20];
    for range in searched(memory)? {
        let mut at = range.start.next_multiple_of(0x1000);
        while at < range.end {
            let bytes = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(chunk.len());
            match memory.read(PhysAddr::new(at), &mut chunk[..bytes]) {
                Ok(()) => {}
                Err(ReadError::Outside) => chunk[..bytes].fill(0),
                Err(error) => return Err(error),
            }
            for (page, head) in (0u64..).zip(chunk[..bytes].chunks(0x1000)) {
                let Some(size) = note_bytes(head) else { continue };
                let mut text = vec![0; size];
                match memory.read(PhysAddr::new(at + page * 0x1000 + NOTE_HEAD as u64), &mut text) {
                    Ok(()) => return Ok(Some(VmcoreInfo::parse(&text))),
                    // The page lies about its length.
                    Err(ReadError::Outside) => {}
                    Err(error) => return Err(error),
                }
            }
            at += bytes as u64;
        }
    }
    Ok(None)
}

/// Bytes before the text of the note: three numbers, and the name with its padding.
const NOTE_HEAD: usize = 24;

/// The size of the note's text, if the page begins with the note.
fn note_bytes(page: &[u8]) -> Option<usize> {
    let size = u32::from_le_bytes(page.get(4..8)?.try_into().ok()?) as usize;
    let is_note = page[..4] == 11u32.to_le_bytes() && page.get(12..NOTE_HEAD)? == b"VMCOREINFO\0\0";
    let is_text = page.get(NOTE_HEAD..)?.starts_with(b"OSRELEASE=");
    (is_note && is_text && size <= MOST_BYTES).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_symbols_read_as_the_kernel_writes_them() {
        let info = VmcoreInfo::parse(
            b"OSRELEASE=6.1.0\nPAGESIZE=4096\nSYMBOL(swapper_pg_dir)=ffff800009e21000\nNUMBER(VA_BITS)=48\n\
              NUMBER(kimage_voffset)=0xffff7fffc7e00000\nNUMBER(PHYS_OFFSET)=0x40000000\nNUMBER(neg)=-1\nnonsense\n",
        );
        assert_eq!(info.number("VA_BITS"), Some(48));
        assert_eq!(info.number("PAGESIZE"), Some(4096));
        assert_eq!(info.number("kimage_voffset"), Some(0xffff_7fff_c7e0_0000));
        assert_eq!(info.symbol("swapper_pg_dir"), Some(0xffff_8000_09e2_1000));
        assert_eq!(info.number("neg"), Some(u64::MAX));
        assert_eq!(info.linear_map(), Some((0xffff_0000_0000_0000, 0x4000_0000)));
        assert_eq!(info.kernel().as_deref(), Some("Linux 6.1.0"));
        let moved = VmcoreInfo::parse(b"OSRELEASE=6.12.5\nKERNELOFFSET=2c0000\n");
        let expected = "Linux 6.12.5, 0x2c0000 above the addresses of its vmlinux (KASLR)";
        let hostile = VmcoreInfo::parse(&[b"OSRELEASE=\x1b[2J\x07\xc2\x9b", &[b'6'; 1000][..]].concat());
        assert_eq!(hostile.kernel(), Some(format!("Linux [2J{}", "6".repeat(61))));
        assert_eq!((moved.kernel().as_deref(), VmcoreInfo::default().kernel()), (Some(expected), None));
        assert_eq!((info.number("absent"), info.symbol("absent")), (None, None));
    }
}
