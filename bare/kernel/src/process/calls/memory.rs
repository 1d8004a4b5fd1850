//! Memory: `brk`, `mmap` and what follows from it.

use crate::fallible::{Lossy, try_format};

use hardware::user::without_tag;
use userspace::{AreaFlags, Backing, Kind, Place, Request, Rights, Source};
use vmsa::LeafSize;

use super::call::{Call, Row};
use super::input;
use crate::errno::*;
use crate::facts::page_size;
use crate::files::content::{SEAL_FUTURE_WRITE, SEAL_WRITE};
use crate::files::descriptors::Descriptor;
use crate::files::device::Device;
use crate::files::inode::{Body, Inode};
use crate::files::open::{File, O_CLOEXEC, O_LARGEFILE, O_RDWR};
use crate::files::secret::Secrets;
use crate::files::tree::fit;
use crate::memory::mapped::{Mapped, Path};
use crate::memory::{current, folios, programs, promises};
use crate::process::copies;

pub(super) const CALLS: &[Row] = calls![
    (214, "brk", brk),
    (222, "mmap", mmap),
    (215, "munmap", munmap),
    (226, "mprotect", mprotect),
    (234, "remap_file_pages", remap_file_pages),
    (279, "memfd_create", memfd_create),
    (447, "memfd_secret", memfd_secret),
];

/// What keeps a file from being mapped to be written by all.
const NO_WRITES: u32 = SEAL_WRITE | SEAL_FUTURE_WRITE;
const MAP_SHARED: u64 = 1;
const MAP_PRIVATE: u64 = 2;
const MAP_SHARED_VALIDATE: u64 = 3;
const MAP_DROPPABLE: u64 = 8;
const MAP_TYPE: u64 = 0xf;
const MAP_FIXED: u64 = 0x10;
const MAP_ANONYMOUS: u64 = 0x20;
const MAP_GROWSDOWN: u64 = 0x100;
const MAP_LOCKED: u64 = 0x2000;
const MAP_NORESERVE: u64 = 0x4000;
const MAP_POPULATE: u64 = 0x8000;
const MAP_NONBLOCK: u64 = 0x1_0000;
const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;
/// A child finds zeros there, and nothing is promised.
const DROPPABLE: AreaFlags =
    AreaFlags::DROPPABLE.union(AreaFlags::WIPE_ON_FORK).union(AreaFlags::NO_RESERVE).union(AreaFlags::DONT_DUMP);
/// Flags that are the same for every type; others are refused with MAP_SHARED_VALIDATE.
const MAP_LEGACY: u64 = 0x7c07_ff7f;
const MAP_HUGETLB: u64 = 0x4_0000;
const MAP_HUGE_SHIFT: u32 = 26;
const PROT_WRITE: u64 = 2;
const PROT_EXEC: u64 = 4;
/// PROT_READ, PROT_WRITE, PROT_EXEC, PROT_SEM, PROT_BTI.
const PROT_KNOWN: u64 = 0x1f;
const PROT_GROWSDOWN: u64 = 0x0100_0000;
const PROT_GROWSUP: u64 = 0x0200_0000;

fn rights(protection: u64) -> Rights {
    Rights::from_bits_truncate(protection as u8)
}

fn brk(call: &mut Call, wanted: u64) -> Answer {
    Ok(call.process().space().set_break(wanted))
}

fn mmap(call: &mut Call, address: u64, bytes: u64, protection: u64, flags: u64, number: i32, offset: u64) -> Answer {
    if !offset.is_multiple_of(page_size().size_bytes()) {
        return Err(EINVAL);
    }
    let file = match flags & MAP_ANONYMOUS {
        0 => Some(input::used(call, number)?),
        _ => None,
    };
    if bytes == 0 {
        return Err(EINVAL);
    }
    if flags & MAP_HUGETLB != 0 {
        return Err(if file.is_some() { EINVAL } else { no_huge_pages(address, flags) });
    }
    let (is_shared, wanted) = (is_shared(flags)?, [address, bytes, protection, flags, offset]);
    let populates = flags & (MAP_POPULATE | MAP_NONBLOCK) == MAP_POPULATE;
    let Some(Body::Regular(content)) = file.as_ref().map(|file| &file.inode.body).filter(|_| is_shared) else {
        return map(call, wanted, file.as_deref(), is_shared, populates);
    };
    // Nobody seals the file between the look at its seals and the mapping.
    let start = content.alone(|| map(call, wanted, file.as_deref(), is_shared, false))?;
    if populates {
        // Pages that cannot be had are for faults to tell of.
        let _ = call.process().space().populate(start, bytes, Kind::Read);
    }
    Ok(start)
}

/// Maps what is asked for.
fn map(
    call: &Call,
    [address, bytes, protection, flags, offset]: [u64; 5],
    file: Option<&File>,
    is_shared: bool,
    populates: bool,
) -> Answer {
    let flags = if promises::are_kept() { flags & !MAP_NORESERVE } else { flags };
    let source = match file {
        Some(file) => file_source(file, offset, protection, is_shared)?,
        None => Source::Anonymous,
    };
    let source = match source {
        Source::Anonymous if is_shared => {
            let pages = bytes.div_ceil(page_size().size_bytes());
            let file = programs::shared_memory(pages, flags & MAP_NORESERVE == 0).ok_or(ENOMEM)?;
            Source::File { file, offset: 0, most: Rights::all() }
        }
        source => source,
    };
    let place = match address {
        _ if flags & MAP_FIXED_NOREPLACE != 0 => Place::FixedNoReplace(address),
        _ if flags & MAP_FIXED != 0 => Place::Fixed(address),
        0 => Place::Anywhere,
        _ => Place::Near(address),
    };
    let mut area = AreaFlags::empty();
    if let Source::File { file, .. } = &source
        && let Body::Secret(_) = &file.inode.body
    {
        if !is_shared {
            return Err(EINVAL);
        }
        area |= AreaFlags::SECRET | AreaFlags::DONT_DUMP;
    }
    if flags & MAP_TYPE == MAP_DROPPABLE {
        area |= DROPPABLE;
    }
    let pairs = [
        (MAP_GROWSDOWN, AreaFlags::GROWS_DOWN),
        (MAP_NORESERVE, AreaFlags::NO_RESERVE),
        (MAP_LOCKED, AreaFlags::LOCKED),
    ];
    let is_dropped = area.contains(AreaFlags::DROPPABLE);
    let is_wanted = |flag: u64, what| flags & flag != 0 && !(is_dropped && what == AreaFlags::LOCKED);
    let wanted = pairs.into_iter().filter(|(flag, what)| is_wanted(*flag, *what)).map(|(_, what)| what);
    area |= wanted.collect();
    area.set(AreaFlags::SHARED, is_shared);
    let request = Request { place, bytes, rights: rights(protection), source, flags: area, populates };
    call.process().space().map(request).map_err(Errno::from)
}

/// Whether what is written is for all who map it, by the type.
fn is_shared(flags: u64) -> Result<bool, Errno> {
    match flags & MAP_TYPE {
        MAP_PRIVATE => Ok(false),
        // What may be dropped has no file, and does not grow.
        MAP_DROPPABLE if flags & MAP_ANONYMOUS != 0 && flags & MAP_GROWSDOWN == 0 => Ok(false),
        MAP_SHARED if flags & MAP_ANONYMOUS != 0 && flags & MAP_GROWSDOWN != 0 => Err(EINVAL),
        MAP_SHARED => Ok(true),
        // Nothing that is no file understands it.
        MAP_SHARED_VALIDATE if flags & MAP_ANONYMOUS != 0 => Err(EINVAL),
        MAP_SHARED_VALIDATE if flags & !(MAP_LEGACY | MAP_TYPE | MAP_FIXED_NOREPLACE) != 0 => Err(EOPNOTSUPP),
        MAP_SHARED_VALIDATE => Ok(true),
        _ => Err(EINVAL),
    }
}

/// MAP_HUGETLB: no pages are kept for it, of any size that leaves have.
fn no_huge_pages(address: u64, flags: u64) -> Errno {
    let (size, page) = ((flags >> MAP_HUGE_SHIFT & 63) as u32, page_size());
    let mut leaves = LeafSize::all(page, current::upper().shape().layout);
    let is_known = size == 0 || size > page.shift() && leaves.any(|leaf| leaf.shift(page) == size);
    let size = if size == 0 { page.shift() + folios::block() } else { size };
    let is_known = is_known && (flags & MAP_FIXED == 0 || address.is_multiple_of(1 << size));
    if is_known { ENOMEM } else { EINVAL }
}

/// A file that is to be mapped.
fn file_source(file: &File, offset: u64, protection: u64, is_shared: bool) -> Result<Source<Mapped>, Errno> {
    if !file.can_read() {
        return Err(EACCES);
    }
    let is_written = is_shared && protection & PROT_WRITE != 0;
    match &file.inode.body {
        Body::Regular(content) if content.seals() & NO_WRITES != 0 && is_written => return Err(EPERM),
        Body::Secret(_) if protection & PROT_EXEC != 0 => return Err(EPERM),
        Body::Regular(_) | Body::Secret(_) => {}
        Body::Device(Device::Zero) if is_written && !file.can_write() => return Err(EACCES),
        Body::Device(Device::Zero) => return Ok(Source::Anonymous),
        Body::Folder(_) => return Err(ENODEV),
        _ => return Err(ENODEV),
    }
    let mut most = Rights::READ;
    most.set(Rights::EXECUTE, !matches!(&file.inode.body, Body::Secret(_)));
    let is_sealed = matches!(&file.inode.body, Body::Regular(content) if content.seals() & NO_WRITES != 0);
    most.set(Rights::WRITE, file.can_write() && !is_sealed);
    let mapped = Mapped { inode: file.inode.clone(), path: file.path.clone() };
    Ok(Source::File { file: mapped, offset, most })
}

/// Other pages of what an area maps already, which is shared.
fn remap_file_pages(call: &mut Call, start: u64, bytes: u64, protection: u64, first: u64, flags: u64) -> Answer {
    let page = page_size().size_bytes();
    let (start, bytes) = (start & !(page - 1), bytes & !(page - 1));
    let end = start.checked_add(bytes).filter(|end| *end > start && protection == 0).ok_or(EINVAL)?;
    let find = || {
        let mut found = None;
        call.process().space().areas(&mut |area| {
            let is_it = area.start <= start && end <= area.end && area.most.contains(Rights::WRITE);
            if is_it && area.flags.contains(AreaFlags::SHARED) {
                found = Some(area.clone());
            }
        });
        found.ok_or(EINVAL)
    };
    let map = || {
        let area = find()?;
        let Backing::File { file, .. } = area.backing else { return Err(EINVAL) };
        let source = Source::File { file, offset: first.checked_mul(page).ok_or(EINVAL)?, most: area.most };
        let kept = AreaFlags::SHARED | AreaFlags::LOCKED | AreaFlags::SECRET | AreaFlags::DONT_DUMP;
        let (place, flags) = (Place::Fixed(start), area.flags & kept);
        let request = Request { place, bytes, rights: area.rights, source, flags, populates: false };
        call.process().space().map(request).map_err(Errno::from)
    };
    let Backing::File { file, .. } = find()?.backing else { return Err(EINVAL) };
    // The file may be written by all: nobody seals it meanwhile.
    match &file.inode.body {
        Body::Regular(content) => content.alone(map)?,
        _ => map()?,
    };
    if flags & MAP_NONBLOCK == 0 {
        let _ = call.process().space().populate(start, bytes, Kind::Read);
    }
    Ok(0)
}

fn munmap(call: &mut Call, start: u64, bytes: u64) -> Answer {
    call.process().space().unmap(without_tag(start), bytes).map(|()| 0).map_err(Errno::from)
}

fn mprotect(call: &mut Call, start: u64, bytes: u64, protection: u64) -> Answer {
    let start = without_tag(start);
    const GROWS: u64 = PROT_GROWSDOWN | PROT_GROWSUP;
    let page = page_size().size_bytes();
    if protection & GROWS == GROWS || !start.is_multiple_of(page) {
        return Err(EINVAL);
    }
    if bytes == 0 {
        return Ok(0);
    }
    bytes.checked_next_multiple_of(page).and_then(|bytes| start.checked_add(bytes)).ok_or(ENOMEM)?;
    if protection & !(GROWS | PROT_KNOWN) != 0 {
        return Err(EINVAL);
    }
    if protection & GROWS != 0 {
        return protect_stack(call, start, bytes, protection);
    }
    call.process().space().protect(start, bytes, rights(protection)).map(|()| 0).map_err(Errno::from)
}

/// From the start on of the first stack that a range meets. Nothing grows upwards.
fn protect_stack(call: &Call, start: u64, bytes: u64, protection: u64) -> Answer {
    let (space, end) = (call.process().space(), start.saturating_add(bytes));
    let mut found = None;
    space.areas(&mut |area| {
        if found.is_none() && start < area.end && area.start < end {
            let grows = area.flags.contains(AreaFlags::GROWS_DOWN) && protection & PROT_GROWSDOWN != 0;
            found = Some(if grows { Ok(area.start) } else { Err(EINVAL) });
        }
    });
    let first = found.unwrap_or(Err(ENOMEM))?;
    space.protect(first, end - first, rights(protection)).map(|()| 0).map_err(Errno::from)
}

fn memfd_create(call: &mut Call, name: u64, flags: u32) -> Answer {
    const CLOEXEC: u32 = 1;
    const ALLOW_SEALING: u32 = 2;
    const LONGEST: usize = 249;
    if flags & !(CLOEXEC | ALLOW_SEALING) != 0 {
        return Err(EINVAL);
    }
    let name = copies::read_bytes(name, LONGEST + 1)?.filter(|name| name.len() <= LONGEST).ok_or(EINVAL)?;
    let path = try_format!("/memfd:{} (deleted)", Lossy(&name))?;
    let inode = fit(Inode::regular(0o777))?;
    if let (Body::Regular(content), true) = (&inode.body, flags & ALLOW_SEALING != 0) {
        content.set_seals(0);
    }
    inode.attributes.with(|attributes| attributes.links = 0);
    let file = File::new(inode, O_RDWR | O_LARGEFILE, Path::new(path)?)?;
    let closes_on_exec = flags & CLOEXEC != 0;
    call.process().files.with(|files| files.add(0, Descriptor { file, closes_on_exec }))
}

fn memfd_secret(call: &mut Call, flags: u32) -> Answer {
    if flags & !O_CLOEXEC != 0 {
        return Err(EINVAL);
    }
    let inode = Inode::new(Body::Secret(Secrets::new()), 0o600)?;
    inode.attributes.with(|attributes| attributes.links = 0);
    let file = File::new(inode, O_RDWR, Path::Fixed("/secretmem (deleted)"))?;
    call.process().files.with(|files| files.add(0, Descriptor { file, closes_on_exec: flags != 0 }))
}
