//! Pipes: bytes that one program writes and another reads.

use super::bytes::{self, Bytes};
use crate::errno::{EBUSY, EINVAL, ENOMEM, Errno};
use crate::facts::page_size;
use crate::fallible::NoMemory;
use crate::locks::{Lock, OpenLock, order};
use crate::threads::mutex::Mutex;
use crate::threads::waiters::Waiters;

/// Pages that a pipe holds, if nothing else is asked for, and the most bytes that can be asked for.
const PAGES: usize = 16;
const MOST_ROOM: usize = 1 << 31;
/// Pages at most: Linux has a list of them in one piece.
const MOST_PAGES: usize = 1 << 16;
/// Bytes that others than root may ask for: `fs.pipe-max-size`.
pub(crate) const MOST_FOR_ALL: usize = 1 << 20;
/// Bytes that are written as one: an empty pipe has room for them.
pub(crate) const ATOMIC: usize = bytes::PART;

/// What is in a pipe, and who is at its ends.
pub(crate) struct State {
    /// Bytes that are in it.
    pub(crate) held: usize,
    /// Bytes that it has room for.
    pub(crate) room: usize,
    pub(crate) readers: u32,
    pub(crate) writers: u32,
    /// Readers, and writers, that have ever been there.
    opened: [u32; 2],
}

/// A pipe.
pub(crate) struct Pipe {
    /// However long it is: what is in it is moved with interrupts open.
    bytes: OpenLock<Bytes>,
    pub(crate) state: Lock<State>,
    /// Whether it is a file with a name, whose ends wait for each other.
    pub(crate) is_named: bool,
    /// Had by who moves bytes in or out, and not while waiting.
    pub(crate) turn: Mutex<()>,
    pub(crate) waiters: Waiters,
}

impl Pipe {
    pub(crate) fn new(is_named: bool) -> Result<Self, NoMemory> {
        let room = PAGES << page_size().shift();
        let state = State { held: 0, room, readers: 0, writers: 0, opened: [0; 2] };
        Ok(Self {
            bytes: OpenLock::new(order::BYTES, Bytes::new(room)?),
            state: Lock::new(order::PIPE, state),
            is_named,
            turn: Mutex::new(order::TURN, ()),
            waiters: Waiters::new(),
        })
    }

    pub(crate) fn room(&self) -> usize {
        self.state.with(|state| state.room)
    }

    /// Bytes that are in it.
    pub(crate) fn held(&self) -> usize {
        self.state.with(|state| state.held)
    }

    /// Has it hold so many bytes, in pages whose number is a power of two; gives how many.
    pub(crate) fn set_room(&self, bytes: usize) -> Result<usize, Errno> {
        let pages = bytes.div_ceil(page_size().size_bytes() as usize).next_power_of_two();
        let room = pages << page_size().shift();
        if bytes > MOST_ROOM {
            return Err(EINVAL);
        }
        if pages > MOST_PAGES {
            return Err(ENOMEM);
        }
        // Nobody puts something in meanwhile.
        self.bytes.with(|bytes| {
            if bytes.len() > room {
                return Err(EBUSY);
            }
            bytes.reserve(room)?;
            self.state.with(|state| state.room = room);
            Ok(())
        })?;
        self.waiters.wake_all();
        Ok(room)
    }

    /// Bytes that it has room for.
    pub(crate) fn free(&self) -> usize {
        self.state.with(|state| state.room - state.held)
    }

    /// Whether who reads need not wait: there is something, or nothing will ever come.
    pub(crate) fn is_readable(&self) -> bool {
        self.state.with(|state| state.held > 0 || state.writers == 0)
    }

    /// Whether who writes so many bytes need not wait: there is room, or nobody reads.
    pub(crate) fn is_writable(&self, bytes: usize) -> bool {
        self.state.with(|state| state.readers == 0 || state.room - state.held >= bytes)
    }

    /// What it holds behind the first so many bytes, as much as fits, which stays there; how much.
    pub(crate) fn look(&self, skipped: usize, to: &mut [u8]) -> usize {
        self.bytes.with(|bytes| bytes.look(skipped, to))
    }

    /// One end is opened, or closed.
    pub(crate) fn count(&self, is_writer: bool, by: i32) {
        self.state.with(|state| {
            let ends = if is_writer { &mut state.writers } else { &mut state.readers };
            *ends = ends.wrapping_add_signed(by);
            state.opened[usize::from(is_writer)] += u32::from(by > 0);
        });
        self.waiters.wake_all();
    }

    /// How many of the other end there are, and how many have ever been there.
    pub(crate) fn others(&self, is_writer: bool) -> (u32, u32) {
        self.state.with(|state| match is_writer {
            true => (state.readers, state.opened[0]),
            false => (state.writers, state.opened[1]),
        })
    }

    /// Takes what there is, as much as fits: `Some(0)` at the end, `None` if one has to wait.
    pub(crate) fn take(&self, to: &mut [u8]) -> Option<usize> {
        let taken = self.bytes.with(|bytes| {
            let count = bytes.take(to);
            self.state.with(|state| {
                state.held -= count;
                (count > 0 || state.writers == 0).then_some(count)
            })
        });
        if taken.is_some_and(|count| count > 0) {
            self.waiters.wake_all();
        }
        taken
    }

    /// Puts in what fits; few bytes as one. `None` if one has to wait, `Some(None)` if nobody reads; nothing where there is no memory.
    pub(crate) fn put(&self, from: &[u8]) -> Option<Option<usize>> {
        let put = self.bytes.with(|bytes| {
            let (readers, room) = self.state.with(|state| (state.readers, state.room - state.held));
            if readers == 0 {
                return Some(None);
            }
            let least = if from.len() <= ATOMIC { from.len() } else { 1 };
            if room < least {
                return None;
            }
            let count = bytes.add(&from[..room.min(from.len())], least);
            self.state.with(|state| state.held += count);
            Some(Some(count))
        });
        if let Some(Some(1..)) = put {
            self.waiters.wake_all();
        }
        put
    }
}
