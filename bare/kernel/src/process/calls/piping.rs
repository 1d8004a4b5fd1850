//! Bytes in and out of pipes. Whoever moves some has the pipe's turn until the call is done, or has to wait: what one reader gets is in one
//! piece, and what is looked at is what is taken.

use super::amounts::PART;
use super::call::Call;
use crate::errno::*;
use crate::fallible::{Arc, try_format};
use crate::files::descriptors::Descriptor;
use crate::files::inode::{Body, Inode};
use crate::files::open::{File, O_CLOEXEC, O_NONBLOCK, O_WRONLY};
use crate::files::pipe::Pipe;
use crate::memory::mapped::Path;
use crate::process::copies;
use crate::process::sending;
use crate::process::signals::{Info, SIGPIPE};
use crate::threads::waiters::wait;

/// Runs `body` alone with a pipe that has something, or comes to its end: waits for that, if it `waits`.
pub(super) fn with_source(pipe: &Pipe, waits: bool, mut body: impl FnMut() -> Answer) -> Answer {
    loop {
        let answer = pipe.turn.with_or_end(|()| Ok(pipe.is_readable().then(&mut body)))?;
        match answer {
            Some(answer) => return answer,
            None if !waits => return Err(EAGAIN),
            None => wait(&[&pipe.waiters], None, || pipe.is_readable().then_some(())).map_err(|_| ERESTART)?,
        }
    }
}

/// The same with a pipe that has room, or that nobody reads.
pub(super) fn with_target(pipe: &Pipe, waits: bool, mut body: impl FnMut() -> Answer) -> Answer {
    loop {
        let answer = pipe.turn.with_or_end(|()| Ok(pipe.is_writable(1).then(&mut body)))?;
        match answer {
            Some(answer) => return answer,
            None if !waits => return Err(EAGAIN),
            None => wait(&[&pipe.waiters], None, || pipe.is_writable(1).then_some(())).map_err(|_| ERESTART)?,
        }
    }
}

/// Reads what there is.
pub(super) fn read(pipe: &Pipe, to: u64, bytes: u64, waits: bool) -> Answer {
    if bytes == 0 {
        return Ok(0);
    }
    with_source(pipe, waits, || {
        let (mut part, mut done) = ([0; PART], 0);
        while done < bytes {
            let most = (bytes - done).min(PART as u64) as usize;
            let taken = pipe.take(&mut part[..most]).unwrap_or(0);
            if taken == 0 {
                break;
            }
            copies::write(to + done, &part[..taken])?;
            done += taken as u64;
        }
        Ok(done)
    })
}

/// How a call writes: whether it waits, unless the file was opened otherwise, and whether for all that it has, or for any room at all.
#[derive(Clone, Copy)]
pub(super) struct How {
    pub(super) waits: bool,
    pub(super) is_whole: bool,
}

/// As `write` does.
pub(super) const WHOLE: How = How { waits: true, is_whole: true };

/// Writes bytes to a pipe; `fill` gets them, from one on. Waits until all is in the pipe, or, where that is not wanted, until something is.
pub(super) fn write(
    call: &Call,
    file: &File,
    pipe: &Pipe,
    bytes: u64,
    how: How,
    mut fill: impl FnMut(u64, &mut [u8]) -> Result<(), Errno>,
) -> Answer {
    let waits = how.waits && file.flags() & O_NONBLOCK == 0;
    let mut done = 0;
    while done < bytes {
        let count = (bytes - done).min(PART as u64) as usize;
        let put = pipe.turn.with_or_end(|()| put_parts(call, pipe, bytes, &mut done, &mut fill));
        match put {
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
            Ok(()) if done == bytes || done > 0 && !(waits && how.is_whole) => break,
            Ok(()) if !waits => return Err(EAGAIN),
            Ok(()) => {
                let ended = wait(&[&pipe.waiters], None, || pipe.is_writable(count).then_some(()));
                match ended {
                    Ok(()) => {}
                    Err(_) if done > 0 => break,
                    Err(_) => return Err(ERESTART),
                }
            }
        }
    }
    Ok(done)
}

/// Puts in what there is room for. For who has the turn.
fn put_parts(
    call: &Call,
    pipe: &Pipe,
    bytes: u64,
    done: &mut u64,
    fill: &mut impl FnMut(u64, &mut [u8]) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut part = [0; PART];
    while *done < bytes {
        let count = (bytes - *done).min(PART as u64) as usize;
        if !pipe.is_writable(count) {
            break;
        }
        fill(*done, &mut part[..count])?;
        match put(call, pipe, &part[..count])? {
            0 => break,
            put => *done += put,
        }
    }
    Ok(())
}

/// Puts in what there is room for, as one; who writes where nobody reads is told by SIGPIPE. For who has the turn.
pub(super) fn put(call: &Call, pipe: &Pipe, from: &[u8]) -> Answer {
    match pipe.put(from) {
        None => Ok(0),
        Some(Some(0)) => Err(ENOMEM),
        Some(Some(put)) => Ok(put as u64),
        Some(None) => {
            sending::cause(call.thread, SIGPIPE, Info::of(0, call.process().number));
            Err(EPIPE)
        }
    }
}

/// From pipe to pipe, as much as there is and as there is room for at once; what is only copied stays.
pub(super) fn move_or_copy(
    call: &Call,
    [source, target]: [&Pipe; 2],
    bytes: u64,
    [waits_for_source, waits_for_target]: [bool; 2],
    moves: bool,
) -> Answer {
    let (first, second) = match core::ptr::from_ref(source) < core::ptr::from_ref(target) {
        true => (source, target),
        false => (target, source),
    };
    // Whoever has two turns takes them in this order, so that no two wait for each other.
    let with_both = |body: &mut dyn FnMut() -> Option<Answer>| {
        first.turn.with_or_end(|()| second.turn.with_or_end(|()| Ok(body())))
    };
    loop {
        let moved = with_both(&mut || {
            if !source.is_readable() || !target.is_writable(1) {
                return None;
            }
            Some(move_now(call, [source, target], bytes, moves))
        })?;
        match moved {
            Some(answer) => return answer,
            None if !source.is_readable() => match waits_for_source {
                true => wait(&[&source.waiters], None, || source.is_readable().then_some(())).map_err(|_| ERESTART)?,
                false => return Err(EAGAIN),
            },
            None if !waits_for_target => return Err(EAGAIN),
            None => wait(&[&target.waiters], None, || target.is_writable(1).then_some(())).map_err(|_| ERESTART)?,
        }
    }
}

fn move_now(call: &Call, [source, target]: [&Pipe; 2], bytes: u64, moves: bool) -> Answer {
    let (mut part, mut done) = ([0; PART], 0);
    while done < bytes {
        let most = (bytes - done).min(PART as u64).min(target.free().max(1) as u64) as usize;
        let skipped = if moves { 0 } else { done as usize };
        let count = source.look(skipped, &mut part[..most]);
        if count == 0 {
            break;
        }
        match put(call, target, &part[..count]) {
            Err(error) if done == 0 => return Err(error),
            Err(_) | Ok(0) => break,
            Ok(put) => {
                if moves {
                    source.take(&mut part[..put as usize]);
                }
                done += put;
            }
        }
    }
    Ok(done)
}

/// Makes a pipe, whose ends get two numbers.
pub(super) fn pipe2(call: &mut Call, to: u64, flags: u32) -> Answer {
    // Packets (O_DIRECT) are not there.
    if flags & !(O_CLOEXEC | O_NONBLOCK) != 0 {
        return Err(EINVAL);
    }
    let files = &call.process().files;
    let first = files.with(|files| files.keep(0))?;
    let second = files.with(|files| files.keep(0)).inspect_err(|error| let_go(call, first, *error))?;
    // Nobody can close what is not there until the program knows of it.
    let made = ends(flags & O_NONBLOCK)
        .and_then(|ends| copies::write_words(to, &[first as u64 | (second as u64) << 32]).map(|()| ends));
    match made {
        Ok(ends) => {
            for (number, file) in [first, second].into_iter().zip(ends) {
                let descriptor = Descriptor { file, closes_on_exec: flags & O_CLOEXEC != 0 };
                files.with(|files| files.settle(number, Ok(descriptor)))?;
            }
            Ok(0)
        }
        Err(error) => {
            [first, second].into_iter().for_each(|number| let_go(call, number, error));
            Err(error)
        }
    }
}

/// Lets go of a number that was kept for what could not be opened.
fn let_go(call: &Call, number: usize, error: Errno) {
    let _ = call.process().files.with(|files| files.settle(number, Err(error)));
}

/// The ends of a new pipe.
fn ends(flags: u32) -> Result<[Arc<File>; 2], Errno> {
    let inode = Inode::new(Body::Pipe(Pipe::new(false)?), 0o600)?;
    let path = Path::new(try_format!("pipe:[{}]", inode.number)?)?;
    Ok([File::new(inode.clone(), flags, path.clone())?, File::new(inode, flags | O_WRONLY, path)?])
}
