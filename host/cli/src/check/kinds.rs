// data: what is found, and what each is about.
//! Kinds of findings: how bad each is, what it risks or costs, and where to read about it.

use clap::ValueEnum;

/// How bad a finding is; the worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, clap::ValueEnum)]
pub(crate) enum Rank {
    /// It breaks the architecture's rules, or the protection of the kernel
    Danger,
    /// It weakens a protection, or may be meant
    Risk,
    /// It takes memory, or TLB entries
    Cost,
}

/// A kind of finding, by its name on the command line; the worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Writable and executable by the kernel
    Wx,
    /// Read-only memory that is writable under another address
    Alias,
    /// A page table that is executable, or writable by EL0
    ExposedTable,
    /// One physical page with different memory types
    Types,
    /// A contiguous group that is not uniform
    Contiguous,
    /// One table that CPUs read in different ways
    Disagree,
    /// An address with more bits than IPS or PARange allows
    OutputSize,
    /// Device memory that is executable
    DeviceExecutable,
    /// Cacheable memory where the machine has none
    NoMemory,
    /// Bits or encodings that the architecture reserves
    Reserved,
    /// A table outside memory
    Outside,
    /// A table that leads to itself
    Loop,
    /// A table of a guest that stage 2 does not map
    Unmapped,
    /// A page table of the machine that a guest writes
    GuestTable,
    /// A kernel's page without access flag, where hardware does not set it
    AccessFlag,
    /// Writable and executable by a process
    UserWx,
    /// Executable by EL0, and written by EL1 alone
    UserExecutes,
    /// A page of EL0 that belongs to every ASID
    UserGlobal,
    /// A table that could be one block
    Fold,
    /// Leaves that could be a contiguous group
    Larger,
    /// A table without an entry
    Empty,
    /// A table shared so often that it was not walked again
    Shared,
}

/// What is the same for all findings of a kind.
#[derive(Debug)]
pub(crate) struct About {
    pub(crate) kind: Kind,
    pub(crate) rank: Rank,
    pub(crate) title: &'static str,
    pub(crate) risk: &'static str,
    pub(crate) read: &'static str,
}

const fn about(kind: Kind, rank: Rank, title: &'static str, risk: &'static str, read: &'static str) -> About {
    About { kind, rank, title, risk, read }
}

impl Kind {
    pub(crate) fn about(self) -> &'static About {
        &ABOUT[self as usize]
    }

    /// Its name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Every kind, in the order of their names.
pub(crate) const ABOUT: [About; 22] = [
    about(
        Kind::Wx,
        Rank::Danger,
        "writable and executable",
        "whoever can write one word there runs code of the kernel",
        "DDI 0487, D8.4.6; SCTLR_EL1.WXN",
    ),
    about(
        Kind::Alias,
        Rank::Danger,
        "a writable alias of read-only memory",
        "the protection holds for one address alone: a stray or hostile write through the other changes it",
        "Linux: rodata= (admin-guide, kernel-parameters)",
    ),
    about(
        Kind::ExposedTable,
        Rank::Danger,
        "a page table that is executable, or writable by EL0",
        "whoever can write one descriptor there reaches all of memory",
        "DDI 0487, D8.2",
    ),
    about(
        Kind::Types,
        Rank::Danger,
        "one physical page with different memory types",
        "accesses lose coherency, order and single-copy atomicity between the two",
        "DDI 0487, B2.10 (mismatched memory attributes)",
    ),
    about(
        Kind::Contiguous,
        Rank::Danger,
        "a contiguous group that is not uniform",
        "a TLB may hold one entry for all of it: wrong address, wrong permissions, or a conflict abort",
        "DDI 0487, D8.7.1 (misprogramming of the Contiguous bit)",
    ),
    about(
        Kind::Disagree,
        Rank::Danger,
        "one table that CPUs read in different ways",
        "an address leads elsewhere, permits more, or faults, depending on the CPU",
        "DDI 0487, D8.2; TCR_EL1, MAIR_EL1, SCTLR_EL1 of each CPU",
    ),
    about(
        Kind::OutputSize,
        Rank::Danger,
        "an address with more bits than IPS or PARange allows",
        "every access is an address size fault",
        "DDI 0487, D8.2.6; TCR_EL1.IPS, ID_AA64MMFR0_EL1.PARange",
    ),
    about(
        Kind::DeviceExecutable,
        Rank::Danger,
        "device memory that is executable",
        "instruction fetches by speculation read the device: lost data, or a machine that hangs",
        "DDI 0487, D8.4.4",
    ),
    about(
        Kind::NoMemory,
        Rank::Danger,
        "cacheable memory where the machine has none",
        "reads by speculation go to a device or to nothing: an SError, or a machine that hangs",
        "DDI 0487, B2.10",
    ),
    about(
        Kind::Reserved,
        Rank::Danger,
        "bits or encodings that the architecture reserves",
        "today ignored or a fault; on a later CPU they mean something",
        "DDI 0487, D8.3.1",
    ),
    about(
        Kind::Outside,
        Rank::Danger,
        "a table outside memory",
        "a walk there is an external abort, or reads a device",
        "DDI 0487, D8.2",
    ),
    about(
        Kind::Loop,
        Rank::Danger,
        "a table that leads to itself",
        "page tables can be reached and changed through their own translations",
        "DDI 0487, D8.2",
    ),
    about(
        Kind::Unmapped,
        Rank::Risk,
        "a table of a guest that stage 2 does not map",
        "a walk there is a stage 2 fault, which a hypervisor may serve",
        "DDI 0487, D8.2",
    ),
    about(
        Kind::GuestTable,
        Rank::Risk,
        "a page table of the machine that a guest writes",
        "a guest that is not trusted leaves its memory by one store",
        "DDI 0487, D8.2",
    ),
    about(
        Kind::AccessFlag,
        Rank::Risk,
        "a kernel's page without access flag, where hardware does not set it",
        "the first access is an access flag fault, which few kernels serve for their own pages",
        "DDI 0487, D8.5.1; TCR_EL1.HA",
    ),
    about(
        Kind::UserWx,
        Rank::Risk,
        "writable and executable by a process",
        "a compiler at run time may want it; anything else should not",
        "DDI 0487, D8.4.6",
    ),
    about(
        Kind::UserExecutes,
        Rank::Risk,
        "executable by EL0, and written by EL1 alone",
        "what a kernel keeps for itself, a process may run; UXN is missing",
        "DDI 0487, D8.4.1",
    ),
    about(
        Kind::UserGlobal,
        Rank::Risk,
        "a page of EL0 that belongs to every ASID",
        "whichever process runs next may still reach it by a TLB entry; nG is missing",
        "DDI 0487, D8.16 (global entries)",
    ),
    about(
        Kind::Fold,
        Rank::Cost,
        "a table that could be one block",
        "a page of memory for the table, and a TLB entry for each page instead of one",
        "DDI 0487, D8.3.1; rodata=full maps pages by intent where blocks cannot be split live",
    ),
    about(
        Kind::Larger,
        Rank::Cost,
        "leaves that could be a contiguous group",
        "a TLB entry for each leaf instead of one for all",
        "DDI 0487, D8.7.1",
    ),
    about(Kind::Empty, Rank::Cost, "a table without an entry", "a page of memory", "DDI 0487, D8.3.1"),
    about(
        Kind::Shared,
        Rank::Cost,
        "a table shared so often that it was not walked again",
        "what lies below it is missing here",
        "DDI 0487, D8.2",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The guide has a line for each, with its rank; the table is in the order of the names, the worst first.
    #[test]
    fn the_guide_says_of_every_kind_how_bad_it_is() {
        let guide = include_str!("../../../../docs/guide/read-a-dump.md");
        for (place, about) in ABOUT.iter().enumerate() {
            assert_eq!(about.kind as usize, place);
            let rank = format!("{:?}", about.rank).to_lowercase();
            let row = format!("| `{}` | {rank} | {} |", about.kind.name(), about.title);
            assert!(guide.contains(&row), "the guide lacks: {row}");
        }
        assert!(ABOUT.is_sorted_by_key(|about| about.rank));
        assert_eq!(ABOUT.len(), Kind::value_variants().len());
    }
}
