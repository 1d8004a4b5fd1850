//! A guest that turns its MMU on, and handles the exceptions that come from then on.

use core::mem;
use core::ops::Range;

use vmsa::Syndrome;

use crate::guest::STACK_BYTES;
pub use crate::maintenance::forget_everything;
use crate::registers::read_register;
use crate::translation::Translation;

/// What an exception found, as `translating.s` saves it: registers are put back from here.
#[repr(C, align(16))]
#[derive(Debug)]
pub struct Frame {
    registers: [u64; 31],
    /// ELR_EL1.
    pub return_address: u64,
    syndrome: u64,
    /// FAR_EL1.
    pub fault_address: u64,
}

impl Frame {
    /// ESR_EL1, decoded.
    pub fn syndrome(&self) -> Syndrome {
        Syndrome::new(self.syndrome)
    }
}

/// How the program goes on after an exception.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Then {
    /// Where it was.
    Return = 0,
    /// Behind [`call_at_el0`], whose code has ended.
    LeaveEl0 = 1,
}

unsafe extern "C" {
    static guest_stacks: u8;
    #[link_name = "call_at_el0"]
    fn execute_at_el0(value: u64, address: u64, code: u64) -> Answer;
    fn turn_guest_mmu_on(translation: *const Translation, cold_start: u64, cold_end: u64, cpu: usize);
}

/// What code that is called gives back: x0 and x1.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// x0.
    pub value: u64,
    /// x1.
    pub page: u64,
}

/// Turns this CPU's MMU on, and has its exceptions come to the handler. From now on [`cpu_index`] is `cpu`.
///
/// # Safety
///
/// The MMU is off, and this is CPU `cpu`. `translation` maps what runs at its own address. For the first CPU `cold` is all
/// memory that was written with the MMU off; others give `None`: their stack is all that they wrote.
pub unsafe fn turn_on(cpu: usize, translation: &Translation, cold: Option<Range<u64>>) {
    let stack = &raw const guest_stacks as u64 + (cpu * STACK_BYTES) as u64;
    let cold = cold.unwrap_or(stack..stack + STACK_BYTES as u64);
    // SAFETY: the caller's promise: the program goes on at the same addresses, and no line of `cold` is dirty, as only this
    // CPU has written there, past the caches.
    unsafe { turn_guest_mmu_on(translation, cold.start, cold.end, cpu) };
}

/// The number of this CPU, once its MMU is on.
pub fn cpu_index() -> usize {
    read_register!("tpidr_el1") as usize
}

/// Calls code at EL1 with these values in x0 and x1.
///
/// # Safety
///
/// There is a function at `code` that keeps what a call must keep, and writes nothing but what `address` is there for.
pub unsafe fn call_at_el1(value: u64, address: u64, code: u64) -> Answer {
    // SAFETY: the caller's promise.
    let code: unsafe extern "C" fn(u64, u64) -> Answer = unsafe { mem::transmute(code as usize) };
    // SAFETY: the same.
    unsafe { code(value, address) }
}

/// The same at EL0, where the code ends with an SVC that the handler answers by [`Then::LeaveEl0`].
///
/// # Safety
///
/// As for [`call_at_el1`].
pub unsafe fn call_at_el0(value: u64, address: u64, code: u64) -> Answer {
    // SAFETY: the caller's promise; whatever it leaves in other registers, the assembly puts back.
    unsafe { execute_at_el0(value, address, code) }
}

/// Hands the handler of exceptions to the assembly: it gets the index of the vector, 0 to 15.
#[macro_export]
macro_rules! guest_exception_handler {
    ($handler:path) => {
        const _: () = {
            #[unsafe(no_mangle)]
            extern "C" fn handle_guest_exception(
                vector: u64,
                frame: &$crate::guest::translating::Frame,
            ) -> $crate::guest::translating::Then {
                let handler: fn(u64, &$crate::guest::translating::Frame) -> $crate::guest::translating::Then = $handler;
                handler(vector, frame)
            }
        };
    };
}
