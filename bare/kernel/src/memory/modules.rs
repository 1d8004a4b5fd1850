//! Modules: text in executable memory, constants and data in an area near enough to it, gone without a trace when they are unloaded.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use kerncore::module::{Module, Problem, ROOMS, Room};
use vmsa::VirtAddr;

use crate::console::say;
use crate::cpus::calls;
use crate::facts::page_size;
use crate::fallible::{List, try_text};
use crate::locks::order;
use crate::memory::executable::Text;
use crate::memory::vmalloc::Area;
use crate::threads::mutex::Mutex;

/// What every CPU calls when the module is loaded: with its own number, and 0 is the answer that is hoped for.
const START: &str = "module_start";
/// What one CPU calls before it goes, if it is there.
const STOP: &str = "module_stop";

struct Loaded {
    name: String,
    /// Where [`STOP`] is.
    stop: Option<u64>,
    /// Held for as long as it is loaded.
    _text: Text,
    _area: Option<Area>,
}

static LOADED: Mutex<Vec<Loaded>> = Mutex::new(order::MODULES, Vec::new());

/// Why a module is not loaded, and nothing is left of it.
#[derive(Debug)]
pub(crate) enum LoadError<'d> {
    Object(Problem<'d>),
    /// It has no `name=` in `.modinfo`, or no [`START`] in its text.
    Unnamed,
    Exists,
    NoMemory,
    /// On some CPU it said so.
    Declined(u64),
}

impl<'d> From<Problem<'d>> for LoadError<'d> {
    fn from(problem: Problem<'d>) -> Self {
        Self::Object(problem)
    }
}

impl fmt::Display for LoadError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(problem) => problem.fmt(f),
            Self::Unnamed => write!(f, "expected `name=` in .modinfo, and `{START}`"),
            Self::Exists => f.write_str("it is loaded already"),
            Self::NoMemory => f.write_str("no memory for it"),
            Self::Declined(answer) => write!(f, "`{START}` answered {answer:#x} on some CPU"),
        }
    }
}

extern "C" fn module_say(text: *const u8, bytes: usize) {
    // SAFETY: a module of ours says what it has.
    let text = unsafe { core::slice::from_raw_parts(text, bytes) };
    say!("{}", core::str::from_utf8(text).unwrap_or("a module says what is no text"));
}

unsafe extern "C" {
    fn memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8;
    fn memmove(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8;
    fn memset(to: *mut u8, byte: i32, bytes: usize) -> *mut u8;
    fn memcmp(one: *const u8, other: *const u8, bytes: usize) -> i32;
}

/// Where the kernel has what modules may use.
fn export(name: &str) -> Option<u64> {
    let all = [
        ("module_say", module_say as *const ()),
        ("memcpy", memcpy as *const ()),
        ("memmove", memmove as *const ()),
        ("memset", memset as *const ()),
        ("memcmp", memcmp as *const ()),
    ];
    all.into_iter().find(|(one, _)| *one == name).map(|(_, at)| at as u64)
}

fn zeros(bytes: u64) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    all.try_reserve_exact(bytes as usize).ok()?;
    all.try_resize(bytes as usize, 0).ok()?;
    Some(all)
}

/// Loads an object and has every CPU call it.
pub(crate) fn load(object: &[u8]) -> Result<(), LoadError<'_>> {
    let module = Module::read(object)?;
    let name = module.info("name").ok_or(LoadError::Unnamed)?;
    LOADED.with(|loaded| {
        if loaded.iter().any(|one| one.name == name) {
            return Err(LoadError::Exists);
        }
        let linked = match loaded.try_reserve(1) {
            Ok(()) => link(&module, name),
            Err(_) => Err(LoadError::NoMemory),
        };
        let linked = linked.and_then(|new| loaded.try_push(new).map_err(|_| LoadError::NoMemory));
        leave_no_empty_list(loaded);
        linked
    })
}

fn link<'d>(module: &Module<'d>, name: &str) -> Result<Loaded, LoadError<'d>> {
    let [text_bytes, constants, data] = [Room::Text, Room::Constants, Room::Data].map(|room| module.bytes(room));
    // Constants are pages of their own, for they are protected.
    let data_offset = constants.next_multiple_of(page_size().size_bytes());
    let text = Text::take(text_bytes).ok_or(LoadError::NoMemory)?;
    let area = match data_offset + data {
        0 => None,
        bytes => Some(Area::take_near_image(bytes).ok_or(LoadError::NoMemory)?),
    };
    let start = area.as_ref().map_or(0, |area| area.range().start.bits());
    let at: [u64; ROOMS] = [text.range().start.bits(), start, start + data_offset];
    let content = || Some([zeros(text_bytes)?, zeros(constants)?, zeros(data)?]);
    let mut content = content().ok_or(LoadError::NoMemory)?;
    // Before it runs: nothing may fail then but what it says itself.
    let own_name = try_text(name).map_err(|_| LoadError::NoMemory)?;
    module.link(at, &mut content.each_mut().map(Vec::as_mut_slice), export)?;
    let word = |index: usize| {
        let bytes = content[0].get(4 * index..4 * index + 4);
        bytes.and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
    };
    if !text.write(text_bytes as usize / 4, word) {
        return Err(LoadError::NoMemory);
    }
    let mut area = area;
    if let Some(area) = &mut area {
        for (to, from) in [(at[1], &content[1]), (at[2], &content[2])] {
            // SAFETY: the area is that long, writable, and nobody else's.
            unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), to as *mut u8, from.len()) };
        }
        area.protect(0..data_offset, true).map_err(|_| LoadError::NoMemory)?;
    }
    let is_text = |at: &u64| at.is_multiple_of(4) && text.range().contains(&VirtAddr::new(*at));
    let find = |name| module.find(name, at).filter(is_text);
    let begin = find(START).ok_or(LoadError::Unnamed)?;
    let stop = find(STOP);
    // SAFETY: its own text, which takes the number of a CPU and gives one.
    let begin = unsafe { core::mem::transmute::<u64, extern "C" fn(u64) -> u64>(begin) };
    let worst = AtomicU64::new(0);
    calls::on_every_cpu(&|cpu| {
        worst.fetch_max(begin(cpu as u64), Ordering::Relaxed);
    });
    match worst.into_inner() {
        0 => Ok(Loaded { name: own_name, stop, _text: text, _area: area }),
        answer => Err(LoadError::Declined(answer)),
    }
}

fn leave_no_empty_list(loaded: &mut Vec<Loaded>) {
    if loaded.is_empty() {
        *loaded = Vec::new();
    }
}

/// Unloads all that are loaded. How many there were.
pub(crate) fn unload_all() -> usize {
    LOADED.with(|loaded| {
        let count = loaded.len();
        (0..count).for_each(|_| unload_at(loaded, 0));
        count
    })
}

/// Unloads a module. Whether it was there.
pub(crate) fn unload(name: &str) -> bool {
    LOADED.with(|loaded| {
        let place = loaded.iter().position(|one| one.name == name);
        place.inspect(|place| unload_at(loaded, *place)).is_some()
    })
}

fn unload_at(loaded: &mut Vec<Loaded>, place: usize) {
    let one = loaded.remove(place);
    leave_no_empty_list(loaded);
    if let Some(stop) = one.stop {
        // SAFETY: its own text, which takes nothing.
        let stop = unsafe { core::mem::transmute::<u64, extern "C" fn()>(stop) };
        stop();
    }
}
