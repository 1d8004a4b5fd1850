//! Names that move: each move is one step, so that a name that is replaced is never without a file, and folders stay a tree.

use core::cmp::Ordering;

use super::inode::{Body, Folder, Inode};
use super::tree::{CHANGES, Place, inside, is_within};
use crate::errno::{EBUSY, EEXIST, EINVAL, EISDIR, ENOENT, ENOTDIR, EPERM, EXDEV, Errno};
use crate::fallible::{Arc, try_text};
use crate::locks::OpenLock;

/// Runs `body` with two folders, or with one that is both.
fn with_both<T>(
    one: &OpenLock<Folder>,
    other: &OpenLock<Folder>,
    body: impl FnOnce(&mut Folder, Option<&mut Folder>) -> T,
) -> T {
    match core::ptr::from_ref(one).cmp(&core::ptr::from_ref(other)) {
        Ordering::Equal => one.with(|one| body(one, None)),
        Ordering::Less => one.with(|one| other.with(|other| body(one, Some(other)))),
        Ordering::Greater => other.with(|other| one.with(|one| body(one, Some(other)))),
    }
}

impl Place {
    /// Has what is at two places change places.
    pub(crate) fn exchange(&self, other: &Self) -> Result<(), Errno> {
        CHANGES.with(|()| {
            let (own, theirs) = (self.found_now()?, other.found_now()?);
            if self.name.is_empty() || other.name.is_empty() {
                return Err(EBUSY);
            }
            let (Body::Folder(_), Body::Folder(_)) = (&self.folder.body, &other.folder.body) else {
                return Err(EXDEV);
            };
            if is_within(&other.folder, &own) || is_within(&self.folder, &theirs) {
                return Err(EINVAL);
            }
            self.set_both(other, Some(&theirs), &own)?;
            let own_links = i64::from(theirs.is_folder()) - i64::from(own.is_folder());
            for (folder, more) in [(&self.folder, own_links), (&other.folder, -own_links)] {
                folder
                    .attributes
                    .with(|attributes| attributes.links = attributes.links.wrapping_add_signed(more as i32));
            }
            Ok(())
        })
    }

    /// Moves what is at this place to another, and takes away what was there, if that `may_replace`.
    pub(crate) fn rename(&self, to: &Self, may_replace: bool) -> Result<(), Errno> {
        CHANGES.with(|()| {
            if to.name.is_empty() && !may_replace {
                return Err(EEXIST);
            }
            if self.name.is_empty() || to.name.is_empty() {
                return Err(EBUSY);
            }
            let (inode, old) = (self.found_now()?, to.now()?);
            if old.is_some() && !may_replace {
                return Err(EEXIST);
            }
            if to.wants_folder && !inode.is_folder() {
                return Err(ENOTDIR);
            }
            match (&self.folder.body, &to.folder.body) {
                (Body::Folder(_), Body::Folder(_)) => {}
                (Body::Made(_), Body::Made(_)) => return Err(EPERM),
                _ => return Err(EXDEV),
            }
            if old.as_ref().is_some_and(|old| Arc::ptr_eq(old, &inode)) {
                return Ok(());
            }
            // A folder cannot go into itself.
            if is_within(&to.folder, &inode) {
                return Err(EINVAL);
            }
            to.check_there()?;
            match old.as_ref().map(|old| (inode.is_folder(), old.is_folder())) {
                Some((true, false)) => return Err(ENOTDIR),
                Some((false, true)) => return Err(EISDIR),
                Some((_, is_folder)) => to.check_removable(old.as_ref().ok_or(ENOENT)?, is_folder)?,
                None => {}
            }
            self.set_both(to, None, &inode)?;
            old.iter().for_each(|old| to.count_removed(old));
            if let Body::Folder(_) = &inode.body {
                self.folder.attributes.with(|attributes| attributes.links -= 1);
                to.folder.attributes.with(|attributes| attributes.links += 1);
            }
            Ok(())
        })
    }

    /// Has this place hold `own`, if anything, and another `theirs`: in one step, so that nobody finds a name at neither or at both.
    fn set_both(&self, other: &Self, own: Option<&Arc<Inode>>, theirs: &Arc<Inode>) -> Result<(), Errno> {
        let (place, other_place) = (inside(&self.folder)?, inside(&other.folder)?);
        let name = try_text(&other.name)?;
        let set = |folder: &mut Folder| match own {
            Some(own) => folder.names.get_mut(&self.name).map(|name| core::mem::replace(name, own.clone())),
            None => folder.take(&self.name),
        };
        let before = with_both(place, other_place, |folder, other| {
            // Without room nothing has changed.
            let put = other.unwrap_or(&mut *folder).names.insert(name, theirs.clone());
            put.map(|old| [old, set(folder)])
        })?;
        drop(before);
        for (place, moved) in own.map(|own| (self, own)).into_iter().chain([(other, theirs)]) {
            if let Body::Folder(moved) = &moved.body {
                moved.with(|moved| moved.parent = Arc::downgrade(&place.folder));
            }
        }
        [self, other].iter().for_each(|place| place.folder.note_written());
        Ok(())
    }
}
