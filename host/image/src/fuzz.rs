//! Entry points for inputs that nobody made on purpose: each takes any bytes, must return, and must not panic.
//!
//! They are plain functions, so that a fuzzer can call them and `cargo test` can too: `tests/fuzz.rs` feeds them for a
//! bounded number of turns, or for a minute (`seed::feed`).

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use vmsa::{AddressHalf, Layout, Level, PageSize, PhysAddr};

use crate::endpoint::Stream;
use crate::file::FileMemory;
use crate::gdb::Session;
use crate::gdb::packet::Connection;
use crate::machine::Machine;
use crate::memory::{Bytes, END, Memory};
use crate::registers::{NAMES, Registers};
use crate::root::{Origin, Regime, Root};
use crate::search::search;
use crate::shape::Shape;
use crate::vmcoreinfo::VmcoreInfo;
use crate::walk::{Span, Visitor, walk};
use crate::{core, kdump, mtree, qmp};

/// Sees that spans follow one another without a gap.
struct Cover {
    shape: Shape,
    next: Option<u64>,
}

impl Visitor for Cover {
    fn span(&mut self, span: &Span) {
        assert_eq!(Some(span.input), self.next, "spans do not follow one another");
        assert!(span.count > 0);
        self.next = span.input.checked_add(span.count << self.shape.shift(span.level));
    }
}

/// A shape that these bytes choose; most choices are ones that exist.
fn shape(bytes: [u8; 4]) -> Option<Shape> {
    let page_size = PageSize::ALL[usize::from(bytes[0]) % 3];
    let layout = [Layout::Bits48, Layout::Lpa, Layout::Lpa2][usize::from(bytes[1]) % 3];
    let input_bits = 16 + u32::from(bytes[2]) % 40;
    let half = if bytes[3] & 1 == 0 { AddressHalf::Lower } else { AddressHalf::Upper };
    match bytes[3] >> 5 {
        0 => Shape::stage2(page_size, layout, input_bits, Level::ALL[usize::from(bytes[3] >> 1) % 5]).ok(),
        _ => Shape::stage1(page_size, layout, input_bits, half).ok(),
    }
}

fn memory_of(bytes: &[u8]) -> Bytes<&[u8]> {
    Bytes::new(0, bytes)
}

/// A walk through any memory, in any shape: it covers the input space exactly once.
pub fn walk_any(bytes: &[u8]) {
    let Some((head, memory)) = bytes.split_first_chunk() else { return };
    let Some(shape) = shape(*head) else { return };
    let root = Root::bare(Regime::El1Upper, PhysAddr::new(0), shape, Origin::Flags);
    let mut cover = Cover { shape, next: Some(shape.base()) };
    let walked = walk(&mut memory_of(memory), &root, 0, u64::MAX, &mut cover);
    assert_eq!(walked, Ok(()));
    let root_bytes = shape.entries(shape.start) * 8;
    if memory.len() >= root_bytes {
        assert_eq!(cover.next, shape.last().checked_add(1), "the walk ended early");
    }
}

/// A search through any memory.
pub fn search_any(bytes: &[u8]) {
    let found = search(&mut memory_of(bytes), &mut |_, _| {});
    assert!(found.is_ok());
}

/// A file of any content at `path`, opened as a core, as `/proc/kcore` is, and as plain memory at the end of all addresses; searched for
/// roots and read.
pub fn core_any(bytes: &[u8], path: &Path) {
    if File::create(path).and_then(|mut file| file.write_all(bytes)).is_err() {
        return;
    }
    let kcore = || File::open(path).ok().and_then(|file| core::of_elf(Box::new(file), None).ok());
    let base = END.saturating_sub(bytes.len() as u64);
    let raw = || FileMemory::open(path, base).ok().map(|memory| Machine::new(Box::new(memory)));
    for mut machine in [core::open(path).ok(), kcore(), raw()].into_iter().flatten() {
        // What the file says of its size may be far beyond it: only its beginning is looked at.
        let ranges = machine.memory.ranges().to_vec();
        for range in ranges.iter().take(4) {
            let _ = machine.memory.read(PhysAddr::new(range.start), &mut [0; 64]);
            let _ = machine.memory.read(PhysAddr::new(range.end - 1), &mut [0; 64]);
        }
        let size: u64 = ranges.iter().map(|range| range.end - range.start).fold(0, u64::saturating_add);
        if size < 1 << 24 {
            let _ = machine.roots();
        }
    }
}

/// A page of a kdump: a byte that chooses how it is compressed, and what is compressed.
pub fn page_any(bytes: &[u8]) {
    let Some((kind, packed)) = bytes.split_first() else { return };
    let _ = kdump::unpack([1, 2, 4, 0x20][usize::from(kind % 4)], packed, &mut [0; 0x1000]);
}

/// A stub that sends any bytes.
pub fn stub_any(bytes: &[u8]) {
    let connection = Connection::over("stub".to_owned(), Box::new(Canned(bytes.iter().copied().collect())));
    let Ok(mut session) = Session::over(connection) else { return };
    let _ = session.read_cpus();
    let _ = session.read_physical_from_now_on();
    let _ = session.read(PhysAddr::new(0), &mut [0; 256]);
}

/// Any values of registers.
pub fn registers_any(bytes: &[u8]) {
    let mut registers = Registers::default();
    for (name, chunk) in NAMES.iter().zip(bytes.chunks_exact(8)) {
        registers.set(name, chunk.try_into().map_or(0, u64::from_le_bytes));
    }
    for root in registers.roots(&Origin::Flags).roots {
        let _ = walk(
            &mut memory_of(bytes),
            &root,
            0,
            u64::MAX,
            &mut Cover { shape: root.shape, next: Some(root.shape.base()) },
        );
    }
}

/// Any text, where a kernel or an emulator would have put its own.
pub fn text_any(bytes: &[u8]) {
    let info = VmcoreInfo::parse(bytes);
    let _ = info.root(&mut memory_of(bytes));
    let _ = mtree::memory(&String::from_utf8_lossy(bytes));
}

/// A QEMU that sends any bytes.
pub fn qmp_any(bytes: &[u8]) {
    qmp::any(Box::new(Canned(bytes.iter().copied().collect())));
}

/// Bytes that come as from a socket, a few at a time; what is written goes nowhere.
pub(crate) struct Canned(pub(crate) VecDeque<u8>);

impl Stream for Canned {}

impl Read for Canned {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let few = into.len().min(3);
        self.0.read(&mut into[..few])
    }
}

impl Write for Canned {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
