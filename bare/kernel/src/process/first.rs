//! The first process: files, then its program, then all CPUs run threads until there are none.

use alloc::string::String;
use alloc::vec::Vec;
use core::slice;

use hardware::exception::Frame;
use hardware::{masked, timer};
use kerncore::arguments;
use kerncore::command_line::Measure;

use super::exec::{self, Wanted};
use super::image::Image;
use super::resources::Resources;
use super::signals::{Action, SIGNALS};
use super::table::{self, New, Process};
use super::task::Task;
use super::users::Users;
use super::wishes::Wishes;
use super::{alarms, atomics, calls, end, last, numbers, run, space};
use crate::console::say;
use crate::cpus;
use crate::errno::{ENOMEM, Errno};
use crate::facts::facts;
use crate::fallible::{Arc, List, try_box, try_format, try_text};
use crate::files::descriptors::{Descriptor, Descriptors, Table};
use crate::files::device::Device;
use crate::files::inode::{Body, Inode};
use crate::files::open::{File, O_RDWR};
use crate::files::unpack::Mounts;
use crate::files::{tree, unpack};
use crate::locks::{Lock, order};
use crate::memory::ledger::Ledger;
use crate::memory::mapped::Path;
use crate::memory::{frames, linear_map, told};
use crate::threads::dispatcher::{World, interrupts_open};
use crate::threads::thread::current;
use crate::threads::{dispatcher, queue};

/// Where a program is looked for that is named without a folder.
const FOLDERS: [&str; 5] = ["/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/", "/"];

/// What CPUs have to do between the threads of programs.
struct Programs;

impl World for Programs {
    fn fire(&self) {
        alarms::fire();
    }

    fn leave(&self) -> bool {
        let before = space::leave();
        let had_one = before.is_some();
        if had_one {
            interrupts_open(|| drop(before));
        }
        had_one
    }
}

/// Runs `text`, a program and its arguments, to its end on all CPUs, and looks at what all programs have left. What it ended with, as a
/// shell tells it: the status of `exit`, or 128 and the signal.
pub(crate) fn run_first(text: &str, mounts: Mounts) -> Option<u8> {
    say!("# init");
    match run_all(text, mounts) {
        Err(why) => {
            say!("init: {why}");
            last::fail(why);
            None
        }
        Ok(before) => {
            report();
            let status = end::status().map(|status| match status & 0x7f {
                0 => (status >> 8) as u8,
                signal => 128 + signal as u8,
            });
            if let Some(status) = status {
                say!("init: ended with status {status}");
            }
            last::check(&before);
            status
        }
    }
}

/// Runs it until no thread can go on. What memory was for before.
fn run_all(text: &str, mounts: Mounts) -> Result<Ledger, &'static str> {
    if !(frames::start() && space::start() && exec::prepare().and_then(|()| tree::start()).is_ok()) {
        return Err("there is no memory for programs");
    }
    // Where secret pages were, the linear map has more tables than it needs: not now, and not when this is asked again.
    linear_map::get().heal_all();
    let before = Ledger::read();
    let initrd = facts().initrd;
    let address = facts().linear.address(initrd.start).bits();
    // SAFETY: the linear map has it, and nobody writes there.
    let archive = unsafe { slice::from_raw_parts(address as *const u8, initrd.size_bytes() as usize) };
    unpack::fill(archive, mounts);
    begin(wanted(text).ok_or("no program is named")?).map_err(calls::words)?;
    dispatcher::set_give_up(last::give_up);
    let is_measured = facts().options.measure == Some(Measure::Masked) && masked::start();
    cpus::calls::while_idle_on_every_cpu(&|_| dispatcher::run(&Programs));
    if is_measured {
        let (instructions, place) = masked::stop();
        say!("init: interrupts were masked for at most {instructions} instructions, until {place:#x}");
    }
    Ok(before)
}

/// Tells what was done.
fn report() {
    calls::report();
    match atomics::count() {
        0 => say!("init: no fault was an atomic's that was told as a read"),
        count => say!("init: {count} faults on reads by atomics were faulted as writes"),
    }
    let [address, range, whole] = told::counts();
    say!("init: TLBIs: {address} by address, {range} by range, {whole} of a whole space");
    say!("init: {} processes, {} switches of threads", table::begun(), dispatcher::switches());
}

/// The program and its arguments.
fn wanted(text: &str) -> Option<Wanted> {
    let (mut all, mut one, mut put) = (Vec::new(), Vec::new(), Ok(()));
    arguments::split(text, |byte| {
        let next = match byte {
            Some(byte) => one.try_push(byte),
            None => all.try_push(core::mem::take(&mut one)),
        };
        put = put.and(next);
    });
    put.ok()?;
    let name = try_text(core::str::from_utf8(all.first()?).ok()?).ok()?;
    let is_there = |path: &String| tree::walk(&tree::root(), path, true).is_ok_and(|place| place.inode.is_some());
    let mut paths = FOLDERS.iter().filter_map(|folder| try_format!("{folder}{name}").ok());
    let found = if name.contains('/') { None } else { paths.find(is_there) };
    let path = found.unwrap_or(name);
    let mut environment = Vec::new();
    for text in ["HOME=/", "TERM=linux"] {
        environment.try_push(try_text(text).ok()?.into_bytes()).ok()?;
    }
    Some(Wanted { path, arguments: all, environment })
}

/// Makes the first process, whose thread loads its program.
fn begin(wanted: Wanted) -> Result<(), Errno> {
    let space = space::new(Resources::usual().of_memory(true))?;
    let mut files = Descriptors::new();
    let console = File::new(Inode::new(Body::Device(Device::Console), 0o600)?, O_RDWR, Path::Fixed("/dev/console"))?;
    for number in 0..3 {
        let descriptor = Descriptor { file: console.clone(), closes_on_exec: false };
        files.set(number, descriptor)?;
    }
    let new = New {
        number: numbers::new_number(),
        space,
        files: Table::new(files)?,
        folder: Arc::try_new(Lock::new(order::FOLDER_OF, tree::root()))?,
        actions: Arc::try_new(Lock::new(order::ACTIONS, try_box([Action::default(); SIGNALS])?))?,
        image: Image::default(),
        parent: 0,
        group: 0,
        session: 0,
        end_signal: 0,
        wishes: Wishes::default(),
        users: Users::default(),
    };
    let number = new.number;
    let process = Process::new(new, 0o022, Resources::usual())?;
    let path = try_text(&wanted.path)?;
    let body = move || {
        let thread = current();
        let mut frame = Frame::default();
        let folder = thread.task().process.folder();
        if let Err(error) = exec::run(&thread, &folder, wanted, &mut frame) {
            say!("init: {path}: {}", calls::words(error));
            thread.task().process.end(127 << 8);
        } else {
            say!("init: {path} begins after {} us", timer::read_counter() * 1_000_000 / timer::read_frequency());
        }
        drop((thread, folder, path));
        run::run(frame);
    };
    let task = Task::new(&process, 0);
    let thread = task.thread(number, 0, try_box(body)?).ok_or(ENOMEM)?;
    process.life.with(|life| life.threads.insert(number, thread.clone()))?;
    queue::add(thread);
    Ok(())
}
