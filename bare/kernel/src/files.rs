//! Files: a tree in memory that an initial RAM disk fills, pipes, and a few devices.

mod bytes;
pub(crate) mod content;
pub(crate) mod counter;
pub(crate) mod descriptors;
pub(crate) mod device;
pub(crate) mod inode;
pub(crate) mod locks;
pub(crate) mod open;
pub(crate) mod pipe;
mod renames;
pub(crate) mod secret;
pub(crate) mod text;
pub(crate) mod tree;
pub(crate) mod unpack;
