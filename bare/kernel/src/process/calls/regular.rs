//! Reading and writing of regular files: all buffers of a call are one step for who else writes, or reads where the same file stands.
//!
//! ```text
//! where the file stands (File::position) ──▶ alone with the content (Content::alone) ──▶ buffer after buffer
//! ```

use super::amounts::{MOST_BYTES, check_file_limit, check_position, check_range};
use super::call::Call;
use crate::errno::*;
use crate::facts::page_size;
use crate::files::content::Content;
use crate::files::open::{File, O_APPEND};
use crate::process::copies;

/// A buffer of a program: an address and bytes.
pub(super) type Buffer = [u64; 2];

/// Runs `body` where the file stands, or at `offset`. It says where it began, after all, and how much it did; the file stands behind that.
fn positioned(file: &File, offset: Option<u64>, body: impl FnOnce(u64) -> Result<(u64, u64), Errno>) -> Answer {
    if let Some(offset) = offset {
        return body(offset).map(|(_, done)| done);
    }
    // Others that have the file open with this one wait: what they read or write comes behind.
    file.position.with(|position| {
        let (start, done) = body(*position)?;
        if done > 0 {
            *position = start + done;
        }
        Ok(done)
    })
}

/// Bytes of all buffers.
fn sum(buffers: &[Buffer]) -> u64 {
    buffers.iter().fold(0, |sum, [_, bytes]| sum.saturating_add(*bytes))
}

/// Gives `each` buffer after buffer, at most `most` bytes, with how many were done before, until one is not done as a whole.
fn for_each(buffers: &[Buffer], most: u64, mut each: impl FnMut(Buffer, u64) -> Answer) -> Answer {
    let mut done = 0;
    for [address, bytes] in buffers {
        let part = (*bytes).min(most - done);
        match each([*address, part], done) {
            Ok(moved) => {
                done += moved;
                if moved < *bytes {
                    break;
                }
            }
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(done)
}

/// Reads at `offset`, or where the file stands.
pub(super) fn read(file: &File, content: &Content, buffers: &[Buffer], offset: Option<u64>) -> Answer {
    positioned(file, offset, |start| {
        check_position(start, sum(buffers))?;
        let done = for_each(buffers, MOST_BYTES, |[to, bytes], done| {
            check_range(to, bytes, Some(start + done))?;
            read_part(content, start + done, [to, bytes])
        })?;
        Ok((start, done))
    })
}

fn read_part(content: &Content, at: u64, [to, bytes]: Buffer) -> Answer {
    let (mut place, page) = (to, page_size().size_bytes());
    let read = content.read(at, bytes, |mut part| {
        // What a program has memory for, it gets.
        while !part.is_empty() {
            let count = part.len().min((page - place % page) as usize);
            copies::write(place, &part[..count])?;
            (place, part) = (place + count as u64, &part[count..]);
        }
        Ok(())
    });
    if place > to { Ok(place - to) } else { read }
}

/// Writes at `offset`, or where the file stands, or at its end if the file was opened so.
pub(super) fn write(call: &Call, file: &File, content: &Content, buffers: &[Buffer], offset: Option<u64>) -> Answer {
    let asked = sum(buffers);
    let all = asked.min(MOST_BYTES);
    positioned(file, offset, |at| {
        check_position(at, asked)?;
        content.alone(|| {
            let start = if file.flags() & O_APPEND != 0 { content.bytes() } else { at };
            content.check_seals(start.saturating_add(all), true)?;
            let limit = check_file_limit(call, start.saturating_add(u64::from(all > 0)))?;
            let done = for_each(buffers, all.min(limit.saturating_sub(start)), |[from, bytes], done| {
                check_range(from, bytes, Some(start + done))?;
                let mut place = from;
                content.write(start + done, bytes, |part| {
                    copies::read(part, place)?;
                    place += part.len() as u64;
                    Ok(())
                })
            });
            file.inode.note_written();
            Ok((start, done?))
        })
    })
}
