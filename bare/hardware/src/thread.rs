//! Threads of the kernel: stacks that this CPU goes from one to the other.

unsafe extern "C" {
    #[link_name = "switch_thread"]
    fn switch_thread_raw(from: *mut u64, to: u64);
    fn begin_thread();
}

/// What `switch_thread` saves: x19 to x30.
type Saved = [u64; 12];

/// Prepares a stack whose end is `end`: the first switch to the address that this gives calls `function` with `argument`.
///
/// # Safety
///
/// The memory below `end`, on 16 bytes, is a stack that nobody uses.
pub unsafe fn prepare(end: u64, function: extern "C" fn(u64) -> !, argument: u64) -> u64 {
    let address = end - size_of::<Saved>() as u64;
    let mut saved: Saved = [0; 12];
    (saved[0], saved[1]) = (function as *const () as u64, argument);
    saved[11] = begin_thread as *const () as u64;
    // SAFETY: the caller's promise.
    unsafe { (address as *mut Saved).write(saved) };
    address
}

/// Leaves this thread, whose stack pointer is written to `from` before anything else goes on, for the one that was left at `to`.
/// Returns when another switch comes back.
///
/// # Safety
///
/// Exceptions are masked. `to` comes from [`prepare`] or from such a switch, and no other CPU goes on with it.
pub unsafe fn switch(from: *mut u64, to: u64) {
    // SAFETY: the caller's promise.
    unsafe { switch_thread_raw(from, to) };
}
