//! A few values, of which there is mostly one.

/// At most `MORE` values after the first. While there is one alone, nothing is written for the others.
#[derive(Debug)]
pub(crate) struct Few<T, const MORE: usize> {
    first: Option<T>,
    more: Option<[Option<T>; MORE]>,
}

impl<T: Copy, const MORE: usize> Few<T, MORE> {
    #[inline(always)]
    pub(crate) const fn new() -> Self {
        Self { first: None, more: None }
    }

    /// One value alone.
    pub(crate) const fn of(value: T) -> Self {
        Self { first: Some(value), more: None }
    }

    #[inline(always)]
    pub(crate) const fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Adds a value, or says that there is no room.
    #[inline(always)]
    pub(crate) fn push(&mut self, value: T) -> Result<(), T> {
        if self.first.is_none() {
            self.first = Some(value);
            return Ok(());
        }
        self.push_more(value)
    }

    #[cold]
    #[inline(never)]
    fn push_more(&mut self, value: T) -> Result<(), T> {
        let more = self.more.get_or_insert([None; MORE]);
        let Some(free) = more.iter_mut().find(|place| place.is_none()) else { return Err(value) };
        *free = Some(value);
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn last_mut(&mut self) -> Option<&mut T> {
        match &mut self.more {
            None => self.first.as_mut(),
            Some(more) => more.iter_mut().rev().flatten().next(),
        }
    }

    /// Gives `sink` each value.
    #[inline(always)]
    pub(crate) fn for_each(&self, mut sink: impl FnMut(&T)) {
        if let Some(first) = &self.first {
            sink(first);
        }
        if let Some(more) = &self.more {
            more.iter().flatten().for_each(sink);
        }
    }
}
