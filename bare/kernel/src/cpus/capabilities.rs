//! What a program may use, as every CPU that runs has it: bits of AT_HWCAP and AT_HWCAP2, their names in `/proc/cpuinfo`, and ID registers
//! as a program reads them.

use super::walkers;

/// A field of four bits: CRm and op2 of its ID register, and its lowest bit.
type Field = (u32, u32, u32);

const PFR0: (u32, u32) = (4, 0);
const ISAR0: (u32, u32) = (6, 0);
const ISAR1: (u32, u32) = (6, 1);

const fn field((crm, op2): (u32, u32), low: u32) -> Field {
    (crm, op2, low)
}

/// A bit, of AT_HWCAP2 from 32 on; its name; the field that tells of it, and the least that this then is.
const KNOWN: [(u32, &str, Field, u64); 32] = [
    (3, "aes", field(ISAR0, 4), 1),
    (4, "pmull", field(ISAR0, 4), 2),
    (5, "sha1", field(ISAR0, 8), 1),
    (6, "sha2", field(ISAR0, 12), 1),
    (7, "crc32", field(ISAR0, 16), 1),
    (8, "atomics", field(ISAR0, 20), 2),
    (12, "asimdrdm", field(ISAR0, 28), 1),
    (13, "jscvt", field(ISAR1, 12), 1),
    (14, "fcma", field(ISAR1, 16), 1),
    (15, "lrcpc", field(ISAR1, 20), 1),
    (16, "dcpop", field(ISAR1, 0), 1),
    (17, "sha3", field(ISAR0, 32), 1),
    (18, "sm3", field(ISAR0, 36), 1),
    (19, "sm4", field(ISAR0, 40), 1),
    (20, "asimddp", field(ISAR0, 44), 1),
    (21, "sha512", field(ISAR0, 12), 2),
    (22, "sve", field(PFR0, 32), 1),
    (23, "asimdfhm", field(ISAR0, 48), 1),
    (26, "ilrcpc", field(ISAR1, 20), 2),
    (27, "flagm", field(ISAR0, 52), 1),
    (29, "sb", field(ISAR1, 36), 1),
    (32, "dcpodp", field(ISAR1, 0), 2),
    (39, "flagm2", field(ISAR0, 52), 2),
    (40, "frint", field(ISAR1, 32), 1),
    (45, "i8mm", field(ISAR1, 52), 1),
    (46, "bf16", field(ISAR1, 44), 1),
    (47, "dgh", field(ISAR1, 48), 1),
    (48, "rng", field(ISAR0, 60), 1),
    // These are signed: none of them is 15.
    (0, "fp", field(PFR0, 16), 0),
    (1, "asimd", field(PFR0, 20), 0),
    (9, "fphp", field(PFR0, 16), 1),
    (10, "asimdhp", field(PFR0, 20), 1),
];
/// ID registers can be read: [`identity`].
const CPUID: (u32, &str) = (11, "cpuid");

/// The field as every CPU has it.
fn read((crm, op2, low): Field) -> u64 {
    let of = |cpu: &walkers::Identity| match (crm, op2) {
        PFR0 => cpu.id.pfr0,
        ISAR0 => cpu.id.isar0,
        _ => cpu.id.isar1,
    };
    walkers::identities().map(|(_, cpu)| of(&cpu) >> low & 15).min().unwrap_or(0)
}

/// The bits in order, and their names.
pub(crate) fn all() -> impl Iterator<Item = (u32, &'static str)> {
    let mut all: [Option<(u32, &str)>; 64] = [None; 64];
    let found =
        KNOWN.into_iter().filter(|(.., field, least)| read(*field) >= *least).map(|(bit, name, ..)| (bit, name));
    found.chain([CPUID]).for_each(|(bit, name)| all[bit as usize] = Some((bit, name)));
    all.into_iter().flatten()
}

/// AT_HWCAP, and AT_HWCAP2 above it.
pub(crate) fn bits() -> u64 {
    all().fold(0, |all, (bit, _)| all | 1 << bit)
}

/// Whether the one of this name is among them.
pub(crate) fn has(name: &str) -> bool {
    all().any(|(_, one)| one == name)
}

/// What a program reads of the ID register S3_0_C0_Cm_op2: what it may use, and nothing else; `None` for a register that it has not.
pub(crate) fn identity(crm: u32, op2: u32) -> Option<u64> {
    /// MPIDR_EL1.RES1; EL0 and EL1 have AArch64 alone; no page size is told of; the debug architecture that is there always.
    const NOBODY: u64 = 1 << 31;
    const LEVELS: u64 = 0x11;
    const PAGE_SIZES: u64 = 0x111_ff00_0000;
    const DEBUG: u64 = 6;
    let told = || {
        let fields = KNOWN.iter().filter(|(_, _, (one, two, _), _)| (*one, *two) == (crm, op2));
        fields.fold(0, |all, (_, _, field, _)| all | read(*field) << field.2)
    };
    Some(match (crm, op2) {
        (0, 0) => walkers::identities().next()?.1.midr.bits().into(),
        (0, 5) => NOBODY,
        (0, 6) => 0,
        (4, 0) => told() | LEVELS,
        (5, 0) => DEBUG,
        (7, 0) => PAGE_SIZES,
        (2..=7, _) => told(),
        _ => return None,
    })
}
