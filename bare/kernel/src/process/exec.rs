//! `execve`: a program takes the place of another. A static ELF file, or a script that names one.

use crate::fallible::{Arc, Collect, List, NoMemory, try_text};
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use hardware::exception::Frame;
use hardware::user::{self, Simd};
use kerncore::program::{self, HEAD_BYTES, Program, Segment};
use spin::Once;
use userspace::{AreaFlags, Place, Request, Rights, Source};

use super::image::{Image, Places};
use super::signal_frame::TRAMPOLINE;
use super::signals::{Action, SIGCHLD, SIGKILL, Stack};
use super::space::{self, Space};
use super::{alarms, copies, numbers, rseq};
use crate::cpus::capabilities;
use crate::errno::{E2BIG, EACCES, ELOOP, ENOEXEC, ENOMEM, Errno};
use crate::facts::page_size;
use crate::files::device::fill_randomly;
use crate::files::inode::{Body, Inode, Running};
use crate::files::tree::walk;
use crate::memory::mapped::{Mapped, Path};
use crate::threads::thread::Thread;

/// Where the stack begins, downwards.
const STACK: u64 = 0xffff_ff00_0000;
/// Bytes of a new stack beside what is passed on it.
const STACK_BYTES: u64 = 128 << 10;
/// Where programs are loaded that have no addresses of their own.
const BASE: u64 = 0xaaaa_aaaa_0000;
/// What arguments and environment may take together: a quarter of the stack that a process may have, within these bounds.
const LEAST_BYTES: u64 = 128 << 10;
pub(crate) const MOST_BYTES: u64 = 6 << 20;
/// Bytes of a process' name.
const LONGEST_NAME: usize = 15;
/// Scripts in a row, each the interpreter of the one before.
const MOST_SCRIPTS: usize = 5;
/// `mov x8, #139; svc #0`: `rt_sigreturn`.
const RETURN: [u32; 2] = [0xd280_1168, 0xd400_0001];

/// What is to be run.
pub(crate) struct Wanted {
    pub(crate) path: String,
    pub(crate) arguments: Vec<Vec<u8>>,
    pub(crate) environment: Vec<Vec<u8>>,
}

impl Wanted {
    /// Refuses more texts, with a pointer to each, than a stack of so many bytes has room for.
    fn check(&self, stack: u64) -> Result<(), Errno> {
        let texts = || self.arguments.iter().chain(&self.environment);
        let bytes = self.path.len() + 1 + texts().map(|text| text.len() + 1 + size_of::<u64>()).sum::<usize>();
        if bytes as u64 > (stack / 4).clamp(LEAST_BYTES, MOST_BYTES) { Err(E2BIG) } else { Ok(()) }
    }
}

/// A program that can be loaded.
struct Found {
    running: Running,
    /// Where the program is, behind all scripts.
    path: String,
    /// What was asked for.
    asked: String,
    program: Program,
    wanted: Wanted,
}

/// Replaces the program of a process; this thread goes on, and no other. An error leaves the old one; after the point of no return
/// the process dies.
pub(crate) fn run(thread: &Arc<Thread>, folder: &Arc<Inode>, wanted: Wanted, frame: &mut Frame) -> Result<(), Errno> {
    let process = &thread.task().process;
    // As it was asked for, whatever links it leads through.
    let name = wanted.path.rsplit('/').next().unwrap_or_default();
    let name = try_text(&name[..name.floor_char_boundary(LONGEST_NAME)])?;
    let limits = process.limits_of_memory();
    wanted.check(limits.stack)?;
    let found = find(folder, wanted)?;
    // Scripts have added theirs.
    found.wanted.check(limits.stack)?;
    let (arguments, environment) = (joined(&found.wanted.arguments)?, joined(&found.wanted.environment)?);
    let space = space::new(limits).map_err(|_| ENOMEM)?;
    let bias = map(&*space, &found)?;
    // From here on there is no way back.
    process.go_on_alone(thread)?;
    numbers::leave_thread(thread.number());
    process.life.with(|life| life.rename(thread, process.number))?;
    let before = process.space.with(|slot| slot.replace(space.clone()));
    drop(space::enter(space.clone()));
    drop(before);
    let filled = process.files.unshare().and_then(|()| fill(&*space, &found, bias, frame));
    let (auxiliary, places) = filled.inspect_err(|_| {
        process.end(SIGKILL.number());
    })?;
    forget_old(thread);
    let Found { running, path, .. } = found;
    let stack = frame.stack_pointer;
    let new = Image { name, path, file: Some(running), arguments, environment, auxiliary, stack, places };
    process.image.with(|image| *image = new);
    process.life.with(|life| life.end_signal = SIGCHLD.number());
    if process.is_borrowing.swap(false, Ordering::AcqRel) {
        process.waiters.wake_all();
    }
    Ok(())
}

/// Texts behind each other, each ended by a zero.
fn joined(texts: &[Vec<u8>]) -> Result<Vec<u8>, NoMemory> {
    let mut all = Vec::new();
    all.try_reserve_exact(texts.iter().map(|one| one.len() + 1).sum()).map_err(|_| NoMemory)?;
    for one in texts {
        all.try_extend_from(one)?;
        all.try_push(0)?;
    }
    Ok(all)
}

fn forget_old(thread: &Arc<Thread>) {
    let (task, process) = (thread.task(), &thread.task().process);
    process.actions.with(|actions| {
        for action in actions.iter_mut() {
            *action = Action { handler: u64::from(action.handler == 1), ..Action::default() };
        }
    });
    process.wishes.with(|wishes| (wishes.has_tags, wishes.barriers) = (false, 0));
    alarms::delete_all(process.number, true);
    [&task.pending, &process.pending].iter().for_each(|pending| pending.retain(&|_, info| info.timer.is_none()));
    task.signal_stack.set(Stack::NONE);
    task.clear_at_end.set(0);
    task.robust_list.store(0, Ordering::Relaxed);
    task.sequences.forget();
    while let Some(closed) = process.files.with(|files| files.take_for_exec()) {
        closed.file.give_up_locks(process.files.owner());
    }
    user::restore_simd(&Simd::ZERO);
    user::set_thread_pointer(0);
}

/// Finds the program, through scripts.
fn find(folder: &Arc<Inode>, mut wanted: Wanted) -> Result<Found, Errno> {
    let asked = try_text(&wanted.path)?;
    for _ in 0..=MOST_SCRIPTS {
        let place = walk(folder, &wanted.path, true)?;
        let inode = place.found()?;
        let Body::Regular(content) = &inode.body else { return Err(EACCES) };
        if inode.attributes.with(|attributes| attributes.mode) & 0o111 == 0 {
            return Err(EACCES);
        }
        let running = Running::begin(&inode)?;
        let mut head = Vec::new();
        content.read(0, HEAD_BYTES as u64, |part| Ok(head.try_extend_from(part)?))?;
        if let Some(script) = head.strip_prefix(b"#!") {
            let line = script.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let line = core::str::from_utf8(line).map_err(|_| ENOEXEC)?.trim();
            let (interpreter, argument) = line.split_once([' ', '\t']).unwrap_or((line, ""));
            if interpreter.is_empty() {
                return Err(ENOEXEC);
            }
            let mut arguments = Vec::new();
            arguments.try_push(try_text(interpreter)?.into_bytes())?;
            if !argument.trim().is_empty() {
                arguments.try_push(try_text(argument.trim())?.into_bytes())?;
            }
            arguments.try_push(wanted.path.into_bytes())?;
            arguments.try_extend(wanted.arguments.drain(..).skip(1))?;
            wanted = Wanted { path: try_text(interpreter)?, arguments, ..wanted };
            continue;
        }
        let program = program::read(&head, content.bytes()).map_err(|_| ENOEXEC)?;
        return Ok(Found { path: place.path(&inode)?, running, asked, program, wanted });
    }
    Err(ELOOP)
}

fn rights(segment: &Segment) -> Rights {
    let mut rights = Rights::empty();
    rights.set(Rights::READ, segment.is_readable);
    rights.set(Rights::WRITE, segment.is_writable);
    rights.set(Rights::EXECUTE, segment.is_executable);
    rights
}

/// Maps the segments; gives how far the program is moved.
fn map(space: &dyn Space, found: &Found) -> Result<u64, Errno> {
    let page = page_size().size_bytes();
    let range = found.program.range();
    let bias = if found.program.is_movable { BASE - (range.start & !(page - 1)) } else { 0 };
    let path = Path::new(try_text(&found.path)?)?;
    for segment in found.program.segments.iter() {
        let address = segment.address + bias;
        let start = address & !(page - 1);
        if address % page != segment.offset % page {
            return Err(ENOEXEC);
        }
        let (file_end, end) = (address + segment.file_bytes, address + segment.memory_bytes);
        let mapped_end = if segment.file_bytes > 0 { file_end.next_multiple_of(page) } else { start };
        let map = |start: u64, end: u64, source: Source<Mapped>| {
            let request = Request {
                place: Place::Fixed(start),
                bytes: end - start,
                rights: rights(segment),
                source,
                flags: AreaFlags::empty(),
                populates: false,
            };
            space.map(request).map_err(Errno::from)
        };
        if mapped_end > start {
            let file = Mapped { inode: found.running.inode().clone(), path: path.clone() };
            let offset = segment.offset - (address - start);
            map(start, mapped_end, Source::File { file, offset, most: Rights::READ | Rights::EXECUTE })?;
        }
        let zeros_end = end.next_multiple_of(page);
        if zeros_end > mapped_end {
            map(mapped_end, zeros_end, Source::Anonymous)?;
        }
    }
    // Not side by side with what the program has: `maps` tells the two apart.
    space.set_heap((range.end + bias).next_multiple_of(page) + page);
    let times = TRAMPOLINE - 2 * page;
    space.set_ceiling(times);
    // What programs know as the page of clocks lies there, with nothing in it: the code here reads none.
    let clocks = Request {
        place: Place::Fixed(times),
        bytes: 2 * page,
        rights: Rights::READ,
        source: Source::File {
            file: Mapped { path: Path::Fixed("[vvar]"), ..trampoline()? },
            offset: 0,
            most: Rights::READ,
        },
        flags: AreaFlags::empty(),
        populates: false,
    };
    space.map(clocks)?;
    let code = Request {
        place: Place::Fixed(TRAMPOLINE),
        bytes: page,
        rights: Rights::READ | Rights::EXECUTE,
        source: Source::File { file: trampoline()?, offset: 0, most: Rights::READ | Rights::EXECUTE },
        flags: AreaFlags::empty(),
        populates: false,
    };
    space.map(code)?;
    Ok(bias)
}

/// Makes what all programs share.
pub(crate) fn prepare() -> Result<(), Errno> {
    trampoline().map(drop)
}

/// The code that returns from handlers, one page for all.
fn trampoline() -> Result<Mapped, Errno> {
    static CODE: Once<Mapped> = Once::new();
    if let Some(code) = CODE.get() {
        return Ok(code.clone());
    }
    let inode = Inode::regular(0o555)?;
    if let Body::Regular(content) = &inode.body {
        let code = RETURN.map(u32::to_le_bytes);
        let code = code.as_flattened();
        content.write(0, code.len() as u64, |to| {
            to.copy_from_slice(code);
            Ok(())
        })?;
    }
    Ok(CODE.call_once(|| Mapped { inode, path: Path::Fixed("[vdso]") }).clone())
}

/// Writes what the program finds in memory, and in registers; gives its auxiliary vector, and where things are.
fn fill(space: &dyn Space, found: &Found, bias: u64, frame: &mut Frame) -> Result<(Vec<u8>, Places), Errno> {
    let page = page_size().size_bytes();
    for segment in found.program.segments.iter().filter(|segment| segment.is_writable) {
        let end = segment.address + bias + segment.file_bytes;
        let zeros =
            end.next_multiple_of(page).min((segment.address + bias + segment.memory_bytes).next_multiple_of(page));
        if segment.file_bytes > 0 && zeros > end {
            copies::clear(end, zeros - end)?;
        }
    }
    let (path, Wanted { arguments, environment, .. }) = (&found.asked, &found.wanted);
    let texts = || [path.as_bytes()].into_iter().chain(arguments.iter().chain(environment).map(Vec::as_slice));
    let text_bytes: usize = texts().map(|text| text.len() + 9).sum();
    let bytes = (STACK_BYTES + text_bytes as u64).next_multiple_of(page);
    let mut rights = Rights::READ | Rights::WRITE;
    rights.set(Rights::EXECUTE, found.program.has_executable_stack);
    let stack = Request {
        place: Place::Fixed(STACK - bytes),
        bytes,
        rights,
        source: Source::Anonymous,
        flags: AreaFlags::GROWS_DOWN,
        populates: false,
    };
    space.map(stack)?;
    let mut at = STACK - 8;
    let mut put = |text: &[u8]| {
        at -= text.len() as u64 + 1;
        copies::write(at, text).map(|()| at)
    };
    let path = put(path.as_bytes())?;
    let mut put_all = |texts: &[Vec<u8>]| {
        let mut all = Vec::new();
        texts.iter().rev().try_for_each(|text| Ok::<(), Errno>(all.try_push(put(text)?)?))?;
        Ok::<_, Errno>(all)
    };
    let (environment, arguments) = (put_all(environment)?, put_all(arguments)?);
    let environment_start = environment.last().copied().unwrap_or(path);
    let arguments_start = arguments.last().copied().unwrap_or(environment_start);
    let places = Places {
        arguments: [arguments_start, environment_start],
        environment: [environment_start, path],
        ..places(&found.program, bias)
    };
    let platform = put(b"aarch64")?;
    let random = (at - 16) & !15;
    let mut seed = [0; 16];
    fill_randomly(&mut seed);
    copies::write(random, &seed)?;
    let mut words = Vec::new();
    words.try_push(arguments.len() as u64)?;
    for all in [arguments, environment] {
        words.try_extend(all.into_iter().rev())?;
        words.try_push(0)?;
    }
    let auxiliary = auxiliary(&found.program, bias, [path, platform, random]);
    words.try_extend(auxiliary.as_flattened().iter().copied())?;
    let start = (random - 8 * words.len() as u64) & !15;
    copies::write_words(start, &words)?;
    *frame = Frame { return_address: found.program.entry + bias, stack_pointer: start, ..Frame::default() };
    Ok((auxiliary.iter().flatten().flat_map(|word| word.to_le_bytes()).try_list()?, places))
}

/// From where to where a program's code goes, and its data: the last of its segments begins those.
fn places(program: &Program, bias: u64) -> Places {
    let start = |segment: &Segment| segment.address + bias;
    let end = |segment: &Segment| segment.address + bias + segment.file_bytes;
    let code = || program.segments.iter().filter(|segment| segment.is_executable);
    let all = || program.segments.iter();
    Places {
        code: [code().map(start).min().unwrap_or(0), code().map(end).max().unwrap_or(0)],
        data: [all().map(start).max().unwrap_or(0), all().map(end).max().unwrap_or(0)],
        ..Places::default()
    }
}

/// The auxiliary vector: keys of `elf.h`, and values.
fn auxiliary(program: &Program, bias: u64, [path, platform, random]: [u64; 3]) -> [[u64; 2]; 22] {
    let (_, header_bytes, headers) = program.headers;
    [
        // AT_MINSIGSTKSZ, AT_HWCAP.
        [51, 4720],
        [16, capabilities::bits() & u64::from(u32::MAX)],
        [6, page_size().size_bytes()],
        [17, 100],
        [3, program.headers_address().map_or(0, |address| address + bias)],
        [4, header_bytes.into()],
        [5, headers.into()],
        [7, 0],
        [8, 0],
        [9, program.entry + bias],
        [11, 0],
        [12, 0],
        [13, 0],
        [14, 0],
        [23, 0],
        [25, random],
        // AT_HWCAP2.
        [26, capabilities::bits() >> 32],
        [31, path],
        [15, platform],
        // AT_RSEQ_FEATURE_SIZE, AT_RSEQ_ALIGN.
        [27, rseq::MEANING],
        [28, 32],
        [0, 0],
    ]
}
