//! A trace as it comes: from a pipe, or from a file that grows, and may be begun anew.
//!
//! What memory held at first follows from loads that may come late, so that a longer trace is judged from its beginning. That
//! happens when it has grown by a good part of itself, or when nothing has come for a moment; of a trace that drips it takes a
//! fifth of the time at most.

use std::io;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use super::pieces::{Piece, QUIET, pieces};
use super::{Found, Reading, reader, text};
use terminal::Ending;

use crate::say;
use crate::select::Failure;

/// Bytes that are judged together at least, while more come.
const LEAST: usize = 1 << 16;
/// How many times as long as a judgement took it is not judged again, unless much has come.
const REST: u32 = 4;

/// Judges until the end, or the first violation of a file that is followed, or as long as somebody reads what is found.
pub(super) fn follow(reading: &Reading<'_>) -> Result<Ending, Failure> {
    let path = reading.path;
    // Ctrl-C is how a person ends this, and is told what was found.
    let _held = image::interrupt::hold();
    let failed = |error: io::Error| Failure::file(path, &error);
    let ends_at_first = path != "-" && !reading.arguments.all;
    let pieces = pieces(path).map_err(failed)?;
    let (mut bytes, mut judged, mut told) = (Vec::new(), 0, 0);
    let (mut found, mut last, mut took) = (Found(false), Instant::now(), Duration::ZERO);
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
        let is_due = is_anew || is_due(whole - judged, judged, is_quiet.then(|| last.elapsed()), took);
        if whole > judged && is_due {
            let begun = Instant::now();
            found = reading.judge(&text(path, bytes[..whole].to_vec())?, &mut told, false)?;
            judged = whole;
            (last, took) = (Instant::now(), begun.elapsed());
            if found == Found(true) && ends_at_first {
                return Ok(Ending::Wrong);
            }
        }
        if is_anew {
            say::note(format!("{path} was begun anew: it is judged from its beginning"));
            (bytes, judged, told, found) = (Vec::new(), 0, 0, Found(false));
        }
        // What has come is judged by now, so that the status is that of what was read.
        if is_quiet && judged == whole && reader::is_gone() {
            return Ok(found.status());
        }
    }
}

/// Whether `new` bytes are judged with those that were before: `rested` is how long ago that was, where nothing has come for a
/// moment, and `took` how long it took.
fn is_due(new: usize, judged: usize, rested: Option<Duration>, took: Duration) -> bool {
    new > LEAST + judged / 2 || rested.is_some_and(|rested| rested >= took * REST)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line each 250 ms, after each of which nothing comes for 200: judging 1,000 bytes takes a millisecond.
    #[test]
    fn a_trace_that_drips_keeps_no_cpu_busy() {
        let (mut bytes, mut judged, mut rested, mut busy) = (0, 0, Duration::ZERO, Duration::ZERO);
        let (each, mut took, lines) = (Duration::from_millis(250), Duration::ZERO, 100_000u32);
        for _ in 0..lines {
            bytes += 30;
            rested += each;
            if is_due(bytes - judged, judged, Some(rested), took) {
                took = Duration::from_millis(bytes as u64 / 1000);
                busy += took;
                (judged, rested) = (bytes, Duration::ZERO);
            }
        }
        assert!(busy < each * lines / 4, "{busy:?}");
        // What is short is judged at every quiet moment.
        assert!(is_due(1, 100, Some(each), Duration::from_millis(1)) && !is_due(1, 100, None, Duration::ZERO));
    }
}
