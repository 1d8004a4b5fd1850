//! One line of a trace: `CPU VERB ARGUMENT…`, with commas as good as blanks, and a comment from `#` on.

use alloc::string::String;
use alloc::vec::Vec;

use super::names::{self, ACCESSES, LEVELS, REGISTERS, find, number};
use crate::attributes::Permissions;
use crate::event::{Event, Level, Owned};
use crate::registers::{Ets, Features};

/// The first line of every trace.
pub const HEAD: &str = "vellum trace 1";
/// What a terminal shows and does not obey: control characters stand as escapes, blanks as blanks.
pub(super) fn printable(text: &str) -> impl Iterator<Item = char> {
    text.chars().flat_map(|it| {
        let shown = if it.is_ascii_whitespace() { ' ' } else { it };
        let (plain, escaped) =
            if shown.is_control() { (None, Some(shown.escape_default())) } else { (Some(shown), None) };
        plain.into_iter().chain(escaped.into_iter().flatten())
    })
}

/// Addresses of memory are below this.
pub(super) const MEMORY_END: u64 = 1 << 52;
/// Bytes of a table at most: sixteen concatenated ones of 64 KiB.
const LARGEST_TABLE: u64 = 16 << 16;

/// What a CPU does in one line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// An event of the machine.
    Event(Event),
    /// A load by physical address, and what it saw.
    Load {
        /// Physical address.
        address: u64,
        /// What was there.
        value: u64,
    },
    /// A word that no walk reads has held this for so long that every walker sees it.
    Holds {
        /// Physical address.
        address: u64,
        /// What is there.
        value: u64,
    },
    /// The 4 KiB there are no part of a table any more, by whatever is written or kept.
    Data {
        /// Physical address.
        address: u64,
    },
    /// A compare-and-exchange, and what it found. With `found` = `expected` it has stored.
    Exchange {
        /// Physical address.
        address: u64,
        /// What must be there.
        expected: u64,
        /// What is stored then.
        value: u64,
        /// What was there.
        found: u64,
        /// Ordered after every earlier store.
        is_release: bool,
    },
    /// MSR of a register that the machine does not have.
    Unknown {
        /// Its name.
        register: &'static str,
        /// What is written.
        value: u64,
        /// The exception level that it needs.
        level: Level,
    },
    /// An ASID of the CPU's current regime and VMID gets another owner.
    FreeAsid(u16),
    /// Nobody may do more than this at these input addresses any more, in the CPU's current regime and VMID.
    Revoked {
        /// First input address.
        first: u64,
        /// Last input address.
        last: u64,
        /// What may be left.
        allowed: Permissions,
        /// Whose addresses they are.
        of: Of,
    },
}

/// Whose input addresses are meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Of {
    /// Every ASID's, in the CPU's current regime and VMID.
    Everyone,
    /// One ASID's there.
    Asid(u16),
    /// They are intermediate addresses of this VMID.
    Stage2(u16),
}

/// TCR2_ELx.D128, and those that change what permits what: PIE, E0POE, POE.
const TCR2_D128: u64 = 1 << 5;
pub(super) const TCR2_PERMISSIONS: u64 = 0b1110;

/// Characters of the longest word that a message quotes; those of the format are shorter.
const LONGEST_WORD: usize = 64;
/// Words of a line that a message quotes.
const QUOTED_WORDS: usize = 8;

/// Without the byte order mark that some editors put first.
pub(super) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Refuses a word that no line can have, before any message quotes it whole.
///
/// # Errors
/// How it begins.
pub(super) fn short_word(word: &str) -> Result<(), String> {
    if word.chars().nth(LONGEST_WORD).is_none() {
        return Ok(());
    }
    let begin: String = word.chars().take(16).collect();
    Err(alloc::format!("`{begin}…`, a word of {} bytes, expected {LONGEST_WORD} at most", word.len()))
}

/// Some words as a message quotes them.
fn quoted(words: &[&str]) -> String {
    let more = if words.len() > QUOTED_WORDS { " …" } else { "" };
    words[..words.len().min(QUOTED_WORDS)].join(" ") + more
}

/// The words of a line.
pub(super) fn words(line: &str) -> impl Iterator<Item = &str> {
    let line = line.split('#').next().unwrap_or_default();
    line.split([' ', '\t', ',', '\r']).filter(|word| !word.is_empty())
}

pub(super) fn head(words: &[&str]) -> Result<(), String> {
    let is_head = words.join(" ").eq_ignore_ascii_case(HEAD);
    if is_head { Ok(()) } else { Err(alloc::format!("`{}`, expected `{HEAD}`", quoted(words))) }
}

/// The physical address of a 64-bit word.
pub(super) fn word_address(word: &str) -> Result<u64, String> {
    let address = number(word)?;
    if address & 7 == 0 && address < MEMORY_END {
        return Ok(address);
    }
    Err(alloc::format!("`{word}`, expected a physical address below 2^52 that is a multiple of 8"))
}

fn asid(word: &str) -> Result<u16, String> {
    let it = number(word)?;
    u16::try_from(it).map_err(|_| alloc::format!("`{word}`, expected an ASID or VMID of 16 bits"))
}

/// `N FIELD=VALUE…`, the fields being those of the ID registers; a field that is not named is 0.
pub(super) fn cpu(words: &[&str]) -> Result<(u64, Features), String> {
    let [cpu, fields @ ..] = words else { return Err(String::from("`cpu`, expected `cpu NUMBER FIELD=VALUE…`")) };
    let mut features = Features::plain();
    set_fields(&mut features, fields)?;
    Ok((number(cpu)?, features))
}

/// Sets fields of the ID registers: `bbm=2 ttl=0`, as in a `cpu` line.
///
/// # Errors
/// The word that makes no sense.
pub fn set_features(features: &mut Features, text: &str) -> Result<(), String> {
    set_fields(features, &words(text).collect::<Vec<_>>())
}

/// Sets fields of the ID registers, each once: `bbm=2`, `ttl=0`.
fn set_fields(features: &mut Features, fields: &[&str]) -> Result<(), String> {
    let mut told: Vec<String> = Vec::new();
    fields.iter().try_for_each(|field| {
        let (name, value) =
            field.split_once('=').ok_or_else(|| alloc::format!("`{field}`, expected FIELD=VALUE, such as bbm=2"))?;
        let known = name.to_ascii_lowercase();
        set_field(features, &known, number(value)?)?;
        if told.contains(&known) {
            return Err(alloc::format!("`{name}` is told twice, expected once"));
        }
        told.push(known);
        Ok(())
    })
}

/// Sets one field, or says which there are.
fn set_field(features: &mut Features, name: &str, value: u64) -> Result<(), String> {
    let most = match name {
        "bbm" | "hafdbs" | "ets" => 3,
        "tlb" => 2,
        "parange" => 6,
        _ => 1,
    };
    match name {
        "bbm" => features.bbm = value as u8,
        "hafdbs" => (features.access_flag, features.dirty_state) = (value >= 1, value >= 2),
        "ets" => features.ets = [Ets::None, Ets::None, Ets::Ets2, Ets::Ets3][value.min(3) as usize],
        "tlb" => features.range_tlbi = value == 2,
        "ttl" => features.ttl = value == 1,
        "xs" => features.xs = value == 1,
        "cnp" => features.common_not_private = value == 1,
        "lpa" => features.lpa = value == 1,
        "lpa2" => features.lpa2 = value == 1,
        "repeat" => features.repeat_tlbi = value == 1,
        "ordered" => features.orders_writes = value == 1,
        "parange" => features.output_bits = [32, 36, 40, 42, 44, 48, 52][value.min(6) as usize],
        _ => {
            let known = "bbm, hafdbs, ets, tlb, ttl, xs, cnp, lpa, lpa2, repeat, ordered or parange";
            return Err(alloc::format!("`{name}`, expected {known}"));
        }
    }
    if value <= most { Ok(()) } else { Err(alloc::format!("`{name}={value}`, expected 0 to {most}")) }
}

/// `CPU VERB ARGUMENT…`
pub(super) fn event(words: &[&str]) -> Result<(u64, Act), String> {
    let [cpu, verb, rest @ ..] = words else {
        return Err(alloc::format!("`{}`, expected `CPU VERB …`, `cpu …` or `memory …`", quoted(words)));
    };
    let cpu = number(cpu).map_err(|_| alloc::format!("`{cpu}`, expected the number of a CPU, `cpu` or `memory`"))?;
    Ok((cpu, act(&verb.to_ascii_lowercase(), rest)?))
}

impl Act {
    /// Reads what stands after the CPU's number: `VERB ARGUMENT…`.
    ///
    /// # Errors
    /// What stands there, and what was expected.
    pub fn read(words: &[&str]) -> Result<Self, String> {
        let [verb, rest @ ..] = words else { return Err(expected("", words)) };
        act(&verb.to_ascii_lowercase(), rest)
    }
}

fn act(verb: &str, words: &[&str]) -> Result<Act, String> {
    let event = match (verb, words) {
        ("load", [address, value]) => {
            return Ok(Act::Load { address: word_address(address)?, value: number(value)? });
        }
        ("holds", [address, value]) => {
            return Ok(Act::Holds { address: word_address(address)?, value: number(value)? });
        }
        ("data", [address]) => return Ok(Act::Data { address: word_address(address)? & !0xfff }),
        ("exchange" | "exchange-release", [address, expected, value, found]) => {
            let (address, expected, is_release) =
                (word_address(address)?, number(expected)?, verb == "exchange-release");
            return Ok(Act::Exchange { address, expected, value: number(value)?, found: number(found)?, is_release });
        }
        ("store" | "store-release", [address, value]) => {
            let (address, value) = (word_address(address)?, number(value)?);
            Event::Store { address, value, is_release: verb == "store-release" }
        }
        ("unlock", []) => Event::Unlock,
        ("lock", []) => Event::Lock,
        ("dsb" | "dmb", [limit]) => Event::Barrier(names::barrier(verb, Some(limit))?),
        ("isb", []) => Event::Barrier(names::barrier(verb, None)?),
        ("isb", [limit]) => Event::Barrier(names::barrier(verb, Some(limit))?),
        ("tlbi", [name]) => Event::Tlbi { opcode: operandless(name)?, operand: 0 },
        ("tlbi", [name, operand]) => Event::Tlbi { opcode: names::opcode(name)?, operand: number(operand)? },
        ("msr", [register, value]) => match (names::unknown_register(register), number(value)?) {
            (Some((register, level)), value) => return unknown(register, value, level),
            (None, value) => Event::Write { register: find(&REGISTERS, register)?, value },
        },
        ("enter", [level]) => Event::Enter(find(&LEVELS, level)?),
        ("access", [kind, address]) => Event::Access { address: number(address)?, kind: find(&ACCESSES, kind)? },
        ("conflict", []) => Event::ConflictAbort,
        ("free", words) => return free(words),
        ("revoked", words) => return revoked(words),
        ("needs", [nothing]) if nothing.eq_ignore_ascii_case("nothing") => Event::NeedsNothing,
        ("needs", [first, last]) => {
            let (first, last) = ordered(first, last)?;
            Event::Needs { first, last }
        }
        _ => return Err(expected(verb, words)),
    };
    Ok(Act::Event(event))
}

/// With 128-bit descriptors the tables that follow would be read wrong.
fn unknown(register: &'static str, value: u64, level: Level) -> Result<Act, String> {
    match register.starts_with("tcr2") && value & TCR2_D128 != 0 {
        true => Err(alloc::format!("`{value:#x}` has D128 in {register}, expected descriptors of 64 bits")),
        false => Ok(Act::Unknown { register, value, level }),
    }
}

/// Without an operand stand only the ALL and VMALL forms.
fn operandless(name: &str) -> Result<crate::tlbi::Opcode, String> {
    use crate::tlbi::What;
    let opcode = names::opcode(name)?;
    match opcode.decode().map(|it| it.what) {
        None | Some(What::Vmall | What::VmallS12 | What::All) => Ok(opcode),
        Some(_) => Err(alloc::format!("`tlbi {name}` without an operand, expected the 64 bits of its register")),
    }
}

fn free(words: &[&str]) -> Result<Act, String> {
    let what = words.first().unwrap_or(&"").to_ascii_lowercase();
    let event = match (what.as_str(), words) {
        ("asid", [_, it]) => return Ok(Act::FreeAsid(asid(it)?)),
        ("vmid", [_, it]) => Event::ReuseVmid(asid(it)?),
        ("frame" | "table", [_, address, bytes]) => {
            let owned = if what == "table" { Owned::Table } else { Owned::Frame };
            let (address, size_bytes) = (word_address(address)?, number(bytes)?);
            let most = if owned == Owned::Table { LARGEST_TABLE } else { MEMORY_END - address };
            if size_bytes == 0 || size_bytes > most {
                return Err(alloc::format!("`{bytes}` bytes, expected 1 to {most:#x}"));
            }
            Event::Release { address, size_bytes, owned }
        }
        _ => return Err(expected("free", words)),
    };
    Ok(Act::Event(event))
}

fn revoked(words: &[&str]) -> Result<Act, String> {
    let (words, of) = match *words {
        [ref range @ .., of, it] if of.eq_ignore_ascii_case("asid") => (range, Of::Asid(asid(it)?)),
        [ref range @ .., of, it] if of.eq_ignore_ascii_case("vmid") => (range, Of::Stage2(asid(it)?)),
        _ => (words, Of::Everyone),
    };
    let [first, last, allowed] = words else { return Err(expected("revoked", words)) };
    let (first, last) = ordered(first, last)?;
    Ok(Act::Revoked { first, last, allowed: names::permissions(&allowed.to_ascii_lowercase())?, of })
}

fn ordered(first: &str, last: &str) -> Result<(u64, u64), String> {
    let (from, to) = (number(first)?, number(last)?);
    if from <= to { Ok((from, to)) } else { Err(alloc::format!("`{first} {last}`, expected FIRST not above LAST")) }
}

/// What `verb` asks for, or which verbs there are.
fn expected(verb: &str, words: &[&str]) -> String {
    let forms: &[&str] = match verb {
        "load" => &["load ADDRESS VALUE"],
        "holds" => &["holds ADDRESS VALUE"],
        "data" => &["data ADDRESS"],
        "exchange" | "exchange-release" => &["exchange ADDRESS EXPECTED NEW FOUND"],
        "store" | "store-release" => &["store ADDRESS VALUE"],
        "dsb" | "dmb" => &["dsb ish", "dmb ishld"],
        "isb" => &["isb"],
        "unlock" => &["unlock"],
        "lock" => &["lock"],
        "tlbi" => &["tlbi NAME OPERAND"],
        "msr" => &["msr REGISTER VALUE"],
        "enter" => &["enter el0|el1|el2"],
        "access" => &["access read|write|fetch ADDRESS"],
        "conflict" => &["conflict"],
        "free" => &["free frame|table ADDRESS BYTES", "free asid|vmid NUMBER"],
        "revoked" => &["revoked FIRST LAST rwx/rwx [asid NUMBER|vmid NUMBER]"],
        "needs" => &["needs FIRST LAST", "needs nothing"],
        _ => {
            let verbs = "load, store, store-release, exchange, exchange-release, unlock, lock, holds, data, dsb, dmb, isb, tlbi, \
                         msr, enter, access, free, revoked, needs or conflict";
            return alloc::format!("`{verb}`, expected {verbs}");
        }
    };
    let forms: Vec<String> = forms.iter().map(|form| alloc::format!("`{form}`")).collect();
    alloc::format!("`{}`, expected {}", quoted(&[&[verb], words].concat()), forms.join(" or "))
}
