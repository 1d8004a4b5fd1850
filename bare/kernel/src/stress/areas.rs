//! Areas of virtual addresses that have four fifths of free memory, each CPU an equal part of it: all at once before anything else is done,
//! and then by turns while the rest is. A third of each is read-only, a third is executed and goes before the rest, a third is as it came.
//!
//! ```text
//! area      |plain| read-only | executable | plain |      by blocks of every size; cut one page behind each third, within leaves
//! memory    ↑ in the linear map: the first two thirds cannot be written there either
//! ```

use core::sync::atomic::{AtomicU64, Ordering};

use hardware::per_cpu::MAX_CPUS;
use hardware::probe;
use hardware::translation::{read_translation, read_translation_to_write};
use kerncore::range::Bytes;
use linearmap::{Context, Wanted};
use vmsa::VirtAddr;

use super::tally::Came;
use super::text::{call, function};
use crate::console::say;
use crate::cpus::walkers;
use crate::facts::{facts, page_size, protects_aliases};
use crate::locks::{Lock, order};
use crate::memory::vmalloc::{Area, AreaError};
use crate::memory::{handed, linear_map, pages, poke};

/// What each CPU holds.
pub(super) struct Areas {
    /// Bytes that were free, and those that a realm's host had kept by then.
    free: u64,
    cpus: u64,
    held: [Lock<Option<Area>>; MAX_CPUS],
    /// Bytes that are held.
    bytes: AtomicU64,
    turns: AtomicU64,
}

impl Areas {
    /// For the CPUs that run, none of which holds anything yet, and those that come late.
    pub(super) fn new() -> Self {
        let late = facts().options.late_cpus.unwrap_or(0);
        let cpus = u64::from(walkers::running().count_ones()) + u64::from(late);
        let free = pages::with_pages(|pages| pages.free_bytes()) + lost();
        let counter = || AtomicU64::new(0);
        Self {
            free,
            cpus,
            held: [const { Lock::new(order::STRESS, None) }; MAX_CPUS],
            bytes: counter(),
            turns: counter(),
        }
    }

    /// What a CPU holds goes; a CPU that holds nothing takes its part.
    pub(super) fn turn(&self, cpu: usize) -> Came {
        self.turns.fetch_add(1, Ordering::Relaxed);
        let held = self.held[cpu].with(Option::take);
        let went = match held {
            Some(area) => self.release(area),
            None => self.take(cpu),
        };
        match went {
            Ok(true) => Came::Right,
            Ok(false) => Came::Wrong,
            Err(error) => {
                say!("stress: an area is refused: {error}");
                Came::Refused
            }
        }
    }

    /// Says how much is held.
    pub(super) fn tell(&self) {
        let bytes = Bytes(self.bytes.load(Ordering::Relaxed));
        let free = Bytes(pages::with_pages(|pages| pages.free_bytes()));
        say!("stress: {bytes} in areas of all CPUs, a third read-only, a third executable; {free} are free");
    }

    /// Nobody takes anything any more: what is held goes. Whether it was right.
    pub(super) fn end(self) -> bool {
        let held = self.held.iter().filter_map(|held| held.with(Option::take));
        let wrong = held.map(|area| self.release(area)).filter(|went| !matches!(went, Ok(true))).count();
        say!("stress: areas taken and released in {} turns", self.turns.load(Ordering::Relaxed));
        wrong == 0
    }

    fn take(&self, cpu: usize) -> Result<bool, AreaError> {
        let page = page_size().size_bytes();
        // What a host keeps is nobody's share.
        let third = self.free.saturating_sub(lost()) / 5 * 4 / self.cpus / 3 / page * page;
        let mut area = Area::take(3 * third).ok_or(AreaError::NoMemory)?;
        self.bytes.fetch_add(3 * third, Ordering::Relaxed);
        noted(&area).for_each(write);
        let text = area.range().start + (third + page);
        let is_put = put(text, function(cpu));
        // At both of its addresses before it is executable at one of them.
        area.protect(page..2 * third + page, true)?;
        linear_map::get().change(&[text..text + third], Wanted::Executable, Context::MayWait)?;
        // SAFETY: it was put there, and is executable now.
        let is_right = is_put && unsafe { call(text) } == cpu && is_right(&area);
        self.held[cpu].with(|held| *held = Some(area));
        Ok(is_right)
    }

    fn release(&self, mut area: Area) -> Result<bool, AreaError> {
        let (page, third) = (page_size().size_bytes(), third_of(&area));
        let (is_right, range) = (is_right(&area), area.range());
        let executable = third + page..2 * third + page;
        area.free(executable.clone())?;
        let is_mapped = |offset: u64| read_translation(range.start + offset).is_ok();
        let is_alone = is_mapped(executable.start - page) && is_mapped(executable.end);
        let is_gone = !is_mapped(executable.start) && !is_mapped(executable.end - page);
        // Its room may be another's from here on.
        drop(area);
        self.bytes.fetch_sub(3 * third, Ordering::Relaxed);
        let went = is_right && is_alone && is_gone;
        if !went {
            say!(
                "stress: the area at {} is wrong (held: {is_right}, freed in part: {is_alone} {is_gone})",
                range.start
            );
        }
        Ok(went)
    }
}

/// Bytes that a host has kept.
fn lost() -> u64 {
    handed::counts().1 * page_size().size_bytes()
}

/// A third of the bytes of an area.
fn third_of(area: &Area) -> u64 {
    (area.range().end - area.range().start) / 3
}

/// Words in each part, in the first page and the last; but for the first page of text.
fn noted(area: &Area) -> impl Iterator<Item = VirtAddr> {
    let (start, page, third) = (area.range().start, page_size().size_bytes(), third_of(area));
    [0, page, third, 2 * third, 2 * third + page, 3 * third - page].into_iter().map(move |offset| start + (offset + 8))
}

/// Whether each part is what it is to be, at both of its addresses, and holds what was written.
fn is_right(area: &Area) -> bool {
    let (start, page, third) = (area.range().start, page_size().size_bytes(), third_of(area));
    noted(area).all(|at| {
        let is_protected = (page..2 * third + page).contains(&(at - start));
        let alias = read_translation(at).map(|memory| facts().linear.address(memory));
        let is_so =
            |at, is_protected| read_translation(at).is_ok() && read_translation_to_write(at).is_ok() != is_protected;
        // SAFETY: memory of this area's, or a fault.
        let is_kept = unsafe { probe::read(at) } == Ok(at.bits());
        is_kept && is_so(at, is_protected) && alias.is_ok_and(|at| is_so(at, is_protected && protects_aliases()))
    })
}

fn write(at: VirtAddr) {
    // SAFETY: memory of an area that was just taken.
    unsafe { (at.bits() as *mut u64).write_volatile(at.bits()) };
}

/// Has a function be fetched from memory that was just taken.
fn put(at: VirtAddr, words: [u32; 2]) -> bool {
    // SAFETY: memory of an area that was just taken, which nobody executes yet.
    unsafe { (at.bits() as *mut [u32; 2]).write_volatile(words) };
    read_translation(at).map(|memory| poke::fetch_anew(memory, words.len())).is_ok()
}
