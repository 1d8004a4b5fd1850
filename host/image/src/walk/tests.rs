//! Walks over small hand-made tables, and over hostile ones.

use seed::Seed;
use vmsa::{AddressHalf, Layout, PageSize};

use super::*;
use crate::memory::Bytes;
use crate::root::{Origin, Regime};
use crate::shape::Shape;

/// Memory from address 0, of these words.
fn of_words(words: &[u64]) -> Bytes<Vec<u8>> {
    Bytes::new(0, words.iter().flat_map(|word| word.to_le_bytes()).collect())
}

#[derive(Default)]
struct Record {
    spans: Vec<(u64, i8, u64, u64)>,
    obstacles: Vec<(u64, Obstacle)>,
    tables: usize,
    total: u64,
}

impl Visitor for Record {
    fn span(&mut self, span: &Span) {
        self.total += 1;
        if self.spans.len() < 100 {
            self.spans.push((span.input, span.level.number(), span.descriptor.bits(), span.count));
        }
    }

    fn table(&mut self, _: &Table, _: &[Descriptor]) {
        self.tables += 1;
    }

    fn obstacle(&mut self, table: &Table, obstacle: Obstacle) {
        if self.obstacles.len() < 100 {
            self.obstacles.push((table.input, obstacle));
        }
    }
}

/// 4 KiB pages, 39 bits: three levels, the root at 0x1000.
fn root() -> Root {
    let shape = Shape::stage1(PageSize::Size4K, Layout::Bits48, 39, AddressHalf::Lower).expect("a shape");
    Root::bare(Regime::El1Lower, PhysAddr::new(0x1000), shape, Origin::Flags)
}

fn record(memory: &mut Bytes<Vec<u8>>, first: u64, last: u64) -> Record {
    let mut record = Record::default();
    walk(memory, &root(), first, last, &mut record).expect("memory that can be read");
    record
}

/// Tables at 0x1000 (root), 0x2000, 0x3000 and so on, with these descriptors: (table, index, descriptor).
fn memory(tables: usize, descriptors: &[(usize, usize, u64)]) -> Bytes<Vec<u8>> {
    let mut words = vec![0; (tables + 1) * 512];
    for &(table, index, descriptor) in descriptors {
        words[table * 512 + index] = descriptor;
    }
    of_words(&words)
}

#[test]
fn leaves_and_holes_come_in_order() {
    let mut memory = memory(3, &[(1, 1, 0x2003), (2, 0, 0x4000_0701), (2, 511, 0x3003), (3, 511, 0x5000_0703)]);
    let record = record(&mut memory, 0, u64::MAX);
    assert_eq!(record.tables, 3);
    assert_eq!(
        record.spans,
        [
            (0, 1, 0, 1),
            (0x4000_0000, 2, 0x4000_0701, 1),
            (0x4020_0000, 2, 0, 510),
            (0x7fe0_0000, 3, 0, 511),
            (0x7fff_f000, 3, 0x5000_0703, 1),
            (0x8000_0000, 1, 0, 510),
        ]
    );
}

#[test]
fn a_range_limits_what_is_read() {
    let mut memory = memory(3, &[(1, 0, 0x9003), (1, 1, 0x2003), (2, 0, 0x4000_0701), (2, 1, 0x3003)]);
    let record = record(&mut memory, 0x4000_0000, 0x401f_ffff);
    assert_eq!((record.spans, record.tables), (vec![(0x4000_0000, 2, 0x4000_0701, 1)], 2));
    assert!(record.obstacles.is_empty(), "the table outside memory is outside the range too");
}

#[test]
fn a_table_outside_memory_is_a_hole_with_a_finding() {
    let record = record(&mut memory(1, &[(1, 3, 0xffff_ffff_f003)]), 0, u64::MAX);
    assert_eq!(record.obstacles, [(0xc000_0000, Obstacle::Outside)]);
    assert_eq!(record.spans, [(0, 1, 0, 3), (0xc000_0000, 1, 0, 1), (0x1_0000_0000, 1, 0, 508)]);
}

#[test]
fn a_root_outside_memory_is_a_finding() {
    let record = record(&mut of_words(&[0; 8]), 0, u64::MAX);
    assert_eq!(record.obstacles, [(0, Obstacle::Outside)]);
}

#[test]
fn a_table_that_leads_to_itself_is_not_followed() {
    let record = record(&mut memory(2, &[(1, 0, 0x1003), (1, 1, 0x2003), (2, 5, 0x2003)]), 0, u64::MAX);
    assert_eq!(record.obstacles, [(0, Obstacle::Loop), (0x4000_0000 + 5 * 0x20_0000, Obstacle::Loop)]);
}

#[test]
fn a_uniform_table_shared_everywhere_is_walked_once() {
    let mut all = Vec::new();
    for index in 0..512 {
        all.extend([(1, index, 0x2003), (2, index, 0x3003), (3, index, 0x7703)]);
    }
    let record = record(&mut memory(3, &all), 0, u64::MAX);
    assert_eq!(record.tables, 3);
    assert_eq!(record.spans[0], (0, 3, 0x7703, 512));
    assert_eq!(record.spans[1], (0x20_0000, 3, 0x7703, 512));
    assert_eq!(record.total, 512 + 511);
}

/// 512 × 512 links to tables that are not uniform would be 134 million spans.
#[test]
fn a_shared_table_that_is_not_uniform_is_walked_only_so_often() {
    let mut all = Vec::new();
    for index in 0..512 {
        all.extend([(1, index, 0x2003), (2, index, 0x3003), (3, index, (index as u64) << 12 | 0x703)]);
    }
    let record = record(&mut memory(3, &all), 0, u64::MAX);
    assert!(record.tables <= MOST_REPEATS as usize + 3, "{}", record.tables);
    assert!(record.obstacles.iter().any(|(_, obstacle)| *obstacle == Obstacle::Repeated));
}

/// Random words, half of them made into tables that lie in memory: every walk must end.
#[test]
fn random_memory_ends() {
    for seed in 1..6 {
        let mut seed = Seed::new(seed);
        let word = |word: u64| if word >> 60 < 8 { word & 0x7_f000 | 0b11 } else { word };
        let mut words: Vec<u64> = (0..128 * 512).map(|_| word(seed.bits())).collect();
        words[..512].fill(0);
        let record = record(&mut of_words(&words), 0, u64::MAX);
        assert!(record.tables > 0);
    }
}
