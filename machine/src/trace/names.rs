//! The words of the trace format, each beside what it means: one list for each kind.

use alloc::string::{String, ToString};

use crate::attributes::Permissions;
use crate::barrier::{Accesses, Barrier, Domain};
use crate::event::Level;
use crate::registers::Register;
use crate::syndrome::AccessKind;
use crate::tlbi::Opcode;

/// System registers, by the manual's names.
pub const REGISTERS: [(&str, Register); 14] = [
    ("ttbr0_el1", Register::Ttbr0El1),
    ("ttbr1_el1", Register::Ttbr1El1),
    ("tcr_el1", Register::TcrEl1),
    ("mair_el1", Register::MairEl1),
    ("sctlr_el1", Register::SctlrEl1),
    ("ttbr0_el2", Register::Ttbr0El2),
    ("ttbr1_el2", Register::Ttbr1El2),
    ("tcr_el2", Register::TcrEl2),
    ("mair_el2", Register::MairEl2),
    ("sctlr_el2", Register::SctlrEl2),
    ("vttbr_el2", Register::VttbrEl2),
    ("vtcr_el2", Register::VtcrEl2),
    ("hcr_el2", Register::HcrEl2),
    ("hcrx_el2", Register::HcrxEl2),
];

/// Registers that the machine does not have, each with the exception level that its MSR needs.
const UNKNOWN: [(&str, Level); 25] = [
    ("por_el0", Level::El0),
    ("amair_el1", Level::El1),
    ("pir_el1", Level::El1),
    ("pire0_el1", Level::El1),
    ("por_el1", Level::El1),
    ("s2por_el1", Level::El1),
    ("sctlr2_el1", Level::El1),
    ("tcr2_el1", Level::El1),
    ("amair_el2", Level::El2),
    ("pir_el2", Level::El2),
    ("pire0_el2", Level::El2),
    ("por_el2", Level::El2),
    ("s2pir_el2", Level::El2),
    ("sctlr2_el2", Level::El2),
    ("tcr2_el2", Level::El2),
    ("vstcr_el2", Level::El2),
    ("vsttbr_el2", Level::El2),
    ("gpccr_el3", Level::El3),
    ("gptbr_el3", Level::El3),
    ("mair_el3", Level::El3),
    ("pir_el3", Level::El3),
    ("scr_el3", Level::El3),
    ("sctlr_el3", Level::El3),
    ("tcr_el3", Level::El3),
    ("ttbr0_el3", Level::El3),
];

/// A register that the machine does not have: its name, and the level that it needs.
pub(super) fn unknown_register(word: &str) -> Option<(&'static str, Level)> {
    UNKNOWN.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(word))
}

/// Exception levels.
pub(super) const LEVELS: [(&str, Level); 3] = [("el0", Level::El0), ("el1", Level::El1), ("el2", Level::El2)];

/// Accesses by virtual address.
pub(super) const ACCESSES: [(&str, AccessKind); 3] =
    [("read", AccessKind::Read), ("write", AccessKind::Write), ("fetch", AccessKind::Fetch)];

const DOMAINS: [Domain; 4] = [Domain::NonShareable, Domain::Inner, Domain::Outer, Domain::System];
const ORDERED: [Accesses; 3] = [Accesses::All, Accesses::Loads, Accesses::Stores];

/// Reads a number of 64 bits, in hexadecimal after `0x`.
pub(super) fn number(word: &str) -> Result<u64, String> {
    let (digits, radix) = match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (word, 10),
    };
    let parsed = u64::from_str_radix(digits, radix).ok().filter(|_| !digits.starts_with('+'));
    parsed.ok_or_else(|| alloc::format!("`{word}`, expected a number of 64 bits, in hexadecimal after 0x"))
}

/// What stands beside `word` in a list of names.
pub(super) fn find<T: Copy>(list: &[(&str, T)], word: &str) -> Result<T, String> {
    let found = list.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
    found.map(|(_, it)| *it).ok_or_else(|| alloc::format!("`{word}`, expected {}", any_of(list)))
}

fn any_of<T>(list: &[(&str, T)]) -> String {
    let names: alloc::vec::Vec<&str> = list.iter().map(|(name, _)| *name).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => alloc::format!("{} or {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

/// `dsb ish`, `dsb synxs`, `dmb ishld`, `isb` (or `isb sy`).
pub(super) fn barrier(kind: &str, limit: Option<&str>) -> Result<Barrier, String> {
    if kind.eq_ignore_ascii_case("isb") {
        return match limit {
            None => Ok(Barrier::Isb),
            Some(limit) if limit.eq_ignore_ascii_case("sy") => Ok(Barrier::Isb),
            Some(limit) => Err(alloc::format!("`isb {limit}`, expected `isb`")),
        };
    }
    let wanted = alloc::format!("{kind} {}", limit.unwrap_or_default());
    let known = |it: &Barrier| it.to_string().eq_ignore_ascii_case(&wanted);
    all_barriers().find(known).ok_or_else(|| {
        alloc::format!(
            "`{}`, expected {kind} with nsh, ish, osh or sy, their ld and st forms, or `ld`, `st`",
            wanted.trim()
        )
    })
}

fn all_barriers() -> impl Iterator<Item = Barrier> {
    DOMAINS.into_iter().flat_map(|domain| {
        ORDERED.into_iter().flat_map(move |accesses| {
            [
                Barrier::Dsb { domain, accesses, is_nxs: false },
                Barrier::Dsb { domain, accesses, is_nxs: true },
                Barrier::Dmb { domain, accesses },
            ]
        })
    })
}

/// `vae1is`, or the instruction's 32 bits: those of an UNDEFINED TLBI too, which is a finding and not a mistake in the
/// trace.
pub(super) fn opcode(word: &str) -> Result<Opcode, String> {
    if let Ok(bits) = number(word) {
        let instruction = u32::try_from(bits).ok().and_then(Opcode::from_instruction);
        let known = instruction.filter(|it| matches!(it.fields().1, 8 | 9));
        return known
            .ok_or_else(|| alloc::format!("`{word}`, expected the 32 bits of a TLBI, 0xd508_8000 to 0xd50c_9fff"));
    }
    let lower = word.to_ascii_lowercase();
    let named = |name: &str| all_opcodes().find(|it| opcode_name(*it).is_some_and(|own| own == name));
    // Those of EL3 are UNDEFINED in every trace. They have op1 = 6 where those of EL2 have op1 = 4.
    let of_el3 = || {
        let (_, crn, crm, op2) = named(&lower.replace("e3", "e2"))?.fields();
        Some(Opcode::new(6, crn, crm, op2))
    };
    let expected = "expected the name of a TLBI of EL1&0 or EL2, such as vae1is, or the instruction's 32 bits";
    named(&lower).or_else(of_el3).ok_or_else(|| alloc::format!("`{word}`, {expected}"))
}

fn all_opcodes() -> impl Iterator<Item = Opcode> {
    let places = [0, 4].into_iter().flat_map(|op1| [8, 9].into_iter().map(move |crn| (op1, crn)));
    places.flat_map(|(op1, crn)| (0..128).map(move |low| Opcode::new(op1, crn, low >> 3, low & 7)))
}

/// The name of a TLBI in lower case, if it has one.
pub(super) fn opcode_name(opcode: Opcode) -> Option<String> {
    let name = opcode.decode()?.to_string();
    name.strip_prefix("TLBI ").map(str::to_ascii_lowercase)
}

/// `rwx/rwx` with `-` for what is not granted: the privileged level, then EL0.
pub(super) fn permissions(word: &str) -> Result<Permissions, String> {
    let wrong =
        || alloc::format!("`{word}`, expected permissions such as `rw-/r--`: the privileged level's, then EL0's");
    let mut bits = 0;
    let letters: alloc::vec::Vec<char> = word.chars().filter(|it| *it != '/').collect();
    if letters.len() != 6 || word.len() != 7 || word.as_bytes()[3] != b'/' {
        return Err(wrong());
    }
    for (bit, (letter, granted)) in letters.into_iter().zip("rwxrwx".chars()).enumerate() {
        match letter {
            '-' => {}
            _ if letter == granted => bits |= 1 << bit,
            _ => return Err(wrong()),
        }
    }
    Ok(Permissions(bits))
}
