//! A word for each page of a region, which is moved, resized, cut, wiped and copied at every bound.

use std::sync::atomic::Ordering;

use libc::*;

use super::attempt;
use super::model::Model;
use super::watch;
use crate::machine::long;
use crate::memory::{ANONYMOUS, READ_WRITE};
use crate::{call, map, page};

/// A region: page `index` has the word `tag + index`.
struct Region {
    at: u64,
    pages: u64,
    tag: u64,
    is_shared: bool,
}

impl Region {
    fn bytes(&self) -> u64 {
        self.pages * page()
    }

    fn word(&self, index: u64) -> u64 {
        long(self.at + index * page()).load(Ordering::Relaxed)
    }

    fn fill(&self, from: u64) {
        (from..self.pages).for_each(|index| long(self.at + index * page()).store(self.tag + index, Ordering::Relaxed));
    }

    /// How many pages of the first `count` have another word.
    fn lost(&self, count: u64) -> Result<(), String> {
        let lost = (0..count).filter(|index| self.word(*index) != self.tag + index).count();
        if lost == 0 { Ok(()) } else { Err(format!("{lost} of {count} pages are lost")) }
    }

    /// Pages from `from` on are zeros; they are filled.
    fn is_fresh(&self, from: u64) -> Result<(), String> {
        let others = (from..self.pages).filter(|index| self.word(*index) != 0).count();
        self.fill(from);
        if others == 0 { Ok(()) } else { Err(format!("{others} of {} new pages are not zeros", self.pages - from)) }
    }
}

/// Bounds at which leaves end: pages, a contiguous group, a block, in bytes, as large as may be used.
fn unit(model: &mut Model) -> u64 {
    let units = [page(), 16 * page(), 32 * page(), watch::block()];
    let unit = model.random.one(&units);
    if unit <= model.budget { unit } else { 16 * page() }
}

/// So many pages: near a multiple of a unit, at most what may be used.
fn pages_near(model: &mut Model) -> u64 {
    let unit = unit(model);
    let most = (model.budget / unit).max(1);
    let count = 1 + model.random.below(most);
    let near = model.random.one(&[0, 0, 1, u64::MAX]);
    (count * unit / page()).wrapping_add(near).clamp(1, model.budget / page())
}

/// One region and a few changes of it.
pub(super) fn scene(model: &mut Model) -> Result<(), String> {
    let window = 2 * model.budget + 2 * watch::block().min(model.budget);
    let rights = ANONYMOUS | MAP_NORESERVE;
    let Ok(windows) = map(0, 2 * window, PROT_NONE, rights, -1, 0) else { return Ok(()) };
    let is_shared = model.random.once_in(4);
    let kind = if is_shared { MAP_SHARED | MAP_ANONYMOUS } else { ANONYMOUS };
    let at = place(model, windows);
    let mut region = Region { at, pages: pages_near(model), tag: model.random.draw() >> 8 | 1, is_shared };
    if map(region.at, region.bytes(), READ_WRITE, kind | MAP_FIXED | MAP_NORESERVE, -1, 0).is_ok() {
        region.fill(0);
        for _ in 0..1 + model.random.below(6) {
            model.get_on();
            let is_low = region.at < windows + window;
            let target = place(model, if is_low { windows + window } else { windows });
            let source = (region.at, region.bytes());
            change(model, &mut region, target).and_then(|()| region.lost(region.pages))?;
            if region.at != source.0 {
                map(source.0, source.1, PROT_NONE, rights | MAP_FIXED, -1, 0)
                    .map_err(|error| format!("room: {error}"))?;
            }
        }
    }
    attempt(SYS_munmap, &[region.at, region.bytes()]);
    call(SYS_munmap, &[windows, 2 * window]).map(|_| ()).map_err(|error| format!("munmap: {error}"))
}

/// An address of a window: a bound of a unit, or a page beside one.
fn place(model: &mut Model, window: u64) -> u64 {
    let unit = unit(model);
    let near = model.random.one(&[0, 0, page(), 16 * page(), (unit / 2) & !(page() - 1)]);
    window.next_multiple_of(unit) + near.min(unit)
}

/// One change, and what must hold then.
fn change(model: &mut Model, region: &mut Region, target: u64) -> Result<(), String> {
    let first = model.random.below(region.pages);
    let (start, bytes) = (region.at + first * page(), (1 + model.random.below(region.pages - first)) * page());
    match model.random.below(12) {
        0..=5 => moved(model, region, target),
        6 | 7 => cut(region, (start, bytes), target),
        8 if !region.is_shared => {
            attempt(SYS_madvise, &[start, bytes, MADV_DONTNEED as u64]);
            let lost = (first..first + bytes / page()).filter(|index| region.word(*index) != 0).count();
            region.fill(0);
            if lost == 0 { Ok(()) } else { Err(format!("{lost} pages are not zeros after MADV_DONTNEED")) }
        }
        9 => {
            attempt(SYS_mprotect, &[start, bytes, PROT_READ as u64]);
            attempt(SYS_mprotect, &[start, bytes, READ_WRITE as u64]);
            Ok(())
        }
        10 => {
            attempt(SYS_mlock, &[start, bytes]);
            attempt(SYS_munlock, &[region.at, region.bytes()]);
            Ok(())
        }
        _ if !region.is_shared => {
            model.attack_in_child((region.at, region.bytes()));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The whole region to an address, longer, shorter or as long as before; what is refused has changed nothing.
fn moved(model: &mut Model, region: &mut Region, target: u64) -> Result<(), String> {
    let pages = if model.random.once_in(2) { region.pages } else { pages_near(model) };
    // Shared anonymous memory does not grow: behind its end there is nothing.
    let pages = if region.is_shared { pages.min(region.pages) } else { pages };
    let before = region.pages;
    let arguments = [region.at, region.bytes(), pages * page(), (MREMAP_MAYMOVE | MREMAP_FIXED) as u64, target];
    match call(SYS_mremap, &arguments) {
        Ok(at) => {
            (region.at, region.pages) = (at, pages);
            region.lost(pages.min(before)).map_err(|line| format!("{line} by mremap of {before} pages to {pages}"))?;
            region.is_fresh(pages.min(before))
        }
        Err(error) if error.0 == ENOMEM => Ok(()),
        Err(error) => Err(format!("mremap of {before} pages to {pages}: {error}")),
    }
}

/// A part of the region to an address, and back.
fn cut(region: &Region, (start, bytes): (u64, u64), target: u64) -> Result<(), String> {
    let to = |from: u64, to: u64| call(SYS_mremap, &[from, bytes, bytes, (MREMAP_MAYMOVE | MREMAP_FIXED) as u64, to]);
    match to(start, target) {
        Ok(_) => {
            let first = (start - region.at) / page();
            let word = |index: u64| long(target + index * page()).load(Ordering::Relaxed);
            let lost = (0..bytes / page()).filter(|index| word(*index) != region.tag + first + index).count();
            let back = to(target, start).map_err(|error| format!("mremap of a part, back: {error}"));
            let rights = ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
            let _ = map(target, bytes, PROT_NONE, rights, -1, 0);
            back.and(if lost == 0 { Ok(()) } else { Err(format!("{lost} pages of a part are lost")) })
        }
        Err(error) if error.0 == ENOMEM => Ok(()),
        Err(error) => Err(format!("mremap of a part: {error}")),
    }
}
