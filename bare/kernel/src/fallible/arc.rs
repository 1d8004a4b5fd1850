//! A value that several share, as `alloc::sync::Arc` has it, which the heap may have no memory for.

use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicUsize, Ordering, fence};

use alloc::boxed::Box;

use super::{NoMemory, try_box};

/// What several share, beside who has it.
pub(crate) struct Shared<T: ?Sized> {
    /// Of [`Arc`].
    strong: AtomicUsize,
    /// Of [`Weak`], and one of all [`Arc`] together.
    weak: AtomicUsize,
    value: T,
}

/// One of those who share a value, which goes with the last of them.
pub(crate) struct Arc<T: ?Sized> {
    shared: NonNull<Shared<T>>,
    owns: PhantomData<Shared<T>>,
}

/// One who may ask for a shared value while somebody has it.
pub(crate) struct Weak<T>(Option<NonNull<Shared<T>>>);

// SAFETY: counts are atomics; the value is reached from several CPUs, and dropped on any.
unsafe impl<T: ?Sized + Sync + Send> Send for Arc<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Sync + Send> Sync for Arc<T> {}
// SAFETY: as above.
unsafe impl<T: Sync + Send> Send for Weak<T> {}
// SAFETY: as above.
unsafe impl<T: Sync + Send> Sync for Weak<T> {}

/// Has an `Arc` of a type be one of a trait that the type has.
macro_rules! arc_as {
    ($arc:expr) => {{
        let shared = $crate::fallible::Arc::into_shared($arc);
        // SAFETY: the pointer is the same, and says of itself what the value is.
        unsafe { $crate::fallible::Arc::from_shared(shared as *mut _) }
    }};
}
pub(crate) use arc_as;

impl<T> Arc<T> {
    pub(crate) fn try_new(value: T) -> Result<Self, NoMemory> {
        let shared = Shared { strong: AtomicUsize::new(1), weak: AtomicUsize::new(1), value };
        Ok(Self { shared: NonNull::from(Box::leak(try_box(shared)?)), owns: PhantomData })
    }

    pub(crate) fn downgrade(this: &Self) -> Weak<T> {
        this.shared().weak.fetch_add(1, Ordering::Relaxed);
        Weak(Some(this.shared))
    }
}

impl<T: ?Sized> Arc<T> {
    /// What is shared; the one that this was is the caller's.
    pub(crate) fn into_shared(this: Self) -> *mut Shared<T> {
        let shared = this.shared.as_ptr();
        core::mem::forget(this);
        shared
    }

    /// # Safety
    ///
    /// It comes from [`Self::into_shared`], once.
    pub(crate) unsafe fn from_shared(shared: *mut Shared<T>) -> Self {
        // SAFETY: not null, as the caller has it from a shared value.
        Self { shared: unsafe { NonNull::new_unchecked(shared) }, owns: PhantomData }
    }

    fn shared(&self) -> &Shared<T> {
        // SAFETY: it is there while one has it, as this does.
        unsafe { self.shared.as_ref() }
    }

    pub(crate) fn as_ptr(this: &Self) -> *const T {
        &raw const this.shared().value
    }

    pub(crate) fn ptr_eq(this: &Self, other: &Self) -> bool {
        ptr::addr_eq(this.shared.as_ptr(), other.shared.as_ptr())
    }

    pub(crate) fn strong_count(this: &Self) -> usize {
        this.shared().strong.load(Ordering::Relaxed)
    }
}

impl<T: ?Sized> Deref for Arc<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.shared().value
    }
}

impl<T: ?Sized> Clone for Arc<T> {
    fn clone(&self) -> Self {
        // Relaxed: who clones has one, so that the value stays whatever is seen of the count.
        self.shared().strong.fetch_add(1, Ordering::Relaxed);
        Self { shared: self.shared, owns: PhantomData }
    }
}

impl<T: ?Sized> Drop for Arc<T> {
    fn drop(&mut self) {
        if self.shared().strong.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        // What others did with the value comes before its end.
        fence(Ordering::Acquire);
        // SAFETY: the last that is strong counts as one of `weak` still.
        let value = unsafe { &raw mut (*self.shared.as_ptr()).value };
        // SAFETY: this was the last that has it, and none can come from `Weak` any more.
        unsafe { ptr::drop_in_place(value) };
        // SAFETY: all that are strong were one of these.
        unsafe { give_back(self.shared) };
    }
}

/// # Safety
///
/// The caller was one of those that `weak` counts.
unsafe fn give_back<T: ?Sized>(shared: NonNull<Shared<T>>) {
    // SAFETY: it is there as long as one is counted.
    if unsafe { &(*shared.as_ptr()).weak }.fetch_sub(1, Ordering::Release) == 1 {
        // What others did with the counts comes before their end.
        fence(Ordering::Acquire);
        // SAFETY: as above.
        let layout = core::alloc::Layout::for_value(unsafe { shared.as_ref() });
        // SAFETY: it came from the heap with this layout, and nobody has it any more.
        unsafe { alloc::alloc::dealloc(shared.as_ptr().cast(), layout) };
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Arc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T> Weak<T> {
    /// One of nothing.
    pub(crate) const fn new() -> Self {
        Self(None)
    }

    pub(crate) fn upgrade(&self) -> Option<Arc<T>> {
        let shared = self.0?;
        // SAFETY: it is there while this is counted.
        let strong = unsafe { &(*shared.as_ptr()).strong };
        let more = |count: usize| (count > 0).then(|| count + 1);
        // Acquire: who made the value is before who finds it.
        strong.fetch_update(Ordering::Acquire, Ordering::Relaxed, more).ok()?;
        Some(Arc { shared, owns: PhantomData })
    }
}

impl<T> Clone for Weak<T> {
    fn clone(&self) -> Self {
        if let Some(shared) = self.0 {
            // SAFETY: it is there while this is counted.
            unsafe { &(*shared.as_ptr()).weak }.fetch_add(1, Ordering::Relaxed);
        }
        Self(self.0)
    }
}

impl<T> Drop for Weak<T> {
    fn drop(&mut self) {
        // SAFETY: this was counted, and is no more.
        self.0.into_iter().for_each(|shared| unsafe { give_back(shared) });
    }
}
