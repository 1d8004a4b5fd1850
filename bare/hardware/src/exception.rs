//! What the vectors do: expected faults go back to their `catch`, interrupts and the rest to the kernel.

use core::arch::asm;

use vmsa::Syndrome;

use crate::catch;
pub use crate::frame::Frame;
pub use crate::kind::Kind;
use crate::masked;
use crate::registers::read_register;
use crate::user;

/// What was running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Kernel code on a thread stack.
    Thread,
    /// An exception handler; its stack pointer was this.
    Handler(u64),
    /// EL0.
    Lower,
}

/// An exception that nothing expected.
#[derive(Debug)]
pub struct Exception<'a> {
    /// What was running.
    pub origin: Origin,
    /// Which kind.
    pub kind: Kind,
    /// The registers.
    pub frame: &'a Frame,
}

impl Exception<'_> {
    /// ESR_EL1, decoded.
    pub fn syndrome(&self) -> Syndrome {
        Syndrome::new(self.frame.syndrome)
    }
}

unsafe extern "C" {
    #[allow(improper_ctypes)]
    safe fn report_exception(exception: &Exception) -> !;
    safe fn handle_interrupt();
}

/// Makes the vectors at their present address this CPU's. Its stacks and [`crate::per_cpu`] data are those of the same
/// map.
pub fn install_vectors() {
    unsafe extern "C" {
        fn vectors();
    }
    let address = vectors as *const () as u64;
    // SAFETY: the vectors are code of this crate, mapped where this runs. The ISB makes the next exception use them.
    unsafe { asm!("msr vbar_el1, {}", "isb", in(reg) address, options(nostack, preserves_flags)) };
}

/// Called by `save_registers`, with the vector's index.
#[unsafe(no_mangle)]
extern "C" fn handle_exception(index: u64, frame: &mut Frame) {
    let kind = Kind::of(index);
    let origin = match index >> 2 {
        0 => Origin::Thread,
        // The emergency vectors keep it there.
        1 => Origin::Handler(read_register!("tpidr_el0")),
        _ => Origin::Lower,
    };
    match (origin, kind) {
        (Origin::Thread, Kind::Irq) => {
            masked::begin();
            handle_interrupt();
            masked::end();
        }
        (Origin::Thread, Kind::Synchronous) if user::resume(frame) || catch::resume(frame) => {}
        _ => report_exception(&Exception { origin, kind, frame }),
    }
}
