//! A trace as it comes: from a pipe, or from a file that grows, and may be begun anew.
//!
//! What memory held at first follows from loads that may come late, so that a longer trace is judged from its beginning. That
//! happens when it has grown by a good part of itself, or when nothing has come for a moment.

use std::io;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use super::pieces::{Piece, QUIET, pieces};
use super::{Found, Reading, reader, text};
use crate::select::Failure;
use crate::{Status, say};

/// Bytes that are judged together at least, while more come.
const LEAST: usize = 1 << 16;

/// Judges until the end, or the first violation of a file that is followed, or as long as somebody reads what is found.
pub(super) fn follow(reading: &Reading<'_>) -> Result<Status, Failure> {
    let path = reading.path;
    let failed = |error: io::Error| Failure::file(path, &error);
    let ends_at_first = path != "-" && !reading.arguments.all;
    let pieces = pieces(path).map_err(failed)?;
    let (mut bytes, mut judged, mut told) = (Vec::new(), 0, 0);
    let mut found = Found(false);
    loop {
        let (mut is_quiet, mut is_anew) = (false, false);
        let mut is_over = image::interrupt::is_requested();
        match pieces.recv_timeout(QUIET) {
            Ok(Ok(Piece::Bytes(piece))) => bytes.extend(piece),
            Ok(Ok(Piece::Anew)) => is_anew = true,
            Ok(Err(error)) => return Err(failed(error)),
            Err(RecvTimeoutError::Timeout) => is_quiet = true,
            Err(RecvTimeoutError::Disconnected) => is_over = true,
        }
        if is_over {
            return reading.judge(&text(path, bytes)?, &mut told, true).map(Found::status);
        }
        // Of the last line a part may be missing yet.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        if whole > judged && (is_quiet || is_anew || whole - judged > LEAST + judged / 2) {
            found = reading.judge(&text(path, bytes[..whole].to_vec())?, &mut told, false)?;
            judged = whole;
            if found == Found(true) && ends_at_first {
                return Ok(Status::Findings);
            }
        }
        if is_anew {
            say::note(format!("{path} was begun anew: it is judged from its beginning"));
            (bytes, judged, told) = (Vec::new(), 0, 0);
        }
        // What has come is judged by now, so that the status is that of what was read.
        if is_quiet && judged > 0 && reader::is_gone() {
            return Ok(found.status());
        }
    }
}
