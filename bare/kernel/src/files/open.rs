//! Files that are open: what a descriptor names.

use crate::fallible::Arc;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hardware::lock::Lock;

use super::inode::{Body, Inode, Writing};
use super::locks::{self, Kind, Owner};
use super::text::Text;
use crate::fallible::{List, NoMemory};
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

/// Where an open file stands.
pub(crate) struct Position {
    at: AtomicU64,
    moving: Mutex<Listed>,
}

/// How far a folder has been listed: names come and go meanwhile.
pub(crate) struct Listed {
    /// The position behind the last name that was told.
    pub(crate) position: u64,
    /// That name.
    pub(crate) name: String,
}

impl Position {
    const fn new() -> Self {
        Self { at: AtomicU64::new(0), moving: Mutex::new(Listed { position: 0, name: String::new() }) }
    }

    /// What it is now: who reads the text about a file may be the one that moves it.
    pub(crate) fn get(&self) -> u64 {
        self.at.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, at: u64) {
        self.at.store(at, Ordering::Relaxed);
    }

    /// Runs `body` with it while nobody else does; who waits for that can be killed.
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut u64) -> Result<R, Errno>) -> Result<R, Errno> {
        self.list(|at, _| body(at))
    }

    /// The same of a folder, with how far it has been listed.
    pub(crate) fn list<R>(&self, body: impl FnOnce(&mut u64, &mut Listed) -> Result<R, Errno>) -> Result<R, Errno> {
        self.moving.with_or_end(|listed| {
            let mut at = self.get();
            let result = body(&mut at, listed);
            self.set(at);
            result
        })
    }
}

/// An open file: several descriptors may share it.
pub(crate) struct File {
    pub(crate) inode: Arc<Inode>,
    pub(crate) flags: AtomicU32,
    pub(crate) position: Position,
    /// What it says, of files whose text is made: when they are opened, and whenever they are read from their start.
    pub(crate) text: Mutex<Text>,
    /// What it was opened by.
    pub(crate) path: Path,
    /// If it was opened by a name to be written.
    _writing: Option<Writing>,
}

impl File {
    pub(crate) fn new(inode: Arc<Inode>, flags: u32, path: Path) -> Result<Arc<Self>, Errno> {
        Self::opened(inode, flags, path, None)
    }

    /// One that was opened by a name.
    pub(crate) fn opened(
        inode: Arc<Inode>,
        flags: u32,
        path: Path,
        writing: Option<Writing>,
    ) -> Result<Arc<Self>, Errno> {
        let text = match &inode.body {
            Body::Made(made) => made.text(),
            _ => Text::new(),
        };
        let text = Mutex::new(text);
        let file =
            Self { inode, flags: AtomicU32::new(flags), position: Position::new(), text, path, _writing: writing };
        file.count(1);
        Ok(Arc::try_new(file)?)
    }

    pub(crate) fn flags(&self) -> u32 {
        self.flags.load(Ordering::Relaxed)
    }

    /// Sets those of `which` that `new` has, and clears the others of them.
    pub(crate) fn set_flags(&self, which: u32, new: u32) {
        // Never refused: what is not of `which` stays, whoever changes that meanwhile.
        let _ =
            self.flags.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |flags| Some(flags & !which | new & which));
    }

    pub(crate) fn can_read(&self) -> bool {
        matches!(self.flags() & O_ACCMODE, O_RDONLY | O_RDWR) && self.flags() & O_PATH == 0
    }

    pub(crate) fn can_write(&self) -> bool {
        matches!(self.flags() & O_ACCMODE, O_WRONLY | O_RDWR) && self.flags() & O_PATH == 0
    }

    /// A descriptor of it is closed: the locks that its table has of the file go.
    pub(crate) fn give_up_locks(&self, table: Owner) {
        locks::forget(&self.inode, Kind::Ranges, table);
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

/// A table of descriptors, which several processes may have. What is open there is closed once none of them has it, and its locks go.
pub(crate) struct Table(Lock<Descriptors>);

impl Table {
    pub(crate) fn new(descriptors: Descriptors) -> Result<Arc<Self>, NoMemory> {
        Arc::try_new(Self(Lock::new(descriptors)))
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        let (owner, places) = (Owner::table(self), self.0.with(|all| core::mem::take(&mut all.places)));
        places.iter().flatten().for_each(|place| place.file.give_up_locks(owner));
    }
}

/// Which table a process has: none once it has ended, whoever waits for it.
pub(crate) struct Files(Lock<Option<Arc<Table>>>);

impl Files {
    pub(crate) const fn new(table: Arc<Table>) -> Self {
        Self(Lock::new(Some(table)))
    }

    /// Runs `body` with the descriptors.
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut Descriptors) -> R) -> R {
        self.0.with(|table| match table {
            Some(table) => table.0.with(body),
            None => body(&mut Descriptors::new()),
        })
    }

    /// Who has the locks of ranges.
    pub(crate) fn owner(&self) -> Owner {
        self.0.with(|table| table.as_ref().map_or(Owner::Table(0), |table| Owner::table(&**table)))
    }

    /// The table, for one more process.
    pub(crate) fn share(&self) -> Result<Arc<Table>, Errno> {
        self.0.with(|table| table.clone()).ok_or(EBADF)
    }

    /// A table with the same descriptors.
    pub(crate) fn copy(&self) -> Result<Arc<Table>, Errno> {
        Ok(Table::new(self.with(|files| files.try_clone())?)?)
    }

    /// Has a process go on with a table of its own.
    pub(crate) fn unshare(&self) -> Result<(), Errno> {
        let is_shared = self.0.with(|table| table.as_ref().is_some_and(|table| Arc::strong_count(table) > 1));
        if is_shared {
            let own = self.copy()?;
            let before = self.0.with(|table| table.replace(own));
            drop(before);
        }
        Ok(())
    }

    /// A process has ended.
    pub(crate) fn let_go(&self) {
        let before = self.0.with(Option::take);
        drop(before);
    }
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

    /// The number behind the highest that was ever in use.
    pub(crate) fn room(&self) -> usize {
        self.places.len()
    }

    /// The numbers that are in use.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = usize> {
        self.places.iter().enumerate().filter(|(_, place)| place.is_some()).map(|(number, _)| number)
    }
}
