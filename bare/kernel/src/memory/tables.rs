//! Page tables whose granule was chosen at boot.
//!
//! [`AnyTable`] makes the choice for the kernel's own at each call, [`new_space`] for a program's once: it has the functions of its
//! granule, compiled for it, behind one pointer.

mod any;
mod attributes;
mod forward;
mod granular;
mod linear;
mod shape;
mod space;

pub(crate) use any::{AnyTable, data_bytes, linear};
pub(crate) use attributes::{CAUTIOUS, DEVICE, EXECUTABLE, READ_ONLY, READ_WRITE, map, map_pages};
pub(crate) use linear::{Linear, Painted};
pub(crate) use shape::{LOWER_BITS, Shape};
pub(crate) use space::{Common, Space, new_space};
