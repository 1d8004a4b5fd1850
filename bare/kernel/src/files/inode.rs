//! A file of any kind, whatever its names.

use crate::fallible::{Arc, NoMemory, Weak};
use crate::locks::{Lock, OpenLock, order};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use userspace::Map;

use super::content::Content;
use super::counter::Counter;
use super::device::Device;
use super::pipe::Pipe;
use super::secret::Secrets;
use super::text::Text;
use crate::clock::{SECOND, monotonic_nanoseconds};
use crate::errno::{EIO, ETXTBSY, Errno};

/// Kinds of file in `st_mode`.
pub(crate) const S_IFMT: u32 = 0o17_0000;
pub(crate) const S_IFREG: u32 = 0o10_0000;
pub(crate) const S_IFDIR: u32 = 0o4_0000;
pub(crate) const S_IFLNK: u32 = 0o12_0000;
pub(crate) const S_IFCHR: u32 = 0o2_0000;
pub(crate) const S_IFIFO: u32 = 0o1_0000;

/// The device that every file is on, major and minor number.
pub(crate) const DEVICE: (u32, u32) = (0, 2);

/// The device of shared memory and of what `memfd_create` makes.
pub(crate) const NAMELESS: (u32, u32) = (0, 1);

/// What a file is.
pub(crate) enum Body {
    Folder(OpenLock<Folder>),
    Regular(Content),
    Secret(Secrets),
    Link(String),
    Device(Device),
    Pipe(Pipe),
    Counter(Counter),
    Made(Box<dyn Made>),
}

/// A text that is made when it is opened, or a folder or a link of such.
pub(crate) trait Made: Send + Sync {
    /// The kind, as in `st_mode`.
    fn kind(&self) -> u32;
    /// The path from the root.
    fn path(&self) -> Result<String, NoMemory>;
    /// Whether it is of `/sys`.
    fn is_of_sys(&self) -> bool {
        false
    }
    /// What is under a name of this folder.
    fn find(&self, name: &str) -> Result<Option<Arc<Inode>>, Errno>;
    /// What this folder holds: numbers, kinds and names.
    fn entries(&self) -> Result<Vec<(u64, u32, String)>, Errno>;
    /// What a link says.
    fn link(&self) -> Result<String, Errno>;
    /// Where a link leads.
    fn follow(&self) -> Result<Arc<Inode>, Errno>;
    /// What a text says now.
    fn text(&self) -> Text;
    /// What is at an offset of a text that is too long to be made as a whole.
    fn part(&self, offset: u64, bytes: u64) -> Option<Result<Vec<u8>, Errno>>;
    /// Whether it is memory, of which parts can be written.
    fn is_memory(&self) -> bool {
        false
    }
    /// Writes a part of memory.
    fn write_part(&self, _: u64, _: &[u8]) -> Result<u64, Errno> {
        Err(EIO)
    }
    /// Sets what it tells of; refused where nothing can be set.
    fn write(&self, bytes: &[u8]) -> Result<(), Errno>;
}

/// The names in a folder.
pub(crate) struct Folder {
    /// Of the root, nobody.
    pub(super) parent: Weak<Inode>,
    pub(super) names: Map<String, Arc<Inode>>,
}

impl Folder {
    pub(super) const fn new(parent: Weak<Inode>) -> Self {
        Self { parent, names: Map::new() }
    }

    /// The folder that it is in; none of the root.
    pub(crate) fn parent(&self) -> Option<Arc<Inode>> {
        self.parent.upgrade()
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Arc<Inode>> {
        self.names.remove(name)
    }

    pub(crate) fn names(&self) -> &Map<String, Arc<Inode>> {
        &self.names
    }
}

/// What is told of a file beside its body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes {
    /// Permissions, without the kind.
    pub(crate) mode: u32,
    pub(crate) user: u32,
    pub(crate) group: u32,
    pub(crate) links: u32,
    /// It has no name yet, and may get one.
    pub(crate) may_be_named: bool,
    /// Nanoseconds since 1970: of the last change of content, of the last read, and of the last change of these attributes.
    pub(crate) modified: Time,
    pub(crate) accessed: Time,
    pub(crate) changed: Time,
}

/// A file.
pub(crate) struct Inode {
    pub(crate) number: u64,
    pub(crate) body: Body,
    pub(crate) attributes: Lock<Attributes>,
    /// Above 0 how many may write it, below how many read it as a program or module: nobody does both.
    uses: AtomicI32,
}

/// A file that is open to be written, so that nobody runs it.
pub(crate) struct Writing(Arc<Inode>);

impl Writing {
    /// Nobody runs a file for as long as this is there; refused while somebody does.
    pub(crate) fn begin(inode: &Arc<Inode>) -> Result<Self, Errno> {
        let more = |uses: i32| (uses >= 0).then_some(uses + 1);
        let before = inode.uses.fetch_update(Ordering::Acquire, Ordering::Relaxed, more);
        before.map(|_| Self(inode.clone())).map_err(|_| ETXTBSY)
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.0.uses.fetch_sub(1, Ordering::Release);
    }
}

/// A file that runs, so that nobody opens it to write it.
pub(crate) struct Running(Arc<Inode>);

impl Running {
    /// Nobody opens a file to write it for as long as this is there; refused while somebody has.
    pub(crate) fn begin(inode: &Arc<Inode>) -> Result<Self, Errno> {
        let less = |uses: i32| (uses <= 0).then_some(uses - 1);
        let before = inode.uses.fetch_update(Ordering::Acquire, Ordering::Relaxed, less);
        before.map(|_| Self(inode.clone())).map_err(|_| ETXTBSY)
    }

    pub(crate) fn inode(&self) -> &Arc<Inode> {
        &self.0
    }
}

impl Clone for Running {
    fn clone(&self) -> Self {
        self.0.uses.fetch_sub(1, Ordering::Relaxed);
        Self(self.0.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.uses.fetch_add(1, Ordering::Release);
    }
}

static NEXT: AtomicU64 = AtomicU64::new(1);

/// Seconds since 1970, which may be before, and nanoseconds.
pub(crate) type Time = [u64; 2];

pub(crate) fn now() -> Time {
    let now = monotonic_nanoseconds();
    [now / SECOND, now % SECOND]
}

/// The number of what is made under a path, which is the same each time (FNV-1a), and above those that are counted.
pub(crate) fn number_of(path: &[&str]) -> u64 {
    let hash = path
        .iter()
        .flat_map(|part| part.bytes())
        .fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    1 << 32 | u64::from(hash)
}

impl Inode {
    pub(crate) fn new(body: Body, mode: u32) -> Result<Arc<Self>, NoMemory> {
        Self::made(body, mode, NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// One whose number is known.
    pub(crate) fn made(body: Body, mode: u32, number: u64) -> Result<Arc<Self>, NoMemory> {
        let now = now();
        let links = if matches!(body, Body::Folder(_)) { 2 } else { 1 };
        let mode = mode & 0o7777;
        let attributes = Attributes {
            mode,
            user: 0,
            group: 0,
            links,
            may_be_named: false,
            modified: now,
            accessed: now,
            changed: now,
        };
        Arc::try_new(Self {
            number,
            body,
            attributes: Lock::new(order::ATTRIBUTES, attributes),
            uses: AtomicI32::new(0),
        })
    }

    pub(crate) fn regular(mode: u32) -> Result<Arc<Self>, NoMemory> {
        Self::new(Body::Regular(Content::new()), mode)
    }

    /// The kind, as in `st_mode`.
    pub(crate) fn kind(&self) -> u32 {
        match &self.body {
            Body::Folder(_) => S_IFDIR,
            Body::Regular(_) | Body::Secret(_) => S_IFREG,
            Body::Link(_) => S_IFLNK,
            Body::Device(_) => S_IFCHR,
            Body::Pipe(_) => S_IFIFO,
            // Of no kind.
            Body::Counter(_) => 0,
            Body::Made(made) => made.kind(),
        }
    }

    pub(crate) fn is_folder(&self) -> bool {
        self.kind() == S_IFDIR
    }

    pub(crate) fn bytes(&self) -> u64 {
        match &self.body {
            Body::Regular(content) => content.bytes(),
            Body::Secret(secrets) => secrets.bytes(),
            Body::Link(to) => to.len() as u64,
            Body::Folder(folder) => folder.with(|folder| 40 + 20 * folder.len() as u64),
            Body::Device(_) | Body::Pipe(_) | Body::Counter(_) | Body::Made(_) => 0,
        }
    }

    /// Pages that it has.
    pub(super) fn pages(&self) -> u64 {
        match &self.body {
            Body::Regular(content) => content.pages(),
            Body::Secret(secrets) => secrets.pages(),
            _ => 0,
        }
    }

    /// Blocks of 512 bytes that it has.
    pub(crate) fn blocks(&self) -> u64 {
        self.pages() * (crate::facts::page_size().size_bytes() / 512)
    }

    pub(crate) fn note_written(&self) {
        let now = now();
        self.attributes.with(|attributes| (attributes.modified, attributes.changed) = (now, now));
    }
}
