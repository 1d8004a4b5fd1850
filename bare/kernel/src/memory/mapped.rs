//! A file as address spaces map it.

use alloc::sync::Arc;

use hardware::cache;
use userspace::{File, FileError};
use vmsa::PhysAddr;

use crate::files::inode::{Body, Inode};
use crate::memory::frames;

/// A regular file, or memory that processes share; and the path that it was opened by.
#[derive(Clone)]
pub(crate) struct Mapped {
    pub(crate) inode: Arc<Inode>,
    pub(crate) path: Arc<str>,
}

impl Mapped {
    /// The path; behind it whether the file has no name any more.
    pub(crate) fn name(&self) -> Arc<str> {
        const GONE: &str = " (deleted)";
        let has_names = self.inode.attributes.with(|attributes| attributes.links) > 0;
        match has_names || self.path.ends_with(GONE) {
            true => self.path.clone(),
            false => Arc::from(alloc::format!("{}{GONE}", self.path)),
        }
    }
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

    fn resident_frame(&self, index: u64) -> Option<PhysAddr> {
        let Body::Regular(content) = &self.inode.body else { return None };
        content.resident(index)
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
