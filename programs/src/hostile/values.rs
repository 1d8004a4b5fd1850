//! Arguments by their kinds: boundary values, and objects that a process made before.
//!
//! ```text
//! kind ──▶ an object (area, descriptor, child, path) │ a boundary value │ a pointer to a slot of the desk, filled by kind
//! ```

use libc::*;

use super::attempt;
use super::random::Random;
use super::table::Row;
use crate::child::NOBODY;
use crate::machine::{call, handle, long};
use crate::memory::{ANONYMOUS, READ_WRITE};
use crate::{map, page};

/// Objects of one kind that are remembered.
const OBJECTS: usize = 16;
/// Pages of the desk, where structures, paths and vectors are written.
pub(super) const DESK: u64 = 16;

/// What one process knows, and draws arguments from.
#[derive(Clone, Copy, Debug)]
pub struct Actor {
    /// The numbers.
    pub random: Random,
    /// Generations between this process and the first attacker.
    pub depth: u64,
    pub(super) desk: u64,
    pub(super) slot: u64,
    areas: [(u64, u64); OBJECTS],
    /// The area that the present call is about.
    area: usize,
    files: [u64; OBJECTS],
    children: [u64; OBJECTS],
    /// Every draw is of the same area and descriptor.
    focus: Option<u64>,
}

/// Does nothing, as the handler of a signal.
extern "C" fn nothing(_: i32, _: &siginfo_t, _: *mut c_void) {}

/// Words of `sigaction` with which `nothing` handles a signal.
fn own_action() -> [u64; 4] {
    let mut action = [0u64; 4];
    handle(SIGALRM, nothing, 0).expect("a handler");
    call(SYS_rt_sigaction, &[SIGALRM as u64, 0, action.as_mut_ptr() as u64, 8]).expect("an action");
    action
}

impl Actor {
    /// With objects of each kind; `extra` are more areas and descriptors.
    pub fn new(random: Random, areas: &[(u64, u64)], files: &[u64]) -> Self {
        let desk = map(0, (DESK + 2) * page(), PROT_NONE, ANONYMOUS, -1, 0).expect("room") + page();
        map(desk, DESK * page(), READ_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0).expect("a desk");
        let mut actor = Self {
            random,
            depth: 0,
            desk,
            slot: 0,
            areas: [(desk, page()); OBJECTS],
            area: 0,
            files: [u64::MAX; OBJECTS],
            children: [NOBODY; OBJECTS],
            focus: None,
        };
        for (at, word) in own_action().into_iter().enumerate() {
            long(desk + 8 * at as u64).store(word, std::sync::atomic::Ordering::Relaxed);
        }
        files.iter().for_each(|file| actor.keep_file(*file));
        areas.iter().for_each(|area| actor.keep_area(*area));
        for bytes in [page(), 64 * page(), 4 << 20] {
            actor.keep_area((map(0, bytes, READ_WRITE, ANONYMOUS, -1, 0).unwrap_or(desk), bytes));
        }
        if let Ok(file) = call(SYS_memfd_create, &[actor.text("m"), u64::from(MFD_ALLOW_SEALING)]) {
            let bytes = 16 * page();
            attempt(SYS_ftruncate, &[file, bytes]);
            actor.keep_file(file);
            let shared = map(0, bytes, READ_WRITE, MAP_SHARED, file as i32, 0);
            shared.into_iter().for_each(|at| actor.keep_area((at, bytes)));
        }
        let pair = actor.slot(16);
        if call(SYS_pipe2, &[pair, O_NONBLOCK as u64]).is_ok() {
            actor.keep_pair(pair);
        }
        for path in ["/dev/zero", ".", "/proc/self/maps"] {
            let name = actor.text(path);
            call(SYS_openat, &[AT_FDCWD as u64, name, 0, 0]).into_iter().for_each(|file| actor.keep_file(file));
        }
        actor
    }

    /// Draws of the same area and descriptor from now on, or not any more.
    pub fn focus(&mut self, on: bool) {
        self.focus = on.then(|| self.random.draw());
    }

    fn keep_file(&mut self, file: u64) {
        let place = self.files.iter().position(|one| *one == u64::MAX);
        self.files[place.unwrap_or_else(|| self.random.below(OBJECTS as u64) as usize)] = file;
    }

    /// Two descriptors that a call has left at an address.
    fn keep_pair(&mut self, at: u64) {
        let both = long(at & !7).load(std::sync::atomic::Ordering::Relaxed);
        [both & 0xffff_ffff, both >> 32].into_iter().for_each(|file| self.keep_file(file));
    }

    /// Remembers an area.
    pub fn keep_area(&mut self, area: (u64, u64)) {
        let place = self.areas.iter().position(|one| one.0 == self.desk);
        self.areas[place.unwrap_or_else(|| self.random.below(OBJECTS as u64) as usize)] = area;
    }

    /// Remembers the object that a call has made; whether this is a new process.
    pub fn keep(&mut self, row: &Row, arguments: &[u64; 6], answer: crate::Answer) -> bool {
        let Ok(value) = answer else { return false };
        match row.2 {
            b'm' => self.keep_area((value, arguments[1])),
            b'r' => self.keep_area((value, arguments[2])),
            b'f' => self.keep_file(value),
            // The kernel wrote them there, so that they can be read, unless another thread acts at this moment.
            b'2' if arguments[0].is_multiple_of(8) && arguments[0].wrapping_sub(self.desk) < DESK * page() => {
                self.keep_pair(arguments[0]);
            }
            b'p' if value != 0 => self.children[self.random.below(OBJECTS as u64) as usize] = value,
            b'p' => return true,
            _ => {}
        }
        false
    }

    /// Six arguments of a call.
    pub fn arguments(&mut self, row: &Row) -> [u64; 6] {
        let kinds = row.3.as_bytes();
        core::array::from_fn(|index| kinds.get(index).map_or(0, |kind| self.draw(*kind)))
    }

    /// A value of a kind.
    pub fn draw(&mut self, kind: u8) -> u64 {
        match kind {
            b'a' => self.address(),
            b'l' => self.length(),
            b'f' => self.file(),
            b'F' if self.random.once_in(5) => self.file(),
            b'F' => AT_FDCWD as u64,
            b'p' => self.path(),
            b'P' if self.random.once_in(2) => self.path(),
            b'P' => self.other_path(),
            b'E' if self.random.once_in(4) => self.path(),
            b'E' => self.text("/proc/self/exe"),
            b'n' => self.small(),
            b'i' => self.process(),
            b's' => self.random.one(&[0, 1, 10, 12, 14, 17, 18, 20, 27, 32, 34, 64, 65, u64::MAX]),
            b't' => self.times(),
            b'b' | b'A' | b'V' | b'v' | b'S' | b'O' | b'w' => self.pointer(kind),
            b'B' => self.size(),
            b'c' => self.random.one(&[0, 1, 2, 4, 128, 129, 1024, 1025, u64::MAX, 1 << 31]),
            b'o' => self.offset(),
            b'q' => {
                if self.random.once_in(16) {
                    self.small()
                } else {
                    8
                }
            }
            b'r' => self.random.one(&[0, 1, 3, 3, 3, 5, 7, 2, 0x0100_0003]),
            b'm' => self.map_flags(),
            b'h' => self.open_flags(),
            b'k' => self.random.one(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, u64::MAX, u64::MAX - 5, u64::MAX - 7]),
            b'u' => self.random.one(&[0, 0, 1000, 1000, 65534, u64::MAX]),
            b'd' => self.random.one(&[0x103, 0x105, 0x107, 0x109, 0x500]),
            b'y' if self.random.once_in(2) => self.pointer(b'b'),
            b'x' | b'y' => {
                if self.random.once_in(2) {
                    self.boundary()
                } else {
                    self.small()
                }
            }
            _ => 0,
        }
    }

    /// Where sizes and addresses meet their bounds.
    pub fn boundary(&mut self) -> u64 {
        let (bit, few) = (self.random.below(64), self.random.below(17));
        let near = self.random.one(&[0, 1, u64::MAX, page(), page().wrapping_neg()]);
        match self.random.below(7) {
            0 => few,
            1 => few * page(),
            6 => (few * page()).wrapping_neg(),
            2 => (1u64 << bit).wrapping_add(near),
            3 => (1u64 << 63).wrapping_add(near),
            4 => (few * page()).wrapping_neg(),
            _ => u64::MAX - few,
        }
    }

    /// A number as commands, flags and counts are.
    pub(super) fn small(&mut self) -> u64 {
        match self.random.below(12) {
            0..=5 => self.random.below(16),
            6 | 7 => self.random.below(72),
            8 => 1024 + self.random.below(20),
            9 => 1 << self.random.below(32) | self.random.below(4),
            10 => 128 | self.random.below(14),
            _ => self.boundary(),
        }
    }

    /// One of the first `count` objects.
    fn pick(&mut self, count: usize) -> usize {
        (self.focus.unwrap_or_else(|| self.random.draw()) >> 20) as usize % count.max(1)
    }

    pub(super) fn file(&mut self) -> u64 {
        match self.random.below(16) {
            0 => self.random.one(&[0, 1, 2, u64::MAX, AT_FDCWD as u64, 1023, 1024]),
            1 => self.boundary(),
            _ => {
                let count = self.files.iter().filter(|file| **file != u64::MAX).count();
                self.files[self.pick(count)]
            }
        }
    }

    fn process(&mut self) -> u64 {
        // Never the number of somebody else, nor -1: the verdict is not to be killed.
        match self.random.below(6) {
            0 => 0,
            1 => NOBODY,
            2 => self.random.one(&[0x7fff_ffff, 0x8000_0000, (NOBODY as i64).wrapping_neg() as u64]),
            3 => call(SYS_gettid, &[]).unwrap_or(0),
            4 => self.random.one(&self.children.clone()),
            _ => call(SYS_getpid, &[]).unwrap_or(0),
        }
    }

    /// An address of an area: its start, its end, between them, a page or a byte beside.
    pub(super) fn address(&mut self) -> u64 {
        let count = self.areas.iter().filter(|area| area.0 != self.desk).count();
        self.area = self.pick(count);
        let (start, bytes) = self.areas[self.area];
        let pages = self.random.below((bytes / page()).clamp(1, 1 << 20));
        match self.random.below(16) {
            0..=5 => start,
            6..=8 => start + pages * page(),
            9 => start + bytes,
            10 => (start + bytes).wrapping_sub(page()),
            11 => start.wrapping_sub(page()),
            12 => start.wrapping_add(bytes & !(page() - 1)).wrapping_sub(self.random.below(16)),
            13 => self.random.one(&[0, page(), 0xffff << 48, 1 << 47, (1 << 48) - page()]),
            14 => start | 1 << self.random.below(64),
            _ => self.boundary(),
        }
    }

    fn length(&mut self) -> u64 {
        let bytes = self.areas[self.area].1;
        match self.random.below(16) {
            0..=3 => bytes,
            4..=9 => (1 + self.random.below(8)) * page(),
            10 => bytes.wrapping_add(self.random.one(&[page(), page().wrapping_neg()])),
            11 => (bytes / 2) & !(page() - 1),
            12 => 1 << (12 + self.random.below(36)),
            _ => self.boundary(),
        }
    }

    pub(super) fn size(&mut self) -> u64 {
        match self.random.below(16) {
            0..=11 => 8 << self.random.below(8),
            12 | 13 => self.random.below(3 * page()),
            14 => self.length(),
            _ => self.boundary(),
        }
    }

    pub(super) fn offset(&mut self) -> u64 {
        match self.random.below(8) {
            0..=2 => self.random.below(32) * page(),
            3 => self.random.below(1 << 16),
            4 | 5 => 1 << self.random.below(40),
            _ => self.boundary(),
        }
    }

    fn map_flags(&mut self) -> u64 {
        let kind = self.random.one(&[MAP_PRIVATE, MAP_PRIVATE, MAP_SHARED]);
        let kind = kind | if self.random.once_in(4) { 0 } else { MAP_ANONYMOUS };
        let more = [0, 0, MAP_FIXED, MAP_NORESERVE, MAP_POPULATE, MAP_LOCKED, MAP_FIXED_NOREPLACE, MAP_GROWSDOWN, 8];
        (kind | self.random.one(&more) | self.random.one(&[0, 0, 0, MAP_NORESERVE, MAP_FIXED])) as u64
    }

    fn open_flags(&mut self) -> u64 {
        let more = [0, O_CREAT, O_CREAT | O_EXCL, O_TRUNC, O_APPEND, O_DIRECTORY, O_PATH, O_TMPFILE, O_CREAT | O_TRUNC];
        (self.random.one(&[O_RDONLY, O_WRONLY, O_RDWR]) | self.random.one(&more) | O_NONBLOCK) as u64
    }
}
