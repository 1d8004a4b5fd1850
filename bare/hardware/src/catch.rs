//! Expected faults: a call that comes back with a [`Fault`] when its body takes an instruction or data abort, from
//! whatever stack.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr;

use vmsa::{Syndrome, VirtAddr};

pub use crate::caught::Fault;
use crate::caught::Record;
use crate::frame::Frame;
use crate::per_cpu;

unsafe extern "C" {
    #[allow(improper_ctypes)]
    fn catch_faults(record: *mut Record, body: extern "C" fn(*mut c_void), argument: *mut c_void) -> u64;
    fn catch_landing();
}

struct Call<F, T> {
    body: Option<F>,
    result: Option<T>,
}

extern "C" fn run<T, F: FnOnce() -> T>(argument: *mut c_void) {
    // SAFETY: `catch` passes its own `Call`, which outlives this.
    let call = unsafe { &mut *argument.cast::<Call<F, T>>() };
    if let Some(body) = call.body.take() {
        call.result = Some(body());
    }
}

/// Runs `body`; an instruction or data abort in it ends it at once and is returned.
///
/// # Safety
///
/// When it faults, nothing in the body's frames needs to be dropped: no lock is held, no guard alive.
pub unsafe fn catch<T, F: FnOnce() -> T>(body: F) -> Result<T, Fault> {
    let mut record =
        Record { registers: [0; 12], stack_pointer: 0, masks: 0, outer: ptr::null_mut(), fault: Cell::new(None) };
    let mut call = Call { body: Some(body), result: None };
    let argument = ptr::from_mut(&mut call).cast();
    // SAFETY: `record` and `call` outlive the call; `catch_faults` keeps the registers that a call must keep, on both
    // ways back, and the caller promises that skipping the body's frames harms nothing.
    unsafe { catch_faults(&mut record, run::<T, F>, argument) };
    match (call.result, record.fault.get()) {
        (Some(result), _) => Ok(result),
        (None, Some(fault)) => Err(fault),
        (None, None) => unreachable!("a body ends with its result or a fault"),
    }
}

/// If an abort was taken within a `catch` on this CPU, makes the frame return to it.
pub(crate) fn resume(frame: &mut Frame) -> bool {
    let syndrome = Syndrome::new(frame.syndrome);
    let record = per_cpu::this().catch.get();
    if record.is_null() || syndrome.fault().is_none() {
        return false;
    }
    // SAFETY: `catch_faults` links a record for as long as its call lasts, on this CPU, which is interrupted.
    let record = unsafe { &*record };
    record.fault.set(Some(Fault {
        syndrome,
        address: VirtAddr::new(frame.fault_address),
        instruction: VirtAddr::new(frame.return_address),
        stack_pointer: frame.stack_pointer,
    }));
    frame.registers[0] = 1;
    frame.registers[19] = ptr::from_ref(record) as u64;
    frame.stack_pointer = record.stack_pointer;
    frame.return_address = catch_landing as *const () as u64;
    // DAIF sits in the same bits of SPSR_EL1. The rest stays: EL1 on SP_EL0.
    frame.status = frame.status & !DAIF | record.masks & DAIF;
    true
}

/// PSTATE.DAIF in SPSR_EL1 and in the register DAIF.
const DAIF: u64 = 0b1111 << 6;
