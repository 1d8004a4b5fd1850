//! Lists that may have no memory for one item more.

use alloc::vec::Vec;

use super::NoMemory;

/// What a list of `alloc` does, if there is memory for it.
pub(crate) trait List<T>: Sized {
    fn try_push(&mut self, item: T) -> Result<(), NoMemory>;
    fn try_insert(&mut self, at: usize, item: T) -> Result<(), NoMemory>;
    /// Adds all, or some: after an error the list is to be dropped, or cut to what it was.
    fn try_extend(&mut self, items: impl IntoIterator<Item = T>) -> Result<(), NoMemory>;
    /// Adds all of a slice, or none.
    fn try_extend_from(&mut self, items: &[T]) -> Result<(), NoMemory>
    where
        T: Clone;
    /// Has so many items; `item` is each that is new.
    fn try_resize(&mut self, count: usize, item: T) -> Result<(), NoMemory>
    where
        T: Clone;
}

impl<T> List<T> for Vec<T> {
    #[inline(always)]
    fn try_push(&mut self, item: T) -> Result<(), NoMemory> {
        self.try_reserve(1).map_err(|_| NoMemory)?;
        // The comparison leaves the compiler no way to a list that grows.
        if self.len() < self.capacity() {
            self.push(item);
        }
        Ok(())
    }

    #[inline(always)]
    fn try_insert(&mut self, at: usize, item: T) -> Result<(), NoMemory> {
        self.try_reserve(1).map_err(|_| NoMemory)?;
        // As above.
        if self.len() < self.capacity() {
            self.insert(at, item);
        }
        Ok(())
    }

    #[inline(always)]
    fn try_extend(&mut self, items: impl IntoIterator<Item = T>) -> Result<(), NoMemory> {
        let mut items = items.into_iter();
        self.try_reserve(items.size_hint().0).map_err(|_| NoMemory)?;
        items.try_for_each(|item| self.try_push(item))
    }

    #[inline(always)]
    fn try_extend_from(&mut self, items: &[T]) -> Result<(), NoMemory>
    where
        T: Clone,
    {
        self.try_reserve(items.len()).map_err(|_| NoMemory)?;
        // As above.
        if items.len() <= self.capacity().wrapping_sub(self.len()) {
            self.extend_from_slice(items);
        }
        Ok(())
    }

    #[inline(always)]
    fn try_resize(&mut self, count: usize, item: T) -> Result<(), NoMemory>
    where
        T: Clone,
    {
        self.try_reserve_exact(count.saturating_sub(self.len())).map_err(|_| NoMemory)?;
        // As above.
        if count <= self.len() || count - self.len() <= self.capacity().wrapping_sub(self.len()) {
            self.resize(count, item);
        }
        Ok(())
    }
}

/// Iterators whose items become a list, if there is memory for it.
pub(crate) trait Collect: Iterator + Sized {
    fn try_list(self) -> Result<Vec<Self::Item>, NoMemory> {
        let mut all = Vec::new();
        all.try_extend(self)?;
        Ok(all)
    }
}

impl<I: Iterator> Collect for I {}
