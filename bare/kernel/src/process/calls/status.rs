//! What is told of files: `stat` and its kin.

use super::call::{Call, Row};
use super::input::file;
use super::paths::{AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_NOFOLLOW, check_flags, inode_at};
use crate::errno::*;
use crate::facts::page_size;
use crate::files::inode::{Body, DEVICE, Inode};
use crate::memory::{frames, pages};
use crate::process::copies;

pub(super) const CALLS: &[Row] = calls![
    (43, "statfs", statfs),
    (44, "fstatfs", fstatfs),
    (79, "newfstatat", newfstatat),
    (80, "fstat", fstat),
    (291, "statx", statx),
];

/// Flags of `newfstatat` and `statx`: AT_NO_AUTOMOUNT and how new what is told must be beside the usual.
const OF_STATUS: u32 = AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | 0x800 | 0x6000;

/// Those of `/proc` and `/sys`.
const OF_PROC: (u32, u32) = (0, 22);
const OF_SYS: (u32, u32) = (0, 23);

fn device_of(inode: &Inode) -> (u32, u32) {
    if let Body::Device(device) = inode.body { device.number() } else { (0, 0) }
}

/// The device of the file system that it is on.
fn device_on(inode: &Inode) -> (u32, u32) {
    match &inode.body {
        Body::Made(made) if made.is_of_sys() => OF_SYS,
        Body::Made(_) => OF_PROC,
        _ => DEVICE,
    }
}

fn encode((major, minor): (u32, u32)) -> u64 {
    u64::from(minor & 0xff | major << 8 | (minor & !0xff) << 12)
}

/// `struct stat` of arm64.
fn write_stat(inode: &Inode, to: u64) -> Answer {
    let attributes = inode.attributes.with(|attributes| *attributes);
    let mode = u64::from(inode.kind() | attributes.mode);
    let times = [attributes.accessed, attributes.modified, attributes.changed];
    let words = [
        encode(device_on(inode)),
        inode.number,
        mode | u64::from(attributes.links) << 32,
        u64::from(attributes.user) | u64::from(attributes.group) << 32,
        encode(device_of(inode)),
        0,
        inode.bytes(),
        page_size().size_bytes(),
        inode.blocks(),
        times[0][0],
        times[0][1],
        times[1][0],
        times[1][1],
        times[2][0],
        times[2][1],
        0,
    ];
    copies::write_words(to, &words).map(|()| 0)
}

fn newfstatat(call: &mut Call, folder: i32, path: u64, to: u64, flags: u32) -> Answer {
    check_flags(flags, OF_STATUS)?;
    write_stat(&*inode_at(call, folder, path, flags)?, to)
}

fn fstat(call: &mut Call, number: i32, to: u64) -> Answer {
    write_stat(&file(call, number)?.inode, to)
}

fn statx(call: &mut Call, folder: i32, path: u64, flags: u32, _: u32, to: u64) -> Answer {
    const BASIC: u32 = 0x7ff;
    check_flags(flags, OF_STATUS)?;
    let inode = inode_at(call, folder, path, flags)?;
    let attributes = inode.attributes.with(|attributes| *attributes);
    let mut bytes = [0; 256];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    let halves = [
        (0, BASIC),
        (4, page_size().size_bytes() as u32),
        (16, attributes.links),
        (20, attributes.user),
        (24, attributes.group),
        (28, inode.kind() | attributes.mode),
        (128, device_of(&inode).0),
        (132, device_of(&inode).1),
        (136, device_on(&inode).0),
        (140, device_on(&inode).1),
    ];
    halves.iter().for_each(|(at, half)| put(*at, &half.to_le_bytes()));
    let words = [(32, inode.number), (40, inode.bytes()), (48, inode.blocks())];
    words.iter().for_each(|(at, word)| put(*at, &word.to_le_bytes()));
    for (at, time) in [(64, attributes.accessed), (96, attributes.changed), (112, attributes.modified)] {
        put(at, &time[0].to_le_bytes());
        put(at + 8, &(time[1] as u32).to_le_bytes());
    }
    copies::write(to, &bytes).map(|()| 0)
}

/// `struct statfs` of a file system in memory.
fn write_statfs(inode: &Inode, to: u64) -> Answer {
    const IN_MEMORY: u64 = 0x0102_1994;
    const PIPES: u64 = 0x5049_5045;
    const PROC: u64 = 0x9fa0;
    const SYS: u64 = 0x6265_6572;
    /// Flags: they are told (ST_VALID); ST_RELATIME.
    const TOLD: u64 = 0x20;
    const RELATIVE: u64 = 0x1000;
    let kind = match &inode.body {
        Body::Made(made) if made.is_of_sys() => SYS,
        Body::Made(_) => PROC,
        Body::Pipe(_) => PIPES,
        _ => IN_MEMORY,
    };
    let free = pages::with_pages(|pages| pages.free_bytes()) >> page_size().shift();
    let bytes = page_size().size_bytes();
    let ([all, free], flags) = match kind {
        IN_MEMORY => ([frames::all_pages(), free], TOLD),
        PIPES => ([0; 2], TOLD),
        _ => ([0; 2], TOLD | RELATIVE),
    };
    let words = [kind, bytes, all, free, free, 0, 0, 0, 255, bytes, flags, 0, 0, 0, 0];
    copies::write_words(to, &words).map(|()| 0)
}

fn statfs(call: &mut Call, path: u64, to: u64) -> Answer {
    write_statfs(&*inode_at(call, AT_FDCWD, path, 0)?, to)
}

fn fstatfs(call: &mut Call, number: i32, to: u64) -> Answer {
    write_statfs(&file(call, number)?.inode, to)
}
