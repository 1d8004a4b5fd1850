//! Taking signals: what a handler finds on its stack, laid out as Linux does for arm64, and the way back.
//!
//! ```text
//! stack, downwards:  x29, x30 of what was interrupted │ ucontext: registers, FP/SIMD, ESR │ siginfo   ◀── SP of the handler
//! ```

use hardware::exception::Frame;
use hardware::user::{self, STATUS_OF_USERS, Simd};
use vmsa::{ExceptionClass, Syndrome};

use super::signals::{
    Action, Info, SA_EXPOSE_TAGBITS, SA_NODEFER, SA_ONSTACK, SA_RESETHAND, SA_RESTART, SA_RESTORER, SA_SIGINFO,
    SIGALRM, SIGKILL, SIGSEGV, SS_AUTODISARM, SS_DISABLE, Signal, Stack,
};
use super::task::Task;
use super::{alarms, copies, rseq, sending, signal_records};
use crate::errno::{EFAULT, EINTR, Errno};
use crate::threads::thread::{Owner, Thread};

/// Where the code is that returns from a handler; `mmap` looks for room below it.
pub(super) const TRAMPOLINE: u64 = 0xffff_f700_0000;
/// `si_code` of an address that nothing is at, and of one that may not be accessed so.
pub(super) const SEGV_MAPERR: i32 = 1;
pub(super) const SEGV_ACCERR: i32 = 2;

/// Where things are in the frame, in bytes.
const CONTEXT: usize = 128;
const CONTEXT_STACK: usize = CONTEXT + 16;
const CONTEXT_MASK: usize = CONTEXT + 40;
const MACHINE: usize = CONTEXT + 176;
const REGISTERS: usize = MACHINE + 8;
const RECORDS: usize = MACHINE + 288;
const RECORD_BYTES: usize = 4096;
const BYTES: usize = RECORDS + RECORD_BYTES;

/// The last call came to this: x0 of a call that is made again.
pub(super) fn restart_or_interrupt(frame: &mut Frame, first: u64, restarts: bool) {
    match restarts {
        true => {
            frame.registers[0] = first;
            frame.return_address -= 4;
        }
        false => frame.registers[0] = (-i64::from(EINTR.0)) as u64,
    }
}

/// Whether [`deliver`] has something to do.
#[inline(always)]
pub(super) fn is_due(thread: &Thread, task: &Task) -> bool {
    task.is_interrupted() || thread.interrupted.get().is_some() || task.saved_mask.get().is_some()
}

/// Takes what waits to be taken.
pub(super) fn deliver(thread: &Thread, task: &Task, frame: &mut Frame) {
    if is_due(thread, task) {
        deliver_all(thread, task, frame);
    }
}

fn deliver_all(thread: &Thread, task: &Task, frame: &mut Frame) {
    let mut interrupted = thread.interrupted.take();
    loop {
        if task.process.is_ending() {
            return;
        }
        let Some((signal, info)) = take(task, !task.mask()) else { break };
        let action = task.process.actions.with(|actions| {
            let action = &mut actions[signal.index()];
            let found = *action;
            if found.flags & SA_RESETHAND != 0 && found.is_handled() {
                action.handler = 0;
            }
            found
        });
        if action.handler == 0 && signal.bit() & sending::STOPS != 0 {
            sending::stop(&task.process, signal);
            continue;
        }
        if signal == SIGKILL || !action.is_handled() && !action.is_ignored(signal) {
            task.process.end(signal.number());
            return;
        }
        if action.is_ignored(signal) {
            continue;
        }
        if let Some(first) = interrupted.take() {
            restart_or_interrupt(frame, first, action.flags & SA_RESTART != 0);
        }
        if enter(thread, frame, signal, &info, &action).is_err() {
            force_segv(thread, frame);
        }
    }
    // Nobody has taken it: the call goes on as if nothing had been.
    if let Some(first) = interrupted {
        restart_or_interrupt(frame, first, true);
    }
    if let Some(mask) = task.saved_mask.take() {
        task.set_mask(mask);
    }
}

/// Takes one of the signals of `set`, a thread's own or its process'. An alarm counts on from here.
pub(super) fn take(task: &Task, set: u64) -> Option<(Signal, Info)> {
    loop {
        let (signal, info) = task.pending.take(set).or_else(|| task.process.pending.take(set))?;
        if signal == SIGALRM {
            alarms::take_real(task.process.number);
        }
        let Some(sequence) = info.timer else { return Some((signal, info)) };
        let [number, value] = info.words;
        if let Some(overruns) = alarms::take(task.process.number, number as i32, sequence) {
            return Some((signal, Info { words: [number | overruns << 32, value], ..info }));
        }
    }
}

/// Sends the thread a signal that it cannot put off: if it masks or ignores it, it dies of it.
pub(super) fn force(thread: &Thread, signal: Signal, code: i32, address: u64) {
    let task = thread.task();
    let is_put_off = task.mask() & signal.bit() != 0;
    let is_exposed = task.process.actions.with(|actions| {
        let action = &mut actions[signal.index()];
        if is_put_off || action.handler == 1 {
            action.handler = 0;
        }
        action.flags & SA_EXPOSE_TAGBITS != 0
    });
    let address = if is_exposed { address } else { user::without_tag(address) };
    task.set_mask(task.mask() & !signal.bit());
    sending::cause(thread, signal, Info { code, words: [address, 0], timer: None });
}

/// Has frames of signals tell of a fault from now on.
pub(super) fn note_fault(task: &Task, address: u64, frame: &Frame) {
    task.fault.set([address, told(frame)]);
}

/// What a program is told of a fault by ESR_EL1: where the kernel's half has pages is not for it, so that of an address there all is as if
/// the first table had no entry for it.
fn told(frame: &Frame) -> u64 {
    /// EC, IL, CM and WnR; DFSC of a translation fault at level 0.
    const KEPT: u64 = 0x3f << 26 | 1 << 25 | 1 << 8 | 1 << 6;
    const TRANSLATION_FAULT: u64 = 0b100;
    let syndrome = Syndrome::new(frame.syndrome);
    let is_abort =
        matches!(syndrome.class(), ExceptionClass::DataAbortLowerEl | ExceptionClass::InstructionAbortLowerEl);
    if is_abort && user::without_tag(frame.fault_address) >= copies::END {
        frame.syndrome & KEPT | TRANSLATION_FAULT
    } else {
        frame.syndrome
    }
}

/// Has a thread die of a bad stack for its signals.
pub(super) fn force_segv(thread: &Thread, frame: &Frame) {
    let task = thread.task();
    task.process.actions.with(|actions| actions[SIGSEGV.index()].handler = 0);
    task.fault.set([0; 2]);
    force(thread, SIGSEGV, SEGV_MAPERR, frame.stack_pointer);
}

/// Tells a thread that there is nothing at its stack to come back by.
pub(super) fn refuse_return(thread: &Thread, pointer: u64) {
    let task = thread.task();
    let mut code = SEGV_MAPERR;
    task.process.space().areas(&mut |area| {
        if area.range().contains(&pointer) {
            code = SEGV_ACCERR;
        }
    });
    task.fault.set([0; 2]);
    force(thread, SIGSEGV, code, pointer);
}

/// Builds the frame, and has the program go on in its handler.
fn enter(thread: &Thread, frame: &mut Frame, signal: Signal, info: &Info, action: &Action) -> Result<(), Errno> {
    let task = thread.task();
    rseq::interrupt(&task.sequences, frame)?;
    let alternate = task.signal_stack.get();
    let uses_alternate =
        action.flags & SA_ONSTACK != 0 && alternate.flags & SS_DISABLE == 0 && !alternate.holds(frame.stack_pointer);
    let top = if uses_alternate { alternate.end().ok_or(EFAULT)? } else { frame.stack_pointer };
    let link = top.checked_sub(16).ok_or(EFAULT)? & !15;
    let start = link.checked_sub(BYTES as u64).ok_or(EFAULT)?;
    let mask = task.saved_mask.take().unwrap_or(task.mask());
    let [address, syndrome] = task.fault.get();
    copies::write(start, &encode(frame, signal, info, mask, (alternate, address)))?;
    write_records(start + RECORDS as u64, syndrome)?;
    copies::write_words(link, &[frame.registers[29], frame.registers[30]])?;
    if alternate.flags & SS_AUTODISARM != 0 {
        task.signal_stack.set(Stack::NONE);
    }
    let own = if action.flags & SA_NODEFER != 0 { 0 } else { signal.bit() };
    task.set_mask(task.mask() | action.mask | own);
    let restorer = if action.flags & SA_RESTORER != 0 { action.restorer } else { TRAMPOLINE };
    frame.registers[0] = signal.number() as u64;
    if action.flags & SA_SIGINFO != 0 {
        (frame.registers[1], frame.registers[2]) = (start, start + CONTEXT as u64);
    }
    (frame.registers[29], frame.registers[30]) = (link, restorer);
    (frame.stack_pointer, frame.return_address) = (start, action.handler);
    // BTYPE and single step are not the handler's.
    frame.status &= STATUS_OF_USERS;
    Ok(())
}

fn encode(frame: &Frame, signal: Signal, info: &Info, mask: u64, (stack, address): (Stack, u64)) -> [u8; RECORDS] {
    let mut bytes = [0; RECORDS];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, &info_bytes(signal, info));
    for (at, word) in [(0, stack.start), (8, u64::from(stack.flags)), (16, stack.bytes)] {
        put(CONTEXT_STACK + at, &word.to_le_bytes());
    }
    put(CONTEXT_MASK, &mask.to_le_bytes());
    put(MACHINE, &address.to_le_bytes());
    let rest = [frame.stack_pointer, frame.return_address, frame.status];
    for (at, word) in (REGISTERS..).step_by(8).zip(frame.registers.iter().chain(&rest)) {
        put(at, &word.to_le_bytes());
    }
    bytes
}

/// Writes the records, and zeros behind them.
fn write_records(to: u64, syndrome: u64) -> Result<(), Errno> {
    const MOST: usize = signal_records::MOST;
    let (mut simd, mut records) = (Simd::ZERO, [0; MOST]);
    user::save_simd(&mut simd);
    signal_records::write(&mut records, &simd, Some(syndrome).filter(|told| *told != 0), user::has_sve());
    copies::write(to, &records)?;
    copies::clear(to + MOST as u64, (RECORD_BYTES - MOST) as u64)
}

/// `siginfo_t`.
pub(super) fn info_bytes(signal: Signal, info: &Info) -> [u8; 128] {
    let mut bytes = [0; 128];
    let parts = [(0, signal.number()), (8, info.code)];
    parts.iter().for_each(|(at, half)| bytes[*at..at + 4].copy_from_slice(&half.to_le_bytes()));
    let words = [(16, info.words[0]), (24, info.words[1])];
    words.iter().for_each(|(at, word)| bytes[*at..at + 8].copy_from_slice(&word.to_le_bytes()));
    bytes
}

/// What no program's status has: masks of exceptions, a level above EL0, AArch32.
const STATUS_OF_KERNEL: u64 = 0x3df;

/// `rt_sigreturn`: the program goes on where a signal interrupted it. What the frame holds is the program's word, and believed as
/// far as a program's own registers go.
pub(super) fn come_back(thread: &Thread, frame: &mut Frame) -> Result<(), Errno> {
    let start = frame.stack_pointer;
    if !start.is_multiple_of(16) {
        return Err(EFAULT);
    }
    copies::check(start, BYTES)?;
    let [mask] = copies::read_words(start + CONTEXT_MASK as u64)?;
    let registers: [u64; 34] = copies::read_words(start + REGISTERS as u64)?;
    let mut records = [0; signal_records::MOST];
    copies::read(&mut records, start + RECORDS as u64)?;
    let simd = signal_records::read(&records).ok_or(EFAULT)?;
    let [stack, flags, bytes] = copies::read_words(start + CONTEXT_STACK as u64)?;
    if registers[33] & STATUS_OF_KERNEL != 0 {
        return Err(EFAULT);
    }
    frame.registers.copy_from_slice(&registers[..31]);
    (frame.stack_pointer, frame.return_address) = (registers[31], registers[32]);
    frame.status = registers[33] & STATUS_OF_USERS;
    // Threads do not change their CPU between the two: nobody else has these registers meanwhile.
    user::restore_simd(&simd);
    thread.task().set_mask(mask);
    // What may not be set is left as it is.
    let signal_stack = &thread.task().signal_stack;
    if let Ok(wanted) = signal_stack.get().replaced_by([stack, flags, bytes], frame.stack_pointer) {
        signal_stack.set(wanted);
    }
    Ok(())
}
