//! Guests of a few instructions at the highest exception level that the machine has: they write system registers, say that
//! they are ready, and rest. Their page tables are made here.

use std::env;
use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::guest::{Guest, Options};
use crate::tables::Image;

/// Where the code begins, and where QEMU's first serial port is.
pub(crate) const BASE: u64 = 0x4008_0000;
pub(crate) const SERIAL: u64 = 0x0900_0000;
const WORDS: &str = "guest: ready\n";
/// Bytes of the headers before the image: of the file, and of its one segment.
const HEADER_BYTES: usize = 64 + 56;

/// op1, CRn, CRm and op2 of a system register whose op0 is 3.
pub(crate) type Register = (u32, u32, u32, u32);

/// An image whose first page is for the code.
pub(crate) fn image() -> Image {
    let mut image = Image::new(BASE);
    image.take(0x1000);
    image
}

/// Boots a guest that writes these registers; `machine` is added to QEMU's `-M virt`.
pub(crate) fn boot(mut image: Image, machine: &'static str, registers: &[(Register, u64)]) -> Result<Guest, String> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    for (place, word) in program(registers).chunks(2).enumerate() {
        let low_first = u64::from(word[0]) | u64::from(word.get(1).copied().unwrap_or(0)) << 32;
        image.put(BASE + place as u64 * 8, low_first);
    }
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let kernel = env::temp_dir().join(format!("vellum-bare-{}-{number}", std::process::id()));
    fs::write(&kernel, elf(&image)).map_err(|error| error.to_string())?;
    let options = Options {
        kernel: kernel.clone(),
        initramfs: None,
        append: String::new(),
        cpu: "max,pauth-impdef=on".to_owned(),
        cpus: 1,
        machine,
        is_ready: |line| line == "guest: ready",
    };
    let booted = Guest::boot(&options);
    let _ = fs::remove_file(kernel);
    booted.map(|(guest, _)| guest)
}

/// QEMU begins an ELF file at EL3 where there is one; what has no header, at EL2.
fn elf(image: &Image) -> Vec<u8> {
    let mut file = [0; HEADER_BYTES];
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"\x7fELF\x02\x01\x01");
    // An executable for AArch64, of one segment to be loaded.
    [(16, 2), (18, 183), (20, 1), (52, 64), (54, 56), (56, 1), (64, 1), (68, 7)]
        .into_iter()
        .for_each(|(at, value): (usize, u16)| put(at, &value.to_le_bytes()));
    let size = image.bytes.len() as u64;
    [(24, BASE), (32, 64), (72, HEADER_BYTES as u64), (80, BASE), (88, BASE), (96, size), (104, size)]
        .into_iter()
        .for_each(|(at, value): (usize, u64)| put(at, &value.to_le_bytes()));
    [&file[..], &image.bytes].concat()
}

/// The registers, then the words, then rest.
fn program(registers: &[(Register, u64)]) -> Vec<u32> {
    let mut words = Vec::new();
    for ((op1, crn, crm, op2), value) in registers {
        words.extend(set(0, *value));
        words.push(0xd518_0000 | op1 << 16 | crn << 12 | crm << 8 | op2 << 5);
        words.push(0xd503_3fdf); // isb
    }
    words.extend(set(1, SERIAL));
    for byte in WORDS.bytes() {
        words.extend(set(0, byte.into()));
        words.push(0x3900_0000 | 1 << 5); // strb w0, [x1]
    }
    words.extend([0xd503_207f, 0x17ff_ffff]); // wfi; b back to it
    words
}

/// movz and movk of four halves into a register.
fn set(register: u32, value: u64) -> [u32; 4] {
    [0, 1, 2, 3].map(|half: u32| {
        let op = if half == 0 { 0xd280_0000 } else { 0xf280_0000 };
        let bits = u32::from((value >> (16 * half)) as u16);
        op | half << 21 | bits << 5 | register
    })
}
