//! The may-TLB: for every CPU the set of all entries that could be cached now. It is the union of
//!  - what walks can reach: from the root of every live context, and from every kept table entry;
//!  - what was reachable from contexts that the CPU has left without invalidation (`kept`);
//!  - what no walk reaches any more but no completed TLBI has removed (`stale`).
//!
//! Only the last is stored, so a table of any size costs nothing until one of its words changes.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

use super::effort::Effort;
use super::entry::{Entry, SpaceId};
use super::found::{Found, Route, Seen, Sink};
use super::freed::FreedTables;
use super::holders::{Cpus, Holders};
use super::late::{LateFaults, Sweep, Unset};
use super::places::Index;
use super::question::{Question, Through};
use super::remembered::Remembered;
use super::space::{Kept, Space, SpaceState, is_flat};
use super::stale::Stale;
use super::visible::Visible;
use crate::attributes::Permissions;
use crate::context::{Stage1, Tag};
use crate::memory::Memory;
use crate::syndrome::{Fault, FaultKind};

/// What is not known of a store to memory that is no table yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unseen {
    /// Whose walkers may miss it.
    pub(crate) cpus: Cpus,
    /// CPUs that have stored over it.
    pub(crate) over: Cpus,
    /// The event at which its CPU gave a lock away behind it.
    pub(crate) settled: Option<u64>,
}

impl Hash for Unseen {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.cpus, self.over, self.settled.is_some()).hash(state);
    }
}

/// The memory, what walkers see of it, and what TLBs may hold.
#[derive(Clone, Debug, Default)]
pub struct May {
    pub(crate) memory: Memory,
    pub(crate) visible: Visible,
    spaces: Vec<SpaceState>,
    pub(crate) stale: Stale,
    pub(crate) index: Index,
    pub(super) remembered: Remembered,
    pub(crate) effort: Effort,
    /// Per CPU: stores since its last barrier that orders stores, with what they replaced.
    pub(crate) loose: BTreeMap<(u8, u64), (u64, Unseen)>,
    /// Per CPU: stores to memory that is no table yet, ordered but not finished by its DSB. For a table that is linked by a store
    /// order is enough; for one that a register names it is not.
    pub(crate) unseen: BTreeMap<(u8, u64), Unseen>,
    pub(crate) late: LateFaults,
    pub(crate) freed: FreedTables,
    pub(crate) sweeps: Vec<Sweep>,
    /// By word.
    pub(crate) unset: BTreeMap<u64, Unset>,
    /// Where these words are or were descriptors: page table, level, first input address, word.
    pub(super) unset_places: BTreeSet<(SpaceId, i8, u64, u64)>,
    /// A table that a page table uses at too many places: nothing is walked any more.
    pub(crate) overrun: Option<u64>,
}

impl May {
    /// From now on every answer is computed afresh.
    pub(crate) fn remember_nothing(&mut self) {
        self.remembered = Remembered::nothing();
    }

    /// Memory as it is now.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Entries that only a TLBI removes.
    pub fn stale(&self) -> &Stale {
        &self.stale
    }

    /// True when walks find nothing but what is written now.
    pub(crate) fn is_up_to_date(&self) -> bool {
        !self.stale.leads_on() && self.visible.words().next().is_none()
    }

    /// The page table behind a [`SpaceId`].
    pub fn page_table(&self, space: SpaceId) -> &Space {
        &self.space(space).space
    }

    pub(crate) fn space(&self, space: SpaceId) -> &SpaceState {
        &self.spaces[space as usize]
    }

    pub(crate) fn space_mut(&mut self, space: SpaceId) -> &mut SpaceState {
        &mut self.spaces[space as usize]
    }

    pub(crate) fn spaces(&self) -> impl Iterator<Item = (SpaceId, &SpaceState)> {
        self.spaces.iter().enumerate().map(|(id, state)| (id as SpaceId, state))
    }

    pub(crate) fn space_count(&self) -> SpaceId {
        self.spaces.len() as SpaceId
    }

    /// The number of `space`, new or not.
    pub(crate) fn intern(&mut self, space: Space) -> SpaceId {
        let beneath = space.stage2().map(|stage2| self.intern(Space::Two(*stage2)));
        if let Some(known) = self.spaces.iter().position(|state| state.space == space) {
            return known as SpaceId;
        }
        self.spaces.push(SpaceState {
            space,
            beneath,
            live: Holders::none(),
            kept: Kept::default(),
            hidden: BTreeMap::new(),
            has_global: false,
            is_forgotten: false,
            tables: BTreeSet::new(),
        });
        (self.spaces.len() - 1) as SpaceId
    }

    /// Everything of `tag` that could be in a TLB, or be met by a walk, for the addresses of `question`, with whoever
    /// could hold it.
    pub(crate) fn each_seen(&self, tag: Tag, question: &Question, sink: &mut dyn FnMut(&Seen<'_>, &Holders)) {
        self.each_reached(tag, question, sink);
        for (entry, record) in self.stale.overlapping(tag, question.first, question.last) {
            self.effort.spend();
            if entry.overlaps(question.first, question.last) {
                let mut route = Route::from(record.holders.cpus());
                route.is_current = false;
                route.is_through = matches!(question.through, Some(Through::Record(it)) if it == *entry);
                let found = Found::Entry { entry: *entry, is_untranslated: false };
                sink(&Seen { found, word: u64::MAX, route: &route }, &record.holders);
            }
        }
    }

    /// Like [`Self::each_seen`], without the entries that are stale themselves.
    pub(crate) fn each_reached(&self, tag: Tag, asked: &Question, sink: &mut dyn FnMut(&Seen<'_>, &Holders)) {
        let question = &if self.remembered.is_off() { asked.naive() } else { *asked };
        for (id, state) in self.spaces() {
            let is_asked = state.space.tag() == tag && state.is_used() && question.is_about(id);
            if !is_asked || question.near.is_some_and(|it| !self.may_meet(it, id)) {
                continue;
            }
            let walkers = state.live.cpus() | state.kept.holders.cpus();
            self.reach_root(id, walkers, question, &mut |seen| {
                self.effort.spend();
                let holders = match &seen.found {
                    _ if !asked.takes(seen) => return,
                    Found::Entry { entry, .. } => Self::root_holders(state, entry, seen.route),
                    Found::Fault { .. } => restricted(&state.live, seen.route.walkers),
                };
                if !holders.is_empty() {
                    sink(seen, &holders);
                }
            });
        }
        for (kept, record) in self.stale.tables(tag, question.first, question.last) {
            self.effort.spend();
            if question.is_about(kept.space) {
                self.reach_kept(kept, record.holders.cpus(), question, &mut |seen| {
                    self.effort.spend();
                    let holders = match &seen.found {
                        _ if !asked.takes(seen) => return,
                        Found::Entry { entry, .. } => Self::tagged(entry, &record.holders, seen.route.walkers),
                        Found::Fault { .. } => restricted(&record.holders, seen.route.walkers),
                    };
                    // Who walks on from what is kept holds it.
                    sink(seen, &holders);
                });
            }
        }
    }

    /// What walks of `space` may find. Where somebody walks, a CPU that comes later counts too: nothing is noted anew for that CPU.
    pub(super) fn each_met(&self, space: SpaceId, question: &Question, sink: Sink<'_>) {
        let state = self.space(space);
        if state.live.is_empty() {
            self.each_seen(state.space.tag(), question, &mut |seen, _| sink(seen));
        } else {
            self.each_ever(space, question, sink);
        }
    }

    /// The same, for every CPU that may ever come.
    pub(super) fn each_ever(&self, space: SpaceId, question: &Question, sink: Sink<'_>) {
        self.reach_root(space, !0, question, sink);
        for (entry, _) in self.stale.overlapping(self.space(space).space.tag(), question.first, question.last) {
            let found = Found::Entry { entry: *entry, is_untranslated: false };
            sink(&Seen { found, word: u64::MAX, route: &Route::from(!0) });
            self.reach_kept(entry, !0, question, sink);
        }
    }

    /// True when entries of both page tables may answer the same lookup: an ASID in common, or global entries.
    pub(crate) fn may_meet(&self, one: SpaceId, other: SpaceId) -> bool {
        let (one, other) = (self.space(one), self.space(other));
        let shares = |asid| other.live.exactly(asid) | other.kept.holders.exactly(asid) != 0;
        let mut asids = one.live.iter().chain(one.kept.holders.iter());
        one.has_global || other.has_global || !one.space.has_asid() || asids.any(|(asid, _)| shares(asid))
    }

    /// False when one page table is what stage 2 alone makes and the other is not: SCTLR_ELx.M is no field that a TLB may cache, so what
    /// was found with stage 1 off answers nothing once it is on, nor the other way round.
    pub(crate) fn is_alike(&self, one: SpaceId, other: SpaceId) -> bool {
        is_flat(&self.space(one).space) == is_flat(&self.space(other).space)
    }

    /// The fault of an access to `address` that needs `needed`, if the leaf `entry` or TCR.E0PDx does not permit it.
    pub(crate) fn refusal(&self, entry: &Entry, address: u64, needed: u8) -> Option<Fault> {
        let is_half_refused = needed > Permissions::EXECUTE
            && matches!(self.space(entry.space).space, Space::One(Stage1 { refuses_user: true, .. }));
        let whole = is_half_refused.then(|| Fault::stage1(FaultKind::Translation, 0));
        whole.or_else(|| entry.permission_fault(address, needed))
    }

    /// Who may hold `entry`, by whatever way.
    pub fn holders(&self, entry: &Entry) -> Holders {
        let mut holders = self.reachable_holders(entry);
        if let Some(record) = self.stale.get(entry) {
            holders.merge(&record.holders);
        }
        holders
    }

    /// Who may walk to `entry` now, or could when it left.
    pub(crate) fn reachable_holders(&self, entry: &Entry) -> Holders {
        self.agreed(&Question::of(entry), |question| {
            let mut holders = Holders::none();
            self.each_reached(entry.tag, question, &mut |seen, who| {
                if seen.is(entry) {
                    holders.merge(who);
                }
            });
            holders
        })
    }

    /// What `ask` finds by `question`; debug builds ask by its plainest form too.
    pub(super) fn agreed<T: PartialEq>(&self, question: &Question, ask: impl Fn(&Question) -> T) -> T {
        let found = ask(question);
        #[cfg(debug_assertions)]
        assert!(
            self.remembered.is_off() || self.effort.free(|| found == ask(&question.naive())),
            "{question:x?} leaves nothing out"
        );
        found
    }
}

fn restricted(holders: &Holders, cpus: Cpus) -> Holders {
    let mut some = holders.clone();
    some.restrict(cpus);
    some
}
