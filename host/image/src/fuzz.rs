//! Entry points for inputs that nobody made on purpose: each takes any bytes, must return, and must not panic.
//!
//! They are plain functions, so that a fuzzer can call them and `cargo test` can too: `tests/fuzz.rs` feeds them for a
//! bounded number of turns, or for a minute.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use seed::Seed;
use vmsa::{AddressHalf, Layout, Level, PageSize, PhysAddr};

use crate::endpoint::Stream;
use crate::gdb::Session;
use crate::gdb::packet::Connection;
use crate::memory::{Bytes, Memory};
use crate::registers::{NAMES, Registers};
use crate::root::{Origin, Regime, Root};
use crate::search::search;
use crate::shape::Shape;
use crate::vmcoreinfo::VmcoreInfo;
use crate::walk::{Span, Visitor, walk};
use crate::{core, kdump, mtree, qmp};

/// Turns of a plain run.
const TURNS: u64 = 300;

/// Names the seed of a turn that panics.
struct Turn(&'static str, u64);

impl Drop for Turn {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("repeat with VELLUM_FUZZ_SEED={} cargo test fuzz {}", self.1, self.0);
        }
    }
}

/// Calls `target` with what `make` makes of each seed: a few, or for VELLUM_FUZZ_SECONDS, or of VELLUM_FUZZ_SEED alone.
pub fn feed(name: &'static str, make: impl Fn(&mut Seed) -> Vec<u8>, target: impl Fn(&[u8])) {
    let number = |variable: &str| std::env::var(variable).ok().and_then(|text| text.parse::<u64>().ok());
    let turn = |seed: u64| {
        let _turn = Turn(name, seed);
        target(&make(&mut Seed::new(seed)));
    };
    if let Some(seed) = number("VELLUM_FUZZ_SEED") {
        return turn(seed);
    }
    match number("VELLUM_FUZZ_SECONDS") {
        Some(seconds) => {
            let end = Instant::now() + Duration::from_secs(seconds);
            let first = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64);
            (first..).take_while(|_| Instant::now() < end).for_each(turn);
        }
        None => (0..TURNS).for_each(turn),
    }
}

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

/// A core file of any content, opened, searched for roots and read, at `path`.
pub fn core_any(bytes: &[u8], path: &Path) {
    if File::create(path).and_then(|mut file| file.write_all(bytes)).is_err() {
        return;
    }
    if let Ok(mut machine) = core::open(path) {
        // What the file says of its size may be far beyond it: only its beginning is looked at.
        let ranges = machine.memory.ranges().to_vec();
        for range in ranges.iter().take(4) {
            let _ = machine.memory.read(PhysAddr::new(range.start), &mut [0; 64]);
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
