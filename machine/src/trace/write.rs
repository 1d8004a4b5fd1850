//! A line of a trace from what happens in it: what the reader beside (`line.rs`) makes the same of again.

use core::fmt;

use super::line::{Act, Of};
use super::names::{ACCESSES, LEVELS, REGISTERS};
use crate::event::{Event, Owned};
use crate::tlbi::Opcode;

impl fmt::Display for Act {
    /// What stands after the number of the CPU. Events that no line makes are written as a comment.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Event(event) => write_event(f, &event),
            Self::Load { address, value } => write!(f, "load {address:#x} {value:#x}"),
            Self::Holds { address, value } => write!(f, "holds {address:#x} {value:#x}"),
            Self::Data { address } => write!(f, "data {address:#x}"),
            Self::Exchange { address, expected, value, found, is_release } => {
                write!(f, "exchange{} {address:#x} {expected:#x} {value:#x} {found:#x}", release(is_release))
            }
            Self::Unknown { register, value, .. } => write!(f, "msr {register} {value:#x}"),
            Self::FreeAsid(asid) => write!(f, "free asid {asid:#x}"),
            Self::Revoked { first, last, allowed, of } => {
                write!(f, "revoked {first:#x} {last:#x} {allowed}")?;
                match of {
                    Of::Everyone => Ok(()),
                    Of::Asid(asid) => write!(f, " asid {asid:#x}"),
                    Of::Stage2(vmid) => write!(f, " vmid {vmid:#x}"),
                }
            }
        }
    }
}

fn write_event(f: &mut fmt::Formatter<'_>, event: &Event) -> fmt::Result {
    match *event {
        Event::Store { address, value, is_release } => {
            write!(f, "store{} {address:#x} {value:#x}", release(is_release))
        }
        Event::Unlock => f.write_str("unlock"),
        Event::Lock => f.write_str("lock"),
        Event::Barrier(barrier) => write_lower(f, &barrier),
        Event::Tlbi { opcode, operand } => write_tlbi(f, opcode, operand),
        Event::Write { register, value } => write!(f, "msr {} {value:#x}", name(&REGISTERS, &register)),
        Event::Enter(level) => write!(f, "enter {}", name(&LEVELS, &level)),
        Event::Access { address, kind } => write!(f, "access {} {address:#x}", name(&ACCESSES, &kind)),
        Event::ConflictAbort => f.write_str("conflict"),
        Event::Release { address, size_bytes, owned } => {
            let what = if owned == Owned::Table { "table" } else { "frame" };
            write!(f, "free {what} {address:#x} {size_bytes:#x}")
        }
        Event::ReuseVmid(vmid) => write!(f, "free vmid {vmid:#x}"),
        Event::Needs { first, last } => write!(f, "needs {first:#x} {last:#x}"),
        Event::NeedsNothing => f.write_str("needs nothing"),
        Event::CompareExchange { .. } | Event::Exchange { .. } | Event::ReuseAsid { .. } | Event::Revoked { .. } => {
            write!(f, "# {event:?}")
        }
    }
}

const fn release(is_release: bool) -> &'static str {
    if is_release { "-release" } else { "" }
}

/// The word beside `it` in a list that has one for each.
fn name<T: PartialEq>(list: &[(&'static str, T)], it: &T) -> &'static str {
    list.iter().find(|(_, other)| other == it).map_or("", |(name, _)| name)
}

/// An operation by its name, what is none by the instruction's 32 bits.
fn write_tlbi(f: &mut fmt::Formatter<'_>, opcode: Opcode, operand: u64) -> fmt::Result {
    match opcode.decode() {
        Some(operation) => write_lower(f, &operation)?,
        None => {
            let (op1, crn, crm, op2) = opcode.fields();
            write!(f, "tlbi {:#x}", 0xd508_0000 | op1 << 16 | crn << 12 | crm << 8 | op2 << 5)?;
        }
    }
    write!(f, " {operand:#x}")
}

/// As the manual writes it, in small letters.
fn write_lower(f: &mut fmt::Formatter<'_>, it: &dyn fmt::Display) -> fmt::Result {
    struct Lower<'a, 'b>(&'a mut fmt::Formatter<'b>);
    impl fmt::Write for Lower<'_, '_> {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            text.chars().try_for_each(|it| self.0.write_char(it.to_ascii_lowercase()))
        }
    }
    fmt::write(&mut Lower(f), format_args!("{it}"))
}
