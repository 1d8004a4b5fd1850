//! The archive that Linux unpacks as its first file system: cpio in the `newc` format (cpio(5)).

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

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.add("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    /// Thirteen numbers of eight hexadecimal digits, the name and the content, each padded to four bytes.
    fn add(&mut self, name: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        self.files += 1;
        let (inode, links, size, name_bytes) = (self.files, 1, content.len() as u32, name.len() as u32 + 1);
        let numbers = [inode, mode, 0, 0, links, 0, size, 0, 0, device.0, device.1, name_bytes, 0];
        self.bytes.extend(b"070701");
        for number in numbers {
            self.bytes.extend(format!("{number:08X}").bytes());
        }
        self.bytes.extend(name.bytes().chain([0]));
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_stand_where_their_headers_say() {
        let mut archive = Archive::new();
        archive.folder("bin");
        archive.program("bin/a", b"abc");
        let bytes = archive.finish();
        let header = |at: usize, index: usize| {
            let digits = &bytes[at + 6 + index * 8..at + 14 + index * 8];
            usize::from_str_radix(std::str::from_utf8(digits).expect("digits"), 16).expect("a number")
        };
        let mut at = 0;
        let mut found = Vec::new();
        while at < bytes.len() {
            assert_eq!(&bytes[at..at + 6], b"070701");
            let (size, name_bytes) = (header(at, 6), header(at, 11));
            let name = String::from_utf8_lossy(&bytes[at + 110..at + 109 + name_bytes]).into_owned();
            let content = (at + 110 + name_bytes).next_multiple_of(4);
            found.push((name, header(at, 1), bytes[content..content + size].to_vec()));
            at = (content + size).next_multiple_of(4);
        }
        let expected = [
            ("bin".to_owned(), 0o04_0755, vec![]),
            ("bin/a".to_owned(), 0o10_0755, b"abc".to_vec()),
            ("TRAILER!!!".to_owned(), 0, vec![]),
        ];
        assert_eq!(found, expected);
    }
}
