//! A file of any kind, whatever its names.

use alloc::string::String;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

use hardware::lock::Lock;

use super::content::Content;
use super::device::Device;
use super::pipe::Pipe;
use super::proc::Proc;
use super::secret::Secrets;
use super::tree::Folder;
use crate::clock::real_nanoseconds;

/// Kinds of file in `st_mode`.
pub(crate) const S_IFMT: u32 = 0o17_0000;
pub(crate) const S_IFREG: u32 = 0o10_0000;
pub(crate) const S_IFDIR: u32 = 0o4_0000;
pub(crate) const S_IFLNK: u32 = 0o12_0000;
pub(crate) const S_IFCHR: u32 = 0o2_0000;
pub(crate) const S_IFIFO: u32 = 0o1_0000;

/// The device that every file is on, major and minor number.
pub(crate) const DEVICE: (u32, u32) = (0, 2);

/// What a file is.
pub(crate) enum Body {
    Folder(Lock<Folder>),
    Regular(Content),
    Secret(Secrets),
    Link(String),
    Device(Device),
    Pipe(Pipe),
    /// Text that is made when it is opened, or a folder or a link of such.
    Proc(Proc),
}

/// What is told of a file beside its body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes {
    /// Permissions, without the kind.
    pub(crate) mode: u32,
    pub(crate) user: u32,
    pub(crate) group: u32,
    pub(crate) links: u32,
    /// Nanoseconds since 1970: of the last change of content, of the last read, and of the last change of these attributes.
    pub(crate) modified: u64,
    pub(crate) accessed: u64,
    pub(crate) changed: u64,
}

/// A file.
pub(crate) struct Inode {
    pub(crate) number: u64,
    pub(crate) body: Body,
    pub(crate) attributes: Lock<Attributes>,
}

static NEXT: AtomicU64 = AtomicU64::new(1);

impl Inode {
    pub(crate) fn new(body: Body, mode: u32) -> Arc<Self> {
        let now = real_nanoseconds();
        let links = if matches!(body, Body::Folder(_)) { 2 } else { 1 };
        let mode = mode & 0o7777;
        let attributes = Attributes { mode, user: 0, group: 0, links, modified: now, accessed: now, changed: now };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { number, body, attributes: Lock::new(attributes) })
    }

    pub(crate) fn regular(mode: u32) -> Arc<Self> {
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
            Body::Proc(proc) => proc.kind(),
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
            Body::Device(_) | Body::Pipe(_) | Body::Proc(_) => 0,
        }
    }

    /// Blocks of 512 bytes that it has.
    pub(crate) fn blocks(&self) -> u64 {
        let pages = match &self.body {
            Body::Regular(content) => content.pages(),
            Body::Secret(secrets) => secrets.pages(),
            _ => 0,
        };
        pages * (crate::facts::page_size().size_bytes() / 512)
    }

    pub(crate) fn note_written(&self) {
        let now = real_nanoseconds();
        self.attributes.with(|attributes| (attributes.modified, attributes.changed) = (now, now));
    }
}
