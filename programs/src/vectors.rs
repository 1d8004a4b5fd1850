//! What a thread has in registers of SVE.

/// Holds predicates, the first-fault register and a vector that come of `seed` for some millions of instructions without a call; how many
/// of the five were not kept.
#[cfg(target_arch = "aarch64")]
pub fn hold_vectors(seed: u64) -> u64 {
    let wrong: u64;
    // SAFETY: the CPU has SVE, which the caller has asked for; what is written is named.
    unsafe {
        std::arch::asm!(
            ".arch_extension sve",
            "index z5.b, {seed:w}, #7",
            "ptrue p3.b",
            "whilelo p5.b, xzr, {seed}",
            "pfalse p4.b",
            "wrffr p5.b",
            "1: subs {left}, {left}, #1",
            "b.ne 1b",
            "ptrue p2.b",
            "index z6.b, {seed:w}, #7",
            "cmpne p6.b, p2/z, z5.b, z6.b",
            "cset {wrong}, ne",
            "eors p6.b, p2/z, p3.b, p2.b",
            "cinc {wrong}, {wrong}, ne",
            "ptest p2, p4.b",
            "cinc {wrong}, {wrong}, ne",
            "whilelo p7.b, xzr, {seed}",
            "eors p6.b, p2/z, p5.b, p7.b",
            "cinc {wrong}, {wrong}, ne",
            "rdffr p6.b",
            "eors p6.b, p2/z, p6.b, p7.b",
            "cinc {wrong}, {wrong}, ne",
            seed = in(reg) seed,
            left = inout(reg) 20_000_000u64 => _,
            wrong = out(reg) wrong,
            out("v5") _, out("v6") _,
            out("p2") _, out("p3") _, out("p4") _, out("p5") _, out("p6") _, out("p7") _, out("ffr") _,
            options(nomem, nostack),
        );
    }
    wrong
}

/// Leaves other values in all that [`hold_vectors`] holds, for a handler of signals.
#[cfg(target_arch = "aarch64")]
pub fn spoil_vectors() {
    // SAFETY: as above.
    unsafe {
        std::arch::asm!(
            ".arch_extension sve",
            "index z5.b, #1, #1",
            "pfalse p3.b",
            "ptrue p4.b",
            "ptrue p5.b, vl1",
            "wrffr p4.b",
            out("v5") _, out("p3") _, out("p4") _, out("p5") _, out("ffr") _,
            options(nomem, nostack),
        );
    }
}

/// Elsewhere there are none.
#[cfg(not(target_arch = "aarch64"))]
pub fn hold_vectors(_: u64) -> u64 {
    0
}

/// As above.
#[cfg(not(target_arch = "aarch64"))]
pub fn spoil_vectors() {}
