//! `/proc`: what programs read about memory and about themselves, in Linux's words. Texts are made when they
//! are opened, and whenever they are read from their start.

use crate::fallible::{Arc, Collect, List, NoMemory, try_box, try_format, try_text};
use crate::files::{inode, tree};
use alloc::string::String;
use alloc::vec::Vec;

use super::settings;
use super::who::Who;
use super::{proc_text, smaps};
use crate::errno::{EACCES, EINVAL, EIO, ENOENT, ENOTDIR, Errno};
use crate::files::inode::{Body, Inode, Made, S_IFDIR, S_IFLNK, S_IFREG};
use crate::files::text::Text;
use crate::memory::mapped::named;
use crate::process::copies;
use crate::process::table;
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
    /// `/proc/self`, and `/proc/thread-self`.
    Own,
    OwnThread,
    /// `/proc/N`, and `/proc/N/task/M`.
    Process(Who),
    /// `/proc/N/task`.
    Threads(i32),
    /// A text about a process.
    Of(Who, &'static str),
    /// `exe`, `cwd` and `root` there.
    Link(Who, &'static str),
    /// `fd` there.
    Descriptors(Who),
    /// `fd/M` there.
    Descriptor(Who, usize),
    /// `fdinfo` there.
    Details(Who),
    /// `fdinfo/M` there.
    Detail(Who, usize),
}

/// Texts about the machine, by path; those that can be set are in `settings`.
const TEXTS: [&str; 22] = [
    "cmdline",
    "cpuinfo",
    "filesystems",
    "loadavg",
    "meminfo",
    "mounts",
    "stat",
    "swaps",
    "sys/kernel/cap_last_cap",
    "sys/kernel/domainname",
    "sys/kernel/hostname",
    "sys/kernel/osrelease",
    "sys/kernel/ostype",
    "sys/kernel/tainted",
    "sys/kernel/version",
    "sys/vm/max_map_count",
    "sys/vm/mmap_min_addr",
    "sys/vm/nr_hugepages",
    "sys/vm/nr_overcommit_hugepages",
    "uptime",
    "version",
    "vmstat",
];
/// Texts about a process.
const OF: [&str; 19] = [
    "auxv",
    "clear_refs",
    "cmdline",
    "comm",
    "environ",
    "limits",
    "maps",
    "mem",
    "mountinfo",
    "mounts",
    "oom_score",
    "oom_score_adj",
    "pagemap",
    "smaps",
    "smaps_rollup",
    "stat",
    "statm",
    "status",
    "wchan",
];
const LINKS: [&str; 3] = ["cwd", "exe", "root"];

/// All texts about the machine.
fn texts() -> impl Iterator<Item = &'static str> {
    TEXTS.into_iter().chain(settings::paths())
}

/// The folder `/proc`.
pub(super) fn root() -> Result<Arc<Inode>, Errno> {
    Proc::Root.inode()
}

impl Proc {
    fn inode(self) -> Result<Arc<Inode>, Errno> {
        let mode = match &self {
            Self::Of(_, "mem" | "auxv" | "environ" | "pagemap" | "wchan") => 0o400,
            Self::Of(_, "clear_refs") => 0o200,
            Self::Of(_, "comm" | "oom_score_adj") => 0o644,
            Self::Text(path) if settings::paths().any(|one| one == *path) => 0o644,
            other => match other.kind() {
                S_IFDIR => 0o555,
                S_IFLNK => 0o777,
                _ => 0o444,
            },
        };
        let mode = if self.is_memory() { 0o600 } else { mode };
        let number = inode::number_of(&[&self.path()?]);
        Ok(Inode::made(Body::Made(try_box(self)?), mode, number)?)
    }

    fn find_text(path: &str) -> Result<Option<Self>, NoMemory> {
        let below = |text: &&str| text.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
        match texts().find(|text| *text == path) {
            Some(text) => Ok(Some(Self::Text(text))),
            None => texts().find(below).map(|_| Ok(Self::Folder(try_text(path)?))).transpose(),
        }
    }

    fn above(&self) -> Result<Option<Self>, NoMemory> {
        Ok(Some(match self {
            Self::Root => return Ok(None),
            Self::Descriptors(who) | Self::Details(who) => Self::Process(*who),
            Self::Threads(process) => Self::Process(Who::process(*process)),
            Self::Process(Who { process, thread: Some(_) }) => Self::Threads(*process),
            Self::Folder(path) => match path.rsplit_once('/') {
                Some((above, _)) => Self::Folder(try_text(above)?),
                None => Self::Root,
            },
            _ => Self::Root,
        }))
    }

    /// What is under a name in the folder of a process.
    fn find_of(who: Who, name: &str) -> Option<Self> {
        match name {
            "fd" => Some(Self::Descriptors(who)),
            "fdinfo" => Some(Self::Details(who)),
            "task" if who.thread.is_none() => Some(Self::Threads(who.process)),
            name => match LINKS.iter().find(|one| **one == name) {
                Some(link) => Some(Self::Link(who, link)),
                None => OF.iter().find(|one| **one == name).map(|one| Self::Of(who, one)),
            },
        }
    }

    /// Names in it, with the kind of what they name.
    fn names(&self) -> Result<Vec<(u32, String)>, Errno> {
        let mut found: Vec<(u32, String)> = Vec::new();
        let mut add = |kind: u32, names: &[&str]| {
            names.iter().try_for_each(|name| Ok::<(), Errno>(found.try_push((kind, try_text(name)?))?))
        };
        let prefix = match self {
            Self::Root => String::new(),
            Self::Folder(path) => try_format!("{path}/")?,
            Self::Process(who) => {
                let folders: &[&str] = if who.thread.is_none() { &["fd", "fdinfo", "task"] } else { &["fd", "fdinfo"] };
                add(S_IFDIR, folders)?;
                add(S_IFREG, &OF)?;
                add(S_IFLNK, &LINKS)?;
                return Ok(found);
            }
            Self::Threads(process) => {
                let process = table::find(*process)?;
                let all = process.threads().map(|one| one.number()).try_list()?;
                return numbers(S_IFDIR, &all);
            }
            Self::Descriptors(who) | Self::Details(who) => {
                let kind = if matches!(self, Self::Descriptors(_)) { S_IFLNK } else { S_IFREG };
                let open = who.find()?.files.with(|files| files.numbers().map(|number| number as i32).try_list())?;
                return numbers(kind, &open);
            }
            _ => return Err(ENOTDIR),
        };
        for rest in texts().filter_map(|text| text.strip_prefix(prefix.as_str())) {
            let (kind, name) = rest.split_once('/').map_or((S_IFREG, rest), |(folder, _)| (S_IFDIR, folder));
            if !found.iter().any(|(_, known)| known == name) {
                found.try_push((kind, try_text(name)?))?;
            }
        }
        if *self == Self::Root {
            for name in ["self", "thread-self"] {
                found.try_push((S_IFLNK, try_text(name)?))?;
            }
            for process in table::all() {
                found.try_push((S_IFDIR, try_format!("{}", process.number)?))?;
            }
        }
        Ok(found)
    }
}

fn numbers(kind: u32, numbers: &[i32]) -> Result<Vec<(u32, String)>, Errno> {
    let mut found = Vec::new();
    for one in numbers {
        found.try_push((kind, try_format!("{one}")?))?;
    }
    Ok(found)
}

impl Made for Proc {
    fn kind(&self) -> u32 {
        match self {
            Self::Root
            | Self::Folder(_)
            | Self::Process(_)
            | Self::Threads(_)
            | Self::Descriptors(_)
            | Self::Details(_) => S_IFDIR,
            Self::Own | Self::OwnThread | Self::Link(..) | Self::Descriptor(..) => S_IFLNK,
            Self::Text(_) | Self::Of(..) | Self::Detail(..) => S_IFREG,
        }
    }

    fn path(&self) -> Result<String, NoMemory> {
        match self {
            Self::Root => try_text("/proc"),
            Self::Folder(path) => try_format!("/proc/{path}"),
            Self::Text(path) => try_format!("/proc/{path}"),
            Self::Own => try_text("/proc/self"),
            Self::OwnThread => try_text("/proc/thread-self"),
            Self::Process(who) => who.path(),
            Self::Threads(process) => try_format!("/proc/{process}/task"),
            Self::Of(who, name) | Self::Link(who, name) => try_format!("{}/{name}", who.path()?),
            Self::Descriptors(who) => try_format!("{}/fd", who.path()?),
            Self::Descriptor(who, which) => try_format!("{}/fd/{which}", who.path()?),
            Self::Details(who) => try_format!("{}/fdinfo", who.path()?),
            Self::Detail(who, which) => try_format!("{}/fdinfo/{which}", who.path()?),
        }
    }

    fn find(&self, name: &str) -> Result<Option<Arc<Inode>>, Errno> {
        if name == ".." {
            return self.above()?.map_or_else(|| Ok(tree::root()), Self::inode).map(Some);
        }
        let found = match self {
            Self::Root => match (name, name.parse()) {
                ("self", _) => Some(Self::Own),
                ("thread-self", _) => Some(Self::OwnThread),
                (_, Ok(number)) => table::find(number).ok().map(|_| Self::Process(Who::process(number))),
                (name, Err(_)) => Self::find_text(name)?,
            },
            Self::Folder(path) => Self::find_text(&try_format!("{path}/{name}")?)?,
            Self::Process(who) => Self::find_of(*who, name),
            Self::Threads(process) => {
                let who = Who { process: *process, thread: Some(name.parse().map_err(|_| ENOENT)?) };
                who.thread()?.map(|_| Self::Process(who))
            }
            Self::Descriptors(who) | Self::Details(who) => {
                let which = name.parse().map_err(|_| ENOENT)?;
                let is_details = matches!(self, Self::Details(_));
                let found = if is_details { Self::Detail(*who, which) } else { Self::Descriptor(*who, which) };
                who.open_file(which).ok().map(|_| found)
            }
            _ => return Err(ENOTDIR),
        };
        found.map(Self::inode).transpose()
    }

    fn entries(&self) -> Result<Vec<(u64, u32, String)>, Errno> {
        let path = self.path()?;
        let number = |name: &str| inode::number_of(&[&path, "/", name]);
        Ok(self.names()?.into_iter().map(|(kind, name)| (number(&name), kind, name)).try_list()?)
    }

    fn link(&self) -> Result<String, Errno> {
        match self {
            Self::Own => Ok(try_format!("{}", try_current().ok_or(ENOENT)?.task().process.number)?),
            Self::OwnThread => {
                let thread = try_current().ok_or(ENOENT)?;
                Ok(try_format!("{}/task/{}", thread.task().process.number, thread.number())?)
            }
            Self::Link(who, "exe") => who.find()?.image.with(|image| match &image.file {
                Some(file) => Ok(named(file.inode(), &image.path)?),
                None => Err(ENOENT),
            }),
            Self::Link(_, "root") => Ok(try_text("/")?),
            Self::Link(who, _) => tree::path_of(&who.find()?.folder()),
            Self::Descriptor(who, which) => {
                let file = who.open_file(*which)?;
                Ok(named(&file.inode, &file.path)?)
            }
            _ => Err(EINVAL),
        }
    }

    fn follow(&self) -> Result<Arc<Inode>, Errno> {
        match self {
            Self::Own => Self::Process(Who::process(try_current().ok_or(ENOENT)?.task().process.number)).inode(),
            Self::OwnThread => {
                let thread = try_current().ok_or(ENOENT)?;
                let who = Who { process: thread.task().process.number, thread: Some(thread.number()) };
                Self::Process(who).inode()
            }
            Self::Link(who, "exe") => {
                who.find()?.image.with(|image| image.file.as_ref().map(|file| file.inode().clone())).ok_or(ENOENT)
            }
            Self::Link(_, "root") => Ok(tree::root()),
            Self::Link(who, _) => Ok(who.find()?.folder()),
            Self::Descriptor(who, which) => Ok(who.open_file(*which)?.inode.clone()),
            _ => Err(EINVAL),
        }
    }

    fn text(&self) -> Text {
        match self {
            Self::Text(name) => settings::text(name).unwrap_or_else(|| proc_text::of_machine(name)),
            Self::Of(who, name) => match (who.find(), who.thread()) {
                (Ok(process), Ok(thread)) => proc_text::of_process(&process, thread.as_ref(), name),
                _ => Text::new(),
            },
            Self::Detail(who, which) => who.open_file(*which).map(|file| proc_text::of_file(&file)).unwrap_or_default(),
            _ => Text::new(),
        }
    }

    /// What is at an offset of a text that is too long to be made as a whole: `pagemap`.
    fn part(&self, offset: u64, bytes: u64) -> Option<Result<Vec<u8>, Errno>> {
        match self {
            Self::Of(_, "pagemap") if !offset.is_multiple_of(8) || !bytes.is_multiple_of(8) => Some(Err(EINVAL)),
            Self::Of(who, "pagemap") => Some(who.find().and_then(|process| smaps::pagemap(&process, offset, bytes))),
            Self::Of(who, "mem") => Some(check_own(*who, offset, bytes).and_then(|()| {
                // As far as the first page that cannot be had.
                let page = crate::facts::page_size().size_bytes();
                let mut part = Vec::new();
                part.try_resize(bytes.min(page - offset % page) as usize, 0)?;
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
        let Self::Of(who, "mem") = self else { return Err(EIO) };
        check_own(*who, offset, bytes.len() as u64)?;
        copies::write(offset, bytes).map_err(|_| EIO).map(|()| bytes.len() as u64)
    }

    fn write(&self, bytes: &[u8]) -> Result<(), Errno> {
        match self {
            Self::Text(path) => settings::set(path, bytes),
            Self::Of(who, name) => settings::set_of_process(&*who.find()?, who.thread()?.as_ref(), name, bytes),
            _ => Err(EACCES),
        }
    }
}

/// Refuses memory that is not the caller's own, and such as only accesses of its own may reach.
fn check_own(who: Who, start: u64, bytes: u64) -> Result<(), Errno> {
    let is_own = try_current().is_some_and(|thread| thread.task().process.number == who.process);
    if is_own && !copies::is_secret(start, bytes) { Ok(()) } else { Err(EIO) }
}
