//! Files: a tree in memory that an initial RAM disk fills, pipes, a few devices, and what `/proc` tells.

mod bytes;
pub(crate) mod content;
pub(crate) mod counter;
pub(crate) mod descriptors;
pub(crate) mod device;
pub(crate) mod inode;
pub(crate) mod locks;
pub(crate) mod open;
pub(crate) mod pipe;
pub(crate) mod proc;
mod renames;
pub(crate) mod secret;
pub(crate) mod settings;
mod sys;
pub(crate) mod text;
pub(crate) mod tree;
pub(crate) mod unpack;
mod who;
