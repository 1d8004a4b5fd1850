//! What one run writes beside the Image.

use std::{
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicUsize, Ordering},
};

use fs_err as fs;

use crate::outcome::Failure;

/// Files and folders for one run; gone afterwards.
#[derive(Debug, Default)]
pub(crate) struct Files(Vec<PathBuf>);

impl Files {
    /// Takes over what another has.
    pub(crate) fn add(&mut self, mut other: Files) {
        self.0.append(&mut other.0);
    }

    /// Writes a file beside the Image, for as long as this lives.
    pub(crate) fn write(&mut self, image: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf, Failure> {
        let path = self.name(image, name);
        fs::write(&path, bytes)?;
        Ok(path)
    }

    /// A name beside the Image that no other run has.
    pub(crate) fn name(&mut self, image: &Path, name: &str) -> PathBuf {
        static RUNS: AtomicUsize = AtomicUsize::new(0);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let path = image.with_file_name(format!("{name}.{}.{run}", process::id()));
        self.0.push(path.clone());
        path
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // One that was never written is no loss.
        self.0.iter().for_each(|path| drop(fs::remove_file(path).or_else(|_| fs::remove_dir_all(path))));
    }
}
