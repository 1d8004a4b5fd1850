//! The program of a process.

use alloc::string::String;
use alloc::vec::Vec;

use crate::fallible::{List, NoMemory, try_text};
use crate::files::inode::Running;

/// What a process runs.
#[derive(Default)]
pub(crate) struct Image {
    /// The last part of its path, at most 15 bytes.
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) file: Option<Running>,
    /// The arguments, each ended by a zero byte.
    pub(crate) arguments: Vec<u8>,
    /// The environment, the same way.
    pub(crate) environment: Vec<u8>,
    /// The auxiliary vector, as it was passed.
    pub(crate) auxiliary: Vec<u8>,
    /// Where the stack begins, downwards.
    pub(crate) stack: u64,
    pub(crate) places: Places,
}

impl Image {
    pub(crate) fn try_clone(&self) -> Result<Self, NoMemory> {
        let bytes = |bytes: &[u8]| {
            let mut own = Vec::new();
            own.try_extend_from(bytes).map(|()| own)
        };
        Ok(Self {
            name: try_text(&self.name)?,
            path: try_text(&self.path)?,
            file: self.file.clone(),
            arguments: bytes(&self.arguments)?,
            environment: bytes(&self.environment)?,
            auxiliary: bytes(&self.auxiliary)?,
            ..*self
        })
    }
}

/// Where `execve` put what: each from one address to another.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Places {
    pub(crate) code: [u64; 2],
    pub(crate) data: [u64; 2],
    pub(crate) arguments: [u64; 2],
    pub(crate) environment: [u64; 2],
}
