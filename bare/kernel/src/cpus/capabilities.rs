//! What a program may use, as every CPU that runs has it: bits of AT_HWCAP, and their names in `/proc/cpuinfo`.

use vmsa::IdRegisters;

use super::walkers;

type Field = fn(&IdRegisters) -> u64;

const KNOWN: [(u32, &str, Field); 5] = [
    (0, "fp", |_| 1),
    (1, "asimd", |_| 1),
    (7, "crc32", |id| id.isar0 >> 16 & 15),
    (8, "atomics", |id| id.isar0 >> 20 & 15),
    (22, "sve", |id| id.pfr0 >> 32 & 15),
];

/// The bits, and their names.
pub(crate) fn all() -> impl Iterator<Item = (u32, &'static str)> {
    let has = |field: &Field| walkers::identities().all(|(_, cpu)| field(&cpu.id) != 0);
    KNOWN.into_iter().filter(move |(.., field)| has(field)).map(|(bit, name, _)| (bit, name))
}

/// Whether the one of this name is among them.
pub(crate) fn has(name: &str) -> bool {
    all().any(|(_, one)| one == name)
}
