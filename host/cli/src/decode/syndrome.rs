//! ESR_ELx and a failed PAR_EL1: the sentence first, then the fields (D23.2, ESR_EL1).

use vmsa::fields::PAR_EL1_FAULT;
use vmsa::{ExceptionClass, FaultStatus, Syndrome};

use super::{Words, register, tlbi};

pub(super) fn decode(value: u64) -> Words {
    let syndrome = Syndrome::new(value);
    let mut fields = Vec::new();
    let mut row = |name: &str, bits: &str, value: u64, says: String| {
        fields.push([name.to_owned(), format!("[{bits}]"), format!("{value:#x}"), says]);
    };
    row("ISS2", "55:32", value >> 32 & 0xff_ffff, "by class too".to_owned());
    row("EC", "31:26", value >> 26 & 0x3f, syndrome.class().to_string());
    let length = if value >> 25 & 1 != 0 { "32-bit instruction, or no matter" } else { "16-bit instruction" };
    row("IL", "25", value >> 25 & 1, length.to_owned());
    row("ISS", "24:0", u64::from(syndrome.specific()), "by class, as follows".to_owned());
    for (name, high, low, says) in specific(syndrome) {
        let field = value >> low & (!0 >> (63 - (high - low)));
        let bits = if high == low { format!("{low}") } else { format!("{high}:{low}") };
        row(name, &bits, field, says(field));
    }
    let is_trapped = syndrome.class() == ExceptionClass::TrappedSystemInstruction;
    Words {
        head: format!("ESR = {value:#018x}: {syndrome} (DDI 0487, D23.2, ESR_EL1)"),
        fields,
        conclusions: is_trapped.then(|| format!("the instruction is {}", trapped(value))).into_iter().collect(),
    }
}

/// A field of ISS: name, highest and lowest bit, what a value says.
type Specific = (&'static str, u32, u32, fn(u64) -> String);

fn specific(syndrome: Syndrome) -> Vec<Specific> {
    if syndrome.is_data_abort() {
        return data_abort(syndrome);
    }
    if syndrome.is_instruction_abort() {
        let kind: &[Specific] = if is_external(syndrome) { &[SET] } else { &[] };
        return [kind, &INSTRUCTION_ABORT].concat();
    }
    match syndrome.class() {
        ExceptionClass::TrappedSystemInstruction => SYSTEM.to_vec(),
        ExceptionClass::SupervisorCall | ExceptionClass::HypervisorCall | ExceptionClass::SecureMonitorCall => {
            vec![("imm16", 15, 0, |value| value.to_string())]
        }
        ExceptionClass::BreakpointInstruction => vec![("Comment", 15, 0, |value| format!("brk #{value:#x}"))],
        ExceptionClass::TrappedWait => {
            vec![("TI", 1, 0, |v| ["WFI", "WFE", "WFIT", "WFET"][v as usize & 3].to_owned())]
        }
        ExceptionClass::BranchTarget => vec![("BTYPE", 1, 0, |v| format!("PSTATE.BTYPE was {v}"))],
        ExceptionClass::SystemError => SYSTEM_ERROR.to_vec(),
        ExceptionClass::Other(POINTER_AUTHENTICATION) => vec![
            ("Data", 1, 1, |v| format!("{} key", if v == 0 { "instruction" } else { "data" })),
            ("B", 0, 0, |v| format!("key {}", if v == 0 { "A" } else { "B" })),
        ],
        _ => Vec::new(),
    }
}

/// EC of a pointer authentication failure.
const POINTER_AUTHENTICATION: u8 = 0x1c;

/// The fields that hold something: those of the access with ISV alone, SET of an external abort alone, and those of ISS2 for
/// permission faults that only its extensions have.
fn data_abort(syndrome: Syndrome) -> Vec<Specific> {
    let is_told = syndrome.bits() >> 24 & 1 != 0;
    let kind = match is_external(syndrome) {
        true => Some(SET),
        false => (!is_told).then_some(LOAD_STORE),
    };
    let access: &[Specific] = if is_told { &ACCESS } else { &[] };
    let second: &[Specific] = if syndrome.bits() >> 32 & 0xff_ffff != 0 { &DATA_ABORT_2 } else { &[] };
    [second, &DATA_ABORT[..1], access, &DATA_ABORT[1..2], kind.as_slice(), &DATA_ABORT[2..]].concat()
}

fn is_external(syndrome: Syndrome) -> bool {
    matches!(syndrome.fault(), Some(FaultStatus::External | FaultStatus::ExternalOnWalk(_)))
}

const DATA_ABORT_2: [Specific; 8] = [
    ("HDBSSF", 43, 43, |v| flag(v, "the list of dirty memory could not be written (FEAT_HDBSS)")),
    ("TnD", 42, 42, |v| flag(v, "the fault is of the allocation tag, not of the data (FEAT_MTE_PERM)")),
    ("TagAccess", 41, 41, |v| flag(v, "NoTagAccess refused the access (FEAT_MTE_PERM)")),
    ("GCS", 40, 40, |v| flag(v, "by an access to a guarded control stack (FEAT_GCS)")),
    ("AssuredOnly", 39, 39, |v| flag(v, "stage 2: AssuredOnly refused the access (FEAT_THE)")),
    ("Overlay", 38, 38, |v| flag(v, "an overlay refused the access (FEAT_S1POE, FEAT_S2POE)")),
    ("DirtyBit", 37, 37, |v| flag(v, "the dirty state refused the access (FEAT_S1PIE, FEAT_S2PIE)")),
    ("Xs", 36, 32, |v| format!("x{v} holds the status or data of an ST64BV (FEAT_LS64)")),
];

/// What ISV vouches for.
const ACCESS: [Specific; 5] = [
    ("SAS", 23, 22, |v| ["1 byte", "2 bytes", "4 bytes", "8 bytes"][v as usize & 3].to_owned()),
    ("SSE", 21, 21, |v| flag(v, "sign-extended")),
    ("SRT", 20, 16, |v| if v == 31 { "zero register".to_owned() } else { format!("register {v}") }),
    ("SF", 15, 15, |v| flag(v, "64-bit register")),
    ("AR", 14, 14, |v| flag(v, "acquire or release")),
];

const SET: Specific = ("SET", 12, 11, |v| {
    let names = ["recoverable", "reserved", "uncontainable", "restartable"];
    format!("state of the PE: {} (FEAT_RAS)", names[v as usize & 3])
});

const LOAD_STORE: Specific = ("LST", 12, 11, |v| {
    let names = ["no 64-byte access, or not told", "ST64BV", "LD64B or ST64B", "ST64BV0"];
    names[v as usize & 3].to_owned()
});

const DATA_ABORT: [Specific; 8] = [
    ("ISV", 24, 24, |v| flag(v, "SAS, SSE, SRT, SF and AR describe the access")),
    ("VNCR", 13, 13, |v| flag(v, "through VNCR_EL2 (FEAT_NV2)")),
    ("FnV", 10, 10, |v| flag(v, "FAR does not hold the address")),
    ("EA", 9, 9, |v| flag(v, "external abort: IMPLEMENTATION DEFINED kind")),
    ("CM", 8, 8, |v| flag(v, "cache maintenance or address translation")),
    ("S1PTW", 7, 7, |v| flag(v, "fault of stage 2 on a stage-1 walk")),
    ("WnR", 6, 6, |v| if v == 1 { "write (always with CM)".to_owned() } else { "read".to_owned() }),
    ("DFSC", 5, 0, |v| FaultStatus::decode(v as u8).to_string()),
];

const INSTRUCTION_ABORT: [Specific; 4] = [
    ("FnV", 10, 10, |v| flag(v, "FAR does not hold the address")),
    ("EA", 9, 9, |v| flag(v, "external abort: IMPLEMENTATION DEFINED kind")),
    ("S1PTW", 7, 7, |v| flag(v, "fault of stage 2 on a stage-1 walk")),
    ("IFSC", 5, 0, |v| FaultStatus::decode(v as u8).to_string()),
];

const SYSTEM_ERROR: [Specific; 5] = [
    ("IDS", 24, 24, |v| flag(v, "the rest is IMPLEMENTATION DEFINED")),
    ("IESB", 13, 13, |v| flag(v, "synchronised by the implicit barrier of an exception (FEAT_IESB)")),
    ("AET", 12, 10, |v| {
        let names =
            ["uncontainable", "unrecoverable", "restartable", "recoverable", "reserved", "reserved", "corrected"];
        names.get(v as usize).copied().unwrap_or("reserved").to_owned()
    }),
    ("EA", 9, 9, |v| flag(v, "external abort: IMPLEMENTATION DEFINED kind")),
    ("DFSC", 5, 0, |v| match v {
        0 => "uncategorised".to_owned(),
        0x11 => "asynchronous SError".to_owned(),
        _ => format!("reserved: {v:#x}"),
    }),
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
    match tlbi::name((op1, crn, crm, op2)) {
        Some(name) if op0 == 1 => format!("tlbi {name}"),
        _ => format!("S{op0}_{op1}_C{crn}_C{crm}_{op2}"),
    }
}

/// PAR_EL1 of a translation that failed.
pub(super) fn decode_par_fault(value: u64) -> Words {
    let mut words = register::decode(&PAR_EL1_FAULT, "par_el1", value, None);
    words.conclusions.push(FaultStatus::decode((value >> 1) as u8 & 0x3f).to_string());
    words
}
