//! A program's thread: to EL0 and back, for as long as the program lives.

use hardware::exception::{Frame, Kind};
use hardware::{interrupts, user};
use userspace::Access;
use vmsa::{ExceptionClass, FaultStatus, Syndrome};

use super::signals::{Info, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP, Signal};
use super::{atomics, calls, end, signal_frame};
use crate::report::console::say;
use crate::threads::dispatcher;
use crate::threads::thread::{Thread, current};

/// `si_code` of what a fault is told by.
const SEGV_MAPERR: i32 = 1;
const SEGV_ACCERR: i32 = 2;
const BUS_ADRALN: i32 = 1;
const BUS_ADRERR: i32 = 2;
const ILL_ILLOPC: i32 = 1;
const TRAP_BRKPT: i32 = 1;
const FPE_FLTINV: i32 = 7;
const TRAP_HWBKPT: i32 = 4;

/// The body of every thread.
pub(crate) fn run(mut frame: Frame) {
    let thread = current();
    loop {
        signal_frame::deliver(&thread, &mut frame);
        if thread.task.process.is_ending() || thread.task.is_over.get() {
            break;
        }
        dispatcher::give_way_if_over();
        if thread.task.sequences.resume(&mut frame).is_err() {
            force_segv(&thread, &frame);
        }
        // Masked from the look on: what comes now is taken at once at EL0, and brings this thread back here.
        let masks = interrupts::mask();
        if thread.task.is_interrupted() || dispatcher::is_over() || thread.task.sequences.is_due() {
            interrupts::restore(masks);
            continue;
        }
        // SAFETY: masked; the dispatcher entered this process' space on a prepared CPU; every status that a frame gets is made by
        // `signal_frame`, `exec` or the CPU itself, of EL0.
        let kind = unsafe { user::run(&mut frame) };
        interrupts::restore(masks);
        match kind {
            Kind::Synchronous => take(&thread, &mut frame),
            // It was taken as soon as the masks were restored.
            Kind::Irq | Kind::Fiq => {}
            Kind::SError => {
                say!("process {}: SError, ESR_EL1 {:#018x}", thread.task.process.number, frame.syndrome);
                force(&thread, SIGBUS, BUS_ADRERR, frame.return_address, &frame);
            }
        }
    }
    drop(thread);
    end::end_thread();
}

/// What an instruction of the program asks for, or has done.
fn take(thread: &Thread, frame: &mut Frame) {
    let syndrome = Syndrome::new(frame.syndrome);
    let at = frame.return_address;
    match syndrome.class() {
        ExceptionClass::SupervisorCall => calls::answer(frame),
        ExceptionClass::InstructionAbortLowerEl | ExceptionClass::DataAbortLowerEl => abort(thread, frame, syndrome),
        ExceptionClass::PcAlignment | ExceptionClass::SpAlignment => force(thread, SIGBUS, BUS_ADRALN, at, frame),
        ExceptionClass::BreakpointInstruction => force(thread, SIGTRAP, TRAP_BRKPT, at, frame),
        ExceptionClass::Breakpoint | ExceptionClass::SoftwareStep | ExceptionClass::Watchpoint => {
            force(thread, SIGTRAP, TRAP_HWBKPT, at, frame);
        }
        ExceptionClass::Other(0x2c) => force(thread, SIGFPE, FPE_FLTINV, at, frame),
        _ => force(thread, SIGILL, ILL_ILLOPC, at, frame),
    }
}

fn abort(thread: &Thread, frame: &Frame, syndrome: Syndrome) {
    let address = frame.fault_address;
    match syndrome.fault() {
        Some(FaultStatus::Alignment) => return force(thread, SIGBUS, BUS_ADRALN, address, frame),
        Some(FaultStatus::External | FaultStatus::ExternalOnWalk(_)) => {
            return force(thread, SIGBUS, BUS_ADRERR, address, frame);
        }
        _ => {}
    }
    let Some(access) = Access::of(syndrome, address) else { return };
    if let Err(fault) = fault(thread, atomics::recognize(access, frame)) {
        let (signal, code) = match fault {
            userspace::Fault::Unmapped => (SIGSEGV, SEGV_MAPERR),
            userspace::Fault::Denied => (SIGSEGV, SEGV_ACCERR),
            userspace::Fault::Beyond => (SIGBUS, BUS_ADRERR),
            userspace::Fault::OutOfMemory => return,
        };
        force(thread, signal, code, address, frame);
    }
}

/// Makes what an access lacks. Without memory some process ends, and the access is made again.
fn fault(thread: &Thread, access: Access) -> Result<(), userspace::Fault> {
    let space = thread.task.process.space();
    if access.address >= space.highest() {
        return Err(userspace::Fault::Unmapped);
    }
    space.fault(access).inspect(|()| thread.count_fault()).inspect_err(|fault| {
        if *fault == userspace::Fault::OutOfMemory {
            end::free_memory();
        }
    })
}

/// Sends the thread a signal that it cannot put off: if it masks or ignores it, it dies of it.
fn force(thread: &Thread, signal: Signal, code: i32, address: u64, frame: &Frame) {
    let task = &thread.task;
    let is_put_off = task.mask() & signal.bit() != 0;
    task.process.actions.with(|actions| {
        let action = &mut actions[signal.index()];
        if is_put_off || action.handler == 1 {
            action.handler = 0;
        }
    });
    task.set_mask(task.mask() & !signal.bit());
    task.pending.add(signal, Info { code, words: [address, 0], syndrome: Some(frame.syndrome), timer: None });
}

/// Has a thread die of a bad stack for its signals.
pub(super) fn force_segv(thread: &Thread, frame: &Frame) {
    thread.task.process.actions.with(|actions| actions[SIGSEGV.index()].handler = 0);
    force(thread, SIGSEGV, SEGV_MAPERR, frame.stack_pointer, frame);
}
