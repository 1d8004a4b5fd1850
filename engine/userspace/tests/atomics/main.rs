//! Which instructions read and write in one access: every word against the encodings of the Arm ARM.

use std::cell::Cell;

use a64::instruction::Instruction;
use vellum_userspace::{Access, Kind, Text, is_atomic};
use vellum_vmsa::{PhysAddr, Syndrome};

/// Encodings as the manual draws them, from bit 31 to bit 0; a dot is either. (DDI 0487, C4.1.94)
const ATOMICS: &[(&str, &str)] = &[
    // Atomic memory operations: size, 111, V, 00, A, R, 1, Rs, o3, opc, 00, Rn, Rt.
    ("LDADD", "..111000..1.....000000.........."),
    ("LDCLR", "..111000..1.....000100.........."),
    ("LDEOR", "..111000..1.....001000.........."),
    ("LDSET", "..111000..1.....001100.........."),
    ("LDSMAX", "..111000..1.....010000.........."),
    ("LDSMIN", "..111000..1.....010100.........."),
    ("LDUMAX", "..111000..1.....011000.........."),
    ("LDUMIN", "..111000..1.....011100.........."),
    ("SWP", "..111000..1.....100000.........."),
    ("LDFADD, LDBFADD", "..111100..1.....000000.........."),
    ("LDFMAX, LDBFMAX", "..111100..1.....010000.........."),
    ("LDFMIN, LDBFMIN", "..111100..1.....010100.........."),
    ("LDFMAXNM, LDBFMAXNM", "..111100..1.....011000.........."),
    ("LDFMINNM, LDBFMINNM", "..111100..1.....011100.........."),
    ("STFADD, STBFADD", "..1111000.1.....100000.....11111"),
    ("STFMAX, STBFMAX", "..1111000.1.....110000.....11111"),
    ("STFMIN, STBFMIN", "..1111000.1.....110100.....11111"),
    ("STFMAXNM, STBFMAXNM", "..1111000.1.....111000.....11111"),
    ("STFMINNM, STBFMINNM", "..1111000.1.....111100.....11111"),
    // Compare and swap: size, 001000, o2, L, o1, Rs, o0, 11111, Rn, Rt.
    ("CASP", "0.0010000.1......11111.........."),
    ("CASB", "000010001.1......11111.........."),
    ("CASH", "010010001.1......11111.........."),
    ("CAS, 32 bits", "100010001.1......11111.........."),
    ("CAS, 64 bits", "110010001.1......11111.........."),
    ("CASPT", "010010011.0......11111.........."),
    ("CAST", "110010011.0......11111.........."),
    // 128 bits: 00, 011001, A, R, 1, Rt2, o3, opc, 00, Rn, Rt.
    ("LDCLRP", "00011001..1.....000100.........."),
    ("LDSETP", "00011001..1.....001100.........."),
    ("SWPP", "00011001..1.....100000.........."),
    // Unprivileged: 0, sz, 011001, A, R, 1, Rs, o3, opc, 01, Rn, Rt.
    ("LDTADD", "0.011001..1.....000001.........."),
    ("LDTCLR", "0.011001..1.....000101.........."),
    ("LDTSET", "0.011001..1.....001101.........."),
    ("SWPT", "0.011001..1.....100001.........."),
];

/// Neighbours: what only reads, what only writes, and what writes by a check of descriptors (FEAT_THE).
const OTHERS: &[(&str, &str)] = &[
    ("LDAPR", "..11100010111111110000.........."),
    ("LD64B", "1111100000111111110100.........."),
    ("ST64B", "1111100000111111100100.........."),
    ("ST64BV", "11111000001.....101100.........."),
    ("ST64BV0", "11111000001.....101000.........."),
    ("RCWCLR, RCWSCLR", "0.111000..1.....100100.........."),
    ("RCWSWP, RCWSSWP", "0.111000..1.....101000.........."),
    ("RCWSET, RCWSSET", "0.111000..1.....101100.........."),
    ("RCWCAS, RCWSCAS", "0.011001..1.....000010.........."),
    ("RCWCLRP, RCWSCLRP", "0.011001..1.....100100.........."),
    ("LDXR, LDAXR", "..00100001011111.11111.........."),
    ("STXR, STLXR", "..001000000......11111.........."),
    ("LDXP, LDAXP", "1.00100001111111................"),
    ("STXP, STLXP", "1.001000001....................."),
    ("LDAR, LDLAR", "..00100011011111.11111.........."),
    ("STLR, STLLR", "..00100010011111.11111.........."),
    ("LDTXR, LDATXR", "1.00100101011111.11111.........."),
    ("STTXR, STLTXR", "1.001001000......11111.........."),
    ("LDR", "..111001.1......................"),
    ("STR", "..11100100......................"),
    ("LDUR, LDR behind, LDTR, LDR before", "..111000010....................."),
    ("LDR of a register's offset", "..111000011.........10.........."),
    ("LDR of SIMD, of a register's offset", "..111100.11.........10.........."),
    ("LDP, STP", "..10100........................."),
    ("DC, IC", "1101010100001...0111............"),
];

/// The bits that an encoding fixes, and their values.
fn read(drawn: &str) -> (u32, u32) {
    assert_eq!(drawn.len(), 32, "{drawn}");
    drawn.bytes().fold((0, 0), |(fixed, value), bit| match bit {
        b'.' => (fixed << 1, value << 1),
        bit => (fixed << 1 | 1, value << 1 | u32::from(bit == b'1')),
    })
}

/// Bits 0 to 15 of the words that are tried: all, or, where nothing is optimized, all of some registers Rn and Rt.
fn lower_halves() -> Vec<u32> {
    const REGISTERS: [u32; 4] = [0, 0x1f, 0x3ff, 0x155];
    (0..1 << 16).filter(|low| !cfg!(debug_assertions) || REGISTERS.contains(&(low & 0x3ff))).collect()
}

/// Runs `try_all` with an equal share of the upper halves of all words on each of two CPUs.
fn for_upper_halves(try_all: impl Fn(u32) + Sync) {
    std::thread::scope(|scope| {
        for first in 0..2 {
            let try_all = &try_all;
            scope.spawn(move || (first..1 << 16).step_by(2).for_each(|high: u32| try_all(high << 16)));
        }
    });
}

#[test]
fn every_word_is_what_the_manual_draws() {
    let rows: Vec<_> = ATOMICS.iter().map(|(_, drawn)| read(drawn)).collect();
    let lows = lower_halves();
    for_upper_halves(|high| {
        let near: Vec<_> = rows.iter().filter(|(fixed, value)| (high ^ value) & fixed & 0xffff_0000 == 0).collect();
        if near.is_empty() {
            assert!(!lows.iter().any(|low| is_atomic(high | low)), "of {high:#010x}");
            return;
        }
        for word in lows.iter().map(|low| high | low) {
            let is_drawn = near.iter().any(|(fixed, value)| word & fixed == *value);
            assert_eq!(is_atomic(word), is_drawn, "{word:#010x}");
        }
    });
}

#[test]
fn neighbours_are_none() {
    for (name, drawn) in OTHERS {
        let (fixed, value) = read(drawn);
        for (atomic, drawn) in ATOMICS {
            let (its_fixed, its_value) = read(drawn);
            assert_ne!((value ^ its_value) & fixed & its_fixed, 0, "{name} and {atomic} are drawn alike");
        }
        assert!(!is_atomic(value) && !is_atomic(value | !fixed), "{name}");
    }
}

/// What an assembler makes of one text of each kind.
#[test]
fn words_of_an_assembler() {
    for (word, text, expected) in [
        (0xb821_0062, "ldadd w1, w2, [x3]", true),
        (0xf821_8062, "swp x1, x2, [x3]", true),
        (0xf83f_103f, "ldclr xzr, xzr, [x1]", true),
        (0x88a1_7c62, "cas w1, w2, [x3]", true),
        (0x4822_7cc4, "casp x2, x3, x4, x5, [x6]", true),
        (0x1922_1061, "ldclrp x1, x2, [x3]", true),
        (0x1922_8061, "swpp x1, x2, [x3]", true),
        (0x5921_0462, "ldtadd x1, x2, [x3]", true),
        (0x59e1_8462, "swptal x1, x2, [x3]", true),
        (0xc9c1_fc62, "casalt x1, x2, [x3]", true),
        (0x49c2_fcc4, "caspalt x2, x3, x4, x5, [x6]", true),
        (0xfc21_6062, "ldfmaxnm d1, d2, [x3]", true),
        (0x3ce1_7062, "ldbfminnmal h1, h2, [x3]", true),
        (0xfc61_807f, "stfaddl d1, [x3]", true),
        (0x3c21_807f, "stbfadd h1, [x3]", true),
        (0xc95f_7c61, "ldtxr x1, [x3]", false),
        (0xc901_7c62, "sttxr w1, x2, [x3]", false),
        (0x7821_b062, "rcwsset x1, x2, [x3]", false),
        (0x1921_0862, "rcwcas x1, x2, [x3]", false),
        (0xf83f_d060, "ld64b x0, [x3]", false),
        (0xf83f_9060, "st64b x0, [x3]", false),
        (0xf821_b062, "st64bv x1, x2, [x3]", false),
        (0xf8bf_c061, "ldapr x1, [x3]", false),
        (0xd50b_7b20, "dc cvau, x0", false),
    ] {
        assert_eq!(is_atomic(word), expected, "{text}");
    }
}

/// The decoder that runs the kernel's own machine code knows some of them, and much that is none.
#[test]
fn words_that_another_decoder_knows() {
    let lows = lower_halves();
    for_upper_halves(|high| {
        for word in lows.iter().map(|low| high | low) {
            let Some(known) = a64::decode::decode(word, 0) else { continue };
            let expected = matches!(known, Instruction::Atomic { .. } | Instruction::CompareAndSwap { .. });
            assert_eq!(is_atomic(word), expected, "{word:#010x}: {known:?}");
        }
    });
}

#[test]
fn an_access_is_what_its_instruction_makes_of_it() {
    let (ldadd, ldr) = (0xb821_0062, 0xf940_0020);
    // Translation faults at level 3: a read, a write, cache maintenance; and of an instruction fetch.
    for (syndrome, word, expected) in [
        (0x9200_0007, ldadd, Kind::Atomic),
        (0x9200_0007, ldr, Kind::Read),
        (0x9200_0047, ldadd, Kind::Write),
        (0x9200_0147, 0xd50b_7b20, Kind::Read),
        (0x8200_0007, ldadd, Kind::Execute),
    ] {
        let access = Access::of(Syndrome::new(syndrome), 0x1234).expect("an abort").made_by(word);
        assert_eq!(access, Access { address: 0x1234, kind: expected }, "{syndrome:#x} {word:#x}");
    }
}

/// Text of one page, which may not be mapped, or be hidden.
struct Page {
    frame: Option<PhysAddr>,
    word: Option<u32>,
    is_asked: Cell<bool>,
}

impl Text for Page {
    fn translate(&self, address: u64) -> Option<PhysAddr> {
        self.is_asked.set(true);
        self.frame.map(|frame| frame + (address & 0xfff))
    }

    fn load(&self, at: PhysAddr) -> Option<u32> {
        assert_eq!(at.bits(), 0x8000_0008, "where the translation leads");
        self.word
    }
}

#[test]
fn text_is_looked_at_for_reads_alone_and_may_come_to_nothing() {
    let (ldadd, ldr, frame) = (0xb821_0062, 0xf940_0020, PhysAddr::new(0x8000_0000));
    for (kind, frame, word, expected) in [
        (Kind::Read, Some(frame), Some(ldadd), Kind::Atomic),
        (Kind::Read, Some(frame), Some(ldr), Kind::Read),
        (Kind::Read, Some(frame), None, Kind::Read),
        (Kind::Read, None, Some(ldadd), Kind::Read),
        (Kind::Write, Some(frame), Some(ldadd), Kind::Write),
        (Kind::Execute, Some(frame), Some(ldadd), Kind::Execute),
    ] {
        let text = Page { frame, word, is_asked: Cell::new(false) };
        let access = Access { address: 0x1234, kind }.made_at(0x40_0008, &text);
        assert_eq!(access, Access { address: 0x1234, kind: expected }, "{kind:?}, {frame:?}, {word:x?}");
        assert_eq!(text.is_asked.get(), kind == Kind::Read);
    }
}
