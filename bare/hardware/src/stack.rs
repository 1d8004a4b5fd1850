//! Stacks: the boot CPU's first ones, and calls on another one.

use core::ffi::c_void;
use core::ops::Range;

/// Bytes of the boot CPU's stack until the high half.
pub const BOOT_BYTES: usize = 32 << 10;
/// Bytes of its exception stack until then.
pub const BOOT_EXCEPTION_BYTES: usize = 8 << 10;
/// Bytes of its emergency stack until then.
pub const BOOT_EMERGENCY_BYTES: usize = 4 << 10;

unsafe extern "C" {
    #[link_name = "call_on_stack"]
    fn call_on_stack_raw(top: u64, body: extern "C" fn(*mut c_void), argument: *mut c_void);
}

/// Runs `body` on another stack and returns when it does.
///
/// # Safety
///
/// `stack` is mapped writable, 16-byte aligned, and nobody else's until this returns.
pub unsafe fn call_on<F: FnOnce()>(stack: Range<u64>, body: F) {
    extern "C" fn run<F: FnOnce()>(argument: *mut c_void) {
        // SAFETY: `call_on` passes its own `Option<F>`, which outlives this call.
        let body = unsafe { &mut *argument.cast::<Option<F>>() };
        if let Some(body) = body.take() {
            body();
        }
    }
    let mut body = Some(body);
    let argument = core::ptr::from_mut(&mut body).cast();
    // SAFETY: the caller's promise; `run` gets the argument it expects.
    unsafe { call_on_stack_raw(stack.end, run::<F>, argument) };
}
