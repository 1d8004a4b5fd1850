//! Files that are open: what a descriptor names.

use crate::fallible::Arc;
use crate::locks::order;
use alloc::string::String;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::inode::{Body, Inode, Writing};
use super::locks::{self, Owner};
use super::text::Text;
use crate::errno::Errno;
use crate::memory::mapped::Path;
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
        Self { at: AtomicU64::new(0), moving: Mutex::new(order::POSITION, Listed { position: 0, name: String::new() }) }
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
        let text = Mutex::new(order::TEXT, text);
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
        locks::forget(&self.inode, table);
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
        self.count(-1);
    }
}
