//! Page tables whose granule was chosen at boot.
//!
//! [`AnyTable`] is the one place where the choice is made: it takes the functions of its granule, compiled for it, by
//! one pointer.

mod any;
mod attributes;
mod granular;
mod linear;
mod regime;
mod shape;
mod space;

pub(crate) use any::{AnyTable, linear, new_space};
pub(crate) use attributes::{DEVICE, EXECUTABLE, READ_ONLY, READ_WRITE, map, map_pages};
pub(crate) use linear::{Linear, Painted};
pub(crate) use regime::CAUTIOUS;
pub(crate) use shape::{LOWER_BITS, Shape};
pub(crate) use space::{Common, Space};
