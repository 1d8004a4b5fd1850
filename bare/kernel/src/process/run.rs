//! A program's thread: to EL0 and back, for as long as the program lives.

use crate::fallible::Arc;
use core::sync::atomic::Ordering;

use hardware::exception::{Frame, Kind};
use hardware::{interrupts, user};
use userspace::Access;
use vmsa::{ExceptionClass, FaultStatus, Syndrome};

use super::signal_frame::{SEGV_ACCERR, SEGV_MAPERR, force, force_segv, note_fault};
use super::signals::{SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP};
use super::space::Space;
use super::task::Task;
use super::{atomics, calls, copies, end, pressure, rseq, signal_frame};
use crate::console::say;
use crate::cpus::capabilities;
use crate::threads::dispatcher;
use crate::threads::thread::{Leaving, Owner, Thread, current};

/// `si_code` of what a fault is told by.
const BUS_ADRALN: i32 = 1;
const BUS_ADRERR: i32 = 2;
const ILL_ILLOPC: i32 = 1;
const TRAP_BRKPT: i32 = 1;
const FPE_FLTINV: i32 = 7;
const TRAP_HWBKPT: i32 = 4;

/// The body of every thread.
///
/// ```text
///   news? ──no──▶ EL0 ──▶ what its exception asks for ──▶ news?          one look, masked, before each entry
///     └──yes──▶ stopped, signals, the end, another's turn, a sequence ──▶ news?
/// ```
pub(crate) fn run(mut frame: Frame) {
    let thread = current();
    let task = thread.task();
    // For one fault after another; a call may exchange the process' space.
    let mut space = None;
    loop {
        let Some(kind) = enter(&thread, task, &mut frame) else {
            if !attend(&thread, task, &mut frame) {
                break;
            }
            continue;
        };
        match kind {
            Kind::Synchronous => take(&thread, task, &mut space, &mut frame),
            // It was taken as soon as the masks were restored.
            Kind::Irq | Kind::Fiq => {}
            Kind::SError => {
                say!("process {}: SError, ESR_EL1 {:#018x}", task.process.number, frame.syndrome);
                force(&thread, SIGBUS, BUS_ADRERR, frame.return_address);
            }
        }
    }
    drop((space, thread));
    end::end_thread();
}

/// Goes on with the program until its next exception, unless there is something to attend to.
#[inline(always)]
fn enter(thread: &Thread, task: &Task, frame: &mut Frame) -> Option<Kind> {
    // Masked from the look on: what comes now is taken at once at EL0, and brings this thread back here.
    let masks = interrupts::mask();
    // Before the look: who stops the process looks at this after that.
    task.is_at_el0.store(true, Ordering::SeqCst);
    let is_stopped = task.process.stops.by().is_some();
    let has_news = is_stopped || signal_frame::is_due(thread, task) || dispatcher::is_over() || task.sequences.is_due();
    // SAFETY: masked; the dispatcher entered this process' space on a prepared CPU; every status that a frame gets is made by
    // `signal_frame`, `exec` or the CPU itself, of EL0.
    let kind = (!has_news).then(|| unsafe { user::run(frame) });
    task.is_at_el0.store(false, Ordering::SeqCst);
    interrupts::restore(masks);
    kind
}

/// Attends to what there is before EL0. Whether the thread goes on.
#[inline(never)]
fn attend(thread: &Thread, task: &Task, frame: &mut Frame) -> bool {
    // What else is sent to a process that is stopped waits.
    while task.is_held() {
        dispatcher::leave(Leaving::Parked(None));
    }
    signal_frame::deliver(thread, task, frame);
    if task.process.is_ending() || task.is_over() {
        return false;
    }
    dispatcher::give_way_if_over();
    if rseq::resume(&task.sequences, frame).is_err() {
        force_segv(thread, frame);
    }
    true
}

/// What an instruction of the program asks for, or has done.
#[inline(always)]
fn take(thread: &Thread, task: &Task, space: &mut Option<Arc<dyn Space>>, frame: &mut Frame) {
    let syndrome = Syndrome::new(frame.syndrome);
    // From EL0, as all that comes here.
    if syndrome.is_data_abort() || syndrome.is_instruction_abort() {
        return abort(thread, &**space.get_or_insert_with(|| task.process.space()), frame, syndrome);
    }
    if syndrome.class() == ExceptionClass::SupervisorCall {
        *space = None;
        return calls::answer(frame, run);
    }
    take_other(thread, task, frame, syndrome.class());
}

/// What is no call and no abort.
#[inline(never)]
fn take_other(thread: &Thread, task: &Task, frame: &mut Frame, class: ExceptionClass) {
    let at = frame.return_address;
    match class {
        ExceptionClass::PcAlignment | ExceptionClass::SpAlignment => {
            note_fault(task, 0, frame);
            force(thread, SIGBUS, BUS_ADRALN, at);
        }
        ExceptionClass::BreakpointInstruction => force(thread, SIGTRAP, TRAP_BRKPT, at),
        ExceptionClass::Breakpoint | ExceptionClass::SoftwareStep | ExceptionClass::Watchpoint => {
            force(thread, SIGTRAP, TRAP_HWBKPT, at);
        }
        ExceptionClass::Other(0x2c) => force(thread, SIGFPE, FPE_FLTINV, at),
        _ if reads_identity(frame) => {}
        _ => {
            // An instruction that is none has no fault to tell of.
            task.fault.set([0; 2]);
            force(thread, SIGILL, ILL_ILLOPC, at);
        }
    }
}

/// Whether the instruction is an MRS of an ID register, which is undefined at EL0: the program gets what it is told of the CPUs.
fn reads_identity(frame: &mut Frame) -> bool {
    /// MRS Xt, S3_0_C0_Cm_op2.
    const READ: u32 = 0xd538_0000;
    let Ok(word) = copies::read_half(frame.return_address) else { return false };
    let Some(value) = capabilities::identity(word >> 8 & 15, word >> 5 & 7).filter(|_| word & !0xfff == READ) else {
        return false;
    };
    if let Some(register) = frame.registers.get_mut(word as usize & 31) {
        *register = value;
    }
    frame.return_address += 4;
    true
}

/// An access that was not made: what it lacks is made.
#[inline(always)]
fn abort(thread: &Thread, space: &dyn Space, frame: &Frame, syndrome: Syndrome) {
    if !syndrome.is_of_descriptor() && is_told(thread, frame, syndrome) {
        return;
    }
    let Some(access) = Access::of(syndrome, user::without_tag(frame.fault_address)) else { return };
    match space.fault(atomics::recognize(access, frame)) {
        Ok(()) => thread.count_fault(),
        Err(fault) => refuse(thread, frame, fault),
    }
}

/// Tells the program of an access that no descriptor is at fault for, if this is one.
#[cold]
#[inline(never)]
fn is_told(thread: &Thread, frame: &Frame, syndrome: Syndrome) -> bool {
    let address = frame.fault_address;
    let (code, told) = match syndrome.fault() {
        Some(FaultStatus::Alignment) => (BUS_ADRALN, address),
        Some(FaultStatus::External | FaultStatus::ExternalOnWalk(_)) => (BUS_ADRERR, 0),
        _ => return false,
    };
    note_fault(thread.task(), user::without_tag(told), frame);
    force(thread, SIGBUS, code, address);
    true
}

/// Tells the program of an access that cannot be made. Without memory some process ends, and the access is made again.
#[cold]
#[inline(never)]
fn refuse(thread: &Thread, frame: &Frame, fault: userspace::Fault) {
    let address = frame.fault_address;
    let (signal, code) = match fault {
        userspace::Fault::Unmapped => (SIGSEGV, SEGV_MAPERR),
        userspace::Fault::Denied => (SIGSEGV, SEGV_ACCERR),
        userspace::Fault::Beyond => (SIGBUS, BUS_ADRERR),
        userspace::Fault::OutOfMemory => return pressure::free_memory(),
    };
    note_fault(thread.task(), user::without_tag(address), frame);
    force(thread, signal, code, address);
}
