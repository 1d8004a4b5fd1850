//! How much one call moves, and where.

use super::call::Call;
use crate::errno::*;
use crate::process::copies;
use crate::process::resources::FILE_BYTES;
use crate::process::sending;
use crate::process::signals::{Info, SIGXFSZ};

/// Bytes that go through the kernel at once.
pub(super) const PART: usize = 4096;
/// Bytes of one call.
pub(super) const MOST_BYTES: u64 = 0x7fff_f000;

/// Refuses what lies beyond all addresses, or beyond all offsets; how many bytes one call takes of it.
pub(super) fn check_range(address: u64, bytes: u64, offset: Option<u64>) -> Result<u64, Errno> {
    copies::check(address, usize::try_from(bytes).map_err(|_| EFAULT)?)?;
    let end = offset.unwrap_or(0).checked_add(bytes).filter(|end| *end <= i64::MAX as u64);
    end.map(|_| bytes.min(MOST_BYTES)).ok_or(EINVAL)
}

/// Refuses bytes that would lie beyond all offsets from where a file stands.
pub(super) fn check_position(at: u64, bytes: u64) -> Result<(), Errno> {
    at.checked_add(bytes).filter(|end| *end <= i64::MAX as u64).map(|_| ()).ok_or(EINVAL)
}

/// RLIMIT_FSIZE; who makes a file longer is told by SIGXFSZ.
pub(super) fn check_file_limit(call: &Call, bytes: u64) -> Result<u64, Errno> {
    let [limit, _] = call.process().limits.with(|limits| limits.0[FILE_BYTES]);
    if bytes <= limit {
        return Ok(limit);
    }
    sending::cause(call.thread, SIGXFSZ, Info::of(0, call.process().number));
    Err(EFBIG)
}
