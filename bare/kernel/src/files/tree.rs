//! The tree of names, and walks in it.

use alloc::string::String;
use alloc::vec::Vec;

use spin::Once;

use super::inode::{Body, Folder, Inode, S_IFLNK};
use crate::errno::{
    EBUSY, EEXIST, EINVAL, EISDIR, ELOOP, ENAMETOOLONG, ENOENT, ENOMEM, ENOSPC, ENOTDIR, ENOTEMPTY, EROFS, Errno,
};
use crate::fallible::{Arc, List, NoMemory, Weak, try_format, try_text};
use crate::locks::{OpenLock, order};
use crate::threads::mutex::Mutex;

/// Bytes of a name, and links on one way.
const LONGEST_NAME: usize = 255;
const MOST_LINKS: usize = 40;
/// Bytes of a path with the zero behind it (PATH_MAX).
const LONGEST_PATH: usize = 4096;

static ROOT: Once<Arc<Inode>> = Once::new();
/// Had by whoever changes names, or follows folders upwards: what was looked at stays so until it has been acted on. Who walks down has no
/// need of it: each step is of one folder, and each name changes by one step.
pub(super) static CHANGES: Mutex<()> = Mutex::new(order::CHANGES, ());

/// Makes the root of the tree.
pub(crate) fn start() -> Result<(), Errno> {
    let root = Inode::new(Body::Folder(OpenLock::new(order::FOLDER, Folder::new(Weak::new()))), 0o755)?;
    ROOT.call_once(|| root);
    Ok(())
}

/// The root of the tree.
pub(crate) fn root() -> Arc<Inode> {
    ROOT.get().expect("`start` comes before programs").clone()
}

/// Where a walk ended.
pub(crate) struct Place {
    /// The folder of the last name.
    pub(crate) folder: Arc<Inode>,
    /// The last name; empty for the root, `.` and `..`.
    pub(crate) name: String,
    /// What is there.
    pub(crate) inode: Option<Arc<Inode>>,
    /// The way ended with a slash.
    pub(crate) wants_folder: bool,
}

/// What the tree is to hold from now on: without memory for it, the tree is full, as Linux's file system in memory is.
pub(crate) fn fit<T>(made: Result<T, NoMemory>) -> Result<T, Errno> {
    made.map_err(|NoMemory| ENOSPC)
}

impl Place {
    /// What is there, or ENOENT.
    pub(crate) fn found(&self) -> Result<Arc<Inode>, Errno> {
        let inode = self.inode.clone().ok_or(ENOENT)?;
        if self.wants_folder && !inode.is_folder() {
            return Err(ENOTDIR);
        }
        Ok(inode)
    }
}

impl Place {
    /// The path from the root of the file that was found there. What a link of `/proc` led to is called as the link says.
    pub(crate) fn path(&self, found: &Arc<Inode>) -> Result<String, Errno> {
        if found.is_folder() {
            return path_or_nothing(found);
        }
        if let (Body::Made(_), false) = (&self.folder.body, matches!(found.body, Body::Made(_)))
            && let Ok(Some(link)) = step(&self.folder, &self.name)
            && let Body::Made(link) = &link.body
            && let Ok(path) = link.link()
        {
            return Ok(path);
        }
        let above = path_or_nothing(&self.folder)?;
        Ok(try_format!("{}/{}", above.trim_end_matches('/'), self.name)?)
    }
}

/// Goes along `path` from `start`; a link at its end is followed if that is wanted.
pub(crate) fn walk(start: &Arc<Inode>, path: &str, follows: bool) -> Result<Place, Errno> {
    if path.is_empty() {
        return Err(ENOENT);
    }
    go(start.clone(), path, follows, &mut 0)
}

fn go(start: Arc<Inode>, path: &str, follows: bool, links: &mut usize) -> Result<Place, Errno> {
    let mut folder = if path.starts_with('/') { root() } else { start };
    let mut rest = path.trim_start_matches('/');
    let wants_folder = path.ends_with('/');
    if rest.is_empty() {
        return Ok(Place { inode: Some(folder.clone()), folder, name: String::new(), wants_folder: true });
    }
    loop {
        let (name, after) = rest.split_once('/').unwrap_or((rest, ""));
        let after = after.trim_start_matches('/');
        let is_last = after.is_empty();
        let found = step(&folder, name)?;
        if let Some(inode) =
            found.as_ref().filter(|inode| inode.kind() == S_IFLNK && (!is_last || follows || wants_folder))
        {
            *links += 1;
            if *links > MOST_LINKS {
                return Err(ELOOP);
            }
            let mut to = match &inode.body {
                Body::Link(to) => go(folder, to, true, links)?,
                Body::Made(made) => {
                    let inode = Some(made.follow()?);
                    Place { folder, name: try_text(name)?, inode, wants_folder: false }
                }
                _ => return Err(EINVAL),
            };
            if is_last {
                to.wants_folder |= wants_folder;
                return Ok(to);
            }
            folder = to.found()?;
        } else if is_last {
            let name = if name == "." || name == ".." { String::new() } else { try_text(name)? };
            return Ok(Place { folder, name, inode: found, wants_folder });
        } else {
            folder = found.ok_or(ENOENT)?;
        }
        if !folder.is_folder() {
            return Err(ENOTDIR);
        }
        rest = after;
    }
}

/// One name further.
fn step(folder: &Arc<Inode>, name: &str) -> Result<Option<Arc<Inode>>, Errno> {
    if name.len() > LONGEST_NAME {
        return Err(ENAMETOOLONG);
    }
    match (&folder.body, name) {
        (Body::Folder(_) | Body::Made(_), ".") => Ok(Some(folder.clone())),
        (Body::Folder(inside), "..") => {
            Ok(Some(inside.with(|inside| inside.parent.upgrade()).unwrap_or(folder.clone())))
        }
        (Body::Folder(inside), name) => Ok(inside.with(|inside| inside.names.get(name).cloned())),
        (Body::Made(proc), name) => proc.find(name),
        _ => Err(ENOTDIR),
    }
}

pub(super) fn inside(folder: &Arc<Inode>) -> Result<&OpenLock<Folder>, Errno> {
    match &folder.body {
        Body::Folder(inside) => Ok(inside),
        Body::Made(_) => Err(EROFS),
        _ => Err(ENOTDIR),
    }
}

impl Place {
    /// Refuses a folder that was removed: nothing is in it, and nothing comes into it.
    pub(super) fn check_there(&self) -> Result<(), Errno> {
        if self.folder.attributes.with(|attributes| attributes.links) > 0 { Ok(()) } else { Err(ENOENT) }
    }

    /// What is there by now.
    pub(super) fn now(&self) -> Result<Option<Arc<Inode>>, Errno> {
        match &self.folder.body {
            Body::Folder(inside) if !self.name.is_empty() => {
                Ok(inside.with(|folder| folder.names.get(&self.name).cloned()))
            }
            _ => Ok(self.inode.clone()),
        }
    }

    /// The same, or ENOENT.
    pub(super) fn found_now(&self) -> Result<Arc<Inode>, Errno> {
        let inode = self.now()?.ok_or(ENOENT)?;
        if self.wants_folder && !inode.is_folder() { Err(ENOTDIR) } else { Ok(inode) }
    }

    /// Puts a file under the name, where none is.
    pub(crate) fn create(&self, inode: &Arc<Inode>) -> Result<(), Errno> {
        CHANGES.with(|()| self.create_alone(inode))
    }

    fn create_alone(&self, inode: &Arc<Inode>) -> Result<(), Errno> {
        if self.now()?.is_some() || self.name.is_empty() {
            return Err(EEXIST);
        }
        if self.wants_folder && !inode.is_folder() {
            return Err(EISDIR);
        }
        self.check_there()?;
        let name = fit(try_text(&self.name))?;
        fit(inside(&self.folder)?.with(|folder| folder.names.insert(name, inode.clone())))?;
        if let Body::Folder(_) = inode.body {
            self.folder.attributes.with(|attributes| attributes.links += 1);
        }
        self.folder.note_written();
        Ok(())
    }

    /// A new folder under the name.
    pub(crate) fn create_folder(&self, mode: u32) -> Result<(), Errno> {
        let folder = OpenLock::new(order::FOLDER, Folder::new(Arc::downgrade(&self.folder)));
        self.create(&fit(Inode::new(Body::Folder(folder), mode))?)
    }

    /// Gives a file this name as well, unless it has lost its last one.
    pub(crate) fn link(&self, inode: &Arc<Inode>) -> Result<(), Errno> {
        CHANGES.with(|()| {
            if inode.attributes.with(|attributes| attributes.links == 0 && !attributes.may_be_named) {
                return Err(ENOENT);
            }
            self.create_alone(inode)?;
            inode
                .attributes
                .with(|attributes| (attributes.links, attributes.may_be_named) = (attributes.links + 1, false));
            Ok(())
        })
    }

    /// Takes the name away; of a folder only if `is_folder` is wanted, and it is empty.
    pub(crate) fn remove(&self, is_folder: bool) -> Result<(), Errno> {
        CHANGES.with(|()| {
            let inode = self.found_now()?;
            self.check_removable(&inode, is_folder)?;
            if self.name.is_empty() {
                return Err(EINVAL);
            }
            inside(&self.folder)?.with(|folder| folder.take(&self.name)).ok_or(ENOENT)?;
            self.count_removed(&inode);
            self.folder.note_written();
            Ok(())
        })
    }

    /// Refuses what has to stay there, or is not of the kind that is wanted.
    pub(super) fn check_removable(&self, inode: &Arc<Inode>, is_folder: bool) -> Result<(), Errno> {
        let is_root = self.name.is_empty() && Arc::ptr_eq(inode, &root());
        match (is_folder, &inode.body) {
            // Others are mounted there.
            (true, _) if is_root => Err(EBUSY),
            (true, Body::Made(_)) if inode.is_folder() && matches!(self.folder.body, Body::Folder(_)) => Err(EBUSY),
            (true, Body::Folder(inside)) if inside.with(|inside| inside.len() > 0) => Err(ENOTEMPTY),
            (true, Body::Folder(_))
            | (false, Body::Regular(_) | Body::Link(_) | Body::Device(_) | Body::Pipe(_) | Body::Counter(_)) => Ok(()),
            (true, _) => Err(ENOTDIR),
            (false, _) => Err(EISDIR),
        }
    }

    /// A file has lost its name here.
    pub(super) fn count_removed(&self, inode: &Arc<Inode>) {
        let is_folder = matches!(inode.body, Body::Folder(_));
        inode
            .attributes
            .with(|attributes| attributes.links = attributes.links.saturating_sub(1 + u32::from(is_folder)));
        if is_folder {
            self.folder.attributes.with(|attributes| attributes.links -= 1);
        }
    }
}

/// Takes every name away but the root's, as the machine ends. How many pages of files had names.
pub(crate) fn clear() -> u64 {
    let (mut at, mut pages) = (root(), 0);
    loop {
        let Ok(inside) = inside(&at) else { return pages };
        let mut names = inside.with(|folder| core::mem::take(&mut folder.names));
        // What is in a folder goes before it: a long way down takes no stack.
        names.retain(|_, inode| {
            let stays = matches!(&inode.body, Body::Folder(inside) if inside.with(|inside| inside.len() > 0));
            pages += if !stays && Arc::strong_count(inode) == 1 { inode.pages() } else { 0 };
            stays
        });
        let next = names.first().map(|(_, inode)| inode.clone());
        let above = inside.with(|folder| {
            folder.names = names;
            folder.parent.upgrade()
        });
        at = match next.or(above) {
            Some(next) => next,
            None => return pages,
        };
    }
}

/// Whether a folder is in another, or is that.
pub(super) fn is_within(folder: &Arc<Inode>, other: &Arc<Inode>) -> bool {
    let mut above = Some(folder.clone());
    while let Some(folder) = above {
        if Arc::ptr_eq(&folder, other) {
            return true;
        }
        above = match &folder.body {
            Body::Folder(inside) => inside.with(|inside| inside.parent.upgrade()),
            _ => None,
        };
    }
    false
}

/// The path of a folder from the root; nothing of one that was removed.
fn path_or_nothing(folder: &Arc<Inode>) -> Result<String, Errno> {
    match path_of(folder) {
        Err(ENOMEM) => Err(ENOMEM),
        path => Ok(path.unwrap_or_default()),
    }
}

/// The path of a folder from the root: ENAMETOOLONG if programs could not get it as a whole.
pub(crate) fn path_of(inode: &Arc<Inode>) -> Result<String, Errno> {
    CHANGES.with(|()| path_alone(inode))
}

fn path_alone(inode: &Arc<Inode>) -> Result<String, Errno> {
    // Backwards, from its end.
    let mut path: Vec<u8> = Vec::new();
    let mut at = inode.clone();
    loop {
        let parent = match &at.body {
            Body::Folder(inside) => inside.with(|inside| inside.parent.upgrade()),
            Body::Made(made) => return Ok(made.path()?),
            _ => return Err(ENOTDIR),
        };
        let Some(parent) = parent else { break };
        inside(&parent)?.with(|folder| {
            let found = folder.names.iter().find(|(_, one)| Arc::ptr_eq(one, &at));
            // It was removed.
            let (name, _) = found.ok_or(ENOENT)?;
            if path.len() + 1 + name.len() >= LONGEST_PATH {
                return Err(ENAMETOOLONG);
            }
            Ok(path.try_extend(name.bytes().rev().chain([b'/']))?)
        })?;
        at = parent;
    }
    path.reverse();
    if path.is_empty() { Ok(try_text("/")?) } else { String::from_utf8(path).map_err(|_| EINVAL) }
}
