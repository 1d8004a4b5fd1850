//! Dumps made here, as makedumpfile and QEMU lay them out: every compression, in one file and in several, flattened, damaged.

use std::fs::File;
use std::io::{self, Write};

use seed::Seed;

use super::*;

/// A file in memory.
struct Bytes(Vec<u8>);

impl Contents for Bytes {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let from = self.0.get(usize::try_from(offset).unwrap_or(usize::MAX)..).unwrap_or_default();
        let bytes = from.len().min(into.len());
        into[..bytes].copy_from_slice(&from[..bytes]);
        Ok(bytes)
    }

    #[expect(clippy::single_range_in_vec_init, reason = "one range")]
    fn data(&self) -> io::Result<Vec<Range<u64>>> {
        Ok(vec![0..self.0.len() as u64])
    }
}

const PAGE: usize = 4096;
const INFO: &[u8] = b"OSRELEASE=6\nNUMBER(VA_BITS)=48\n";

/// The content of a page: words that compress, each page another; every eighth page is noise, which does not.
fn content(page: u64, bytes: usize) -> Vec<u8> {
    let mut seed = Seed::new(page);
    let random = seed.bits();
    let mut word = || if page % 8 == 7 { seed.bits() } else { random };
    (0..bytes / 8).flat_map(|_| word().to_le_bytes()).collect()
}

fn pack(flags: u32, page: &[u8]) -> Vec<u8> {
    match flags {
        0x1 => miniz_oxide::deflate::compress_to_vec_zlib(page, 6),
        0x2 => lzokay::compress::compress(page).expect("packed"),
        0x4 => snap::raw::Encoder::new().compress_vec(page).expect("packed"),
        0x20 => ruzstd::encoding::compress_to_vec(page, ruzstd::encoding::CompressionLevel::Fastest),
        _ => page.to_vec(),
    }
}

/// A dump of `pages` pages of which the first 16 do not exist, and of the others each third is left out; `split` says of which
/// pages it has descriptors.
fn dump(flags: u32, page_bytes: usize, pages: u64, split: Option<Range<u64>>) -> Vec<u8> {
    let bitmap_blocks = 2 * (pages as usize).div_ceil(8 * page_bytes);
    let mut head = vec![0; page_bytes * (2 + bitmap_blocks)];
    let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"KDUMP   ");
    put(272, b"aarch64");
    for (at, value) in [(8, 6), (428, page_bytes), (432, 1), (436, bitmap_blocks), (440, pages as usize)] {
        put(at, &(value as u32).to_le_bytes());
    }
    let of_part = split.clone().unwrap_or(0..pages);
    put(page_bytes + 12, &u32::from(split.is_some()).to_le_bytes());
    let info = page_bytes + SUB_HEADER_BYTES;
    let longs = [(32, info as u64), (40, INFO.len() as u64), (80, of_part.start), (88, of_part.end), (96, pages)];
    for (at, value) in longs {
        put(page_bytes + at, &value.to_le_bytes());
    }
    put(info, INFO);
    let bitmap = page_bytes * 2;
    for page in 16..pages as usize {
        head[bitmap + page / 8] |= 1 << (page % 8);
        if page % 3 != 0 {
            head[bitmap + page_bytes * bitmap_blocks / 2 + page / 8] |= 1 << (page % 8);
        }
    }
    let present: Vec<u64> = (16..pages).filter(|page| page % 3 != 0 && of_part.contains(page)).collect();
    let mut offset = head.len() + present.len() * DESCRIPTOR_BYTES as usize;
    let mut data = Vec::new();
    for page in present {
        let plain = content(page, page_bytes);
        let packed = pack(flags, &plain);
        let (flags, packed) = if packed.len() < plain.len() { (flags, packed) } else { (0, plain) };
        head.extend((offset as u64).to_le_bytes());
        head.extend((packed.len() as u32).to_le_bytes());
        head.extend(flags.to_le_bytes());
        head.extend(0u64.to_le_bytes());
        offset += packed.len();
        data.extend(packed);
    }
    [head, data].concat()
}

fn opened(files: Vec<Vec<u8>>) -> Result<Machine, Error> {
    open(files.into_iter().map(|bytes| Box::new(Bytes(bytes)) as Box<dyn Contents>).collect())
}

fn read(machine: &mut Machine, at: u64, bytes: usize) -> Option<Vec<u8>> {
    let mut into = vec![0xa5; bytes];
    machine.memory.read(PhysAddr::new(at), &mut into).ok().map(|()| into)
}

/// All that a dump made by `dump` must say.
fn hold(machine: &mut Machine, page_bytes: usize, pages: u64) {
    let size = page_bytes as u64;
    for page in (0..pages + 10).chain([10 * pages, u64::MAX / size]) {
        let expected = match page {
            0..16 => None,
            _ if page >= pages => None,
            _ if page % 3 == 0 => Some(vec![0; page_bytes]),
            _ => Some(content(page, page_bytes)),
        };
        assert_eq!(read(machine, page * size, page_bytes), expected, "page {page} of {pages}");
    }
    let across = read(machine, 20 * size - 8, 16).expect("two pages");
    assert_eq!(across, [&content(19, page_bytes)[page_bytes - 8..], &content(20, page_bytes)[..8]].concat());
    assert_eq!(machine.memory.ranges().first(), Some(&(16 * size..pages * size)));
    assert_eq!(machine.memory.held().first(), Some(&(16 * size..18 * size)));
    assert_eq!(machine.vmcoreinfo.as_ref().and_then(|info| info.number("VA_BITS")), Some(48));
}

#[test]
fn pages_of_every_compression_are_read() {
    for flags in [0, 0x1, 0x2, 0x4, 0x20] {
        for page_bytes in [0x1000, 0x4000, 0x1_0000] {
            hold(&mut opened(vec![dump(flags, page_bytes, 40, None)]).expect("a dump"), page_bytes, 40);
        }
    }
}

/// One bit below, at and above a unit of the bitmap, and several units.
#[test]
fn pages_are_counted_across_units_of_the_bitmap() {
    let unit = 8 * UNIT as u64;
    for pages in [unit - 1, unit, unit + 1, 3 * unit + 5] {
        let mut machine = opened(vec![dump(0x1, PAGE, 40, None)]).expect("a dump");
        hold(&mut machine, PAGE, 40);
        let part = Part {
            data: Vec::from_iter(std::iter::once(0..u64::MAX)),
            file: Box::new(Bytes(vec![0b1010_0101; pages.div_ceil(8) as usize])),
            page_bytes: PAGE as u64,
            pages: 0..pages,
            existing: 0,
            present: 0,
            descriptors: 0,
            counts: (0..pages.div_ceil(unit)).map(|place| place * unit / 2).collect(),
            first: 0,
        };
        for page in [0, 1, 7, 8, unit - 2, unit - 1, unit, unit + 1, pages - 1].into_iter().filter(|page| *page < pages)
        {
            let before = page / 8 * 4 + [0, 1, 1, 2, 2, 2, 3, 3][(page % 8) as usize];
            assert_eq!(part.place(page), Some((before, 0b1010_0101 >> (page % 8) & 1 != 0)), "{page} of {pages}");
        }
    }
}

#[test]
fn parts_of_a_split_dump_are_one() {
    for at in [0, 16, 17, 25, 39, 40] {
        let parts = [0..at, at..40].map(|pages| dump(0x1, PAGE, 40, Some(pages)));
        hold(&mut opened(parts.to_vec()).expect("a dump"), PAGE, 40);
    }
    let alone = opened(vec![dump(0x1, PAGE, 40, Some(20..40))]);
    assert_eq!(read(&mut alone.expect("a dump"), 19 * PAGE as u64, 8), None, "a part alone has its pages alone");
    let other = opened(vec![dump(0x1, PAGE, 40, Some(0..20)), dump(0x1, 0x4000, 40, Some(20..40))]);
    assert!(other.err().is_some_and(|error| error.to_string().contains("parts of different dumps")));
}

/// The records of a flattened file: offset and bytes.
fn flat(records: &[(u64, &[u8])]) -> Vec<u8> {
    let mut bytes = b"makedumpfile\0\0\0\0".to_vec();
    bytes.resize(4096, 0);
    for (offset, record) in records {
        bytes.extend(offset.to_be_bytes());
        bytes.extend((record.len() as u64).to_be_bytes());
        bytes.extend(*record);
    }
    bytes.extend([0xff; 16]);
    bytes
}

#[test]
fn a_flattened_dump_is_the_dump() {
    let whole = dump(0x1, PAGE, 40, None);
    let mut records: Vec<(u64, &[u8])> = (0..).map(|place| place * 1000).zip(whole.chunks(1000)).collect();
    records.reverse();
    let bytes = flat(&records);
    assert!(is_flattened(&Bytes(bytes.clone())) && !is_flattened(&Bytes(whole)) && !is_one(&Bytes(bytes.clone())));
    let path = std::env::temp_dir().join(format!("vellum-flat-{}", std::process::id()));
    File::create(&path).and_then(|mut file| file.write_all(&bytes)).expect("written");
    hold(&mut crate::core::open(&path).expect("a dump"), PAGE, 40);
    std::fs::remove_file(path).expect("removed");
}

/// Against a plain array: what is written last counts, and what nobody wrote is zeros.
#[test]
fn records_that_overlap_are_put_in_the_order_of_time() {
    for turn in 0..300 {
        let mut seed = Seed::new(turn);
        let mut written = Vec::new();
        let mut records = Vec::new();
        for number in 1..=8u8 {
            let (offset, size) = (seed.index(60), seed.index(20));
            if size > 0 && written.len() < offset + size {
                written.resize(offset + size, 0);
            }
            written.iter_mut().skip(offset).take(size).for_each(|byte| *byte = number);
            records.push((offset as u64, vec![number; size]));
        }
        let records: Vec<(u64, &[u8])> = records.iter().map(|(offset, bytes)| (*offset, &bytes[..])).collect();
        let flattened = Flattened::new(Box::new(Bytes(flat(&records)))).expect("records");
        let mut read = vec![0xa5; written.len()];
        flattened.read_exact_at(&mut read, 0).expect("read");
        assert_eq!(read, written, "{turn}: {records:?}");
        assert_eq!(flattened.read_at(&mut [0; 4], written.len() as u64).ok(), Some(0), "its end");
    }
}

#[test]
fn what_is_wrong_with_a_dump_is_one_line() {
    let line = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = dump(0x1, PAGE, 40, None);
        change(&mut bytes);
        opened(vec![bytes]).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let put =
        |at: usize, value: u32| move |bytes: &mut Vec<u8>| bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    assert_eq!(line(&|_| {}), "");
    assert!(line(&|bytes| bytes.truncate(HEADER_BYTES - 1)).contains("its header: "));
    assert!(line(&|bytes| bytes.truncate(PAGE + SUB_HEADER_BYTES - 1)).contains("its sub-header: "));
    assert!(line(&|bytes| bytes.truncate(3 * PAGE + 4)).contains("its bitmaps: "));
    for (at, value) in [(8, 0), (8, 7), (8, 6 << 24), (428, 0), (428, 2048), (428, 5000), (428, 1 << 17)] {
        assert!(line(&put(at, value)).contains("expected 1 to 6, and 4K to 64K"), "{at} {value}");
    }
    assert!(line(&|bytes| bytes[272..279].copy_from_slice(b"x86_64\0")).contains("a dump of x86_64, expected aarch64"));
    for (at, value) in [(436, 0), (436, u32::MAX), (PAGE + 96, 8 * PAGE as u32 + 1), (PAGE + 103, 1)] {
        assert!(line(&put(at, value)).contains(" pages in a bitmap of "), "{at} {value}: {}", line(&put(at, value)));
    }
    // Every other page: more pieces than there are.
    let pieces = Part {
        data: Vec::from_iter(std::iter::once(0..u64::MAX)),
        file: Box::new(Bytes(vec![0x55; MOST_RUNS / 4 + 1])),
        page_bytes: 0x1000,
        pages: 0..2 * MOST_RUNS as u64 + 8,
        existing: 0,
        present: 0,
        descriptors: 0,
        counts: Vec::new(),
        first: 0,
    };
    assert!(pieces.runs(0).is_err_and(|error| error.to_string().contains("more than 1048576 pieces")));
    for (end, is_damaged) in [(0, false), (u64::MAX, true), (1 << 62, true)] {
        let mut bytes = flat(&[(8, b"x")]);
        bytes[4096..4104].copy_from_slice(&end.to_be_bytes());
        assert_eq!(Flattened::new(Box::new(Bytes(bytes))).is_err(), is_damaged, "{end:#x}");
    }
    assert!(Flattened::new(Box::new(Bytes(flat(&[])[..4100].to_vec()))).is_err());
}

/// Damage to descriptors and pages costs those pages alone.
#[test]
fn damaged_pages_are_not_there() {
    let descriptors = 4 * PAGE;
    for (at, value) in
        [(0, u64::MAX), (8, 0), (8, 8 | 0x40 << 32), (8, 4097 | 1 << 32), (8, 9 | 3 << 32), (8, 20 | 2 << 32)]
    {
        let mut bytes = dump(0x1, PAGE, 40, None);
        bytes[descriptors + at..descriptors + at + 8].copy_from_slice(&u64::to_le_bytes(value));
        let mut machine = opened(vec![bytes]).expect("a dump");
        assert_eq!(read(&mut machine, 16 * PAGE as u64, PAGE), None, "{at} {value:#x}");
        assert_eq!(read(&mut machine, 17 * PAGE as u64, PAGE), Some(content(17, PAGE)), "{at} {value:#x}");
    }
    let bomb = pack(0x1, &vec![0; 100 * PAGE]);
    assert!(!unpack(0x1, &bomb, &mut [0; PAGE]), "it is longer than a page");
    for flags in [0x1, 0x2, 0x4, 0x20] {
        let packed = pack(flags, &content(1, PAGE));
        for bytes in [PAGE - 8, PAGE + 8] {
            assert!(!unpack(flags.into(), &packed, &mut vec![0; bytes]), "{flags}: a page of {bytes}");
        }
        assert!(!unpack(flags.into(), &packed[..packed.len() / 2], &mut [0; PAGE]), "{flags}: half of it");
    }
}

/// A file of this many bytes, of which all behind the headers is a hole; it counts how often it is read.
struct Hole {
    head: Vec<u8>,
    bytes: u64,
    reads: std::rc::Rc<std::cell::Cell<usize>>,
}

impl Contents for Hole {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.reads.set(self.reads.get() + 1);
        let most = into.len().min(usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(usize::MAX));
        into[..most].fill(0);
        let head = self.head.get(offset as usize..).unwrap_or_default();
        let from_head = head.len().min(most);
        into[..from_head].copy_from_slice(&head[..from_head]);
        Ok(most)
    }

    fn data(&self) -> io::Result<Vec<Range<u64>>> {
        Ok(Vec::from_iter(std::iter::once(0..self.head.len() as u64)))
    }
}

/// Two bitmaps of a GiB each, none of whose pages exist: the file may be small.
#[test]
fn holes_of_a_bitmap_are_not_read() {
    let hole = |blocks: u32, missing: u64| {
        let mut head = dump(1, 0x1000, 8, None)[..0x2000].to_vec();
        let bytes = u64::from(blocks) * 0x1000;
        for (at, value) in [(436, blocks), (440, (bytes * 4) as u32)] {
            head[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        head[0x1000 + 96..0x1000 + 104].copy_from_slice(&(bytes * 4).to_le_bytes());
        let reads = std::rc::Rc::default();
        let file = Hole { head, bytes: 0x2000 + bytes - missing, reads: std::rc::Rc::clone(&reads) };
        (open(vec![Box::new(file)]).map(|machine| machine.memory.ranges().len()), reads.get())
    };
    const MOST: u32 = (2 * MOST_BITMAP_BYTES / 0x1000) as u32;
    for blocks in [2, MOST] {
        let (ranges, reads) = hole(blocks, 0);
        assert_eq!(ranges, Ok(0), "{blocks} blocks");
        assert!(reads < 100, "{reads} reads of {blocks} blocks");
        let line = hole(blocks, 1).0.expect_err("the bitmap ends before its last byte").to_string();
        assert!(line.contains("its bitmaps"), "{line}");
    }
    let line = hole(MOST + 2, 0).0.expect_err("more than any machine has").to_string();
    assert!(line.contains("expected 1073741824 at most"), "{line}");
}
