//! Modules of the kernel.

use alloc::vec::Vec;

use super::call::{Call, Row};
use crate::console::say;
use crate::errno::*;
use crate::fallible::List;
use crate::files::inode::{Body, Running};
use crate::memory::modules::{self, LoadError};
use crate::process::copies;

pub(super) const CALLS: &[Row] = calls![
    (105, "init_module", init_module),
    (106, "delete_module", delete_module),
    (273, "finit_module", finit_module)
];

/// The most bytes of an object.
const MOST_BYTES: u64 = 8 << 20;

fn room(bytes: u64) -> Result<Vec<u8>, Errno> {
    let mut object = Vec::new();
    if bytes > MOST_BYTES {
        return Err(EFBIG);
    }
    object.try_reserve_exact(bytes as usize).map_err(|_| ENOMEM)?;
    object.try_resize(bytes as usize, 0)?;
    Ok(object)
}

fn init_module(call: &mut Call, from: u64, bytes: u64) -> Answer {
    call.check_root()?;
    let mut object = room(bytes)?;
    copies::read(&mut object, from)?;
    load(&object)
}

fn finit_module(call: &mut Call, number: i32, _: u64, flags: u32) -> Answer {
    call.check_root()?;
    if flags != 0 {
        return Err(EINVAL);
    }
    let file = call.process().files.with(|files| files.get(number).map(|found| found.file.clone()))?;
    let Body::Regular(content) = &file.inode.body else { return Err(ENOEXEC) };
    if !file.can_read() {
        return Err(EBADF);
    }
    let _running = Running::begin(&file.inode)?;
    // As long as it is now: others may write it meanwhile.
    let mut object = room(content.bytes())?;
    let mut at = 0;
    content.read(0, object.len() as u64, |from| {
        object[at..at + from.len()].copy_from_slice(from);
        at += from.len();
        Ok(())
    })?;
    load(&object[..at])
}

fn load(object: &[u8]) -> Answer {
    let loaded = modules::load(object).inspect_err(|error| say!("module: {error}; not loaded"));
    loaded.map(|()| 0).map_err(|error| match error {
        LoadError::Exists => EEXIST,
        LoadError::NoMemory => ENOMEM,
        LoadError::Declined(_) => EINVAL,
        LoadError::Object(kerncore::module::Problem::Unresolved(_)) => ENOENT,
        LoadError::Object(_) | LoadError::Unnamed => ENOEXEC,
    })
}

fn delete_module(call: &mut Call, name: u64) -> Answer {
    call.check_root()?;
    let name = copies::read_path(name)?;
    if modules::unload(&name) { Ok(0) } else { Err(ENOENT) }
}
