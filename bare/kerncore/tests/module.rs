//! Objects as a compiler writes them, linked at other addresses; and damaged ones, which are refused.

use kerncore::module::{Module, Problem, Room};

const AT: [u64; 3] = [0xffff_ffff_8400_0040, 0xffff_fffe_c000_1000, 0xffff_fffe_c000_2000];
const SAY: u64 = 0xffff_ffff_8000_1234 & !3;
/// NOP, ADRP x0, ADD x0, LDR x1, BL, CBZ: what relocation writes is 0 yet.
const TEXT: [u32; 6] = [0xd503_201f, 0x9000_0000, 0x9100_0000, 0xf940_0001, 0x9400_0000, 0xb400_0000];

/// Name, type, flags, content, bytes, link and information.
type Section = (&'static str, u32, u64, Vec<u8>, u64, u32, u32);
/// Offset, symbol, type and addend.
type Relocation = (u64, u32, u32, i64);
/// Into the text: two ways to the second word of data, a call of what is exported, a branch to the text's own beginning.
const OF_TEXT: [Relocation; 5] = [(4, 3, 275, 8), (8, 3, 277, 8), (12, 3, 286, 8), (16, 4, 283, 0), (20, 1, 280, 0)];
/// Into the data: the address of the text, and the distance to the constants.
const OF_DATA: [Relocation; 2] = [(0, 1, 257, 4), (8, 2, 261, 1)];

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn relocations(all: &[Relocation]) -> Vec<u8> {
    let one = |(offset, symbol, kind, addend): &Relocation| {
        let info = u64::from(*symbol) << 32 | u64::from(*kind);
        [offset.to_le_bytes(), info.to_le_bytes(), addend.to_le_bytes()].concat()
    };
    all.iter().flat_map(one).collect()
}

/// A symbol: its name's place, whether others may name it, its section and value.
fn symbol(name: u32, is_global: bool, section: u16, value: u64) -> Vec<u8> {
    let info = u8::from(is_global) << 4;
    [&name.to_le_bytes()[..], &[info, 0], &section.to_le_bytes(), &value.to_le_bytes(), &[0; 8]].concat()
}

/// An object with these relocations: text, constants, data, zeros, `.modinfo`.
fn object(of_text: &[Relocation], of_data: &[Relocation]) -> Vec<u8> {
    const NAMES: &[u8] = b"\0.text\0.rodata\0.data\0.bss\0.modinfo\0.rela\0.symtab\0.strtab\0";
    let name = |name: &str| {
        let place = NAMES
            .windows(name.len() + 1)
            .position(|part| &part[..name.len()] == name.as_bytes() && part[name.len()] == 0);
        place.expect("a name") as u32
    };
    let symbols = [symbol(0, false, 0, 0), symbol(0, false, 1, 0), symbol(0, false, 2, 0), symbol(0, false, 3, 0)];
    let named = [symbol(1, true, 0, 0), symbol(5, true, 1, 4)];
    let symbols = [symbols.concat(), named.concat()].concat();
    let sections: [Section; 9] = [
        (".text", 1, 6, words(&TEXT), 24, 0, 0),
        (".rodata", 1, 2, b"constants".to_vec(), 9, 0, 0),
        (".data", 1, 3, vec![7; 24], 24, 0, 0),
        (".bss", 8, 3, Vec::new(), 40, 0, 0),
        (".modinfo", 1, 0, b"x=y\0name=me\0".to_vec(), 12, 0, 0),
        (".rela", 4, 0x40, relocations(of_text), of_text.len() as u64 * 24, 8, 1),
        (".rela", 4, 0x40, relocations(of_data), of_data.len() as u64 * 24, 8, 3),
        (".symtab", 2, 0, symbols.clone(), symbols.len() as u64, 9, 4),
        (".strtab", 3, 0, b"\0say\0start\0".to_vec(), 11, 0, 0),
    ];
    let mut file = vec![0; 64];
    let mut headers = vec![0; 64];
    for (section, kind, flags, content, bytes, link, info) in &sections {
        file.resize(file.len().next_multiple_of(8), 0);
        let entry = match kind {
            2 | 4 => 24u64,
            _ => 0,
        };
        headers.extend(words(&[name(section), *kind]));
        [*flags, 0, file.len() as u64, *bytes].iter().for_each(|word| headers.extend(word.to_le_bytes()));
        headers.extend(words(&[*link, *info]));
        [8, entry].iter().for_each(|word: &u64| headers.extend(word.to_le_bytes()));
        file.extend(content);
    }
    headers.extend(words(&[name(".strtab"), 3]));
    [0, 0, file.len() as u64, NAMES.len() as u64].iter().for_each(|word: &u64| headers.extend(word.to_le_bytes()));
    headers.extend([0; 24]);
    file.extend(NAMES);
    file.resize(file.len().next_multiple_of(8), 0);
    let start = file.len() as u64;
    file.extend(&headers);
    file[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\xb7\0");
    file[20..24].copy_from_slice(&1u32.to_le_bytes());
    file[40..48].copy_from_slice(&start.to_le_bytes());
    file[52..64].copy_from_slice(&[64, 0, 0, 0, 0, 0, 64, 0, 11, 0, 10, 0]);
    file
}

/// The three rooms, linked.
fn link(object: &[u8]) -> Result<[Vec<u8>; 3], Problem<'_>> {
    let module = Module::read(object)?;
    let mut rooms = [Room::Text, Room::Constants, Room::Data].map(|room| vec![0; module.bytes(room) as usize]);
    module.link(AT, &mut rooms.each_mut().map(Vec::as_mut_slice), |name| (name == "say").then_some(SAY))?;
    Ok(rooms)
}

#[test]
fn relocations_write_what_the_manual_says() {
    let object = object(&OF_TEXT, &OF_DATA);
    let [text, constants, data] = link(&object).expect("linked");
    let word = |at: usize| u32::from_le_bytes(text[4 * at..4 * at + 4].try_into().expect("a word"));
    let target = AT[2] + 8;
    // ADRP: immhi in bits 23:5, immlo in bits 30:29, of the distance in pages.
    let pages = i64::from(word(1) >> 5 & 0x7_ffff) << 2 | i64::from(word(1) >> 29 & 3);
    assert_eq!(((AT[0] + 4) & !0xfff).wrapping_add_signed((pages << 43 >> 43) << 12), target & !0xfff);
    assert_eq!([word(0), word(2), word(3)], [TEXT[0], TEXT[2] | 8 << 10, TEXT[3] | 1 << 10]);
    let words = i64::from(word(4) & 0x3ff_ffff) << 38 >> 38;
    assert_eq!((AT[0] + 16).wrapping_add_signed(4 * words), SAY);
    assert_eq!(word(5) >> 5 & 0x7_ffff, 0x7_ffff & -5i32 as u32);
    assert_eq!(&constants[..], b"constants\0\0\0");
    assert_eq!(data[..8], (AT[0] + 4).to_le_bytes());
    assert_eq!(data[8..12], ((AT[1] + 1).wrapping_sub(AT[2] + 8) as u32).to_le_bytes());
    assert_eq!((&data[12..24], &data[24..]), (&[7; 12][..], &[0; 40][..]));
}

#[test]
fn names_are_found() {
    let object = object(&OF_TEXT, &OF_DATA);
    let module = Module::read(&object).expect("an object");
    assert_eq!([module.info("name"), module.info("x"), module.info("say")], [Some("me"), Some("y"), None]);
    // What is not its own is not found, and what others may not name.
    assert_eq!([module.find("start", AT), module.find("say", AT), module.find("", AT)], [Some(AT[0] + 4), None, None]);
}

#[test]
fn what_is_wrong_is_said() {
    let refused = |of_text: &[Relocation], problem: Problem<'_>| {
        assert_eq!(link(&object(of_text, &OF_DATA)).expect_err("refused"), problem, "{of_text:?}");
    };
    refused(&[(0, 1, 311, 0)], Problem::UnknownRelocation(1, 311));
    refused(&[(24, 1, 283, 0)], Problem::OutOfRange(1, 24));
    refused(&[(u64::MAX, 1, 283, 0)], Problem::OutOfRange(1, u64::MAX));
    // Too far for 26 bits, by two bytes beside a word, no multiple of 8, and too far for 14 bits.
    refused(&[(16, 1, 283, (1 << 27) + 16)], Problem::OutOfRange(1, 16));
    refused(&[(16, 1, 283, 2)], Problem::OutOfRange(1, 16));
    refused(&[(12, 3, 286, 4)], Problem::OutOfRange(1, 12));
    refused(&[(20, 1, 279, 1 << 16)], Problem::OutOfRange(1, 20));
    refused(&[(4, 3, 275, 1 << 33)], Problem::OutOfRange(1, 4));
    let whole = object(&OF_TEXT, &OF_DATA);
    let lacks = Module::read(&whole).expect("an object");
    let mut rooms = [Room::Text, Room::Constants, Room::Data].map(|room| vec![0; lacks.bytes(room) as usize]);
    let unresolved = lacks.link(AT, &mut rooms.each_mut().map(Vec::as_mut_slice), |_| None);
    assert_eq!(unresolved.expect_err("refused"), Problem::Unresolved("say"));
    let with = |at: usize, byte: u8| {
        let mut damaged = whole.clone();
        damaged[at] = byte;
        damaged
    };
    assert_eq!(link(&with(16, 3)).expect_err("refused"), Problem::NotAnObject(183, 3));
    assert_eq!(link(&with(4, 1)).expect_err("refused"), Problem::NotElf);
    // The flags of `.text`, which would be written and executed; and a `.bss` of 16 MiB.
    let headers = u64::from_le_bytes(whole[40..48].try_into().expect("a word")) as usize;
    assert_eq!(link(&with(headers + 64 + 8, 7)).expect_err("refused"), Problem::WritableText(1));
    assert_eq!(link(&with(headers + 4 * 64 + 35, 1)).expect_err("refused"), Problem::TooLarge);
}

#[test]
fn no_damage_does_more_than_refuse() {
    let whole = object(&OF_TEXT, &OF_DATA);
    for at in 0..whole.len() {
        let _ = link(&whole[..at]).is_ok();
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut damaged = whole.clone();
            damaged[at] = value;
            let _ = link(&damaged).is_ok();
        }
    }
}
