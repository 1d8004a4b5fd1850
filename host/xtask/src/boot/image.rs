//! The flat Image: what a boot loader copies to memory as it is.
//!
//! ```text
//! ELF segments, by physical address:   |text| |rodata| |data|bss...|
//! Image file:                          |text|0|rodata|0|data|        (bss is not in the file: the kernel clears it)
//! ```

use elf::{
    ElfBytes,
    abi::{EM_AARCH64, PT_LOAD},
    endian::LittleEndian,
};

/// Where the header of the Linux arm64 boot protocol keeps `image_size` and its magic, in bytes from the start.
const IMAGE_SIZE_OFFSET: usize = 16;
const MAGIC_OFFSET: usize = 56;
const HEADER_BYTES: usize = 64;
const MAGIC: &[u8; 4] = b"ARM\x64";
/// An Image larger than this is a segment that went astray.
const LARGEST_BYTES: u64 = 256 << 20;

/// Lays the loadable segments of an ELF file out by physical address, and checks the header of the result.
///
/// Errors say in words what is wrong with the file.
pub(crate) fn flatten(file: &[u8]) -> Result<Vec<u8>, String> {
    let elf = ElfBytes::<LittleEndian>::minimal_parse(file).map_err(|error| format!("not an ELF file: {error}"))?;
    if elf.ehdr.e_machine != EM_AARCH64 {
        return Err(format!("built for ELF machine {}, expected {EM_AARCH64} (AArch64)", elf.ehdr.e_machine));
    }
    let segments = elf.segments().ok_or("has no program headers")?;
    let mut loaded: Vec<_> = segments.iter().filter(|s| s.p_type == PT_LOAD && s.p_filesz > 0).collect();
    loaded.sort_by_key(|segment| segment.p_paddr);
    let base = loaded.first().ok_or("has no loadable segment")?.p_paddr;

    let mut image = Vec::new();
    for segment in &loaded {
        let offset = segment.p_paddr - base;
        if offset < image.len() as u64 {
            return Err(format!("two segments share physical address {:#x}", segment.p_paddr));
        }
        if offset.saturating_add(segment.p_filesz) > LARGEST_BYTES {
            return Err(format!("a segment at {:#x} is too far from the first, at {base:#x}", segment.p_paddr));
        }
        let data = elf.segment_data(segment).map_err(|error| format!("is cut short: {error}"))?;
        image.resize(offset as usize, 0);
        image.extend_from_slice(data);
    }
    check_header(&image)?;
    Ok(image)
}

/// The memory that an Image takes, by its header; none if it has no header.
pub(crate) fn size_bytes(image: &[u8]) -> Option<u64> {
    if image.len() < HEADER_BYTES || image.get(MAGIC_OFFSET..MAGIC_OFFSET + MAGIC.len()) != Some(MAGIC) {
        return None;
    }
    let bytes = image.get(IMAGE_SIZE_OFFSET..IMAGE_SIZE_OFFSET + 8)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// Holds what QEMU and boot loaders rely on: without the magic they take the file for something else, and with an
/// `image_size` of zero they ignore where it wants to lie.
fn check_header(image: &[u8]) -> Result<(), String> {
    let magic = image.get(MAGIC_OFFSET..MAGIC_OFFSET + MAGIC.len()).unwrap_or_default();
    if magic != MAGIC {
        return Err(format!(
            "has no arm64 Image header: expected \"ARM\\x64\" at offset {MAGIC_OFFSET} of the lowest segment, \
             found {magic:02x?}"
        ));
    }
    let image_size = size_bytes(image).unwrap_or(0);
    if image_size < image.len() as u64 {
        return Err(format!(
            "has a wrong arm64 Image header: image_size is {image_size}, expected at least the {} bytes of the file",
            image.len()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x4020_0000;

    /// A segment: physical address, bytes in the file, bytes in memory.
    struct Segment(u64, Vec<u8>, u64);

    /// A header whose image covers `size` bytes.
    fn header(size: u64) -> Vec<u8> {
        let mut header = vec![0; 64];
        header[IMAGE_SIZE_OFFSET..IMAGE_SIZE_OFFSET + 8].copy_from_slice(&size.to_le_bytes());
        header[MAGIC_OFFSET..MAGIC_OFFSET + 4].copy_from_slice(MAGIC);
        header
    }

    /// The smallest ELF file with these segments.
    fn elf(machine: u16, segments: &[Segment]) -> Vec<u8> {
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(16, 0);
        let mut data_at = 64 + 56 * segments.len() as u64;
        for half in [2, machine] {
            file.extend(half.to_le_bytes());
        }
        file.extend(1u32.to_le_bytes());
        for word in [0u64, 64, 0] {
            file.extend(word.to_le_bytes());
        }
        file.extend(0u32.to_le_bytes());
        for half in [64, 56, segments.len() as u16, 64, 0, 0] {
            file.extend(half.to_le_bytes());
        }
        for Segment(address, bytes, memory) in segments {
            file.extend(PT_LOAD.to_le_bytes());
            file.extend(5u32.to_le_bytes());
            let length = bytes.len() as u64;
            for word in [data_at, 0xffff_8000_0000_0000 + address, *address, length, *memory, 1] {
                file.extend(word.to_le_bytes());
            }
            data_at += length;
        }
        segments.iter().for_each(|segment| file.extend(&segment.1));
        file
    }

    #[test]
    fn segments_lie_at_their_physical_distance_and_bss_is_left_out() {
        let segments = [Segment(BASE + 100, vec![7, 8], 4096), Segment(BASE, header(8192), 64)];
        let image = flatten(&elf(EM_AARCH64, &segments)).expect("flat");
        assert_eq!(image.len(), 102);
        assert_eq!(image[..64], header(8192));
        assert_eq!(image[64..100], [0; 36]);
        assert_eq!(image[100..], [7, 8]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let cases: [(Vec<u8>, &str); 8] = [
            (b"not an ELF file at all".to_vec(), "not an ELF file"),
            (elf(62, &[Segment(BASE, header(64), 64)]), "built for ELF machine 62"),
            (elf(EM_AARCH64, &[]), "has no"),
            (elf(EM_AARCH64, &[Segment(BASE, vec![], 4096)]), "no loadable segment"),
            (elf(EM_AARCH64, &[Segment(BASE, vec![0; 64], 64)]), "expected \"ARM\\x64\" at offset 56"),
            (elf(EM_AARCH64, &[Segment(BASE, vec![0; 8], 8)]), "expected \"ARM\\x64\" at offset 56"),
            (elf(EM_AARCH64, &[Segment(BASE, header(63), 64)]), "image_size is 63"),
            (elf(EM_AARCH64, &[Segment(BASE, header(4096), 64), Segment(BASE + 63, vec![1], 1)]), "two segments share"),
        ];
        for (file, expected) in cases {
            let error = flatten(&file).expect_err(expected);
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_stray_or_truncated_segment_is_refused() {
        let far = elf(EM_AARCH64, &[Segment(BASE, header(4096), 64), Segment(1 << 40, vec![1], 1)]);
        assert!(flatten(&far).is_err_and(|error| error.contains("too far")));
        let mut short = elf(EM_AARCH64, &[Segment(BASE, header(4096), 64)]);
        short.truncate(short.len() - 1);
        assert!(flatten(&short).is_err_and(|error| error.contains("cut short")));
    }
}
