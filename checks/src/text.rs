//! A kernel that reads the instruction a program faulted by, beside whoever unmaps it: AT, then a load by the linear map, and between the
//! two others go on. What it does is `userspace`'s own.

use std::cell::Cell;
use std::rc::Rc;

use machine::event::Event;
use pagetable::Change;
use pagetable::El1;
use userspace::{Access, Kind, Text};
use vmsa::PhysAddr;

use crate::content::Content;
use crate::cpu::Cpu;
use crate::omission::Omission;
use crate::request::{Look, Reply, Request, Software};
use crate::scenario::{FRAMES, Scenario};

/// LDADD W0, W1, \[X2\]: what every frame begins with that nobody has written since it was mapped.
const ATOMIC: u64 = 0xb820_0041;

/// Different frames hold different data, and each begins with an atomic.
pub(crate) fn tag_frames(cpu: &Cpu<'_>, change: &Change<El1>) {
    if let Change::Map { to, .. } | Change::Remap { to, .. } = change {
        let (address, number) = (to.bits(), (to.bits() - FRAMES) >> 12);
        let value = number << 32 | ATOMIC;
        cpu.ask(Request::Event(Event::Store { address, value, is_release: false }));
    }
}

/// A kernel's way to the text of a program.
struct Reader<'s, 'y> {
    cpu: &'s Cpu<'y>,
    scenario: &'s Scenario,
    text: usize,
    linear: usize,
    /// What AT and the load come to.
    choices: Cell<(usize, usize)>,
    /// Where AT led last.
    kept: Cell<Option<PhysAddr>>,
}

/// Recognizes the instruction at `place` of a region, which a program is taken to have faulted by, once for each of `choices`.
pub(crate) fn recognize(
    cpu: &Cpu<'_>,
    scenario: &Scenario,
    (text, place, linear): (usize, u64, usize),
    choices: &[(usize, usize)],
) {
    let reader = Reader { cpu, scenario, text, linear, choices: Cell::default(), kept: Cell::default() };
    for choice in choices {
        reader.choices.set(*choice);
        let from = reader.number(Software::Settled(text));
        let access = Access { address: place, kind: Kind::Read }.made_at(place, &reader);
        let to = reader.number(Software::Latest(text));
        if let Some(wrong) = reader.wrong(access.kind == Kind::Atomic, place, from..=to) {
            reader.complain(wrong);
        }
    }
}

impl Reader<'_, '_> {
    fn number(&self, what: Software) -> usize {
        self.told(self.cpu.software(what)).unwrap_or_default() as usize
    }

    fn told(&self, reply: Reply) -> Option<u64> {
        match reply {
            Reply::Word(word) => Some(word),
            Reply::Done | Reply::Refused(_) => None,
        }
    }

    fn complain(&self, wrong: &str) {
        self.cpu.software(Software::Complain(Rc::from(wrong)));
    }

    /// What is wrong with it, where text may have held these contents: a hint may be old, but not older than the question; and where
    /// neither text nor linear map ever lacks the page, it is none.
    fn wrong(&self, is_atomic: bool, place: u64, held: std::ops::RangeInclusive<usize>) -> Option<&'static str> {
        let [text, linear] = [self.text, self.linear].map(|region| &self.scenario.regions[region].contents);
        let is_there = |content: &Content, at| content.find(at).is_some_and(|it| !it.is_kept);
        if is_atomic {
            let was_there = text[held].iter().any(|content| is_there(content, place));
            return (!was_there).then_some("an instruction is recognized that was gone before it was looked for");
        }
        let by_linear = text[0].find(place).and_then(|it| self.linear_address(it.output + (place - it.first)))?;
        let is_always = text.iter().all(|it| is_there(it, place)) && linear.iter().all(|it| is_there(it, by_linear));
        is_always.then_some("an atomic is not recognized that was there all the time")
    }

    /// Where the linear map leads to this physical address from.
    fn linear_address(&self, at: u64) -> Option<u64> {
        let stretches = self.scenario.regions[self.linear].contents[0].stretches();
        let found = stretches.iter().find(|it| at.wrapping_sub(it.output) < it.bytes)?;
        Some(found.first + (at - found.output))
    }
}

impl Text for Reader<'_, '_> {
    fn translate(&self, address: u64) -> Option<PhysAddr> {
        if let (Some(kept), Some(Omission::Asking)) = (self.kept.get(), self.scenario.omitted) {
            return Some(kept);
        }
        let look = Look { region: self.text, address, choice: self.choices.get().0, is_load: false };
        let found = self.told(self.cpu.ask(Request::Look(look))).map(PhysAddr::new);
        self.kept.set(found);
        found
    }

    fn load(&self, at: PhysAddr) -> Option<u32> {
        let address = self.linear_address(at.bits())?;
        let look = Look { region: self.linear, address, choice: self.choices.get().1, is_load: true };
        let word = self.told(self.cpu.ask(Request::Look(look)));
        if word.is_none() && self.scenario.omitted == Some(Omission::Fixup) {
            self.complain("a load of the kernel's faults, and nothing ends it");
        }
        word.map(|word| word as u32)
    }
}
