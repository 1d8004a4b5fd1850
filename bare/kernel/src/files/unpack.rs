//! The first files: what is in the initial RAM disk, and the folders and devices that programs expect.

use kerncore::cpio::{Entries, Entry};
use userspace::Map;

use super::device::Device;
use super::inode::{Body, Inode, S_IFCHR, S_IFDIR, S_IFLNK, S_IFMT, S_IFREG};
use super::tree::{root, walk};
use crate::console::say;
use crate::errno::{EEXIST, EINVAL, ENOSPC, Errno};
use crate::fallible::{Arc, Lossy, try_format, try_text};

/// Folders that somebody else makes, by their paths.
pub(crate) type Mounts = &'static [(&'static str, fn() -> Result<Arc<Inode>, Errno>)];

/// Fills the tree.
pub(crate) fn fill(archive: &[u8], mounts: Mounts) {
    let mut linked = Map::new();
    for entry in Entries::new(archive) {
        match entry {
            Ok(entry) => {
                if let Err(Errno(number)) = put(&entry, &mut linked) {
                    let name = Lossy(entry.name);
                    say!("warning: initrd: {name} is not unpacked (errno {number})");
                }
            }
            Err(problem) => say!("warning: {problem}; what comes after it is left out"),
        }
    }
    for folder in ["dev", "tmp"] {
        let _ = folders(folder);
    }
    let devices = [
        ("null", Device::Null),
        ("zero", Device::Zero),
        ("full", Device::Full),
        ("urandom", Device::Random),
        ("random", Device::Random),
        ("console", Device::Console),
        ("tty", Device::Terminal),
    ];
    for (name, device) in devices {
        let _ = put_device(name, device);
    }
    for (path, make) in mounts {
        let Ok(made) = make() else { continue };
        if let Ok(place) = walk(&root(), path, false) {
            // Nothing lies beneath it: an archive's folder is empty.
            let _ = place.remove(true);
        }
        let _ = walk(&root(), path, false).and_then(|place| place.create(&made));
    }
}

fn put_device(name: &str, device: Device) -> Result<(), Errno> {
    walk(&root(), &try_format!("/dev/{name}")?, false)?.create(&Inode::new(Body::Device(device), 0o666)?)
}

/// Makes the folders on a way that are not there.
fn folders(path: &str) -> Result<(), Errno> {
    let mut end = 0;
    for part in path.split_inclusive('/') {
        end += part.len();
        match walk(&root(), &path[..end], true)?.create_folder(0o755) {
            Err(error) if error != EEXIST => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn put(entry: &Entry, linked: &mut Map<u32, Arc<Inode>>) -> Result<(), Errno> {
    let name = core::str::from_utf8(entry.name).map_err(|_| EINVAL)?;
    let name = name.trim_start_matches("./").trim_matches('/');
    if name.is_empty() || name == "." {
        return Ok(());
    }
    if let Some((folder, _)) = name.rsplit_once('/') {
        folders(folder)?;
    }
    let place = walk(&root(), name, false)?;
    let kind = entry.mode & S_IFMT;
    if kind == S_IFDIR {
        return match place.create_folder(entry.mode) {
            Err(EEXIST) => Ok(()),
            other => other,
        };
    }
    let inode = match kind {
        S_IFREG => {
            let known = linked.get(&entry.inode).filter(|_| entry.links > 1).cloned();
            let inode = known.map_or_else(|| Inode::regular(entry.mode), Ok)?;
            write(&inode, entry.content)?;
            inode
        }
        S_IFLNK => {
            let to = core::str::from_utf8(entry.content).map_err(|_| EINVAL)?;
            Inode::new(Body::Link(try_text(to)?), 0o777)?
        }
        S_IFCHR => Inode::new(Body::Device(Device::find(entry.device).ok_or(EINVAL)?), entry.mode)?,
        _ => return Err(EINVAL),
    };
    let modified = [entry.modified.into(), 0];
    inode.attributes.with(|attributes| {
        attributes.modified = modified;
        attributes.links = entry.links.max(1);
    });
    if entry.links > 1 {
        linked.insert(entry.inode, inode.clone())?;
    }
    if place.inode.is_some() {
        // A later archive wins.
        place.remove(false)?;
    }
    walk(&root(), name, false)?.create(&inode)
}

fn write(inode: &Inode, content: &[u8]) -> Result<(), Errno> {
    let Body::Regular(file) = &inode.body else { return Err(EINVAL) };
    let mut rest = content;
    let written = file.write(0, content.len() as u64, |to| {
        let (now, later) = rest.split_at(to.len());
        to.copy_from_slice(now);
        rest = later;
        Ok(())
    })?;
    if written == content.len() as u64 { Ok(()) } else { Err(ENOSPC) }
}
