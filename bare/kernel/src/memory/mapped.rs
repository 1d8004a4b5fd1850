//! A file as address spaces map it.

use alloc::string::String;
use core::ops::{Deref, Range};

use hardware::cache;
use userspace::{File, FileError};
use vmsa::PhysAddr;

use crate::fallible::{Arc, NoMemory, try_format};
use crate::files::inode::{Body, Inode};
use crate::memory::frames;

/// What a file was opened by.
#[derive(Clone)]
pub(crate) enum Path {
    Fixed(&'static str),
    Opened(Arc<String>),
}

impl Path {
    pub(crate) fn new(path: String) -> Result<Self, NoMemory> {
        Arc::try_new(path).map(Self::Opened)
    }
}

impl Deref for Path {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Fixed(path) => path,
            Self::Opened(path) => path,
        }
    }
}

/// A regular file, or memory that processes share; and the path that it was opened by.
#[derive(Clone)]
pub(crate) struct Mapped {
    pub(crate) inode: Arc<Inode>,
    pub(crate) path: Path,
}

/// A file's path; behind it whether the file has no name any more.
pub(crate) fn named(inode: &Inode, path: &str) -> Result<String, NoMemory> {
    const GONE: &str = " (deleted)";
    let has_names = inode.attributes.with(|attributes| attributes.links) > 0;
    try_format!("{path}{}", if has_names || path.ends_with(GONE) { "" } else { GONE })
}

impl PartialEq for Mapped {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inode, &other.inode)
    }
}

impl File for Mapped {
    fn frame(&self, index: u64) -> Result<PhysAddr, FileError> {
        let content = match &self.inode.body {
            Body::Regular(content) => content,
            // Nobody executes it, and the linear map does not lead there.
            Body::Secret(secrets) => return secrets.mapped(index),
            _ => return Err(FileError::Beyond),
        };
        let frame = content.mapped(index).map_err(|ends| if ends { FileError::Beyond } else { FileError::NoMemory })?;
        // It may be a program's text, which was written as data.
        let bytes = frames::bytes(&frame).as_ptr_range();
        cache::synchronize_instructions(bytes.start as usize..bytes.end as usize);
        Ok(frame)
    }

    fn resident_frames(&self, pages: Range<u64>, sink: impl FnMut(u64, PhysAddr)) {
        if let Body::Regular(content) = &self.inode.body {
            content.for_each_resident(pages, sink);
        }
    }

    fn is_resident(&self, index: u64) -> bool {
        match &self.inode.body {
            Body::Regular(content) => content.find(index).is_some(),
            Body::Secret(secrets) => secrets.is_there(index),
            _ => false,
        }
    }

    fn mark_written(&self, index: u64) {
        if let Body::Regular(content) = &self.inode.body {
            content.mark_dirty(index);
        }
        self.inode.note_written();
    }
}
