//! The archive that Linux unpacks as its first file system: cpio in the `newc` format (cpio(5)).

use std::io::Write;

use cpio::newc;

/// An archive being written.
pub(crate) struct Archive {
    bytes: Vec<u8>,
    files: u32,
}

/// Kinds of file and permissions, as in `st_mode`.
const FOLDER: u32 = 0o04_0755;
const PROGRAM: u32 = 0o10_0755;
const LINK: u32 = 0o12_0777;
const CHARACTER_DEVICE: u32 = 0o02_0600;
/// The device number of /dev/console.
const CONSOLE: (u32, u32) = (5, 1);

impl Archive {
    pub(crate) fn new() -> Archive {
        Archive { bytes: Vec::new(), files: 0 }
    }

    pub(crate) fn folder(&mut self, name: &str) {
        self.add(name, FOLDER, (0, 0), &[]);
    }

    pub(crate) fn console(&mut self, name: &str) {
        self.add(name, CHARACTER_DEVICE, CONSOLE, &[]);
    }

    pub(crate) fn program(&mut self, name: &str, content: &[u8]) {
        self.add(name, PROGRAM, (0, 0), content);
    }

    pub(crate) fn link(&mut self, name: &str, to: &str) {
        self.add(name, LINK, (0, 0), to.as_bytes());
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        newc::trailer(self.bytes).expect("a vector takes all")
    }

    fn add(&mut self, name: &str, mode: u32, (major, minor): (u32, u32), content: &[u8]) {
        self.files += 1;
        let entry = newc::Builder::new(name).ino(self.files).nlink(1).mode(mode).rdev_major(major).rdev_minor(minor);
        let mut file = entry.write(&mut self.bytes, content.len() as u32);
        file.write_all(content).and_then(|()| file.finish()).expect("a vector takes all");
    }
}
