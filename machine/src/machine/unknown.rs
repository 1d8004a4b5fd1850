//! Memory that somebody else's program wrote, and of which the machine is told only what walks may read: whoever watches that
//! program asks here which tables a store or a register is about to link, tells what they hold, and lets it happen then.

use alloc::vec::Vec;

use super::Machine;
use super::release::Freed;
use crate::context::{Regime, contexts};
use crate::descriptor::{Descriptor, Hierarchy};
use crate::registers::Register;
use crate::tlb::entry::SpaceId;
use crate::tlb::places::Place;
use crate::tlb::space::{Space, is_flat};

/// A table that walks may come to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Link {
    space: SpaceId,
    level: i8,
    /// In output addresses of the page table: intermediate ones beneath a stage 2.
    table: u64,
}

/// A part of a table that lies in one page of 4 KiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Physical address of its first word.
    pub address: u64,
    /// How many words it has.
    pub words: usize,
}

impl Link {
    /// The level of the table, as a number from 0 on: one more than the manual's.
    pub const fn depth(&self) -> u8 {
        (self.level + 1) as u8
    }
}

impl Machine {
    /// The tables that walks come to once `word` holds `value`, at each place where `word` is a descriptor.
    pub fn links_at(&self, word: u64, value: u64) -> Vec<Link> {
        let places = self.may.places_of(word);
        places.iter().filter_map(|place| self.link(place.space, place.level, value)).collect()
    }

    /// The roots that `cpu` may walk from once `register` holds `value`, whether or not that is synchronized.
    pub fn links_by(&mut self, cpu: u8, register: Register, value: u64) -> Vec<Link> {
        let features = self.cpus[cpu as usize].features;
        self.cpus[cpu as usize].written.push((register, value));
        let possible = self.possible_registers(cpu);
        self.cpus[cpu as usize].written.pop();
        let mut links = Vec::new();
        for context in possible.iter().flat_map(|registers| contexts(registers, &features)) {
            // Stage 2 first: it says where the tables of stage 1 are.
            let stage2 = context.stage1.stage2.map(Space::Two);
            for space in stage2.into_iter().chain([Space::One(context.stage1)]) {
                let link =
                    Link { space: self.may.intern(space), level: space.geometry().start_level, table: space.root() };
                if !is_flat(&space) && !links.contains(&link) {
                    links.push(link);
                }
            }
        }
        links
    }

    /// True when some CPU may walk the page table of `link` from its root already.
    pub fn is_live(&self, link: &Link) -> bool {
        !self.may.space(link.space).live.is_empty()
    }

    /// The tables that the words of one piece of the table at `link` lead to.
    pub fn links_below(&self, link: &Link, words: &[u64]) -> Vec<Link> {
        words.iter().filter_map(|value| self.link(link.space, link.level, *value)).collect()
    }

    /// Where the table is, page by page; nothing where stage 2 has no answer.
    pub fn pieces_of(&self, link: &Link) -> Vec<Piece> {
        let slots = self.may.space(link.space).space.geometry().slots(link.level);
        let (mut slot, mut pieces) = (0, Vec::new());
        while slot < slots {
            let address = link.table + slot * 8;
            let words = slots.min(0x1000 / 8);
            let places = self.may.physical(link.space, address);
            pieces.extend(places.into_iter().map(|address| Piece { address, words: words as usize }));
            slot += words;
        }
        pieces
    }

    /// The word has held `value` for so long that every walker sees it: no event, and not for words that walks read.
    pub fn learn(&mut self, address: u64, value: u64) -> bool {
        let word = address & !7;
        let is_told = !self.may.visible.old(word).is_empty() || self.is_descriptor(word) && self.may.is_walked(word);
        if !is_told {
            self.may.learn(word, value);
        }
        !is_told
    }

    /// True when `word` is, or was when last somebody asked, part of a table.
    pub fn is_descriptor(&self, word: u64) -> bool {
        !self.is_plain(word) && !self.may.places_of(word).is_empty()
    }

    /// The lowest and the highest address at which a kernel's walk reads `word`: in an upper half, or in EL2 where that has one range.
    pub fn kernel_addresses(&self, word: u64) -> Option<(u64, u64)> {
        let is_kernels = |it: &&Place| match &self.may.space(it.space).space {
            Space::One(stage1) => stage1.is_upper || stage1.tag.regime == Regime::El2,
            Space::Two(_) => false,
        };
        let places = self.may.places_of(word);
        let ranges = places.iter().filter(is_kernels).map(|it| (it.start, it.last));
        ranges.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
    }

    /// True when no walk comes to the 4 KiB at `page`, by whatever is written or kept: no table is there any more.
    pub fn forget_unreached(&mut self, page: u64) -> bool {
        let freed = Freed { first: page, last: page + 0xfff };
        let is_kept = self.may.stale.leading_to(freed.first, freed.last).any(|(entry, _)| entry.is_table());
        if is_kept || !self.links_to(&freed).is_empty() {
            return false;
        }
        self.may.forget_table(page);
        self.is_plain(page)
    }

    fn link(&self, space: SpaceId, level: i8, value: u64) -> Option<Link> {
        match self.may.space(space).space.format().decode(level, value, Hierarchy::default()) {
            Descriptor::Table { next, .. } => Some(Link { space, level: level + 1, table: next }),
            _ => None,
        }
    }
}
