//! Who a process runs as. Nobody is kept from files for it, but from what is the whole machine's or another user's: signals, limits, when
//! it runs.

use crate::fallible::Arc;
use alloc::vec::Vec;

use crate::errno::{EPERM, Errno};

/// All capabilities that Linux knows.
pub(crate) const ALL_CAPABILITIES: u64 = 0x1ff_ffff_ffff;
/// A number that is left as it is.
pub(crate) const KEEP: u32 = u32::MAX;

/// A user or a group: who began the process, as whom it acts, whom it may be again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ids {
    pub(crate) real: u32,
    pub(crate) effective: u32,
    pub(crate) saved: u32,
}

impl Ids {
    /// Whether it may be this one without being root.
    fn knows(&self, id: u32) -> bool {
        [KEEP, self.real, self.effective, self.saved].contains(&id)
    }

    /// `setuid`: root becomes somebody else for good.
    pub(crate) fn set(&mut self, id: u32, is_root: bool) -> Result<(), Errno> {
        match is_root {
            true => *self = Self { real: id, effective: id, saved: id },
            false if [self.real, self.saved].contains(&id) => self.effective = id,
            false => return Err(EPERM),
        }
        Ok(())
    }

    /// `setresuid`.
    pub(crate) fn set_three(&mut self, ids: [u32; 3], is_root: bool) -> Result<(), Errno> {
        if !is_root && !ids.iter().all(|id| self.knows(*id)) {
            return Err(EPERM);
        }
        let places = [&mut self.real, &mut self.effective, &mut self.saved];
        places.into_iter().zip(ids).filter(|(_, id)| *id != KEEP).for_each(|(place, id)| *place = id);
        Ok(())
    }
}

/// All that a process is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Users {
    pub(crate) user: Ids,
    pub(crate) group: Ids,
    /// In order, and shared with children: there may be many.
    pub(crate) groups: Option<Arc<Vec<u32>>>,
}

impl Users {
    pub(crate) fn groups(&self) -> &[u32] {
        self.groups.as_ref().map_or(&[], |groups| groups)
    }

    pub(crate) fn is_root(&self) -> bool {
        self.user.effective == 0
    }

    /// Whether it may know and change the limits of who is this user and this group.
    pub(crate) fn may_limit(&self, theirs: [Ids; 2]) -> bool {
        let is_all_of = |own: u32, ids: Ids| [ids.real, ids.effective, ids.saved] == [own; 3];
        let [user, group] = theirs;
        self.is_root() || is_all_of(self.user.real, user) && is_all_of(self.group.real, group)
    }

    /// Whether a signal may be sent to who is `other`.
    pub(crate) fn may_signal(&self, other: &Self) -> bool {
        let [own, theirs] = [&self.user, &other.user];
        let is_theirs = |id: u32| id == theirs.real || id == theirs.saved;
        self.is_root() || is_theirs(own.real) || is_theirs(own.effective)
    }
}
