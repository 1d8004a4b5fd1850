//! Barriers and TLBIs, as one instruction each. With a constant operation everything but that instruction folds away.

use core::arch::asm;

use vmsa::maintenance::{BarrierAccess, Domain, TlbiName};
use vmsa::{Barrier, Maintenance, TlbiOp, for_each_tlbi};

/// How often a TLB conflict may come again at the same place, if conflicts are to be survived. To forget everything ends it at once,
/// unless something beneath keeps what is to be forgotten.
pub const PATIENCE: u64 = 4096;

/// Forgets all that this CPU's TLBs hold: the one answer to a TLB conflict that is sure to end it (RBLRKC).
pub fn forget_everything() {
    maintain(Maintenance::Invalidate(TlbiOp::VMALLE1, 0));
    // What conflicted is made again, and must not meet the old entries.
    maintain(Maintenance::DSB_NSH);
    maintain(Maintenance::ISB);
}

/// Executes a barrier or a TLBI on this CPU.
#[inline(always)]
pub fn maintain(operation: Maintenance) {
    match operation {
        Maintenance::Barrier(barrier) => execute_barrier(barrier),
        Maintenance::Invalidate(op, operand) => invalidate(op, operand),
    }
}

/// An instruction that orders memory accesses: without `nomem`, the compiler keeps them on their side of it too.
macro_rules! ordering {
    ($instruction:expr) => {
        // SAFETY: a barrier changes nothing but order.
        unsafe { asm!($instruction, options(nostack, preserves_flags)) }
    };
}

/// One of the nine kinds of `dsb` or `dmb`, by domain and accesses.
macro_rules! barrier {
    ($name:literal, $domain:expr, $access:expr) => {
        match ($domain, $access) {
            (Domain::NonShareable, BarrierAccess::Loads) => ordering!(concat!($name, " nshld")),
            (Domain::NonShareable, BarrierAccess::Stores) => ordering!(concat!($name, " nshst")),
            (Domain::NonShareable, BarrierAccess::All) => ordering!(concat!($name, " nsh")),
            (Domain::InnerShareable, BarrierAccess::Loads) => ordering!(concat!($name, " ishld")),
            (Domain::InnerShareable, BarrierAccess::Stores) => ordering!(concat!($name, " ishst")),
            (Domain::InnerShareable, BarrierAccess::All) => ordering!(concat!($name, " ish")),
            (Domain::OuterShareable, BarrierAccess::Loads) => ordering!(concat!($name, " oshld")),
            (Domain::OuterShareable, BarrierAccess::Stores) => ordering!(concat!($name, " oshst")),
            (Domain::OuterShareable, BarrierAccess::All) => ordering!(concat!($name, " osh")),
            (Domain::FullSystem, BarrierAccess::Loads) => ordering!(concat!($name, " ld")),
            (Domain::FullSystem, BarrierAccess::Stores) => ordering!(concat!($name, " st")),
            (Domain::FullSystem, BarrierAccess::All) => ordering!(concat!($name, " sy")),
        }
    };
}

#[inline(always)]
fn execute_barrier(barrier: Barrier) {
    match barrier {
        Barrier::Dsb(domain, access) => barrier!("dsb", domain, access),
        Barrier::Dmb(domain, access) => barrier!("dmb", domain, access),
        Barrier::Isb => ordering!("isb"),
    }
}

/// One system instruction, with its operand. Where there is none the register field must be 31, which is what leaving it
/// out assembles to.
macro_rules! sys {
    (Nothing, $instruction:expr, $operand:ident) => {
        // SAFETY: forgetting a translation is always allowed; the tables decide what comes back.
        unsafe { asm!($instruction, options(nostack, preserves_flags)) }
    };
    ($kind:ident, $instruction:expr, $operand:ident) => {
        // SAFETY: as above.
        unsafe { asm!(concat!($instruction, ", {}"), in(reg) $operand, options(nostack, preserves_flags)) }
    };
}

/// Executes the operation of this name, with its CRn: 8, or 9 for the variant without XS (FEAT_XS).
macro_rules! execute {
    ($name:expr, $crn:literal, $operand:ident;
        $($row:ident = $op1:literal $crm:literal $op2:literal $domain:ident $kind:ident: $doc:literal;)*
    ) => {
        match $name {
            $(TlbiName::$row => {
                sys!($kind, concat!("sys #", $op1, ", c", $crn, ", c", $crm, ", #", $op2), $operand)
            })*
        }
    };
}

#[inline]
fn invalidate(op: TlbiOp, operand: u64) {
    if op.is_without_xs() {
        return invalidate_without_xs(op.name(), operand);
    }
    for_each_tlbi!(execute op.name(), 8, operand)
}

/// Apart, so that its table is not where most TLBIs are.
#[inline(never)]
fn invalidate_without_xs(name: TlbiName, operand: u64) {
    for_each_tlbi!(execute name, 9, operand)
}
