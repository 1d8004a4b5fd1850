//! What a package calls `vmlinuz`: an Image, one compressed with gzip, or one in an EFI program that unpacks it (zboot).
//!
//! Older QEMU start no zboot, and the tests read the Image's header, so what is compressed is unpacked here.
//!
//! ```text
//!  0 "MZ"   4 "zimg"   8 offset of the payload   12 its bytes   24 how it is compressed, ended by zero
//! ```

use std::{path::Path, process::Command};

use fs_err::{self as fs, File};

use crate::outcome::Failure;

/// An Image says so at byte 56.
const MAGIC: (usize, &[u8]) = (56, b"ARM\x64");

/// What a kernel's file holds.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Kernel<'a> {
    Image,
    /// The program that unpacks it, and what is packed.
    Packed(&'static str, &'a [u8]),
}

/// Makes the file an Image if it is none.
pub(super) fn unpack(path: &Path) -> Result<(), Failure> {
    let bytes = fs::read(path)?;
    match recognise(&bytes).map_err(|line| Failure::failed(format!("{}: {line}", path.display())))? {
        Kernel::Image => Ok(()),
        Kernel::Packed(program, packed) => decompress(program, packed, path),
    }
}

fn recognise(bytes: &[u8]) -> Result<Kernel<'_>, String> {
    if bytes.get(MAGIC.0..).is_some_and(|rest| rest.starts_with(MAGIC.1)) {
        return Ok(Kernel::Image);
    }
    if bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(Kernel::Packed("gzip", bytes));
    }
    if !bytes.starts_with(b"MZ") || bytes.get(4..8) != Some(b"zimg") {
        return Err("neither an arm64 Image nor a compressed one".to_owned());
    }
    let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(|word| u32::from_le_bytes(word) as usize);
    let payload = word(8).zip(word(12)).and_then(|(offset, size)| bytes.get(offset..offset.checked_add(size)?));
    let payload = payload.ok_or("its compressed part reaches beyond its end")?;
    let name = bytes[24..].split(|byte| *byte == 0).next().unwrap_or_default();
    let program = match name {
        b"gzip" => "gzip",
        b"zstd" => "zstd",
        b"xzkern" | b"xz" | b"lzma" => "xz",
        b"lz4" => "lz4",
        _ => return Err(format!("compressed with {}, which is not known here", String::from_utf8_lossy(name))),
    };
    Ok(Kernel::Packed(program, payload))
}

/// Unpacks into a file beside, which takes the place of the compressed one.
pub(super) fn decompress(program: &str, packed: &[u8], path: &Path) -> Result<(), Failure> {
    let (from, to) = (path.with_extension("packed"), path.with_extension("image"));
    fs::write(&from, packed)?;
    let (input, output) = (File::open(&from)?, File::create(&to)?);
    let status =
        Command::new(program).args(["-d", "-c"]).stdin(input.into_parts().0).stdout(output.into_parts().0).status();
    let _ = fs::remove_file(&from);
    match status {
        Ok(status) if status.success() => Ok(fs::rename(&to, path)?),
        Ok(_) => Err(Failure::failed(format!("{program} cannot unpack {}", path.display()))),
        Err(_) => Err(Failure::host_lacks(format!("the kernel is compressed: {program} is needed"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        bytes[MAGIC.0..MAGIC.0 + 4].copy_from_slice(MAGIC.1);
        bytes
    }

    fn zboot(name: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 512];
        bytes[..2].copy_from_slice(b"MZ");
        bytes[4..8].copy_from_slice(b"zimg");
        bytes[8..12].copy_from_slice(&512u32.to_le_bytes());
        bytes[12..16].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        bytes[24..24 + name.len()].copy_from_slice(name);
        [&bytes, payload, b"what follows is not the payload"].concat()
    }

    #[test]
    fn kernels_are_recognised() {
        assert_eq!(recognise(&image()), Ok(Kernel::Image));
        assert_eq!(recognise(&[0x1f, 0x8b, 8]), Ok(Kernel::Packed("gzip", &[0x1f, 0x8b, 8])));
        assert_eq!(recognise(&zboot(b"zstd", b"abc")), Ok(Kernel::Packed("zstd", b"abc")));
        assert!(recognise(&zboot(b"lzo", b"abc")).is_err_and(|line| line.contains("lzo")));
        assert!(recognise(b"\x7fELF").is_err());
        assert!(recognise(&zboot(b"gzip", b"abc")[..513]).is_err_and(|line| line.contains("beyond")));
        assert!(recognise(&zboot(b"gzip", b"abc")[..10]).is_err());
    }
}
