//! Memory comes and goes, in large leaves: [`COMING_BYTES`].
//!
//! ```text
//! remove   no longer free ── its dirty lines cleaned ── hidden in the workshop ── unmapped ── out of the workshop ── withheld
//! add      in the workshop ── mapped ── free; the map heals
//! ```

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};

use common::supply::ChangeError;
use hardware::lock::Pause;
use hardware::{cache, interrupts};
use kerncore::buddy::RemoveError;
use kerncore::memory_map::{COMING_BYTES, Kind};
use kerncore::range::{Bytes, PhysicalRange};
use linearmap::{Context, Refused, Wanted};
use spin::RelaxStrategy;
use vmsa::PhysAddr;

use crate::console::say;
use crate::facts::facts;
use crate::memory::holder::{self, Holder};
use crate::memory::tables::READ_WRITE;
use crate::memory::{linear_map, pages, ranges, workshop};

/// Why memory did neither come nor go. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotMoved {
    /// It does not begin and end with a large leaf, or is not memory that is there, or not there.
    NoSuch(PhysicalRange),
    /// The memory map has no room for one more range.
    MapFull,
    /// Somebody has this page of it.
    Given(PhysAddr),
    /// So had somebody at the end of boot.
    Had(PhysAddr, Kind),
    /// `vellum.pagealloc=debug`: it is hidden, and cannot be shown.
    Hidden,
    Workshop(ChangeError),
    Linear(Refused),
}

impl fmt::Display for NotMoved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuch(range) => {
                write!(
                    f,
                    "{range} was not moved, expected memory that is there to be removed, or withheld to be added, in units of 2M"
                )
            }
            Self::MapFull => f.write_str("the memory map is full, expected room for two more ranges"),
            Self::Given(page) => write!(f, "{page} is in use: {}", holder::of(*page)),
            Self::Had(page, kind) => match holder::of(*page) {
                Holder::Unknown => write!(f, "{page} is in use: {kind}"),
                holder => write!(f, "{page} is in use: {kind}; {holder}"),
            },
            Self::Hidden => f.write_str("it is hidden, and cannot be shown"),
            Self::Workshop(error) => write!(f, "workshop: {error}"),
            Self::Linear(refused) => write!(f, "linear map: {refused}"),
        }
    }
}

/// Takes free memory out of use.
pub(crate) fn remove(range: PhysicalRange) -> Result<(), NotMoved> {
    alone(|| {
        check(range, Kind::is_mapped)?;
        pages::remove(range).map_err(|error| match error {
            None => NotMoved::Hidden,
            Some(RemoveError::Given(page)) => NotMoved::Given(page),
            Some(RemoveError::Foreign(page)) => NotMoved::Had(page, ranges::user(page).unwrap_or(Kind::Lost)),
            Some(RemoveError::Misaligned(range)) => NotMoved::NoSuch(range),
        })?;
        unmap(range).inspect_err(|_| pages::add(range))?;
        ranges::mark(range, Kind::Withheld);
        Ok(())
    })
}

fn unmap(range: PhysicalRange) -> Result<(), NotMoved> {
    let linear = facts().linear.address(range.start)..facts().linear.address(range.end);
    // A line that is dirty would be written when the memory is gone, or somebody else's.
    cache::clean_and_invalidate(linear.start.bits() as usize..linear.end.bits() as usize);
    workshop::hide(range).map_err(NotMoved::Workshop)?;
    let gone = linear_map::get().change(&[linear], Wanted::Absent, Context::MayWait);
    gone.inspect_err(|_| workshop::show(range)).map_err(NotMoved::Linear)?;
    workshop::unmap(range);
    Ok(())
}

/// Takes memory into use that was withheld.
pub(crate) fn add(range: PhysicalRange) -> Result<(), NotMoved> {
    alone(|| {
        check(range, |kind| kind == Kind::Withheld)?;
        // First: tables may come from it as soon as it is free, and a window reaches tables by the workshop.
        workshop::map(range).map_err(NotMoved::Workshop)?;
        let linear = facts().linear.address(range.start)..facts().linear.address(range.end);
        let displacement = facts().linear.offset().wrapping_neg();
        let present = Wanted::Present { displacement, attributes: READ_WRITE };
        let come = linear_map::get().change(&[linear], present, Context::MayWait);
        come.inspect_err(|_| workshop::unmap(range)).map_err(NotMoved::Linear)?;
        ranges::mark(range, Kind::Free);
        pages::add(range);
        workshop::fold();
        Ok(())
    })
}

fn check(range: PhysicalRange, is_meant: fn(Kind) -> bool) -> Result<(), NotMoved> {
    let is_whole = range.start.is_aligned(COMING_BYTES) && range.end.is_aligned(COMING_BYTES) && !range.is_empty();
    match is_whole && ranges::is_all(range, is_meant) {
        true if !ranges::has_room() => Err(NotMoved::MapFull),
        true => Ok(()),
        false => Err(NotMoved::NoSuch(range)),
    }
}

/// One moves memory at a time.
fn alone<T>(body: impl FnOnce() -> T) -> T {
    static IS_BUSY: AtomicBool = AtomicBool::new(false);
    while IS_BUSY.swap(true, Ordering::Acquire) {
        // Whoever is busy may park this CPU, whose interrupts may be masked.
        let masks = interrupts::mask();
        Pause::relax();
        interrupts::restore(masks);
    }
    let result = body();
    IS_BUSY.store(false, Ordering::Release);
    result
}

/// Removes what `vellum.withhold=` asks for. No other CPU runs yet.
pub(crate) fn withhold() {
    let Some(bytes) = facts().options.withheld_bytes else { return };
    let mut map = ranges::map();
    let withheld = map.withhold(bytes);
    for piece in map.pieces().iter().filter(|piece| piece.kind == Kind::Withheld) {
        if let Err(why) = remove(piece.range) {
            say!("warning: memory: {} is not withheld: {why}", piece.range);
        }
    }
    if withheld != Ok(bytes) {
        say!(
            "warning: memory: {} were to be withheld, expected half of free memory at most, in units of 2M",
            Bytes(bytes)
        );
    }
}
