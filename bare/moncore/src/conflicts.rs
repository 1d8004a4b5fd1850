//! When and where TLB conflict aborts are to come, from a seed.
//!
//! A conflict has three steps. At a *moment*, a TLBI of the guest's or its announcement of a resize, addresses are chosen and
//! their pages are *armed*: stage 2 does not map them. The next access to one, whoever's and wherever, comes to the monitor
//! and takes a conflict abort, until the guest invalidates, or [`Settings::burst`] times. Then stage 2 maps the page again.

use core::ops::Range;

use kerncore::list::List;
use seed::Seed;
use vmsa::TlbiOp;
use vmsa::maintenance::TlbiName;

/// Addresses that can be listed, and resizes that can be under way at a time.
pub const MAX_ADDRESSES: usize = 8;
const MAX_RESIZES: usize = 16;
/// Pages that are armed at a time; the oldest that has not struck gives way. A resize that begins arms as many.
pub const MAX_ARMED: usize = 16;

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The seed of every choice.
    pub seed: u64,
    /// One TLBI, or resize, in so many is a moment; not 0.
    pub rate: u64,
    /// How many TLBIs pass before the first moment.
    pub after: u64,
    /// How often a conflict aborts before it goes away by itself, if no TLBI ends it ([`Conflicts::note_tlbi`]); not 0.
    pub burst: u64,
    /// Anywhere, not only where the guest has announced a resize.
    pub is_merciless: bool,
    /// The conflicts are stage 2's: the monitor's to handle, and nothing that a guest notices.
    pub is_stage2: bool,
    /// Addresses that each have one conflict, as soon as they are mapped.
    pub addresses: List<u64, MAX_ADDRESSES>,
}

impl Settings {
    /// Faithful, one moment in 16 TLBIs, one abort each.
    pub const DEFAULT: Self =
        Self { seed: 1, rate: 16, after: 0, burst: 1, is_merciless: false, is_stage2: false, addresses: List::new(0) };
}

/// A page that is armed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Armed {
    /// Its intermediate physical address.
    page: u64,
    /// The virtual address that it was chosen for.
    address: u64,
    /// Whether that was listed: no other page of virtual memory conflicts then.
    is_listed: bool,
    /// Aborts that are still to come.
    left: u64,
    /// The CPUs on which one has come, a bit each.
    struck: u64,
}

impl Armed {
    const NONE: Self = Self { page: 0, address: 0, is_listed: false, left: 0, struck: 0 };
}

/// An access that stage 2 refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Its virtual address.
    pub address: u64,
    /// Whether stage 1's walk made it.
    pub is_walk: bool,
    /// Whose it was; below 64.
    pub cpu: usize,
    /// Whether that CPU never raises a conflict abort (FEAT_BBM level 3): only a merciless one, or one that was listed, comes
    /// to it.
    pub is_immune: bool,
}

/// What becomes of an access to an armed page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strike {
    /// The guest takes a conflict abort; then the page is armed no more if `is_last`.
    Guest {
        /// Whether stage 2 is to map the page again: it has aborted [`Settings::burst`] times.
        is_last: bool,
    },
    /// The conflict is the monitor's to handle, and the page is armed no more.
    Stage2,
    /// No conflict may be there: the page is armed no more.
    Spared,
}

/// The choices of one run.
#[derive(Clone, Copy, Debug)]
pub struct Conflicts {
    settings: Settings,
    random: Seed,
    /// TLBIs that are still to pass before the first moment.
    to_pass: u64,
    /// What the guest is resizing, as it has announced: start and end.
    resizes: List<(u64, u64), MAX_RESIZES>,
    /// How many of the listed addresses have had their conflict.
    struck_addresses: usize,
    /// The oldest first, no page twice.
    armed: List<Armed, MAX_ARMED>,
}

/// What a guest's TLBI is executed as: one of everything as one of both stages, which alone is sure to end a conflict (RBLRKC).
pub fn of_both_stages(op: TlbiOp) -> TlbiOp {
    let both = match op.name() {
        TlbiName::VMALLE1 => TlbiOp::VMALLS12E1,
        TlbiName::VMALLE1IS => TlbiOp::VMALLS12E1IS,
        TlbiName::VMALLE1OS => TlbiOp::VMALLS12E1OS,
        _ => return op,
    };
    if op.is_without_xs() { both.without_xs() } else { both }
}

/// Bits of an address within the pages that stage 2 maps.
const PAGE_MASK: u64 = 0xfff;

impl Conflicts {
    /// Nothing has happened.
    pub const fn new(settings: Settings) -> Self {
        Self {
            settings,
            random: Seed::new(settings.seed),
            to_pass: settings.after,
            resizes: List::new((0, 0)),
            struck_addresses: 0,
            armed: List::new(Armed::NONE),
        }
    }

    /// What was asked for.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Notes that the guest begins to resize a range. Whether there was room to note it.
    pub fn begin_resize(&mut self, range: Range<u64>) -> bool {
        range.start < range.end && self.resizes.push((range.start, range.end)).is_ok()
    }

    /// Whether a resize that begins is a moment: conflicts may come from now on, while no TLBI has been executed yet.
    pub fn is_moment(&mut self) -> bool {
        self.to_pass == 0 && self.random.below(self.settings.rate) == 0
    }

    /// An address of a range that is not empty.
    pub fn choose_in(&mut self, range: &Range<u64>) -> u64 {
        range.start + self.random.below(range.end - range.start)
    }

    /// Notes that every TLB has forgotten what a range was. Whether its beginning had been announced.
    pub fn end_resize(&mut self, range: Range<u64>) -> bool {
        let found = self.resizes.iter().position(|resize| *resize == (range.start, range.end));
        found.map(|index| self.resizes.remove(index)).is_some()
    }

    /// Takes a page out of arms whose conflict may not come any more. To be asked after [`Self::end_resize`], until there is
    /// none.
    pub fn take_ended(&mut self) -> Option<u64> {
        let has_ended = |armed: &Armed| !armed.is_listed && !self.may_conflict(armed.address);
        let index = self.armed.iter().position(has_ended)?;
        Some(self.armed.remove(index).page)
    }

    /// A TLBI that a CPU below 64 has executed ends a conflict that has struck: an invalidation of all entries does, of the
    /// CPU's own or of every CPU's. One by address or by ASID is not sure to find all entries that conflict (RBLRKC).
    /// Gives a page to take out of arms, and is to be asked until there is none.
    pub fn note_tlbi(&mut self, op: TlbiOp, cpu: usize) -> Option<u64> {
        let cpus = match op.name() {
            TlbiName::VMALLE1 => 1 << cpu,
            TlbiName::VMALLE1IS | TlbiName::VMALLE1OS => u64::MAX,
            _ => 0,
        };
        let index = self.armed.iter().position(|armed| armed.struck & cpus != 0)?;
        Some(self.armed.remove(index).page)
    }

    /// Whether a TLBI is a moment, and for what virtual address. `pointers` are the guest's registers, which mostly lead to what
    /// it is working with. Behind an invalidation of everything, which is how a handler ends conflicts, none of that can conflict.
    pub fn choose(&mut self, op: TlbiOp, pointers: &[u64]) -> Option<u64> {
        if let Some(left) = self.to_pass.checked_sub(1) {
            self.to_pass = left;
            return None;
        }
        if let Some(address) = self.settings.addresses.get(self.struck_addresses) {
            return Some(*address);
        }
        if self.random.below(self.settings.rate) != 0 {
            return None;
        }
        if self.settings.is_merciless {
            if of_both_stages(op) != op {
                return None;
            }
            return pointers.get(self.random.below(pointers.len().max(1) as u64) as usize).copied();
        }
        let resizes = self.resizes.len() as u64;
        let (start, end) = *self.resizes.get(self.random.below(resizes.max(1)) as usize)?;
        Some(self.choose_in(&(start..end)))
    }

    /// Arms the page at an intermediate physical address, for a virtual address that was chosen. Gives a page that is armed
    /// no more. One whose conflict has struck stays as it is: until a TLBI ends it, it goes on.
    pub fn arm(&mut self, page: u64, address: u64) -> Option<u64> {
        let is_listed = self.settings.addresses.get(self.struck_addresses) == Some(&address);
        let before = self.armed.iter().position(|armed| armed.page == page);
        if before.is_some_and(|index| self.armed[index].struck != 0) {
            return None;
        }
        let oldest = self.armed.iter().position(|armed| armed.struck == 0).unwrap_or(0);
        let is_full = before.is_none() && self.armed.room() == 0;
        let gives_way = before.or(is_full.then_some(oldest)).map(|index| self.armed.remove(index).page);
        let armed = Armed { page, address, is_listed, left: self.settings.burst, struck: 0 };
        self.armed.push(armed).expect("one gave way if there was no room");
        gives_way.filter(|before| *before != page)
    }

    /// Whether a page is armed.
    pub fn is_armed(&self, page: u64) -> bool {
        self.armed.iter().any(|armed| armed.page == page)
    }

    fn may_conflict(&self, address: u64) -> bool {
        self.settings.is_merciless || self.resizes.iter().any(|(start, end)| (*start..*end).contains(&address))
    }

    /// An access to a page that stage 2 does not map. `None` where it is not armed, or not any more.
    pub fn strike(&mut self, page: u64, access: Access) -> Option<Strike> {
        let index = self.armed.iter().position(|armed| armed.page == page)?;
        let armed = self.armed[index];
        let may_conflict = match armed.is_listed {
            true => access.address & !PAGE_MASK == armed.address & !PAGE_MASK,
            false => self.may_conflict(access.address) && (self.settings.is_merciless || !access.is_immune),
        };
        if access.is_walk || !may_conflict {
            self.armed.remove(index);
            return Some(Strike::Spared);
        }
        if armed.is_listed && armed.struck == 0 {
            self.struck_addresses += 1;
        }
        if self.settings.is_stage2 {
            self.armed.remove(index);
            return Some(Strike::Stage2);
        }
        let is_last = armed.left == 1;
        if is_last {
            self.armed.remove(index);
        } else {
            self.armed[index] = Armed { left: armed.left - 1, struck: armed.struck | 1 << access.cpu, ..armed };
        }
        Some(Strike::Guest { is_last })
    }
}

#[cfg(test)]
mod tests;
