//! PSTATE's masks, and waiting.

use core::arch::asm;

#[cfg(feature = "kernel")]
use crate::masked;
use crate::registers::read_register;

unsafe extern "C" {
    #[link_name = "send_event"]
    fn send_event_raw();
}

/// PSTATE.I, in DAIF.
const IRQ: u64 = 1 << 7;

/// In [`Masks`], where DAIF has no bit: a measured stretch has begun with them. Whoever restores looks at no memory for that.
#[cfg(feature = "kernel")]
const MEASURED: u64 = 1;

/// The masks as they were, given back by [`mask`] to [`restore`].
#[derive(Clone, Copy)]
#[must_use = "interrupts stay masked until the masks are restored"]
pub struct Masks(u64);

/// Masks every asynchronous exception on this CPU. Also keeps the compiler from moving memory accesses across.
#[inline(always)]
pub fn mask() -> Masks {
    let masks = read_register!("daif");
    // SAFETY: masking interrupts delays handlers and has no other effect.
    unsafe { asm!("msr daifset, #0xf", options(nostack, preserves_flags)) };
    #[cfg(feature = "kernel")]
    if masked::is_on() && masks & IRQ == 0 {
        masked::note_begin();
        return Masks(masks | MEASURED);
    }
    Masks(masks)
}

/// Whether this CPU takes no IRQ now.
pub fn are_masked() -> bool {
    read_register!("daif") & IRQ != 0
}

/// Puts back what [`mask`] found.
// Inlined, so that who restores is the place of a measured stretch.
#[inline(always)]
pub fn restore(masks: Masks) {
    #[cfg(feature = "kernel")]
    let masks = if masks.0 & MEASURED == 0 {
        masks
    } else {
        masked::note_end();
        Masks(masks.0 & !MEASURED)
    };
    // SAFETY: the value was read from the register on this CPU.
    unsafe { asm!("msr daif, {}", in(reg) masks.0, options(nostack, preserves_flags)) };
}

/// Takes IRQs and SErrors from now on.
///
/// # Safety
///
/// The vectors, this CPU's stacks and the interrupt controller are set up.
pub unsafe fn unmask() {
    #[cfg(feature = "kernel")]
    masked::end();
    // SAFETY: the caller's promise. A is bit 2 and I is bit 1 of the immediate.
    unsafe { asm!("msr daifclr, #6", options(nostack, preserves_flags)) };
}

/// Waits until an interrupt is pending, masked or not.
pub fn wait() {
    #[cfg(feature = "kernel")]
    masked::end();
    // SAFETY: a hint.
    unsafe { asm!("wfi", options(nomem, nostack, preserves_flags)) };
    #[cfg(feature = "kernel")]
    if read_register!("daif") & IRQ != 0 {
        masked::begin();
    }
}

/// Wakes CPUs that wait for an event (WFE). They see all that was stored before.
pub fn send_event() {
    // SAFETY: a barrier and a hint.
    unsafe { send_event_raw() };
}

/// Tells an emulator or a sibling thread that this loop waits for another CPU. `core::hint::spin_loop` is an ISB on
/// this architecture: it synchronizes this CPU and lets nobody else run.
pub fn pause() {
    // SAFETY: a hint.
    unsafe { asm!("yield", options(nomem, nostack, preserves_flags)) };
}
