//! What may happen to the machine: one value for each method of `Machine`, so that a trace, a schedule and a program are
//! the same thing.

use crate::attributes::Permissions;
use crate::barrier::Barrier;
use crate::context::Tag;
use crate::registers::Register;
use crate::syndrome::AccessKind;
use crate::tlbi::Opcode;

/// The exception level that a CPU runs at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    /// User.
    El0,
    /// Kernel.
    El1,
    /// Hypervisor.
    El2,
    /// Firmware: no CPU of the machine gets there.
    El3,
}

impl Level {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::El0 => "EL0",
            Self::El1 => "EL1",
            Self::El2 => "EL2",
            Self::El3 => "EL3",
        }
    }
}

/// What an address in an event names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Owned {
    /// Memory that leaves map.
    Frame,
    /// Memory that holds a table.
    Table,
}

/// One event on one CPU.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// A 64-bit store to a physical address.
    Store {
        /// Physical address.
        address: u64,
        /// Value.
        value: u64,
        /// Store-release: ordered after every earlier store.
        is_release: bool,
    },
    /// A 64-bit compare-and-exchange, which orders nothing.
    CompareExchange {
        /// Physical address.
        address: u64,
        /// What must be there.
        expected: u64,
        /// What is stored then.
        value: u64,
    },
    /// A 64-bit exchange, which orders nothing.
    Exchange {
        /// Physical address.
        address: u64,
        /// Value.
        value: u64,
    },
    /// A lock is given away, by a store-release or an exchange that is one: what this CPU stored before is seen by whoever takes it.
    Unlock,
    /// A lock is taken, by an exchange or a load-acquire: what was stored before every [`Event::Unlock`] so far comes before what this CPU does next.
    Lock,
    /// A barrier.
    Barrier(Barrier),
    /// A TLBI.
    Tlbi {
        /// The instruction's fields.
        opcode: Opcode,
        /// Its register operand.
        operand: u64,
    },
    /// MSR.
    Write {
        /// Register.
        register: Register,
        /// Value.
        value: u64,
    },
    /// Exception entry to, or return to, a level: a context synchronization event.
    Enter(Level),
    /// An access by virtual address.
    Access {
        /// Address.
        address: u64,
        /// What it does.
        kind: AccessKind,
    },
    /// A TLB conflict abort is taken.
    ConflictAbort,
    /// Memory is given away: nothing may refer to it any more.
    Release {
        /// First physical address.
        address: u64,
        /// Bytes.
        size_bytes: u64,
        /// What it was.
        owned: Owned,
    },
    /// The ASID gets another owner.
    ReuseAsid {
        /// Regime and VMID.
        tag: Tag,
        /// ASID.
        asid: u16,
    },
    /// The VMID gets another owner.
    ReuseVmid(u16),
    /// The program takes it that no CPU may do more than `allowed` in the range.
    Revoked {
        /// Regime and VMID.
        tag: Tag,
        /// ASID, or `None` for every one.
        asid: Option<u16>,
        /// First input address.
        first: u64,
        /// Last input address.
        last: u64,
        /// What may be left.
        allowed: Permissions,
    },
    /// From now on this CPU cannot do without these input addresses: its code, stack, vectors, tables.
    Needs {
        /// First input address.
        first: u64,
        /// Last input address.
        last: u64,
    },
    /// It can again.
    NeedsNothing,
}
