//! A list of fixed capacity, kept in place: what the kernel has before any allocator exists.
//!
//! Unlike the well-known crates for this it is `Copy` and needs no `unsafe`; slots beyond the length hold a filler.

use core::fmt;
use core::ops::{Deref, DerefMut};

/// At most `N` values of `T`; use it as a slice.
#[derive(Clone, Copy)]
pub struct List<T, const N: usize> {
    /// Every slot at and beyond `length` holds a stale value or the filler.
    slots: [T; N],
    length: usize,
}

/// The list already holds as many values as it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl<T: Copy, const N: usize> List<T, N> {
    /// An empty list; `filler` is any value, never seen through the list.
    pub const fn new(filler: T) -> Self {
        Self { slots: [filler; N], length: 0 }
    }

    /// Appends `value`.
    pub fn push(&mut self, value: T) -> Result<(), Full> {
        self.insert(self.length, value)
    }

    /// Puts `value` at `index`, which is at most the length; later values move up.
    pub fn insert(&mut self, index: usize, value: T) -> Result<(), Full> {
        if self.length == N {
            return Err(Full);
        }
        self.slots.copy_within(index..self.length, index + 1);
        self.slots[index] = value;
        self.length += 1;
        Ok(())
    }

    /// Takes the value at `index` out; later values move down.
    pub fn remove(&mut self, index: usize) -> T {
        let value = self.slots[index];
        self.slots.copy_within(index + 1..self.length, index);
        self.length -= 1;
        value
    }

    /// Forgets every value.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// How many more values fit.
    pub fn room(&self) -> usize {
        N - self.length
    }
}

impl<T, const N: usize> Deref for List<T, N> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.slots[..self.length]
    }
}

impl<T, const N: usize> DerefMut for List<T, N> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.slots[..self.length]
    }
}

impl<T: fmt::Debug, const N: usize> fmt::Debug for List<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: PartialEq, const N: usize> PartialEq for List<T, N> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq, const N: usize> Eq for List<T, N> {}
