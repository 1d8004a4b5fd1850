//! `clone` and `clone3`: children, which share what is wished, and threads.

use crate::fallible::{Arc, try_box, try_copy, try_text};
use crate::locks::{Lock, order};
use core::sync::atomic::Ordering;

use hardware::exception::Frame;
use hardware::user;

use super::call::{Call, Row};
use crate::errno::*;
use crate::facts::page_size;
use crate::memory::frames;
use crate::process::numbers;
use crate::process::signals::{Action, SIGNALS, Stack};
use crate::process::table::{New, Process};
use crate::process::task::Task;
use crate::process::{copies, family};
use crate::threads::thread::current;
use crate::threads::waiters::wait;
use crate::threads::{dispatcher, queue};

pub(super) const CALLS: &[Row] = calls![(220, "clone", clone), (435, "clone3", clone3)];

const CLONE_VM: u64 = 0x100;
const CLONE_FS: u64 = 0x200;
const CLONE_FILES: u64 = 0x400;
const CLONE_SIGHAND: u64 = 0x800;
const CLONE_VFORK: u64 = 0x4000;
const CLONE_PARENT: u64 = 0x8000;
const CLONE_THREAD: u64 = 0x1_0000;
const CLONE_SETTLS: u64 = 0x8_0000;
const CLONE_PARENT_SETTID: u64 = 0x10_0000;
const CLONE_CHILD_CLEARTID: u64 = 0x20_0000;
const CLONE_CHILD_SETTID: u64 = 0x100_0000;
/// Handlers of signals are not the parent's: `clone3`.
const CLONE_CLEAR_SIGHAND: u64 = 0x1_0000_0000;
/// New namespaces, a descriptor for the process, and the like.
const REFUSED: u64 =
    0x0200_0000 | 0x0400_0000 | 0x0800_0000 | 0x1000_0000 | 0x2000_0000 | 0x4000_0000 | 0x2_0000 | 0x1000;
/// Pages that a thread needs at least.
const PAGES: u64 = 32;

/// What is asked for: by `clone` in registers, by `clone3` in memory.
struct Wanted {
    flags: u64,
    stack: u64,
    parent_number: u64,
    child_number: u64,
    thread_pointer: u64,
    end_signal: i32,
}

fn clone(
    call: &mut Call,
    flags: u32,
    stack: u64,
    parent_number: u64,
    thread_pointer: u64,
    child_number: u64,
) -> Answer {
    const SIGNAL: u32 = 0xff;
    let (flags, end_signal) = (u64::from(flags & !SIGNAL), (flags & SIGNAL) as i32);
    begin_child(call, &Wanted { flags, stack, parent_number, child_number, thread_pointer, end_signal })
}

fn clone3(call: &mut Call, from: u64, bytes: u64) -> Answer {
    const LEAST_BYTES: u64 = 64;
    const BYTES: usize = 88;
    const DETACHED: u64 = 0x40_0000;
    const SIGNAL: u64 = 0xff;
    const KNOWN: u64 = CLONE_CLEAR_SIGHAND | u32::MAX as u64;
    if bytes > page_size().size_bytes() {
        return Err(E2BIG);
    }
    if bytes < LEAST_BYTES {
        return Err(EINVAL);
    }
    let mut all = [0; BYTES];
    copies::read(&mut all[..(bytes as usize).min(BYTES)], from)?;
    // What is not known has to be nothing.
    for at in BYTES as u64..bytes {
        let mut byte = [0];
        copies::read(&mut byte, from + at)?;
        if byte != [0] {
            return Err(E2BIG);
        }
    }
    let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|byte| all[8 * at + byte]));
    let [flags, _, child_number, parent_number, end_signal, stack, stack_bytes, thread_pointer] =
        core::array::from_fn(word);
    let numbers = [word(8), word(9)];
    let is_of_parent = flags & (CLONE_THREAD | CLONE_PARENT) != 0;
    let clears_and_shares = flags & CLONE_CLEAR_SIGHAND != 0 && flags & CLONE_SIGHAND != 0;
    if flags & !KNOWN != 0
        || flags & (SIGNAL | DETACHED) != 0
        || end_signal > SIGNALS as u64
        || is_of_parent && end_signal != 0
        || (stack == 0) != (stack_bytes == 0)
        || clears_and_shares
        // Nobody chooses the number of a child.
        || numbers != [0; 2]
    {
        return Err(EINVAL);
    }
    let stack = stack.wrapping_add(stack_bytes);
    let end_signal = end_signal as i32;
    begin_child(call, &Wanted { flags, stack, parent_number, child_number, thread_pointer, end_signal })
}

fn begin_child(call: &mut Call, wanted: &Wanted) -> Answer {
    let Wanted { flags, stack, parent_number, child_number, thread_pointer, end_signal } = *wanted;
    let is_thread = flags & CLONE_THREAD != 0;
    let needs = |flag: u64, other: u64| flags & flag != 0 && flags & other == 0;
    if flags & REFUSED != 0 || needs(CLONE_THREAD, CLONE_SIGHAND) || needs(CLONE_SIGHAND, CLONE_VM) {
        return Err(EINVAL);
    }
    if !frames::has_room(PAGES) {
        return Err(ENOMEM);
    }
    let parent = call.process().clone();
    let number = numbers::new_number();
    let process = if is_thread { parent.clone() } else { child(call, number, flags, end_signal)? };
    let task = Task::new(&process, call.thread.task().mask());
    task.fault.set(call.thread.task().fault.get());
    if is_thread {
        let own = parent.with_name(Some(call.thread), try_text)?;
        task.name.with(|name| *name = own);
    }
    if flags & CLONE_CHILD_CLEARTID != 0 {
        task.clear_at_end.set(child_number);
    }
    if flags & CLONE_VM == 0 {
        task.sequences.inherit(&call.thread.task().sequences);
    }
    if flags & CLONE_VM == 0 || flags & CLONE_VFORK != 0 {
        task.signal_stack.set(call.thread.task().signal_stack.get());
    } else {
        task.signal_stack.set(Stack::NONE);
    }
    let (mut frame, body) = (*call.frame, call.body);
    frame.registers[0] = 0;
    if stack != 0 {
        frame.stack_pointer = stack;
    }
    let pointer = if flags & CLONE_SETTLS != 0 { thread_pointer } else { user::read_thread_pointer() };
    let sets = if flags & CLONE_CHILD_SETTID != 0 { child_number } else { 0 };
    let give_up = || {
        if !is_thread {
            process.forget();
        }
        ENOMEM
    };
    let body = try_box(move || begin(frame, sets, body)).map_err(|_| give_up())?;
    let thread = task.thread(number, pointer, body).ok_or_else(give_up)?;
    thread.simd.with(user::save_simd);
    thread.cpus.store(call.thread.cpus.load(Ordering::Relaxed), Ordering::Relaxed);
    let written =
        if flags & CLONE_PARENT_SETTID != 0 { copies::write_half(parent_number, number as u32) } else { Ok(()) };
    let _ = written;
    numbers::enter_thread(&process, number).map_err(|_| give_up())?;
    if process.life.with(|life| life.threads.insert(number, thread.clone())).is_err() {
        numbers::leave_thread(number);
        return Err(give_up());
    }
    queue::add(thread);
    if flags & CLONE_VFORK != 0 {
        // Until it has an address space of its own, or has ended.
        while process.is_borrowing.load(Ordering::Acquire) && !parent.is_ending() && !call.thread.task().is_killed() {
            let ready = || (!process.is_borrowing.load(Ordering::Acquire)).then_some(());
            if wait(&[&process.waiters], None, ready).is_err() {
                // A signal waits for the child as well.
                dispatcher::give_way();
            }
        }
    }
    Ok(number as u64)
}

/// The body of a new thread.
fn begin(frame: Frame, sets: u64, body: fn(Frame)) {
    if sets != 0 {
        let number = current().number();
        let _ = copies::write_half(sets, number as u32);
    }
    body(frame);
}

/// A child: the same, but for what is shared.
fn child(call: &Call, number: i32, flags: u64, end_signal: i32) -> Result<Arc<Process>, Errno> {
    // Whoever looks at all address spaces meanwhile finds it.
    family::with_new_space(|| child_alone(call, number, flags, end_signal))
}

fn child_alone(call: &Call, number: i32, flags: u64, end_signal: i32) -> Result<Arc<Process>, Errno> {
    let parent = call.process();
    let sent_before = family::FAMILY.with(|()| parent.life.with(|life| life.sent_to_group));
    if call.thread.owner.is_interrupted() {
        return Err(ERESTART_ALWAYS);
    }
    let is_borrowing = flags & CLONE_VM != 0;
    let space = parent.space();
    let space = if is_borrowing { space } else { space.fork()? };
    let files = match flags & CLONE_FILES {
        0 => parent.files.copy()?,
        _ => parent.files.share()?,
    };
    let folder = match flags & CLONE_FS {
        0 => Arc::try_new(Lock::new(order::FOLDER_OF, parent.folder()))?,
        _ => parent.folder.clone(),
    };
    let actions = match flags & CLONE_SIGHAND {
        0 => {
            let mut actions = parent.actions.with(|actions| try_copy(&**actions))?;
            if flags & CLONE_CLEAR_SIGHAND != 0 {
                let handled = actions.iter_mut().filter(|action| action.is_handled());
                handled.for_each(|action| *action = Action::default());
            }
            Arc::try_new(Lock::new(order::ACTIONS, actions))?
        }
        _ => parent.actions.clone(),
    };
    let image = parent.image.with(|image| image.try_clone())?;
    family::FAMILY.with(|()| {
        // Its group was sent a signal before the child was of that: the child is made anew once the signal has been taken.
        if parent.life.with(|life| life.sent_to_group) != sent_before {
            return Err(ERESTART_ALWAYS);
        }
        let (group, session, grandparent) = parent.life.with(|life| (life.group, life.session, life.parent));
        let is_of_parent = flags & CLONE_PARENT != 0;
        // A sibling ends as its sibling does: their parent has not asked for another signal.
        let end_signal = if is_of_parent { parent.life.with(|life| life.end_signal) } else { end_signal };
        let new = New {
            number,
            space,
            files,
            folder,
            actions,
            image,
            parent: if is_of_parent { grandparent } else { parent.number },
            group,
            session,
            end_signal,
            wishes: parent.wishes.with(|wishes| *wishes),
            users: parent.users.with(|users| users.clone()),
        };
        let process = Process::new(new, parent.umask.load(Ordering::Relaxed), parent.limits.with(|limits| *limits))?;
        process.is_borrowing.store(flags & CLONE_VFORK != 0, Ordering::Release);
        Ok(process)
    })
}
