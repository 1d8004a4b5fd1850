//! Memory of the heap that may not be there: what a program's call takes says so, and the call fails. What `alloc` offers beside, whose
//! callers cannot fail, does not link into the kernel (`image.ld`).

mod arc;
mod list;
mod text;

use alloc::boxed::Box;
use alloc::collections::TryReserveError;
use core::alloc::Layout;
use core::ptr::NonNull;

pub(crate) use arc::{Arc, Weak, arc_as};
pub(crate) use list::{Collect, List};
pub(crate) use text::{Lossy, format, try_format, try_text};
pub(crate) use userspace::NoMemory;

use crate::errno::{ENOMEM, Errno};

impl From<NoMemory> for Errno {
    fn from(NoMemory: NoMemory) -> Self {
        ENOMEM
    }
}

impl From<TryReserveError> for Errno {
    fn from(_: TryReserveError) -> Self {
        ENOMEM
    }
}

/// Memory for one `T`.
fn memory<T>() -> Result<NonNull<T>, NoMemory> {
    let layout = Layout::new::<T>();
    if layout.size() == 0 {
        return Ok(NonNull::dangling());
    }
    // SAFETY: its size is not zero.
    NonNull::new(unsafe { alloc::alloc::alloc(layout) }.cast()).ok_or(NoMemory)
}

/// A value in memory of its own.
pub(crate) fn try_box<T>(value: T) -> Result<Box<T>, NoMemory> {
    let place = memory::<T>()?;
    // SAFETY: of a `T`'s layout, and nobody else's.
    unsafe { place.write(value) };
    // SAFETY: it is initialized, and comes from the allocator of boxes.
    Ok(unsafe { Box::from_raw(place.as_ptr()) })
}

/// A copy in memory of its own.
pub(crate) fn try_copy<T: Copy>(value: &T) -> Result<Box<T>, NoMemory> {
    let place = memory::<T>()?;
    // SAFETY: of a `T`'s layout, and nobody else's.
    unsafe { place.copy_from_nonoverlapping(value.into(), 1) };
    // SAFETY: it is initialized, and comes from the allocator of boxes.
    Ok(unsafe { Box::from_raw(place.as_ptr()) })
}
