//! What comes of a trace, piece by piece.

use std::fs::{self, File};
use std::io::{self, ErrorKind, IsTerminal, Read, Result};
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// How long nothing comes before what has come is judged; and how often a file is looked at.
pub(super) const QUIET: Duration = Duration::from_millis(200);
/// Bytes that are read at once.
const MOST: usize = 1 << 16;

/// What has come.
pub(super) enum Piece {
    Bytes(Vec<u8>),
    /// The file was begun anew: what came before is no part of it.
    Anew,
}

/// What comes; the channel is closed at the end of a pipe, and after an error.
pub(super) fn pieces(path: &str) -> Result<Receiver<Result<Piece>>> {
    let mut from: Box<dyn Iterator<Item = Result<Piece>> + Send> = if path != "-" {
        Box::new(Growing { file: File::open(path)?, path: path.to_owned(), read: 0 })
    } else if io::stdin().is_terminal() {
        return Err(io::Error::other("a trace is expected there; name a file, or pipe one in"));
    } else {
        Box::new(std::iter::from_fn(|| some(&mut io::stdin()).transpose().map(|read| read.map(Piece::Bytes))))
    };
    let (sender, receiver) = channel();
    thread::spawn(move || {
        loop {
            let Some(piece) = from.next() else { return };
            let is_last = piece.is_err();
            if sender.send(piece).is_err() || is_last {
                return;
            }
        }
    });
    Ok(receiver)
}

/// What there is to read, or nothing at the end.
fn some(from: &mut dyn Read) -> Result<Option<Vec<u8>>> {
    let mut buffer = vec![0; MOST];
    loop {
        match from.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            read => return read.map(|count| (count > 0).then(|| buffer[..count].to_vec())),
        }
    }
}

/// A file that grows for ever.
struct Growing {
    file: File,
    path: String,
    /// Bytes of it so far.
    read: u64,
}

impl Growing {
    fn piece(&mut self) -> Result<Piece> {
        loop {
            if let Some(bytes) = some(&mut self.file)? {
                self.read += bytes.len() as u64;
                return Ok(Piece::Bytes(bytes));
            }
            if self.is_anew()? {
                // While one file takes another's place, there may be none for a moment.
                if let Ok(file) = File::open(&self.path) {
                    (self.file, self.read) = (file, 0);
                    return Ok(Piece::Anew);
                }
            }
            thread::park_timeout(QUIET);
        }
    }

    /// Whether the file is shorter than what was read of it, or another stands in its place: a kernel that boots again writes
    /// its log again.
    fn is_anew(&self) -> Result<bool> {
        let ours = self.file.metadata()?;
        let is_other = |now: fs::Metadata| (now.dev(), now.ino()) != (ours.dev(), ours.ino());
        Ok(ours.is_file() && (ours.len() < self.read || fs::metadata(&self.path).is_ok_and(is_other)))
    }
}

impl Iterator for Growing {
    type Item = Result<Piece>;

    fn next(&mut self) -> Option<Result<Piece>> {
        Some(self.piece())
    }
}
