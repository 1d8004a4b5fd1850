//! Feeds the fuzz targets from a seed. `VELLUM_FUZZ_SECONDS=60 cargo test --release --test fuzz` gives each a minute;
//! `VELLUM_FUZZ_SEED=N` repeats one turn.

use std::path::PathBuf;

use image::fuzz;
use seed::Seed;
use seed::feed::feed;

/// Words that are often tables within `size` bytes, often leaves, sometimes anything.
fn words(random: &mut Seed, size: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size);
    while bytes.len() < size {
        let word = random.bits();
        let word = match random.index(8) {
            0..=2 => (word % size as u64) & !0xfff | 0b11,
            3..=4 => word & 0x0000_ffff_ffff_f000 | 0x703,
            5 => 0,
            6 => word & 0x0000_ffff_ffe0_0000 | 0x701,
            _ => word,
        };
        // Runs of one word, as real tables have.
        let run = 1 + if random.index(4) == 0 { random.index(64) } else { 0 };
        for _ in 0..run {
            bytes.extend(word.to_le_bytes());
        }
    }
    bytes
}

#[test]
fn walks_end_and_cover_the_input_space() {
    let make = |random: &mut Seed| {
        let head: Vec<u8> = random.bytes().take(4).collect();
        let size = 0x1000 << random.index(6);
        [head, words(random, size)].concat()
    };
    feed("walks_end", make, fuzz::walk_any);
}

#[test]
fn searches_end() {
    feed("searches_end", |random| words(random, 0x4_0000), fuzz::search_any);
}

#[test]
fn registers_name_roots_or_none() {
    let make = |random: &mut Seed| {
        // Each register is as a kernel has it, or anything.
        let mut bytes = words(random, 17 * 8);
        for at in [64, 128].into_iter().filter(|_| random.index(3) > 0).collect::<Vec<_>>() {
            bytes[at..at + 8].copy_from_slice(&(0x15_b510_3510u64 ^ 1 << random.index(64)).to_le_bytes());
        }
        bytes
    };
    feed("registers_name", make, fuzz::registers_any);
}

/// A core of one segment and one note, with some of its bytes changed.
#[test]
fn cores_open_or_say_why() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-core-{}", std::process::id()));
    let make = |random: &mut Seed| {
        let mut bytes = core();
        for _ in 0..random.index(8) {
            let end = 200 + random.index(4000);
            let at = random.index(end.min(bytes.len()));
            bytes[at] = random.bits() as u8;
        }
        let cut = random.index(2) * random.index(bytes.len());
        bytes.truncate(bytes.len() - cut);
        bytes
    };
    feed("cores_open", make, |bytes| fuzz::core_any(bytes, &path));
    let _ = std::fs::remove_file(path);
}

fn core() -> Vec<u8> {
    let mut bytes = vec![0; 64 + 2 * 56];
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(18, &183u16.to_le_bytes());
    put(32, &64u64.to_le_bytes());
    put(54, &56u16.to_le_bytes());
    put(56, &2u16.to_le_bytes());
    let text = b"OSRELEASE=6\nPAGESIZE=4096\nSYMBOL(swapper_pg_dir)=ffff800008001000\nNUMBER(VA_BITS)=48\n\
                 NUMBER(kimage_voffset)=0xffff800008000000\nNUMBER(PHYS_OFFSET)=0x0\n";
    let note_bytes = 24 + text.len().next_multiple_of(4);
    for (at, kind, offset, size) in [(64, 4u32, 176, note_bytes as u64), (120, 1, 0x1000, 0x4000)] {
        put(at, &kind.to_le_bytes());
        put(at + 8, &u64::to_le_bytes(offset));
        put(at + 32, &size.to_le_bytes());
        put(at + 40, &size.to_le_bytes());
    }
    bytes.extend(11u32.to_le_bytes());
    bytes.extend((text.len() as u32).to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(b"VMCOREINFO\0\0");
    bytes.extend(text);
    bytes.resize(0x1000, 0);
    bytes.extend(words(&mut Seed::new(1), 0x4000));
    bytes
}

#[test]
fn an_unchanged_core_opens() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("core-{}", std::process::id()));
    std::fs::write(&path, core()).expect("written");
    let source: image::Source = format!("core:{}", path.display()).parse().expect("a source");
    let mut machine = source.open(None, true).unwrap_or_else(|error| panic!("{error}"));
    let roots = machine.roots().expect("memory").roots;
    assert_eq!(roots.first().map(|root| root.address.bits()), Some(0x1000));
    std::fs::remove_file(path).expect("removed");
}

/// Replies of a stub, right in form, with any content; or any bytes.
#[test]
fn stubs_answer_or_do_not() {
    let make = |random: &mut Seed| {
        let mut bytes = Vec::new();
        for _ in 0..random.index(12) {
            let text = match random.index(8) {
                0 => b"PacketSize=100;multiprocess+".to_vec(),
                1 => b"l<target><reg name=\"TCR_EL1\"/><xi:include href=\"a\"/></target>".to_vec(),
                2 => b"mp01.01".to_vec(),
                3 => b"l".to_vec(),
                4 => b"OK".to_vec(),
                5 => b"0011223344556677".to_vec(),
                _ => {
                    let count = random.index(40);
                    random.bytes().take(count).filter(|byte| !b"#$}*".contains(byte)).collect()
                }
            };
            let sum = text.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
            bytes.extend([b"+$", &text[..], format!("#{sum:02x}").as_bytes()].concat());
        }
        bytes
    };
    feed("stubs_answer", make, fuzz::stub_any);
    feed("stubs_answer", |random| random.bytes().take(200).collect(), fuzz::stub_any);
}

/// Lines of QEMU's protocol with any content, or any bytes.
#[test]
fn qemus_answer_or_do_not() {
    let make = |random: &mut Seed| {
        let mut bytes = Vec::new();
        for turn in 0..random.index(12) {
            let line: &[u8] = match random.index(8) + 4 * usize::from(turn < 2) {
                0 => b"{\"event\": \"STOP\"}",
                1 => b"{\"error\": {\"desc\": 1}}",
                2 => b"{\"return\": [{\"label\": \"gdb\", \"filename\": \"disconnected:unix:/x,server=on\"}]}",
                3 => b"{\"return\": \"AS \\\"memory\\\"\\n  0000000040000000-ffffffffffffffff (prio 0, ram): r\\n\"}",
                4 => b"[[[[[[[[",
                5 | 6 => b"{\"return\": {}}",
                _ => b"{\"QMP\": {}, \"return\": {}}",
            };
            bytes.extend(line);
            bytes.push(b'\n');
        }
        if random.index(3) == 0 && !bytes.is_empty() {
            let at = random.index(bytes.len());
            bytes[at] = random.bits() as u8;
        }
        bytes
    };
    feed("qemus_answer", make, fuzz::qmp_any);
    feed("qemus_answer", |random| random.bytes().take(200).collect(), fuzz::qmp_any);
}

#[test]
fn texts_parse_or_do_not() {
    let make = |random: &mut Seed| {
        let parts: [&[u8]; 10] = [
            b"FlatView #0\n AS \"memory\", root: system\n",
            b"  0000000040000000-00000000bfffffff (prio 0, ram): r0\n",
            b"NUMBER(VA_BITS)=48\n",
            b"NUMBER(VA_BITS)=9999\n",
            b"SYMBOL(swapper_pg_dir)=ffff800009e21000\n",
            b"NUMBER(kimage_voffset)=0xffff7fffc7e00000\n",
            b"NUMBER(TCR_EL1_T1SZ)=0x10\n",
            b"PAGESIZE=65536\n",
            b"PAGESIZE=4096\n",
            b"NUMBER(PHYS_OFFSET)=-1\n",
        ];
        let mut bytes = Vec::new();
        for _ in 0..random.index(12) {
            bytes.extend(parts[random.index(parts.len())]);
        }
        if random.index(2) == 0 && !bytes.is_empty() {
            let at = random.index(bytes.len());
            bytes[at] = random.bits() as u8;
        }
        bytes
    };
    feed("texts_parse", make, fuzz::text_any);
}

/// A compressed kdump with some of its bytes changed, often flattened: pages of zeros and noise, called compressed in each way.
#[test]
fn kdumps_open_or_say_why() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-kdump-{}", std::process::id()));
    let make = |random: &mut Seed| {
        let mut bytes = kdump(random);
        for _ in 0..random.index(8) {
            let end = if random.index(2) == 0 { 4096 + 104 } else { bytes.len() };
            let at = random.index(end);
            bytes[at] = random.bits() as u8;
        }
        let cut = random.index(4) / 3 * random.index(bytes.len());
        bytes.truncate(bytes.len() - cut);
        if random.index(3) > 0 { bytes } else { flattened(random, &bytes) }
    };
    feed("kdumps_open", make, |bytes| fuzz::core_any(bytes, &path));
    let _ = std::fs::remove_file(path);
}

fn kdump(random: &mut Seed) -> Vec<u8> {
    let mut bytes = vec![0; 4096 * 4];
    bytes[..8].copy_from_slice(b"KDUMP   ");
    for (at, value) in [(8, 6u32), (428, 4096), (432, 1), (436, 2), (440, 64)] {
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    bytes[8192..8200].copy_from_slice(&u64::MAX.to_le_bytes());
    bytes[12288..12296].copy_from_slice(&random.bits().to_le_bytes());
    for place in 0..64u64 {
        let flags = [0u32, 1, 2, 4, 0x20][random.index(5)];
        let size = if flags == 0 { 4096 } else { 1 + random.index(300) as u32 };
        bytes.extend((4096 * 5 + place * 8).to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes.extend([0; 8]);
    }
    bytes.resize(4096 * 5, 0);
    bytes.extend(words(random, 0x2000));
    bytes
}

fn flattened(random: &mut Seed, bytes: &[u8]) -> Vec<u8> {
    let mut flat = b"makedumpfile\0\0\0\0".to_vec();
    flat.resize(4096, 0);
    let step = 1 + random.index(9000);
    for (place, chunk) in bytes.chunks(step).enumerate() {
        flat.extend(((place * step) as u64 ^ u64::from(random.one_in(50)) << random.index(64)).to_be_bytes());
        flat.extend((chunk.len() as u64).to_be_bytes());
        flat.extend(chunk);
    }
    flat.extend([0xff; 16]);
    flat
}

/// A page of a kdump, compressed in each way, with some of its bytes changed, or any bytes.
#[test]
fn pages_unpack_or_do_not() {
    let make = |random: &mut Seed| {
        let page = words(random, 0x1000);
        let (kind, packed) = match random.index(4) {
            0 => (0, miniz_oxide::deflate::compress_to_vec_zlib(&page, 6)),
            1 => (1, lzokay::compress::compress(&page).expect("packed")),
            2 => (2, snap::raw::Encoder::new().compress_vec(&page).expect("packed")),
            _ => (3, ruzstd::encoding::compress_to_vec(&page[..], ruzstd::encoding::CompressionLevel::Fastest)),
        };
        let mut bytes = [&[kind][..], &packed].concat();
        for _ in 0..random.index(6) {
            let at = random.index(bytes.len());
            bytes[at] = random.bits() as u8;
        }
        bytes
    };
    feed("pages_unpack", make, fuzz::page_any);
    feed("pages_unpack", |random| random.bytes().take(200).collect(), fuzz::page_any);
}
