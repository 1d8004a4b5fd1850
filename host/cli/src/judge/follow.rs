//! A trace as it comes: from a pipe, or from a file that grows.
//!
//! What memory held at first follows from loads that may come late, so that a longer trace is judged from its beginning. That
//! happens when it has grown by a good part of itself, or when nothing has come for a moment: never more than a few times the
//! work of judging it once.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use super::{Found, Reading, reader, text};
use crate::Status;
use crate::select::Failure;

/// How long nothing comes before what has come is judged; and how often a file is looked at.
const QUIET: Duration = Duration::from_millis(200);
/// Bytes that are judged together at least, while more come.
const LEAST: usize = 1 << 16;

/// Judges until the end, or the first violation of a file that is followed, or as long as somebody reads what is found.
pub(super) fn follow(reading: &Reading<'_>) -> Result<Status, Failure> {
    let path = reading.path;
    let failed = |error: io::Error| Failure::file(path, &error);
    let ends_at_first = path != "-" && !reading.arguments.all;
    let chunks = chunks(path).map_err(failed)?;
    let (mut bytes, mut judged, mut told) = (Vec::new(), 0, 0);
    let mut found = Found(false);
    loop {
        let came = match chunks.recv_timeout(QUIET) {
            Ok(chunk) => {
                bytes.extend(chunk.map_err(failed)?);
                None
            }
            Err(end) => Some(end),
        };
        let is_over = came == Some(RecvTimeoutError::Disconnected) || image::interrupt::is_requested();
        // Of the last line a part may be missing yet.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let is_due = whole > judged && (came.is_some() || whole - judged > LEAST + judged / 2);
        if is_over {
            return reading.judge(&text(path, bytes)?, &mut told, true).map(Found::status);
        }
        if is_due {
            found = reading.judge(&text(path, bytes[..whole].to_vec())?, &mut told, false)?;
            judged = whole;
            if found == Found(true) && ends_at_first {
                return Ok(Status::Findings);
            }
        }
        if came.is_some() && reader::is_gone() {
            return Ok(found.status());
        }
    }
}

/// What comes, piece by piece; the channel is closed at the end of a pipe.
fn chunks(path: &str) -> io::Result<Receiver<io::Result<Vec<u8>>>> {
    let is_pipe = path == "-";
    if is_pipe && io::stdin().is_terminal() {
        return Err(io::Error::other("a trace is expected there; name a file, or pipe one in"));
    }
    let mut from: Box<dyn Read + Send> = if is_pipe { Box::new(io::stdin()) } else { Box::new(File::open(path)?) };
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut buffer = vec![0; LEAST];
        loop {
            let read = from.read(&mut buffer);
            match &read {
                Ok(0) if is_pipe => return,
                Ok(0) => {
                    thread::park_timeout(QUIET);
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                _ => {}
            }
            let is_last = read.is_err();
            if sender.send(read.map(|count| buffer[..count].to_vec())).is_err() || is_last {
                return;
            }
        }
    });
    Ok(receiver)
}
