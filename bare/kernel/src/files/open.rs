//! Files that are open: what a descriptor names.

use crate::fallible::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};

use hardware::lock::Lock;

use super::inode::{Body, Inode};
use super::locks::{self, Kind, Owner};
use super::text::Text;
use crate::fallible::List;
use crate::memory::frames;
use crate::memory::mapped::Path;
use crate::process::errno::{EBADF, EMFILE, ENOMEM, Errno};
use crate::threads::mutex::Mutex;

/// Flags of `open`, as arm64 has them.
pub(crate) const O_ACCMODE: u32 = 3;
pub(crate) const O_RDONLY: u32 = 0;
pub(crate) const O_WRONLY: u32 = 1;
pub(crate) const O_RDWR: u32 = 2;
pub(crate) const O_CREAT: u32 = 0o100;
pub(crate) const O_EXCL: u32 = 0o200;
pub(crate) const O_TRUNC: u32 = 0o1000;
pub(crate) const O_APPEND: u32 = 0o2000;
pub(crate) const O_NONBLOCK: u32 = 0o4000;
pub(crate) const O_DIRECTORY: u32 = 0o4_0000;
pub(crate) const O_NOFOLLOW: u32 = 0o10_0000;
pub(crate) const O_CLOEXEC: u32 = 0o200_0000;
pub(crate) const O_LARGEFILE: u32 = 0o40_0000;
pub(crate) const O_PATH: u32 = 0o1000_0000;
pub(crate) const O_TMPFILE: u32 = 0o2000_0000;

/// An open file: several descriptors may share it.
pub(crate) struct File {
    pub(crate) inode: Arc<Inode>,
    pub(crate) flags: AtomicU32,
    pub(crate) position: Mutex<u64>,
    /// What it says, of files whose text is made: when they are opened, and whenever they are read from their start.
    pub(crate) text: Mutex<Text>,
    /// What it was opened by.
    pub(crate) path: Path,
}

impl File {
    pub(crate) fn new(inode: Arc<Inode>, flags: u32, path: Path) -> Result<Arc<Self>, Errno> {
        let text = match &inode.body {
            Body::Made(made) => made.text(),
            _ => Text::new(),
        };
        let text = Mutex::new(text);
        let file = Self { inode, flags: AtomicU32::new(flags), position: Mutex::new(0), text, path };
        file.count(1);
        Ok(Arc::try_new(file)?)
    }

    pub(crate) fn flags(&self) -> u32 {
        self.flags.load(Ordering::Relaxed)
    }

    pub(crate) fn can_read(&self) -> bool {
        matches!(self.flags() & O_ACCMODE, O_RDONLY | O_RDWR) && self.flags() & O_PATH == 0
    }

    pub(crate) fn can_write(&self) -> bool {
        matches!(self.flags() & O_ACCMODE, O_WRONLY | O_RDWR) && self.flags() & O_PATH == 0
    }

    /// A descriptor of it is closed: the locks that its table has of the file go.
    pub(crate) fn give_up_locks(&self, table: &Arc<Lock<Descriptors>>) {
        locks::forget(&self.inode, Kind::Ranges, Owner::table(table));
    }

    fn count(&self, by: i32) {
        if let Body::Pipe(pipe) = &self.inode.body {
            if self.can_read() {
                pipe.count(false, by);
            }
            if self.can_write() {
                pipe.count(true, by);
            }
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        [Kind::Ranges, Kind::Whole].into_iter().for_each(|kind| locks::forget(&self.inode, kind, Owner::file(self)));
        self.count(-1);
    }
}

/// A descriptor.
#[derive(Clone)]
pub(crate) struct Descriptor {
    pub(crate) file: Arc<File>,
    pub(crate) closes_on_exec: bool,
}

/// Has the heap keep room for so many places more.
fn reserve(places: &mut Vec<Option<Descriptor>>, more: usize) -> Result<(), Errno> {
    let bytes = (places.len() + more) * size_of::<Option<Descriptor>>();
    if !frames::has_spare(2 * bytes as u64) {
        return Err(ENOMEM);
    }
    places.try_reserve(more).map_err(|_| ENOMEM)
}

/// The descriptors of a process.
pub(crate) struct Descriptors {
    places: Vec<Option<Descriptor>>,
    /// RLIMIT_NOFILE.
    pub(crate) most: usize,
}

impl Descriptors {
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), most: 1024 }
    }

    /// A child's, if there is memory for them.
    pub(crate) fn try_clone(&self) -> Result<Self, Errno> {
        let mut places = Vec::new();
        reserve(&mut places, self.places.len())?;
        places.try_extend(self.places.iter().cloned())?;
        Ok(Self { places, most: self.most })
    }

    pub(crate) fn get(&self, number: u64) -> Result<&Descriptor, Errno> {
        self.places.get(number as u32 as usize).and_then(Option::as_ref).ok_or(EBADF)
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Result<&mut Descriptor, Errno> {
        self.places.get_mut(number as u32 as usize).and_then(Option::as_mut).ok_or(EBADF)
    }

    /// The lowest number from `least` on that is free.
    pub(crate) fn free(&self, least: usize) -> Result<usize, Errno> {
        (least..self.most).find(|number| self.places.get(*number).is_none_or(Option::is_none)).ok_or(EMFILE)
    }

    /// Gives the lowest number from `least` on to a descriptor.
    pub(crate) fn add(&mut self, least: usize, descriptor: Descriptor) -> Result<u64, Errno> {
        let number = self.free(least)?;
        self.set(number, descriptor).map(drop)?;
        Ok(number as u64)
    }

    /// Gives it this number; the one that had it is to be dropped.
    pub(crate) fn set(&mut self, number: usize, descriptor: Descriptor) -> Result<Option<Descriptor>, Errno> {
        if number >= self.most {
            return Err(EBADF);
        }
        if self.places.len() <= number {
            let more = number + 1 - self.places.len();
            reserve(&mut self.places, more)?;
            self.places.try_resize(number + 1, None)?;
        }
        Ok(self.places[number].replace(descriptor))
    }

    pub(crate) fn take(&mut self, number: u64) -> Result<Descriptor, Errno> {
        self.places.get_mut(number as u32 as usize).and_then(Option::take).ok_or(EBADF)
    }

    /// Takes one that a new program does not get; it is to be dropped.
    pub(crate) fn take_for_exec(&mut self) -> Option<Descriptor> {
        let closes = |place: &mut Option<Descriptor>| place.take_if(|descriptor| descriptor.closes_on_exec);
        self.places.iter_mut().find_map(closes)
    }

    /// Whether a file is open to be written.
    pub(crate) fn writes(&self, inode: &Arc<Inode>) -> bool {
        self.places.iter().flatten().any(|place| Arc::ptr_eq(&place.file.inode, inode) && place.file.can_write())
    }

    /// The number behind the highest that was ever in use.
    pub(crate) fn room(&self) -> usize {
        self.places.len()
    }

    /// The numbers that are in use.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = usize> {
        self.places.iter().enumerate().filter(|(_, place)| place.is_some()).map(|(number, _)| number)
    }
}
