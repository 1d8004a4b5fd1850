//! EL0: entering it, what it has beside its general registers, and copies from and to its memory.
//!
//! Whoever enters EL0 gets the next exception from there as the answer to a call: [`run`] returns on the caller's own stack.

use core::arch::asm;

use vmsa::PhysAddr;

use crate::frame::Frame;
use crate::kind::Kind;
use crate::pmu;
use crate::registers::{self, read_register};

unsafe extern "C" {
    #[allow(improper_ctypes)]
    fn enter_user(frame: *mut Frame) -> u64;
    #[link_name = "copy_from_user"]
    fn copy_from_user_raw(to: *mut u8, from: u64, bytes: usize) -> usize;
    #[link_name = "copy_to_user"]
    fn copy_to_user_raw(to: u64, from: *const u8, bytes: usize) -> usize;
    fn load_word_of_user(to: *mut u32, from: u64, bytes: usize) -> usize;
    fn exchange_word_of_user(at: u64, words: *mut [u32; 3], bytes: usize) -> usize;
    fn load_hint(from: u64) -> u64;
    fn hint_faulted();
    fn user_copies_start();
    fn user_copies_end();
    fn user_copy_faulted();
    #[link_name = "save_simd"]
    fn save_simd_raw(to: *mut Simd);
    #[link_name = "restore_simd"]
    fn restore_simd_raw(from: *const Simd);
    fn save_predicates(to: *mut [u16; 17]);
    fn restore_predicates(from: *const [u16; 17]);
}

/// What `save_simd` saves.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug)]
pub struct Simd {
    /// FPCR.
    pub control: u64,
    /// FPSR.
    pub status: u64,
    /// V0 to V31, which are Z0 to Z31 too: vectors of SVE have 128 bits, which every CPU with SVE can do.
    pub registers: [u128; 32],
    /// P0 to P15 and FFR, where the CPU has SVE.
    pub predicates: [u16; 17],
}

impl Simd {
    /// What a new program finds.
    pub const ZERO: Self = Self { control: 0, status: 0, registers: [0; 32], predicates: [0; 17] };
}

/// SCTLR_EL1.UCI, UCT, DZE: EL0 may maintain caches, read CTR_EL0, clear memory by DC ZVA; nTWE, nTWI: and wait.
const SCTLR_FOR_USERS: u64 = 1 << 26 | 1 << 15 | 1 << 14 | 1 << 18 | 1 << 16;
/// SCTLR_EL1.SPAN: an exception leaves PSTATE.PAN as it is.
const SCTLR_SPAN: u64 = 1 << 23;

/// SCTLR_EL1.EPAN: what EL0 may only execute the kernel cannot reach either (FEAT_PAN3).
const SCTLR_EPAN: u64 = 1 << 57;
/// TCR_EL1.TBI0: the top byte of an address of the lower half is EL0's own.
const TCR_TBI0: u64 = 1 << 37;
/// MDSCR_EL1: no software step, no breakpoints (SS, KDE, MDE), and the debug channel is not EL0's (TDCC). A reset leaves UNKNOWN values.
const MDSCR_TDCC: u64 = 1 << 12;
/// CPACR_EL1.FPEN, ZEN: SIMD, and SVE, are not trapped.
const HAS_SIMD: u64 = 3 << 20;
const HAS_SVE: u64 = 3 << 16;

/// Prepares this CPU for EL0: the kernel cannot reach what EL0 can (FEAT_PAN, where there is one), EL0 has SIMD, SVE where the CPU has
/// it, and the counter.
pub fn prepare_cpu() {
    let mmfr1 = read_register!("id_aa64mmfr1_el1");
    let has_pan = has_pan();
    let sve = if read_register!("id_aa64pfr0_el1") >> 32 & 15 != 0 { HAS_SVE } else { 0 };
    let span = if has_pan { SCTLR_SPAN } else { 0 };
    // TLBs may keep EPAN; what they hold now EL0 may not execute.
    let epan = if has_execute_only(mmfr1) { SCTLR_EPAN } else { 0 };
    let sctlr = (registers::read_sctlr() | SCTLR_FOR_USERS | epan) & !span;
    // TLBs may keep TBI0: nobody has used a top byte by now.
    let tcr = registers::read_tcr() | TCR_TBI0;
    // SAFETY: translation stays as it is. The kernel itself is built without SIMD. EL0VCTEN. A thread
    // pointer of EL0 that another program left would tell of that program.
    unsafe {
        asm!(
            "msr sctlr_el1, {sctlr}",
            "msr tcr_el1, {tcr}",
            "msr cpacr_el1, {fpen}",
            "msr cntkctl_el1, {counter}",
            "msr tpidrro_el0, xzr",
            "msr mdscr_el1, {debug}",
            "isb", // the first save of SIMD registers and the first EL0 find the new values
            sctlr = in(reg) sctlr,
            tcr = in(reg) tcr,
            fpen = in(reg) HAS_SIMD | sve,
            counter = in(reg) 2u64,
            debug = in(reg) MDSCR_TDCC,
            options(nostack, preserves_flags),
        );
    }
    close_counters();
    if sve != 0 {
        // SAFETY: ZCR_EL1.LEN = 0, vectors of 128 bits: nothing of a vector is outside V0 to V31. The first save of predicates finds it.
        unsafe { asm!("msr S3_0_C1_C2_0, xzr", "isb", options(nostack, preserves_flags)) };
    }
    if has_pan {
        // SAFETY: no user memory is reached but by unprivileged accesses, which PSTATE.PAN does not concern. MSR PAN, #1.
        unsafe { asm!(".inst 0xd500419f", options(nostack, preserves_flags)) };
    }
}

/// EL0 has no counters of this CPU, which would tell of other programs' work. What a reset leaves there is UNKNOWN.
fn close_counters() {
    if pmu::has_counters() {
        // SAFETY: EL0 is not entered before the ISB of an exception's return.
        unsafe { asm!("msr pmuserenr_el0, xzr", options(nostack, preserves_flags)) };
    }
    if read_register!("id_aa64pfr0_el1") >> 44 & 15 != 0 {
        // SAFETY: as above. AMUSERENR_EL0, of a CPU with FEAT_AMU.
        unsafe { asm!("msr S3_3_C13_C2_3, xzr", options(nostack, preserves_flags)) };
    }
}

/// Whether this CPU has FEAT_PAN.
fn has_pan() -> bool {
    read_register!("id_aa64mmfr1_el1") >> 20 & 15 != 0
}

/// Whether a CPU with this ID_AA64MMFR1_EL1 keeps the kernel, too, from reading what EL0 may only execute.
pub fn has_execute_only(mmfr1: u64) -> bool {
    mmfr1 >> 20 & 15 >= 3
}

/// An address of the lower half without its top byte.
pub const fn without_tag(address: u64) -> u64 {
    if address >> 55 & 1 == 0 { address << 8 >> 8 } else { address }
}

/// Goes on with a program at EL0 until its next exception, whose kind this gives. An interrupt is still pending then.
///
/// # Safety
///
/// Exceptions are masked. TTBR0_EL1 has the program's tables, `frame.status` is an EL0 state, and the CPU is prepared. What the
/// program can reach is its own.
#[inline]
pub unsafe fn run(frame: &mut Frame) -> Kind {
    debug_assert!(frame.status & 0x1f == 0);
    // SAFETY: the caller's promise; the vectors write the frame, which is this function's alone meanwhile.
    Kind::of(unsafe { enter_user(frame) })
}

/// The bits of SPSR_EL1 that a program may choose: the condition flags, and SSBS. The rest is EL0 with nothing masked.
pub const STATUS_OF_USERS: u64 = 0xf << 28 | 1 << 12;

/// Whether EL0 has SVE on this CPU, which is prepared.
pub fn has_sve() -> bool {
    read_register!("cpacr_el1") & HAS_SVE != 0
}

/// Saves the SIMD registers of EL0; without SVE the predicates stay as they were.
pub fn save_simd(to: &mut Simd) {
    // SAFETY: as large as `Simd`; a prepared CPU does not trap it.
    unsafe { save_simd_raw(to) };
    if has_sve() {
        // SAFETY: two bytes each, as vectors have 128 bits.
        unsafe { save_predicates(&mut to.predicates) };
    }
}

/// Gives EL0 these SIMD registers.
pub fn restore_simd(from: &Simd) {
    // SAFETY: the kernel itself has nothing there.
    unsafe { restore_simd_raw(from) };
    if has_sve() {
        // SAFETY: as above.
        unsafe { restore_predicates(&from.predicates) };
    }
}

/// TPIDR_EL0, EL0's thread pointer.
pub fn read_thread_pointer() -> u64 {
    read_register!("tpidr_el0")
}

/// Sets it.
pub fn set_thread_pointer(value: u64) {
    // SAFETY: the kernel does not use it but in a dying machine.
    unsafe { asm!("msr tpidr_el0, {}", in(reg) value, options(nomem, nostack, preserves_flags)) };
}

/// Copies from a program's memory, in the lower half, by accesses that can do what EL0 can; gives how many bytes were not copied.
pub fn copy_from(to: &mut [u8], from: u64) -> usize {
    // SAFETY: writes no more than `to`. A fault of the other side ends the copy.
    unsafe { copy_from_user_raw(to.as_mut_ptr(), from, to.len()) }
}

/// Copies to a program's memory in the same way.
pub fn copy_to(to: u64, from: &[u8]) -> usize {
    // SAFETY: what EL0 can write is no memory of the kernel's. A fault ends the copy.
    unsafe { copy_to_user_raw(to, from.as_ptr(), from.len()) }
}

/// Reads a word of a program's memory by one access, if that can be read.
pub fn load_word(from: u64) -> Option<u32> {
    let mut word = 0;
    // SAFETY: writes one word.
    let left = unsafe { load_word_of_user(&mut word, from, size_of::<u32>()) };
    (left == 0).then_some(word)
}

/// Puts a word in the place of another of a program's memory by one access; what was found there, if it can be reached.
///
/// # Safety
///
/// `at` is in the lower half and a multiple of four, and no page there can be written that EL0 cannot write. This thread stays on its CPU.
pub unsafe fn exchange_word(at: u64, old: u32, new: u32) -> Option<u32> {
    let mut words = [old, new, 0];
    let has_pan = has_pan();
    if has_pan {
        // SAFETY: until the call is over, or has faulted: both come back here. Exceptions set PAN (SCTLR_EL1.SPAN). MSR PAN, #0.
        unsafe { asm!(".inst 0xd500409f", options(nostack, preserves_flags)) };
    }
    // SAFETY: writes what EL0 can write, by the caller's promise, and a word of these. A fault ends it.
    let left = unsafe { exchange_word_of_user(at, &mut words, size_of::<u32>()) };
    if has_pan {
        // SAFETY: as `prepare_cpu` has it. MSR PAN, #1.
        unsafe { asm!(".inst 0xd500419f", options(nostack, preserves_flags)) };
    }
    (left == 0).then_some(words[2])
}

/// The word at a physical address, by the linear map, `offset` above physical addresses; `None` if the page is hidden.
#[inline]
pub fn load_word_of_frame(at: PhysAddr, offset: u64) -> Option<u32> {
    // SAFETY: it reads, and a fault ends it.
    let found = unsafe { load_hint(at.bits().wrapping_add(offset)) };
    u32::try_from(found).ok()
}

/// Whether an abort was one of the copies, which then comes to its end.
pub(crate) fn resume(frame: &mut Frame) -> bool {
    if frame.return_address == load_hint as *const () as u64 {
        frame.return_address = hint_faulted as *const () as u64;
        return true;
    }
    let copies = user_copies_start as *const () as u64..user_copies_end as *const () as u64;
    // One of the kernel's own side is a bug of the kernel's, and told.
    let is_theirs = frame.fault_address >> 55 & 1 == 0 && vmsa::Syndrome::new(frame.syndrome).fault().is_some();
    let is_ours = copies.contains(&frame.return_address) && is_theirs;
    if is_ours {
        frame.return_address = user_copy_faulted as *const () as u64;
    }
    is_ours
}
