//! Accesses by virtual address: every answer that hardware could give.

use alloc::vec::Vec;

use super::Machine;
use crate::context::{Tag, current_vmid, is_host};
use crate::descriptor::ACCESS_FLAG;
use crate::event::Level;
use crate::finding::{Finding, Missing, Rule};
use crate::registers::{Ets, HCR_E2H, HCR_VM, Register, Registers, SCTLR_M};
use crate::rules::compatible;
use crate::syndrome::{AccessKind, Fault, FaultKind};
use crate::tlb::entry::{Entry, SpaceId};
use crate::tlb::found::{Found, Seen};
use crate::tlb::holders::Holders;
use crate::tlb::question::{Only, Question};
use crate::tlb::stale::Origin;
use crate::walker::combined::needed;

/// One possible answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Outcome {
    /// The access is made at this physical address.
    Translated(u64),
    /// A fault.
    Fault(Fault),
}

/// What hardware writes to a descriptor so that an access may be made: the access flag, the dirty state. (D8.5)
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Update {
    /// Physical address of the descriptor.
    pub word: u64,
    /// What it holds now.
    pub from: u64,
    /// What it will hold.
    pub to: u64,
}

/// One way in which an access may go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Way {
    /// Where it ends.
    pub outcome: Outcome,
    /// What hardware must write first.
    pub update: Option<Update>,
    /// A word whose newest value, of another CPU, it has seen: see [`Machine::observe`].
    pub observed: Option<u64>,
    /// For a fault that a walk brings which has not seen the newest value: the event since which that is settled. An access
    /// that is ordered behind that event does not go this way.
    pub settled: Option<u64>,
}

/// Every possible answer to one access, each once, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Answer {
    /// What could happen.
    pub outcomes: Vec<Outcome>,
}

impl Answer {
    /// The physical addresses that the access may reach.
    pub fn addresses(&self) -> impl Iterator<Item = u64> + '_ {
        self.outcomes.iter().filter_map(|it| match it {
            Outcome::Translated(address) => Some(*address),
            Outcome::Fault(_) => None,
        })
    }

    /// True when the access may fault for this reason.
    pub fn may_fault(&self, kind: FaultKind) -> bool {
        self.outcomes.iter().any(|it| matches!(it, Outcome::Fault(fault) if fault.kind == kind))
    }

    fn add(&mut self, outcome: Outcome) {
        if let Err(at) = self.outcomes.binary_search(&outcome) {
            self.outcomes.insert(at, outcome);
        }
    }
}

/// What an access looks for.
struct Lookup {
    cpu: u8,
    kind: AccessKind,
    needed: u8,
    address: u64,
    asids: Vec<u32>,
}

/// What was found for it.
#[derive(Default)]
struct Hits {
    answer: Answer,
    ways: Vec<Way>,
    cached: Vec<Entry>,
    is_new_valid: bool,
    late_fault: Option<u64>,
}

impl Hits {
    fn add(&mut self, outcome: Outcome, update: Option<Update>, observed: Option<u64>, settled: Option<u64>) {
        self.answer.add(outcome);
        self.ways.push(Way { outcome, update, observed, settled });
    }

    fn add_fault(&mut self, fault: Fault, settled: Option<u64>) {
        self.add(Outcome::Fault(fault), None, None, settled);
    }
}

impl Machine {
    /// The regime that `cpu` translates with at its exception level, or `None` where its MMU is off.
    pub(crate) fn regime(&self, cpu: u8, registers: &Registers) -> Option<Tag> {
        let it = &self.cpus[cpu as usize];
        let hcr = registers.get(Register::HcrEl2);
        let is_host = is_host(registers) && it.features.el2;
        if it.level == Level::El2 || it.level == Level::El0 && is_host {
            let is_on = registers.get(Register::SctlrEl2) & SCTLR_M != 0;
            return is_on.then_some(if hcr & HCR_E2H != 0 { Tag::EL20 } else { Tag::EL2 });
        }
        let is_on = registers.get(Register::SctlrEl1) & SCTLR_M != 0 || it.features.el2 && hcr & HCR_VM != 0;
        is_on.then(|| Tag::el10(current_vmid(registers, &it.features)))
    }

    /// An access by virtual address; the top byte is taken as part of the address.
    pub fn access(&mut self, cpu: u8, address: u64, kind: AccessKind) -> Answer {
        self.lookup(cpu, address, kind).answer
    }

    /// The same access, with what hardware must write to descriptors of stage 1 for each of its answers, in order.
    /// An answer that needs an update of a descriptor which has changed since is left out: hardware walks again.
    pub fn ways(&mut self, cpu: u8, address: u64, kind: AccessKind) -> Vec<Way> {
        let mut ways = self.lookup(cpu, address, kind).ways;
        ways.sort_unstable();
        ways.dedup();
        ways
    }

    /// Hardware of `cpu` sets the access flag or the dirty state in a descriptor.
    pub fn update_by_hardware(&mut self, cpu: u8, update: &Update) {
        self.event += 1;
        self.mark(cpu, update.word, update.to);
    }

    /// The same within an access.
    pub(crate) fn mark(&mut self, cpu: u8, word: u64, value: u64) {
        let origin = Origin { event: self.event, cpu, word: Some(word) };
        self.may.store_by_hardware(origin, word, value);
    }

    /// A walk of `cpu` has seen the newest value of `word`.
    pub fn observe(&mut self, cpu: u8, word: u64) {
        self.event += 1;
        self.may.visible.observe(cpu, word, self.event);
    }

    /// Since when every store over an old value of `word` is settled, if the walker of `cpu` may see one. With FEAT_ETS2 the
    /// CPU's own stores come before its faults without more; the rules ask for its DSB all the same. (RSPVBD)
    fn settled(&self, lookup: &Lookup, word: u64) -> Option<u64> {
        let (cpu, has_ets) = (lookup.cpu, self.is_ordered(lookup));
        let seen = self.may.visible.old(word).iter().filter(|old| old.walkers >> cpu & 1 == 1);
        let settled = seen.map(|old| if has_ets && old.writer == cpu { Some(0) } else { old.settled });
        settled.reduce(|one, other| Some(one?.max(other?))).flatten()
    }

    /// Whether FEAT_ETS2 orders the walk of an access after what comes before that: not of a fetch, which is no explicit one.
    /// (RNNFPF)
    fn is_ordered(&self, lookup: &Lookup) -> bool {
        self.cpus[lookup.cpu as usize].features.ets != Ets::None && lookup.kind != AccessKind::Fetch
    }

    /// The word of `seen`, if that shows its newest value, of another CPU, which not all walkers see yet.
    fn news(&self, cpu: u8, seen: &Seen<'_>) -> Option<u64> {
        let newest = self.may.visible.old(seen.word).last();
        let is_news = newest.is_some_and(|old| old.writer != cpu);
        (is_news && seen.route.is_current).then_some(seen.word)
    }

    fn lookup(&mut self, cpu: u8, address: u64, kind: AccessKind) -> Hits {
        self.event += 1;
        let mut hits = Hits::default();
        let registers = self.cpus[cpu as usize].newest_registers();
        let Some(tag) = self.regime(cpu, &registers) else {
            hits.add(Outcome::Translated(address), None, None, None);
            return hits;
        };
        let asids = self.usable_asids(cpu, tag);
        let is_user = self.cpus[cpu as usize].level == Level::El0;
        let lookup = Lookup { cpu, kind, needed: needed(kind, is_user), address, asids };
        let only = Some(Only::Leaves);
        let question = Question { wants_faults: true, only, ..Question::about(address, address) };
        self.may.each_seen(tag, &question, &mut |seen, holders| self.hit(&lookup, seen, holders, &mut hits));
        self.add_conflict(cpu, &mut hits);
        if hits.answer.outcomes.is_empty() {
            hits.add_fault(Fault::stage1(FaultKind::Translation, 0), None);
        }
        if let (true, Some(word)) = (hits.is_new_valid, hits.late_fault) {
            let mut finding = Finding::new(Rule::NotVisible, self.event, cpu, address);
            finding.missing = Missing::Visibility(word);
            self.report(finding);
        }
        hits
    }

    /// The ASIDs that its contexts have: the same in both halves.
    pub(crate) fn usable_asids(&self, cpu: u8, tag: Tag) -> Vec<u32> {
        let contexts = self.cpus[cpu as usize].contexts.iter();
        let its = contexts.filter(|(space, ..)| self.may.space(*space).space.tag() == tag);
        its.map(|(_, asid, _)| *asid).collect()
    }

    /// Whether the stages that `cpu` translates by now are those that made `entry`.
    pub(crate) fn may_use(&self, cpu: u8, entry: &Entry) -> bool {
        let own = |space: SpaceId| self.may.space(space).space.tag() == entry.tag;
        let contexts = &self.cpus[cpu as usize].contexts;
        contexts.iter().any(|(space, ..)| own(*space) && self.may.is_alike(*space, entry.space))
    }

    fn hit(&self, lookup: &Lookup, seen: &Seen<'_>, holders: &Holders, hits: &mut Hits) {
        let usable = |asid: &u32| holders.usable_by(*asid) >> lookup.cpu & 1 == 1;
        if !lookup.asids.iter().any(usable) {
            return;
        }
        let synchronized = self.cpus[lookup.cpu as usize].synchronized;
        match seen.found {
            Found::Fault { kind, level, is_stage2, is_on_walk, intermediate, is_old } => {
                if !seen.route.is_current {
                    hits.late_fault.get_or_insert(seen.word);
                }
                let fault = Fault { kind, level, is_stage2, is_on_walk, intermediate };
                match seen.route.is_current {
                    true => hits.add(Outcome::Fault(fault), None, self.news(lookup.cpu, seen), None),
                    false if is_old => hits.add_fault(fault, self.settled(lookup, seen.word)),
                    false => hits.add_fault(fault, None),
                }
            }
            Found::Entry { entry, .. } if entry.is_table() || !self.may_use(lookup.cpu, &entry) => {}
            Found::Entry { entry, is_untranslated } => {
                let late = self.may.late.of(seen.word).iter().find(|it| it.is_left_to(lookup.cpu, synchronized));
                if let (Some(late), false) = (late, self.is_ordered(lookup)) {
                    // A walk begun before the store was visible may still bring its fault.
                    hits.late_fault.get_or_insert(seen.word);
                    let fault = Fault::stage1(FaultKind::Translation, entry.level);
                    hits.add_fault(fault, Some(late.settled));
                }
                hits.is_new_valid |= seen.route.is_current;
                let outcome = match self.may.refusal(&entry, lookup.address, lookup.needed) {
                    Some(fault) => Outcome::Fault(fault),
                    None => Outcome::Translated(entry.output_at(lookup.address)),
                };
                match self.update(lookup, seen.word, &entry) {
                    Ok(update) => hits.add(outcome, update, self.news(lookup.cpu, seen), None),
                    Err(()) => hits.answer.add(outcome),
                }
                if is_untranslated {
                    // nT: the implementation may fault instead. (RMRRPW)
                    hits.add_fault(Fault::stage1(FaultKind::Translation, entry.level), None);
                } else {
                    hits.cached.push(entry);
                }
            }
        }
    }

    /// What hardware must write to `word` so that the access may be made through `entry`.
    ///
    /// # Errors
    /// It must write, but the word shows something else by now.
    fn update(&self, lookup: &Lookup, word: u64, entry: &Entry) -> Result<Option<Update>, ()> {
        if word == u64::MAX || entry.is_combined {
            return Ok(None);
        }
        let format = self.may.space(entry.space).space.format();
        let updated = |value: u64| match lookup.kind {
            AccessKind::Write => format.settled(entry.level, value),
            _ if format.hardware().access_flag => value | ACCESS_FLAG,
            _ => value,
        };
        let is_source = |value: u64| format.settled(entry.level, value) == entry.descriptor;
        let now = self.may.memory.word(word);
        let old = self.may.visible.old(word).iter().map(|it| it.value);
        match (is_source(now), updated(now) == now) {
            (true, true) => Ok(None),
            (true, false) => Ok(Some(Update { word, from: now, to: updated(now) })),
            _ if old.into_iter().any(|it| is_source(it) && updated(it) == it) => Ok(None),
            _ => Err(()),
        }
    }

    /// Two entries for one address that must not be there together may be noticed as such, below BBM level 3.
    fn add_conflict(&self, cpu: u8, hits: &mut Hits) {
        let bbm = self.cpus[cpu as usize].features.bbm;
        // Level 2 permits different sizes, and yet the abort: what no level permits is asked. (IHYQMB)
        let differ = |one, two| compatible(one, two, 0, &self.may.memory).is_some();
        if bbm < 3 && hits.cached.iter().any(|one| hits.cached.iter().any(|two| differ(one, two))) {
            hits.add_fault(Fault::stage1(FaultKind::Conflict, 0), None);
        }
    }
}
