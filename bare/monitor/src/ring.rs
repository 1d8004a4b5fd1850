//! Rings of bytes in memory that the guest shares: the monitor prints what is in one, and believes nothing of what it reads there.

use hardware::lock::Lock;
use kerncore::ring::{READ, ROOM, Shown, read};
use moncore::call::{INTERNAL_FAILURE, INVALID_PARAMETERS};

use crate::{console, stage2};

/// What was in a ring, while it is printed: the guest may be writing there.
static TEXT: Lock<[u8; ROOM]> = Lock::new([0; ROOM]);

/// Prints what is in the ring at an address, and gives how many bytes these are.
pub(crate) fn print(address: u64) -> u64 {
    TEXT.with(|text| {
        let found = stage2::with_shared_page(address, |page| {
            let (count, next) = read(|index| page.read(index), text)?;
            page.write(READ, next);
            Some(count)
        });
        match found {
            None | Some(Ok(None)) => INVALID_PARAMETERS,
            Some(Err(_)) => INTERNAL_FAILURE,
            Some(Ok(Some(count))) => {
                console::write_text(Shown(&text[..count]));
                count as u64
            }
        }
    })
}
