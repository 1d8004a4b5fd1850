//! What `memfd_secret` makes: pages that the linear map does not lead to. Programs map them; nobody reads or writes the file.

use alloc::collections::BTreeMap;

use hardware::lock::Lock;
use userspace::FileError;
use vmsa::PhysAddr;

use crate::facts::page_size;
use crate::memory::frames;
use crate::memory::secret::{self, Secret};

struct Pages {
    bytes: u64,
    /// Each is in no other hands once no area maps the file, which is as long as the file is there.
    secrets: BTreeMap<u64, Secret>,
}

/// The content of such a file.
pub(crate) struct Secrets(Lock<Pages>);

impl Secrets {
    pub(crate) const fn new() -> Self {
        Self(Lock::new(Pages { bytes: 0, secrets: BTreeMap::new() }))
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.with(|pages| pages.bytes)
    }

    /// Pages that it has.
    pub(crate) fn pages(&self) -> u64 {
        self.0.with(|pages| pages.secrets.len() as u64)
    }

    /// Makes it so long, once. Whether it was not yet.
    pub(crate) fn resize(&self, bytes: u64) -> bool {
        self.0.with(|pages| {
            let is_first = pages.bytes == 0;
            if is_first {
                pages.bytes = bytes;
            }
            is_first
        })
    }

    pub(crate) fn is_there(&self, index: u64) -> bool {
        self.0.with(|pages| pages.secrets.contains_key(&index))
    }

    /// The frame for a mapping, which then has it.
    pub(crate) fn mapped(&self, index: u64) -> Result<PhysAddr, FileError> {
        if index >= self.bytes().div_ceil(page_size().size_bytes()) {
            return Err(FileError::Beyond);
        }
        let mut fresh = if self.is_there(index) { None } else { Some(take().ok_or(FileError::NoMemory)?) };
        // Another may have made one meanwhile: the first stays, and the other is shown again behind the lock.
        let address = self.0.with(|pages| {
            let first = match fresh.take_if(|_| !pages.secrets.contains_key(&index)) {
                Some(secret) => pages.secrets.entry(index).or_insert(secret).first(),
                None => pages.secrets[&index].first(),
            };
            frames::share(first);
            first
        });
        drop(fresh);
        Ok(address)
    }
}

/// A page of zeros, if there is room for a program's.
fn take() -> Option<Secret> {
    let secret = if frames::has_room(1) { secret::take_zeroed() } else { None }?;
    frames::hold(secret.first());
    Some(secret)
}
