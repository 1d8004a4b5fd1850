//! The words of the 64-bit Arm virtual memory system architecture, and nothing beyond arithmetic.
//!
//! Addresses, levels, granules, descriptors, attributes, barriers and TLB maintenance as plain data. Nothing here touches
//! a machine, so all of it runs anywhere. Section names are those of the Arm Architecture Reference Manual for A-profile,
//! DDI 0487.
#![no_std]
#![forbid(unsafe_code)]

mod address;
mod attributes;
mod descriptor;
mod features;
pub mod fields;
mod geometry;
mod granule;
mod layout;
mod leaf;
mod level;
pub mod maintenance;
mod midr;
mod permissions;
pub mod ptdump;
pub mod registers;
mod reserved;
mod rights;
mod stage2;
mod syndrome;

pub use address::{Address, IntermediateAddr, PhysAddr, VirtAddr};
pub use attributes::{Access, Stage1Attributes, TableAttributes};
pub use descriptor::{Descriptor, Meaning};
pub use features::{BbmLevel, IdRegisters};
pub use geometry::{AddressHalf, Geometry, GeometryError};
pub use granule::{Granule, Granule4K, Granule16K, Granule64K, PageSize};
pub use layout::{Bits, DESCRIPTOR_BYTES, DESCRIPTOR_SHIFT, Layout};
pub use leaf::LeafSize;
pub use level::Level;
pub use maintenance::{Barrier, Maintenance, TlbiOp};
pub use midr::Midr;
pub use permissions::{Indirection, Overlay, PermissionControl, Permissions, permission_index, with_permission_index};
pub use rights::Rights;
pub use stage2::{Execute, Stage2Attributes, Stage2Memory};
pub use syndrome::{ExceptionClass, FaultStatus, Syndrome};

/// The examples of the README are run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
