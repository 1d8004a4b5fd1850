//! Barriers and TLBIs, as one instruction each. With a constant operation everything but that instruction folds away.

use core::arch::asm;

use vmsa::maintenance::{BarrierAccess, Domain};
use vmsa::{Barrier, Maintenance, TlbiOp};

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

#[inline]
fn execute_barrier(barrier: Barrier) {
    match barrier {
        Barrier::Dsb(domain, access) => barrier!("dsb", domain, access),
        Barrier::Dmb(domain, access) => barrier!("dmb", domain, access),
        Barrier::Isb => ordering!("isb"),
    }
}

/// Hands the table of operations to a macro, behind its other arguments. Each row: op1, CRm, the operations without an
/// operand in brackets, those with one; each with its op2.
macro_rules! with_operations {
    ($use:ident: $($argument:tt)*) => {
        $use! { $($argument)*;
            0 7: [VMALLE1 0] VAE1 1, ASIDE1 2, VAAE1 3, VALE1 5, VAALE1 7;
            0 3: [VMALLE1IS 0] VAE1IS 1, ASIDE1IS 2, VAAE1IS 3, VALE1IS 5, VAALE1IS 7;
            0 1: [VMALLE1OS 0] VAE1OS 1, ASIDE1OS 2, VAAE1OS 3, VALE1OS 5, VAALE1OS 7;
            0 6: [] RVAE1 1, RVAAE1 3, RVALE1 5, RVAALE1 7;
            0 2: [] RVAE1IS 1, RVAAE1IS 3, RVALE1IS 5, RVAALE1IS 7;
            0 5: [] RVAE1OS 1, RVAAE1OS 3, RVALE1OS 5, RVAALE1OS 7;
            4 7: [ALLE2 0, ALLE1 4, VMALLS12E1 6] VAE2 1, VALE2 5;
            4 3: [ALLE2IS 0, ALLE1IS 4, VMALLS12E1IS 6] VAE2IS 1, VALE2IS 5;
            4 1: [ALLE2OS 0, ALLE1OS 4, VMALLS12E1OS 6] VAE2OS 1, VALE2OS 5;
            4 6: [] RVAE2 1, RVALE2 5;
            4 2: [] RVAE2IS 1, RVALE2IS 5;
            4 5: [] RVAE2OS 1, RVALE2OS 5;
            4 0: [] IPAS2E1IS 1, RIPAS2E1IS 2, IPAS2LE1IS 5, RIPAS2LE1IS 6;
            4 4: [] IPAS2E1OS 0, IPAS2E1 1, RIPAS2E1 2, RIPAS2E1OS 3,
                IPAS2LE1OS 4, IPAS2LE1 5, RIPAS2LE1 6, RIPAS2LE1OS 7;
        }
    };
}

/// Holds the table against the words of `vmsa`.
macro_rules! check {
    (; $($op1:literal $crm:literal: [$($all:ident $all_op2:literal),*] $($name:ident $op2:literal),*;)*) => {
        $($(const _: () = assert!(TlbiOp::$all.packed() == TlbiOp::new($op1, 8, $crm, $all_op2).packed());)*)*
        $($(const _: () = assert!(TlbiOp::$name.packed() == TlbiOp::new($op1, 8, $crm, $op2).packed());)*)*
    };
}
with_operations!(check:);

/// Executes the operation that `$op` is equal to, with its CRn: 8, or 9 for the variant without XS (FEAT_XS).
macro_rules! execute {
    ($op:ident, $crn:literal, $operand:ident;
        $($op1:literal $crm:literal: [$($all:ident $all_op2:literal),*] $($name:ident $op2:literal),*;)*
    ) => {
        match $op {
            $($(TlbiOp::$all => sys!(concat!("sys #", $op1, ", c", $crn, ", c", $crm, ", #", $all_op2)),)*)*
            $($(TlbiOp::$name =>
                sys!(concat!("sys #", $op1, ", c", $crn, ", c", $crm, ", #", $op2, ", {}"), $operand),)*)*
            // Executing an encoding that is none would be undefined.
            unknown => panic!("not a TLBI: {unknown}"),
        }
    };
}

/// One system instruction. Without an operand its register field must be 31, which is what leaving it out assembles to.
macro_rules! sys {
    ($instruction:expr $(, $operand:ident)?) => {
        // SAFETY: forgetting a translation is always allowed; the tables decide what comes back.
        unsafe { asm!($instruction, $(in(reg) $operand,)? options(nostack, preserves_flags)) }
    };
}

#[inline]
fn invalidate(op: TlbiOp, operand: u64) {
    if op.is_without_xs() {
        return invalidate_without_xs(op, operand);
    }
    with_operations!(execute: op, 8, operand)
}

/// Apart, so that its table is not where most TLBIs are.
#[inline(never)]
fn invalidate_without_xs(op: TlbiOp, operand: u64) {
    let (op1, _, crm, op2) = op.fields();
    let op = TlbiOp::new(op1, 8, crm, op2);
    with_operations!(execute: op, 9, operand)
}
