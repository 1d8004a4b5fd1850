//! `/proc`: what programs read about memory and about themselves, in Linux's words. Texts are made when they
//! are opened, and whenever they are read from their start.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::inode::{Body, Inode, Made, S_IFDIR, S_IFLNK, S_IFREG};
use super::open::Descriptor;
use super::text::Text;
use crate::memory::mapped::Mapped;
use crate::process::copies;
use crate::process::errno::{EACCES, EINVAL, EIO, ENOENT, ENOTDIR, Errno};
use crate::process::table;
use crate::report::{proc_text, smaps};
use crate::threads::thread::try_current;

/// What is at a place of `/proc`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Proc {
    /// `/proc` itself.
    Root,
    /// A folder with this path below it.
    Folder(String),
    /// A text about the machine.
    Text(&'static str),
    /// `/proc/self`.
    Own,
    /// `/proc/N`.
    Process(i32),
    /// A text about a process.
    Of(i32, &'static str),
    /// `/proc/N/exe` and `/proc/N/cwd`.
    Link(i32, &'static str),
    /// `/proc/N/fd`.
    Descriptors(i32),
    /// `/proc/N/fd/M`.
    Descriptor(i32, usize),
}

/// Texts about the machine, by path.
const TEXTS: [&str; 23] = [
    "cmdline",
    "cpuinfo",
    "filesystems",
    "loadavg",
    "meminfo",
    "mounts",
    "stat",
    "sys/fs/file-max",
    "sys/fs/nr_open",
    "sys/fs/pipe-max-size",
    "sys/kernel/hostname",
    "sys/kernel/osrelease",
    "sys/kernel/ostype",
    "sys/kernel/pid_max",
    "sys/kernel/threads-max",
    "sys/vm/max_map_count",
    "sys/vm/mmap_min_addr",
    "sys/vm/overcommit_memory",
    "sys/vm/overcommit_ratio",
    "sys/vm/swappiness",
    "uptime",
    "version",
    "vmstat",
];
/// Texts about a process.
const OF: [&str; 14] = [
    "auxv",
    "cmdline",
    "comm",
    "environ",
    "limits",
    "maps",
    "mem",
    "mounts",
    "pagemap",
    "smaps",
    "smaps_rollup",
    "stat",
    "statm",
    "status",
];

/// A file's path; behind it whether it has no name any more.
fn named(inode: &Arc<Inode>, path: &str) -> String {
    Mapped { inode: inode.clone(), path: Arc::from(path) }.name().to_string()
}

impl Proc {
    pub(super) fn inode(self) -> Arc<Inode> {
        let mode = match self.kind() {
            _ if self.is_memory() => 0o600,
            S_IFDIR => 0o555,
            S_IFLNK => 0o777,
            _ => 0o444,
        };
        Inode::new(Body::Made(Box::new(self)), mode)
    }

    fn find_text(path: &str) -> Option<Self> {
        let below = |text: &&&str| text.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
        match TEXTS.iter().find(|text| **text == path) {
            Some(text) => Some(Self::Text(text)),
            None => TEXTS.iter().find(below).map(|_| Self::Folder(path.to_string())),
        }
    }
}

impl Made for Proc {
    fn kind(&self) -> u32 {
        match self {
            Self::Root | Self::Folder(_) | Self::Process(_) | Self::Descriptors(_) => S_IFDIR,
            Self::Own | Self::Link(..) | Self::Descriptor(..) => S_IFLNK,
            Self::Text(_) | Self::Of(..) => S_IFREG,
        }
    }

    fn path(&self) -> String {
        match self {
            Self::Root => "/proc".into(),
            Self::Folder(path) => alloc::format!("/proc/{path}"),
            Self::Text(path) => alloc::format!("/proc/{path}"),
            Self::Own => "/proc/self".into(),
            Self::Process(number) => alloc::format!("/proc/{number}"),
            Self::Of(number, name) | Self::Link(number, name) => alloc::format!("/proc/{number}/{name}"),
            Self::Descriptors(number) => alloc::format!("/proc/{number}/fd"),
            Self::Descriptor(number, which) => alloc::format!("/proc/{number}/fd/{which}"),
        }
    }

    fn find(&self, name: &str) -> Result<Option<Arc<Inode>>, Errno> {
        if name == ".." {
            let above = match self {
                Self::Root => return Ok(Some(super::tree::root())),
                Self::Descriptors(number) => Self::Process(*number),
                _ => Self::Root,
            };
            return Ok(Some(above.inode()));
        }
        let found = match self {
            Self::Root if name == "self" => Some(Self::Own),
            Self::Root => match name.parse() {
                Ok(number) => table::find(number).ok().map(|_| Self::Process(number)),
                Err(_) => Self::find_text(name),
            },
            Self::Folder(path) => Self::find_text(&alloc::format!("{path}/{name}")),
            Self::Process(number) => match name {
                "exe" => Some(Self::Link(*number, "exe")),
                "cwd" => Some(Self::Link(*number, "cwd")),
                "fd" => Some(Self::Descriptors(*number)),
                name => OF.iter().find(|one| **one == name).map(|one| Self::Of(*number, one)),
            },
            Self::Descriptors(number) => {
                let which = name.parse().map_err(|_| ENOENT)?;
                let process = table::find(*number)?;
                let is_open = process.files.with(|files| files.get(which as u64).is_ok());
                is_open.then_some(Self::Descriptor(*number, which))
            }
            _ => return Err(ENOTDIR),
        };
        Ok(found.map(Self::inode))
    }

    fn entries(&self) -> Result<Vec<(u64, u32, String)>, Errno> {
        let one = |kind, name: &str| (1, kind, name.to_string());
        let mut all = Vec::new();
        let prefix = match self {
            Self::Root => String::new(),
            Self::Folder(path) => alloc::format!("{path}/"),
            Self::Process(_) => {
                all.extend(OF.iter().map(|name| one(S_IFREG, name)));
                all.extend(["cwd", "exe"].map(|name| one(S_IFLNK, name)));
                all.push(one(S_IFDIR, "fd"));
                return Ok(all);
            }
            Self::Descriptors(number) => {
                let numbers: Vec<usize> = table::find(*number)?.files.with(|files| files.numbers().collect());
                all.extend(numbers.iter().map(|number| one(S_IFLNK, &number.to_string())));
                return Ok(all);
            }
            _ => return Err(ENOTDIR),
        };
        for rest in TEXTS.iter().filter_map(|text| text.strip_prefix(prefix.as_str())) {
            let (kind, name) = rest.split_once('/').map_or((S_IFREG, rest), |(folder, _)| (S_IFDIR, folder));
            if !all.iter().any(|(_, _, known)| known == name) {
                all.push(one(kind, name));
            }
        }
        if *self == Self::Root {
            all.push(one(S_IFLNK, "self"));
            all.extend(table::all().iter().map(|process| one(S_IFDIR, &process.number.to_string())));
        }
        Ok(all)
    }

    fn link(&self) -> Result<String, Errno> {
        match self {
            Self::Own => Ok(try_current().ok_or(ENOENT)?.task().process.number.to_string()),
            Self::Link(number, "exe") => table::find(*number)?.image.with(|image| match &image.file {
                Some(inode) => Ok(named(inode, &image.path)),
                None => Err(ENOENT),
            }),
            Self::Link(number, _) => super::tree::path_of(&table::find(*number)?.folder()),
            Self::Descriptor(number, which) => {
                let process = table::find(*number)?;
                let name = |found: &Descriptor| named(&found.file.inode, &found.file.path);
                process.files.with(|files| files.get(*which as u64).map(name))
            }
            _ => Err(EINVAL),
        }
    }

    fn follow(&self) -> Result<Arc<Inode>, Errno> {
        match self {
            Self::Own => Ok(Self::Process(try_current().ok_or(ENOENT)?.task().process.number).inode()),
            Self::Link(number, "exe") => table::find(*number)?.image.with(|image| image.file.clone()).ok_or(ENOENT),
            Self::Link(number, _) => Ok(table::find(*number)?.folder()),
            Self::Descriptor(number, which) => {
                let process = table::find(*number)?;
                process.files.with(|files| files.get(*which as u64).map(|found| found.file.inode.clone()))
            }
            _ => Err(EINVAL),
        }
    }

    fn text(&self) -> Text {
        match self {
            Self::Text(name) => proc_text::of_machine(name),
            Self::Of(number, name) => {
                table::find(*number).map(|process| proc_text::of_process(&process, name)).unwrap_or_default()
            }
            _ => Text::new(),
        }
    }

    /// What is at an offset of a text that is too long to be made as a whole: `pagemap`.
    fn part(&self, offset: u64, bytes: u64) -> Option<Result<Vec<u8>, Errno>> {
        match self {
            Self::Of(_, "pagemap") if !offset.is_multiple_of(8) || !bytes.is_multiple_of(8) => Some(Err(EINVAL)),
            Self::Of(number, "pagemap") => {
                Some(table::find(*number).map(|process| smaps::pagemap(&process, offset, bytes)))
            }
            Self::Of(number, "mem") => Some(check_own(*number, offset, bytes).and_then(|()| {
                // As far as the first page that cannot be had.
                let page = crate::facts::page_size().size_bytes();
                let mut part = alloc::vec![0; bytes.min(page - offset % page) as usize];
                copies::read(&mut part, offset).map_err(|_| EIO).map(|()| part)
            })),
            _ => None,
        }
    }

    fn is_memory(&self) -> bool {
        matches!(self, Self::Of(_, "mem"))
    }

    /// With the rights that the program itself has.
    fn write_part(&self, offset: u64, bytes: &[u8]) -> Result<u64, Errno> {
        let Self::Of(number, "mem") = self else { return Err(EIO) };
        check_own(*number, offset, bytes.len() as u64)?;
        copies::write(offset, bytes).map_err(|_| EIO).map(|()| bytes.len() as u64)
    }

    /// Nothing can be set.
    fn write(&self, _: &[u8]) -> Result<(), Errno> {
        Err(EACCES)
    }
}

/// Refuses memory that is not the caller's own, and such as only accesses of its own may reach.
fn check_own(number: i32, start: u64, bytes: u64) -> Result<(), Errno> {
    let is_own = try_current().is_some_and(|thread| thread.task().process.number == number);
    if is_own && !copies::is_secret(start, bytes) { Ok(()) } else { Err(EIO) }
}
