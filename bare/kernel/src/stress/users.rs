//! What lives on the linear map beside what changes: modules, text, memory that is shared with a realm's host, memory that goes and
//! comes, each for a moment; and areas of most of memory.

use core::sync::atomic::{AtomicU64, Ordering};

use hardware::probe;
use hardware::translation::{read_translation, read_translation_to_write};
use kerncore::range::PhysicalRange;
use seed::Seed;
use vmsa::PhysAddr;

use super::areas::Areas;
use super::coming::Coming;
use super::sample::Sample;
use super::tally::Came;
use super::text::{call, function};
use crate::console::say;
use crate::facts::{facts, page_size};
use crate::memory::executable::Text;
use crate::memory::handed::{self, NotHanded};
use crate::memory::pages;
use crate::memory::shared::Shared;

/// One operation in so many is to load a module, to have text, to share a few pages, to share single ones, to take an area or release it.
const MODULES: u64 = 16;
const TEXTS: u64 = 16;
const SHARES: u64 = 16;
const SINGLES: u64 = 16;
const TURNS: u64 = 16;
/// Bytes of a text, log2 of the pages that are shared at once, and how many single ones: at most.
const TEXT_BYTES: usize = 32 << 10;
const MOST_ORDER: usize = 4;
const MOST_SINGLES: usize = 8;

/// The module, and how often each was there.
pub(super) struct Users {
    module: Option<Sample>,
    modules: AtomicU64,
    texts: AtomicU64,
    shared: AtomicU64,
    stopped: AtomicU64,
    coming: Coming,
    pub(super) areas: Areas,
}

impl Users {
    /// With the module of the initial RAM disk, which says nothing when it goes.
    pub(super) fn new() -> Self {
        let counter = || AtomicU64::new(0);
        let (modules, texts, shared, stopped) = (counter(), counter(), counter(), counter());
        Self { areas: Areas::new(), module: Sample::find(), modules, texts, shared, stopped, coming: Coming::new() }
    }

    /// Has one of them for a moment, or none.
    pub(super) fn use_one(&self, cpu: usize, seed: &mut Seed) -> Came {
        let mut worst = Came::Right;
        let mut count = |came: Came, counter: &AtomicU64| match came {
            Came::Right => _ = counter.fetch_add(1, Ordering::Relaxed),
            Came::Stopped => _ = self.stopped.fetch_add(1, Ordering::Relaxed),
            other => worst = other,
        };
        if let Some(module) = self.module.as_ref().filter(|_| seed.one_in(MODULES)) {
            count(module.load(cpu), &self.modules);
        }
        if seed.one_in(TEXTS) {
            count(execute(8 + seed.index(TEXT_BYTES - 8) as u64, cpu), &self.texts);
        }
        if seed.one_in(SHARES) {
            count(share(seed.index(MOST_ORDER + 1)), &self.shared);
        }
        if seed.one_in(SINGLES) {
            count(share_singles(1 + seed.index(MOST_SINGLES)), &self.shared);
        }
        let turned = if seed.one_in(TURNS) { self.areas.turn(cpu) } else { Came::Right };
        [turned, self.coming.use_one(cpu, seed)].into_iter().fold(worst, Came::and)
    }

    /// Nobody has one any more, and areas go. Whether they were right, and all is withheld that was.
    pub(super) fn end(self) -> bool {
        self.tell();
        self.areas.end() && self.coming.end()
    }

    fn tell(&self) {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        match self.module {
            Some(_) => say!("stress: {} modules loaded, called by every CPU and unloaded", value(&self.modules)),
            None => say!("stress: no module is in the initial RAM disk"),
        }
        let (texts, shared, stopped) = (value(&self.texts), value(&self.shared), value(&self.stopped));
        say!("stress: {texts} texts executed; memory shared {shared} times, {stopped} times a host stopped");
    }
}

/// Has text that this CPU executes, and nobody can write.
fn execute(bytes: u64, cpu: usize) -> Came {
    let Some(text) = Text::take(bytes) else { return Came::Refused };
    let words = function(cpu);
    if !text.write(words.len(), |index| words[index]) {
        return Came::Refused;
    }
    let at = text.range().start;
    let alias = read_translation(at).map(|memory| facts().linear.address(memory));
    let is_safe = [Ok(at), alias].into_iter().all(|at| at.is_ok_and(|at| read_translation_to_write(at).is_err()));
    // SAFETY: it was just written there, for every CPU.
    if unsafe { call(at) } == cpu && is_safe {
        return Came::Right;
    }
    say!("stress: the text at {at} is wrong");
    Came::Wrong
}

/// Whether a page leads there, and keeps what is written to it.
fn is_right(page: PhysAddr, output: PhysAddr) -> bool {
    let at = facts().linear.address(page);
    // SAFETY: a page of the caller's.
    let is_written = unsafe { probe::write(at, !page.bits()) }.is_ok();
    // SAFETY: as above.
    let is_read = unsafe { probe::read(at) } == Ok(!page.bits());
    let is_right = is_written && is_read && read_translation(at) == Ok(output);
    if !is_right {
        say!("stress: {at} should lead to {output}");
    }
    is_right
}

/// Shares a block of pages with the realm's host, and takes it back.
fn share(order: usize) -> Came {
    let Some(first) = pages::allocate(order) else { return Came::Refused };
    let bytes = page_size().size_bytes();
    let range = PhysicalRange::from_size(first, bytes << order);
    let away = facts().realm.map_or(0, |realm| realm.unprotected());
    let lead = |away: u64| (0..1 << order).map(|number| first + number * bytes).all(|page| is_right(page, page + away));
    let went = handed::set_memory_decrypted(range).and_then(|()| {
        let is_right = lead(away);
        handed::set_memory_encrypted(range).map(|()| is_right && lead(0))
    });
    match went {
        Ok(is_right) => {
            pages::free(first, order);
            if is_right { Came::Right } else { Came::Wrong }
        }
        Err(NotHanded::Refused(refused)) => {
            say!("stress: {range} does not change hands: {refused}");
            Came::Wrong
        }
        Err(NotHanded::Stopped(..) | NotHanded::NotShown(_)) => {
            handed::free_rest(first, order);
            // Elsewhere nobody can have stopped.
            if facts().realm.is_some() { Came::Stopped } else { Came::Wrong }
        }
    }
}

/// Has single pages of the pool.
fn share_singles(count: usize) -> Came {
    let mut all = [const { None }; MOST_SINGLES];
    all[..count].iter_mut().for_each(|place| *place = Shared::take());
    let away = facts().realm.map_or(0, |realm| realm.unprotected());
    let is_right =
        all.iter().flatten().all(|shared| is_right(PhysAddr::new(shared.output().bits() & !away), shared.output()));
    match (all[count - 1].is_some(), facts().realm.is_some()) {
        _ if !is_right => Came::Wrong,
        (true, _) => Came::Right,
        (false, true) => Came::Stopped,
        (false, false) => Came::Refused,
    }
}
