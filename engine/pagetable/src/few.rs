//! A few values, of which there is mostly one.

/// A value, and at most `MORE` that came before it. What is beside the latest is written and read out of line and by value,
/// so that while there is one alone it stays in registers.
#[derive(Debug)]
pub(crate) struct Few<T, const MORE: usize> {
    latest: Option<T>,
    earlier: Option<[Option<T>; MORE]>,
}

impl<T: Copy, const MORE: usize> Few<T, MORE> {
    #[inline(always)]
    pub(crate) const fn new() -> Self {
        Self { latest: None, earlier: None }
    }

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

    #[inline(always)]
    pub(crate) const fn latest(&self) -> Option<T> {
        self.latest
    }

    /// What came before the latest.
    #[inline(always)]
    pub(crate) const fn earlier(&self) -> Option<[Option<T>; MORE]> {
        self.earlier
    }

    /// Adds a value, or says that there is no room.
    #[inline(always)]
    pub(crate) fn push(&mut self, value: T) -> Result<(), T> {
        if let Some(latest) = self.latest {
            self.earlier = Some(push_earlier(self.earlier, latest).ok_or(value)?);
        }
        self.latest = Some(value);
        Ok(())
    }

    /// Gives `sink` each value, in the order in which they came.
    #[inline(always)]
    pub(crate) fn for_each(&self, mut sink: impl FnMut(T)) {
        if let Some(earlier) = self.earlier {
            for_earlier(earlier, &mut sink);
        }
        if let Some(latest) = self.latest {
            sink(latest);
        }
    }
}

#[cold]
#[inline(never)]
fn push_earlier<T: Copy, const MORE: usize>(earlier: Option<[Option<T>; MORE]>, value: T) -> Option<[Option<T>; MORE]> {
    let mut earlier = earlier.unwrap_or([None; MORE]);
    *earlier.iter_mut().find(|place| place.is_none())? = Some(value);
    Some(earlier)
}

#[cold]
#[inline(never)]
fn for_earlier<T, const MORE: usize>(earlier: [Option<T>; MORE], sink: &mut impl FnMut(T)) {
    earlier.into_iter().flatten().for_each(sink);
}
