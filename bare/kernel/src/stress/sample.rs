//! The module of the initial RAM disk, loaded by names of one's own.

use alloc::vec::Vec;
use core::slice;

use kerncore::cpio::Entries;

use super::tally::Came;
use crate::console::say;
use crate::facts::facts;
use crate::fallible::List;
use crate::memory::modules;

/// The file that is loaded, what its name is in it, and what is called before it goes.
const FILE: &[u8] = b"lib/modules/sample.o";
const NAME: &[u8] = b"name=sample\0";
const STOP: &[u8] = b"module_stop\0";

/// Its object, which says nothing when it goes, and where the last letter of its name is.
pub(crate) struct Sample {
    object: Vec<u8>,
    name_end: usize,
}

impl Sample {
    /// The module, if there is one, and memory for it.
    pub(crate) fn find() -> Option<Self> {
        let initrd = facts().initrd;
        let at = facts().linear.address(initrd.start).bits() as *const u8;
        // SAFETY: the linear map has it, and nobody writes there.
        let archive = unsafe { slice::from_raw_parts(at, initrd.size_bytes() as usize) };
        let entry = Entries::new(archive).map_while(Result::ok).find(|entry| entry.name == FILE)?;
        let mut object = copy(entry.content)?;
        let name = object.windows(NAME.len()).position(|bytes| bytes == NAME)?;
        // Another function's name, so that a line for each is not printed.
        while let Some(stop) = object.windows(STOP.len()).position(|bytes| bytes == STOP) {
            object[stop] = b'M';
        }
        Some(Self { object, name_end: name + NAME.len() - 2 })
    }

    /// Loads it by its own name, and unloads it. Whether there was memory for that.
    pub(crate) fn is_loaded(&self) -> bool {
        modules::load(&self.object).is_ok() && modules::unload("sample")
    }

    /// Loads it by a name of this CPU's, which every CPU calls, and unloads it.
    pub(super) fn load(&self, cpu: usize) -> Came {
        let Some(mut own) = copy(&self.object) else { return Came::Refused };
        own[self.name_end] = b'0' + cpu as u8;
        // `sample`, with another last letter.
        let name = core::str::from_utf8(&own[self.name_end - 5..=self.name_end]).unwrap_or_default();
        if let Err(error) = modules::load(&own) {
            say!("stress: module: {error}; not loaded");
            return Came::Wrong;
        }
        if modules::unload(name) { Came::Right } else { Came::Wrong }
    }
}

fn copy(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len()).ok()?;
    copy.try_extend_from(bytes).ok()?;
    Some(copy)
}
