//! What waits: mostly one value, at times a few, never more than fit.
//!
//! ```text
//! latest   the value that came last            written by every push
//! earlier  up to MORE values before that one   written only once there is a second
//! ```
//! A gather of one change is made, filled and emptied within a few hundred instructions: to clear an array of eight ranges and
//! sixteen tables for one range would be a tenth of that.

/// A value, and at most `MORE` that came before it. While there is one alone nothing is written for the others.
#[derive(Debug)]
pub(crate) struct Backlog<T, const MORE: usize> {
    latest: Option<T>,
    earlier: Option<[Option<T>; MORE]>,
}

impl<T, const MORE: usize> Default for Backlog<T, MORE> {
    #[inline(always)]
    fn default() -> Self {
        Self { latest: None, earlier: None }
    }
}

impl<T: Copy, const MORE: usize> Backlog<T, MORE> {
    /// One value alone.
    #[inline(always)]
    pub(crate) const fn of(value: T) -> Self {
        Self { latest: Some(value), earlier: None }
    }

    #[inline(always)]
    pub(crate) const fn is_empty(&self) -> bool {
        self.latest.is_none()
    }

    #[inline(always)]
    pub(crate) const fn latest_mut(&mut self) -> Option<&mut T> {
        self.latest.as_mut()
    }

    /// Adds a value, or says that there is no room.
    #[inline(always)]
    pub(crate) fn push(&mut self, value: T) -> Result<(), T> {
        if let Some(latest) = self.latest {
            self.keep(latest).ok_or(value)?;
        }
        self.latest = Some(value);
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn keep(&mut self, latest: T) -> Option<()> {
        let place = self.earlier.get_or_insert([None; MORE]).iter_mut().find(|place| place.is_none())?;
        *place = Some(latest);
        Some(())
    }

    /// Each value, in the order in which they came.
    #[inline(always)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        self.earlier.iter().flatten().flatten().chain(&self.latest)
    }
}
