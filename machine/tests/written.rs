//! Lines that are written are those that were read: every kind of line, every barrier, TLBI, register and level.

use machine::trace::{Act, REGISTERS, Trace};

/// Each form that an act has, as the writer has it.
const LINES: [&str; 26] = [
    "load 0x40000000 0x703",
    "holds 0x40000008 0x0",
    "data 0x40000000",
    "store 0x40000000 0x703",
    "store-release 0x40000000 0xffffffffffffffff",
    "exchange 0x40000000 0x1 0x2 0x1",
    "exchange-release 0x40000000 0x1 0x2 0x3",
    "isb",
    "enter el0",
    "enter el1",
    "enter el2",
    "access read 0x0",
    "access write 0xffff000000000000",
    "access fetch 0x1000",
    "conflict",
    "free frame 0x40000000 0x1000",
    "free table 0x40000000 0x10000",
    "free asid 0xffff",
    "free vmid 0x7",
    "revoked 0x0 0xfff r--/---",
    "revoked 0x0 0xfff rwx/rwx asid 0x5",
    "revoked 0x0 0xfff ---/--x vmid 0x5",
    "needs 0x0 0xffffffffffffffff",
    "needs nothing",
    // No TLBI of the architecture, but one of its instructions.
    "tlbi 0xd5088000 0x0",
    "tlbi vae1is 0xffffffffffffffff",
];

fn act(line: &str) -> Result<Act, String> {
    Act::read(&line.split(' ').collect::<Vec<_>>())
}

#[track_caller]
fn is_written_as_read(line: &str) {
    assert_eq!(act(line).map(|it| it.to_string()).as_deref(), Ok(line));
}

#[test]
fn a_line_is_written_as_it_was_read() {
    LINES.into_iter().for_each(is_written_as_read);
    for (register, _) in REGISTERS {
        is_written_as_read(&format!("msr {register} 0x1"));
    }
    for (domain, short) in [("nsh", "nsh"), ("ish", "ish"), ("osh", "osh"), ("sy", "")] {
        for limit in [domain.to_owned(), format!("{short}ld"), format!("{short}st")] {
            is_written_as_read(&format!("dsb {limit}"));
            is_written_as_read(&format!("dsb {limit}nxs"));
            is_written_as_read(&format!("dmb {limit}"));
        }
    }
}

/// Every encoding that a TLBI may have, named or not.
#[test]
fn a_tlbi_is_written_as_it_was_read() {
    let mut named = 0;
    for low in 0..1 << 16_u32 {
        let bits = 0xd508_8000_u32 | (low & 0xe000) << 3 | (low & 0x1000) | (low & 0xfe0);
        let Ok(read) = act(&format!("tlbi {bits:#x} 0x1")) else { continue };
        let line = read.to_string();
        named += u32::from(!line.starts_with("tlbi 0x"));
        assert_eq!(act(&line), Ok(read), "{line}");
    }
    assert!(named > 100, "{named}");
}

#[test]
fn what_no_line_makes_is_a_comment() {
    use machine::event::Event;
    let exchange = Act::Event(Event::Exchange { address: 0, value: 1 });
    let text = format!("vellum trace 1\ncpu 0 bbm=0\n0 isb {exchange}\n");
    assert_eq!(Trace::read(&text).map(|it| it.lines.len()), Ok(1));
}
