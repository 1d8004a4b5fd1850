//! Error numbers, as Linux has them.

use userspace::Error;

/// An error number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Errno(pub(crate) i32);

macro_rules! numbers {
    ($($name:ident = $number:literal,)*) => {
        $(pub(crate) const $name: Errno = Errno($number);)*
    };
}

numbers! {
    EPERM = 1, ENOENT = 2, ESRCH = 3, EINTR = 4, EIO = 5, ENXIO = 6, E2BIG = 7, ENOEXEC = 8, EBADF = 9, ECHILD = 10,
    EAGAIN = 11, ENOMEM = 12, EACCES = 13, EFAULT = 14, EBUSY = 16, EEXIST = 17, EXDEV = 18, ENODEV = 19, ENOTDIR = 20,
    EISDIR = 21, EINVAL = 22, EMFILE = 24, ENOTTY = 25, ETXTBSY = 26, EFBIG = 27, ENOSPC = 28, ESPIPE = 29, EROFS = 30,
    EPIPE = 32, ERANGE = 34, EDEADLK = 35, ENAMETOOLONG = 36, ENOLCK = 37, ENOSYS = 38, ENOTEMPTY = 39, ELOOP = 40, EOVERFLOW = 75,
    EOPNOTSUPP = 95, ETIMEDOUT = 110,
    ERESTART = 512, ERESTART_ALWAYS = 513,
}

impl From<Error> for Errno {
    fn from(error: Error) -> Self {
        match error {
            Error::NoMemory => ENOMEM,
            Error::Invalid => EINVAL,
            Error::Exists => EEXIST,
            Error::Denied => EACCES,
            Error::Again => EAGAIN,
            Error::NotPermitted => EPERM,
            Error::Overflow => EOVERFLOW,
            Error::Busy => EBUSY,
            Error::BadAddress => EFAULT,
            Error::Interrupted => EINTR,
        }
    }
}

/// What a call comes to.
pub(crate) type Answer = Result<u64, Errno>;
