//! Walks of the concrete machine: each word shows one of its visible values, a walk may go on from a kept table entry,
//! and what it met may be kept. (DDI 0487, D8.2; hardware update of descriptors: D8.5)

use alloc::vec::Vec;

use super::{Cached, Concrete};
use crate::context::Stage2;
use crate::descriptor::{Descriptor, Format, Hierarchy};
use crate::machine::Cpu;
use crate::syndrome::{Fault, FaultKind};
use crate::tlb::beneath::{flat, join};
use crate::tlb::entry::{Body, Entry, SpaceId, bytes};
use crate::tlb::holders::GLOBAL;
use crate::tlb::reach::leaf_entry;
use crate::tlb::space::Space;

/// Where a walk is.
#[derive(Clone, Copy)]
struct At {
    table: u64,
    is_located: bool,
    level: i8,
    base: u64,
    hierarchy: Hierarchy,
}

impl Concrete {
    /// Walks for `address` on `cpu`, in one of the contexts it may use. Returns what it found, kept or not.
    pub(super) fn walk(&mut self, cpu: u8, address: u64) -> Result<Cached, Fault> {
        let fault = Fault::stage1(FaultKind::Translation, 0);
        let (space, asid) = self.pick_context(cpu, address).ok_or(fault)?;
        if crate::tlb::space::is_flat(&self.machine.may().space(space).space) {
            return self.walk_flat(cpu, space, address);
        }
        self.walk_in(cpu, space, asid, address)
    }

    fn pick_context(&mut self, cpu: u8, address: u64) -> Option<(SpaceId, u32)> {
        let it: &Cpu = &self.machine.cpus()[cpu as usize];
        let registers = it.newest_registers();
        let tag = self.machine.regime(cpu, &registers)?;
        let fits = |space: &SpaceId| {
            let space = &self.machine.may().space(*space).space;
            let (first, last) = space.bounds();
            space.tag() == tag && first <= address && address <= last
        };
        let contexts: Vec<_> = it.contexts.iter().filter(|it| fits(&it.0)).map(|it| (it.0, it.1)).collect();
        if contexts.is_empty() { None } else { Some(*self.seed.pick(&contexts)) }
    }

    /// One of the values that `cpu`'s walker may see at `word`.
    fn glimpse(&mut self, cpu: u8, word: u64) -> u64 {
        let may = self.machine.may();
        let current = may.memory().word(word);
        let old = may.visible.old(word);
        if old.is_empty() {
            return current;
        }
        let mut values: Vec<u64> = old.iter().filter(|it| it.walkers >> cpu & 1 == 1).map(|it| it.value).collect();
        values.push(current);
        *self.seed.pick(&values)
    }

    fn walk_in(&mut self, cpu: u8, space: SpaceId, asid: u32, address: u64) -> Result<Cached, Fault> {
        let (description, has_stage2) = {
            let state = self.machine.may().space(space);
            (state.space, state.beneath)
        };
        let format = description.format();
        let geometry = *format.geometry();
        if description.is_beyond() {
            return Err(fault(&description, FaultKind::AddressSize, 0, address));
        }
        let mut at = self.start(cpu, space, asid, address);
        loop {
            let shift = geometry.slot_shift(at.level);
            let index = (address - at.base) >> shift;
            let place = at.table + index * 8;
            let word = match has_stage2 {
                Some(beneath) if !at.is_located => self.locate(cpu, beneath, place, true)?.1,
                _ => place,
            };
            let value = self.glimpse(cpu, word);
            let descriptor = format.settled(at.level, value);
            let own_start = at.base + (index << shift);
            match format.decode(at.level, descriptor, at.hierarchy) {
                Descriptor::Table { next, hierarchy } => {
                    self.keep_table(cpu, space, asid, &at, own_start, descriptor, next, hierarchy, word);
                    at = At { table: next, is_located: false, level: at.level + 1, base: own_start, hierarchy };
                }
                Descriptor::Leaf { output, attributes, is_untranslated } => {
                    self.set_access_flag(cpu, word, value, descriptor, &format);
                    let state = self.machine.may().space(space);
                    let mut entry = leaf_entry(state, space, at.level, own_start, descriptor, output, attributes);
                    if let (Some(beneath), Some(stage2)) = (has_stage2, description.stage2()) {
                        entry = self.combine(cpu, beneath, stage2, &entry, address)?;
                    }
                    return Ok(self.keep_leaf(cpu, asid, entry, word, address, is_untranslated));
                }
                Descriptor::Invalid => return Err(fault(&description, FaultKind::Translation, at.level, address)),
                Descriptor::AddressSize => return Err(fault(&description, FaultKind::AddressSize, at.level, address)),
                Descriptor::AccessFlag => return Err(fault(&description, FaultKind::AccessFlag, at.level, address)),
            }
        }
    }

    /// The root, or a table entry that `cpu` has kept. What a TLBI has passed by serves what is underway, and no new walk.
    fn start(&mut self, cpu: u8, space: SpaceId, asid: u32, address: u64) -> At {
        let kept: Vec<At> = self.tlbs[cpu as usize]
            .iter()
            .filter(|it| it.entry.space == space && it.asid == Self::asid_key(&it.entry, asid) && it.passed.is_none())
            .filter(|it| it.first <= address && address <= it.last)
            .filter_map(|it| match it.entry.body {
                Body::Table { next, hierarchy } => Some(At {
                    table: next,
                    is_located: true,
                    level: it.entry.level + 1,
                    base: it.entry.own_start,
                    hierarchy,
                }),
                Body::Leaf { .. } => None,
            })
            .collect();
        if !kept.is_empty() && !self.seed.one_in(4) {
            return *self.seed.pick(&kept);
        }
        let space = &self.machine.may().space(space).space;
        At {
            table: space.root(),
            is_located: false,
            level: space.geometry().start_level,
            base: space.bounds().0,
            hierarchy: Hierarchy::default(),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the decoded fields of one descriptor")]
    fn keep_table(
        &mut self,
        cpu: u8,
        space: SpaceId,
        asid: u32,
        at: &At,
        own_start: u64,
        descriptor: u64,
        next: u64,
        hierarchy: Hierarchy,
        word: u64,
    ) {
        if !self.seed.one_in(2) {
            return;
        }
        let state = self.machine.may().space(space);
        let (tag, geometry, beneath) = (state.space.tag(), *state.space.geometry(), state.beneath);
        let next = match beneath {
            None => next,
            Some(beneath) => match self.locate(cpu, beneath, next, true) {
                Ok((_, next)) => next,
                Err(_) => return,
            },
        };
        let own_log2 = geometry.slot_shift(at.level);
        let entry = Entry {
            tag,
            size_log2: own_log2,
            start: own_start,
            own_start,
            own_log2,
            level: at.level,
            granule: geometry.granule,
            is_combined: beneath.is_some(),
            second: None,
            descriptor,
            body: Body::Table { next, hierarchy },
            holes: 0,
            space,
        };
        let asid = Self::asid_key(&entry, asid);
        self.insert(cpu, Cached { entry, asid, first: entry.start, last: entry.last(), word, passed: None });
    }

    /// Keeps all of a leaf, a piece of it, or nothing.
    fn keep_leaf(
        &mut self,
        cpu: u8,
        asid: u32,
        entry: Entry,
        word: u64,
        address: u64,
        is_untranslated: bool,
    ) -> Cached {
        let asid = Self::asid_key(&entry, asid);
        let whole = Cached { entry, asid, first: entry.start, last: entry.last(), word, passed: None };
        if is_untranslated {
            return whole;
        }
        let mut kept = whole;
        if self.seed.one_in(3) {
            let size = bytes(entry.granule.shift());
            kept.first = address & !(size - 1);
            kept.last = kept.first + (size - 1);
            kept.first = kept.first.max(entry.start);
            kept.last = kept.last.min(entry.last());
        }
        self.insert(cpu, kept);
        whole
    }

    /// Hardware sets the access flag if the descriptor is still what was walked.
    fn set_access_flag(&mut self, cpu: u8, word: u64, value: u64, settled: u64, format: &Format<'_>) {
        let flag = crate::descriptor::ACCESS_FLAG;
        if settled & !value & flag != 0 && format.hardware().access_flag && self.machine.word(word) == value {
            self.machine.mark(cpu, word, value | flag);
        }
    }

    /// Stage 2 for `address`: from what is kept or by a walk. Returns its entry and the physical address.
    fn locate(&mut self, cpu: u8, beneath: SpaceId, address: u64, is_on_walk: bool) -> Result<(Entry, u64), Fault> {
        let kept: Vec<Cached> = self.tlbs[cpu as usize]
            .iter()
            .filter(|it| it.entry.space == beneath && !it.entry.is_table() && it.passed.is_none())
            .filter(|it| it.first <= address && address <= it.last)
            .copied()
            .collect();
        let found = if !kept.is_empty() && !self.seed.one_in(4) {
            *self.seed.pick(&kept)
        } else {
            self.walk_in(cpu, beneath, GLOBAL, address).map_err(|it| Fault { is_on_walk, ..it })?
        };
        let readable = found.entry.attributes().is_some_and(|it| it.permissions.has(1));
        if is_on_walk && !readable {
            let fault = Fault::stage2(FaultKind::Permission, found.entry.level, address);
            return Err(Fault { is_on_walk, ..fault });
        }
        Ok((found.entry, found.entry.output_at(address)))
    }

    fn combine(
        &mut self,
        cpu: u8,
        beneath: SpaceId,
        stage2: &Stage2,
        entry: &Entry,
        address: u64,
    ) -> Result<Entry, Fault> {
        let (second, _) = self.locate(cpu, beneath, entry.output_at(address), false)?;
        let joined = join(stage2, entry, &second);
        debug_assert!(joined.start <= address && address <= joined.last());
        Ok(joined)
    }

    fn walk_flat(&mut self, cpu: u8, space: SpaceId, address: u64) -> Result<Cached, Fault> {
        let (tag, beneath) = {
            let state = self.machine.may().space(space);
            (state.space.tag(), state.beneath)
        };
        let Some(beneath) = beneath else { return Err(Fault::stage1(FaultKind::Translation, 0)) };
        let (second, _) = self.locate(cpu, beneath, address, false)?;
        let entry = flat(tag, space, &second);
        Ok(self.keep_leaf(cpu, GLOBAL, entry, 0, address, false))
    }
}

fn fault(space: &Space, kind: FaultKind, level: i8, address: u64) -> Fault {
    match space {
        Space::One(_) => Fault::stage1(kind, level),
        Space::Two(_) => Fault::stage2(kind, level, address),
    }
}
