//! `eventfd`: a number behind a descriptor.

use super::call::{Call, Row};
use crate::errno::*;
use crate::files::counter::{Counter, MOST};
use crate::files::descriptors::Descriptor;
use crate::files::inode::{Body, Inode};
use crate::files::open::{File, O_CLOEXEC, O_NONBLOCK, O_RDWR};
use crate::memory::mapped::Path;
use crate::process::copies;
use crate::threads::waiters::wait;

pub(super) const CALLS: &[Row] = calls![(19, "eventfd2", eventfd2)];

/// Bytes of the number.
const BYTES: u64 = 8;

fn eventfd2(call: &mut Call, value: u32, flags: u32) -> Answer {
    const SEMAPHORE: u32 = 1;
    if flags & !(SEMAPHORE | O_NONBLOCK | O_CLOEXEC) != 0 {
        return Err(EINVAL);
    }
    let counter = Counter::new(u64::from(value), flags & SEMAPHORE != 0);
    let inode = Inode::new(Body::Counter(counter), 0o600)?;
    let file = File::new(inode, O_RDWR | flags & O_NONBLOCK, Path::Fixed("anon_inode:[eventfd]"))?;
    let closes_on_exec = flags & O_CLOEXEC != 0;
    call.process().files.with(|files| files.add(0, Descriptor { file, closes_on_exec }))
}

/// Waits until a number is more than 0.
pub(super) fn read(file: &File, counter: &Counter, to: u64, bytes: u64) -> Answer {
    if bytes < BYTES {
        return Err(EINVAL);
    }
    let value = match counter.take() {
        Some(value) => value,
        None if file.flags() & O_NONBLOCK != 0 => return Err(EAGAIN),
        None => wait(&[&counter.waiters], None, || counter.take()).map_err(|_| ERESTART)?,
    };
    copies::write_words(to, &[value]).map(|()| BYTES)
}

/// Waits until there is room for what is added.
pub(super) fn write(file: &File, counter: &Counter, from: u64, bytes: u64) -> Answer {
    if bytes < BYTES {
        return Err(EINVAL);
    }
    let [more] = copies::read_words(from)?;
    if more > MOST {
        return Err(EINVAL);
    }
    match counter.add(more) {
        Some(()) => {}
        None if file.flags() & O_NONBLOCK != 0 => return Err(EAGAIN),
        None => wait(&[&counter.waiters], None, || counter.add(more)).map_err(|_| ERESTART)?,
    }
    Ok(BYTES)
}
