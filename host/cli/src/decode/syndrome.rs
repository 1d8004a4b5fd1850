//! ESR_ELx and a failed PAR_EL1: the sentence first, then the fields (D23.2, ESR_EL1).

use vmsa::fields::PAR_EL1_FAULT;
use vmsa::{ExceptionClass, FaultStatus, Syndrome, TlbiOp};

use crate::table::Table;

use super::register;

pub(super) fn decode(value: u64) -> String {
    let syndrome = Syndrome::new(value);
    let mut text = format!("ESR = {value:#018x}: {syndrome} (DDI 0487, D23.2, ESR_EL1)\n");
    let mut table = Table::new();
    let mut row = |name: &str, bits: &str, value: u64, says: String| {
        table.row([name.to_owned(), format!("[{bits}]"), format!("{value:#x}"), says]);
    };
    row("ISS2", "55:32", value >> 32 & 0xff_ffff, "more of the syndrome".to_owned());
    row("EC", "31:26", value >> 26 & 0x3f, syndrome.class().to_string());
    row(
        "IL",
        "25",
        value >> 25 & 1,
        if value >> 25 & 1 != 0 { "32-bit instruction" } else { "16-bit instruction" }.to_owned(),
    );
    row("ISS", "24:0", u64::from(syndrome.specific()), "by class, as follows".to_owned());
    for (name, high, low, says) in specific(syndrome) {
        let field = value >> low & (!0 >> (63 - (high - low)));
        let bits = if high == low { format!("{low}") } else { format!("{high}:{low}") };
        row(name, &bits, field, says(field));
    }
    text += &table.to_string();
    if syndrome.class() == ExceptionClass::TrappedSystemInstruction {
        text += &format!("  the instruction is {}\n", trapped(value));
    }
    text
}

/// A field of ISS: name, highest and lowest bit, what a value says.
type Specific = (&'static str, u32, u32, fn(u64) -> String);

fn specific(syndrome: Syndrome) -> Vec<Specific> {
    if syndrome.is_data_abort() {
        return DATA_ABORT.to_vec();
    }
    if syndrome.is_instruction_abort() {
        return INSTRUCTION_ABORT.to_vec();
    }
    match syndrome.class() {
        ExceptionClass::TrappedSystemInstruction => SYSTEM.to_vec(),
        ExceptionClass::SupervisorCall | ExceptionClass::HypervisorCall | ExceptionClass::SecureMonitorCall => {
            vec![("imm16", 15, 0, |value| value.to_string())]
        }
        ExceptionClass::BreakpointInstruction => vec![("Comment", 15, 0, |value| format!("brk #{value:#x}"))],
        _ => Vec::new(),
    }
}

const DATA_ABORT: [Specific; 14] = [
    ("ISV", 24, 24, |v| flag(v, "the next fields describe the access")),
    ("SAS", 23, 22, |v| format!("{} bytes", 1 << v)),
    ("SSE", 21, 21, |v| flag(v, "sign-extended")),
    ("SRT", 20, 16, |v| format!("register {v}")),
    ("SF", 15, 15, |v| flag(v, "64-bit register")),
    ("AR", 14, 14, |v| flag(v, "acquire or release")),
    ("VNCR", 13, 13, |v| flag(v, "through VNCR_EL2")),
    ("LST/SET", 12, 11, |v| format!("kind of load or store, or of error: {v}")),
    ("FnV", 10, 10, |v| flag(v, "FAR does not hold the address")),
    ("EA", 9, 9, |v| flag(v, "external abort type 1")),
    ("CM", 8, 8, |v| flag(v, "cache maintenance or address translation")),
    ("S1PTW", 7, 7, |v| flag(v, "fault of stage 2 on a stage-1 walk")),
    ("WnR", 6, 6, |v| if v == 1 { "write".to_owned() } else { "read".to_owned() }),
    ("DFSC", 5, 0, |v| FaultStatus::decode(v as u8).to_string()),
];

const INSTRUCTION_ABORT: [Specific; 5] = [
    ("SET", 12, 11, |v| format!("kind of error: {v}")),
    ("FnV", 10, 10, |v| flag(v, "FAR does not hold the address")),
    ("EA", 9, 9, |v| flag(v, "external abort type 1")),
    ("S1PTW", 7, 7, |v| flag(v, "fault of stage 2 on a stage-1 walk")),
    ("IFSC", 5, 0, |v| FaultStatus::decode(v as u8).to_string()),
];

const SYSTEM: [Specific; 7] = [
    ("Op0", 21, 20, |v| v.to_string()),
    ("Op2", 19, 17, |v| v.to_string()),
    ("Op1", 16, 14, |v| v.to_string()),
    ("CRn", 13, 10, |v| v.to_string()),
    ("Rt", 9, 5, |v| if v == 31 { "xzr".to_owned() } else { format!("x{v}") }),
    ("CRm", 4, 1, |v| v.to_string()),
    ("Direction", 0, 0, |v| if v == 1 { "read (MRS)".to_owned() } else { "write (MSR or SYS)".to_owned() }),
];

fn flag(value: u64, what: &str) -> String {
    format!("{}: {what}", if value == 0 { "no" } else { "yes" })
}

/// The instruction that trapped: a TLBI by name, anything else by its fields.
fn trapped(value: u64) -> String {
    let field = |low: u32, bits: u32| (value >> low & ((1 << bits) - 1)) as u8;
    let (op0, op1, crn, crm, op2) = (field(20, 2), field(14, 3), field(10, 4), field(1, 4), field(17, 3));
    match TlbiOp::new(op1, crn, crm, op2) {
        op if op0 == 1 && op.name().is_some() => format!("tlbi {op}"),
        _ => format!("S{op0}_{op1}_C{crn}_C{crm}_{op2}"),
    }
}

/// PAR_EL1 of a translation that failed.
pub(super) fn decode_par_fault(value: u64) -> String {
    let mut text = register::decode(&PAR_EL1_FAULT, value);
    text += &format!("  {}\n", FaultStatus::decode((value >> 1) as u8 & 0x3f));
    text
}
