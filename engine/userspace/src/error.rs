//! Why a call or a fault fails.

use core::fmt;

use pagetable::Refusal;

/// Why a call fails. Each is one error number of Linux.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
// A word: what may be an error's byte is moved as that and the bytes behind, an address space too, by odd addresses.
#[repr(u64)]
pub enum Error {
    /// ENOMEM: no memory, no room, a limit, or a range with a hole where there may be none.
    NoMemory,
    /// EINVAL: arguments that mean nothing.
    Invalid,
    /// EEXIST: something is mapped there.
    Exists,
    /// EACCES: more than the file was opened for.
    Denied,
    /// EAGAIN: more than may be locked.
    Again,
    /// EPERM.
    NotPermitted,
    /// EOVERFLOW: a file's offset beyond what there are numbers for.
    Overflow,
    /// EBUSY: what is locked would have to go.
    Busy,
    /// EFAULT: nothing is mapped there, or it cannot be had.
    BadAddress,
    /// EINTR: the thread is to end ([`crate::Embedder::goes_on`]). A part is done.
    Interrupted,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoMemory => "no memory, or no room",
            Self::Invalid => "an argument that means nothing",
            Self::Exists => "something is mapped there",
            Self::Denied => "the file may not be used so",
            Self::Again => "more than may be locked",
            Self::NotPermitted => "not permitted",
            Self::Overflow => "an offset that is too large",
            Self::Busy => "in use",
            Self::BadAddress => "nothing is mapped there",
            Self::Interrupted => "the thread is to end",
        })
    }
}

impl core::error::Error for Error {}

/// Why an access cannot be made: what a program is told by a signal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fault {
    /// SIGSEGV, SEGV_MAPERR: nothing is mapped there.
    Unmapped,
    /// SIGSEGV, SEGV_ACCERR: what is mapped there may not be used so.
    Denied,
    /// SIGBUS, BUS_ADRERR: the file ends before.
    Beyond,
    /// There is no memory: some process has to end.
    OutOfMemory,
}

/// Why a step under the lock did nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Short {
    /// The call fails.
    Error(Error),
    /// It lacks so many tables, and is tried again with them.
    Tables(usize),
}

impl From<Error> for Short {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<Refusal> for Short {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::ReserveShortBy(tables) => Self::Tables(tables),
            _ => Self::Error(Error::Invalid),
        }
    }
}
