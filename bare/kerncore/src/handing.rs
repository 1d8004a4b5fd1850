//! Memory of a realm that changes hands, from hidden to shown at its other address, whatever its host does meanwhile.
//!
//! ```text
//! hidden, all or nothing ──▶ the host is told, no lock held ──▶ shown at the other address
//!                                └─ it stops half-way ──▶ asked back ──▶ what is RAM for certain is shown, the rest stays hidden for ever
//! ```

use vmsa::PhysAddr;

use crate::range::PhysicalRange;
use crate::realm::{Rmm, Why, Wish, hand_over, take_back};

/// The map by which all CPUs of the realm reach its memory.
pub trait Map {
    /// Why it refuses to hide.
    type Refused;

    /// Has no CPU reach a range any more, not by what a TLB remembers either; all of it, or nothing has changed.
    fn hide(&self, range: PhysicalRange) -> Result<(), Self::Refused>;

    /// Has every CPU reach a range that is hidden: at its unprotected address if it is shared, else at its own. Whether that was possible;
    /// otherwise nothing has changed.
    fn show(&self, range: PhysicalRange, is_shared: bool) -> bool;
}

/// Why memory was not handed over, or not all of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotHanded<R> {
    /// Nothing has changed, and the host has not been asked.
    #[error("{0}")]
    Refused(R),
    /// The host has stopped. What was in the range is lost; so many of its pages are hidden for ever, the others are private.
    #[error("{0}; {1} pages are lost")]
    Stopped(Why, u64),
    /// The host has done all, but the map has no memory to show so many pages. They are hidden for ever.
    #[error("the map has no memory to show {0} pages, which are lost")]
    NotShown(u64),
}

impl<R> NotHanded<R> {
    /// Pages that are hidden for ever.
    pub const fn lost(&self) -> u64 {
        match self {
            Self::Refused(_) => 0,
            Self::Stopped(_, lost) | Self::NotShown(lost) => *lost,
        }
    }
}

/// Hands whole pages of `page_bytes` over. What was in them is lost.
pub fn hand<M: Map>(
    rmm: &impl Rmm,
    map: &M,
    range: PhysicalRange,
    wish: Wish,
    page_bytes: u64,
) -> Result<(), NotHanded<M::Refused>> {
    map.hide(range).map_err(NotHanded::Refused)?;
    let pages = range.size_bytes() / page_bytes;
    let Err(stopped) = hand_over(rmm, range, wish) else {
        return if map.show(range, wish == Wish::Empty) { Ok(()) } else { Err(NotHanded::NotShown(pages)) };
    };
    let mut shown = 0;
    take_back(rmm, range, page_bytes, |page: PhysAddr| {
        shown += u64::from(map.show(PhysicalRange::from_size(page, page_bytes), false));
    });
    Err(NotHanded::Stopped(stopped.why, pages - shown))
}
