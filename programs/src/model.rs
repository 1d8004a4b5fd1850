//! A window of addresses beside a model of it: which pages are there, whose they are, and the word that each must hold.
//!
//! ```text
//! a call ──▶ the kernel ──▶ the window        read page by page ──┐
//!    └─────▶ the model ──▶ a word for each page ──────────────────┴──▶ the first page that differs
//! ```

use std::io::Read;

use crate::machine::{call, exit, fork, long, page};
use crate::memory::{ANONYMOUS, READ_WRITE, map};
use crate::{Answer, child};

const FIXED: i32 = libc::MAP_FIXED;
const MOVE: i32 = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
const DONTUNMAP: i32 = 4;
/// What a descriptor of no file is.
const NONE: i32 = -1;
/// Where the window begins: a multiple of the block of each page size, far from what a kernel finds room for by itself.
const BASE: u64 = 1 << 34;

/// What a page holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    /// It is not there.
    Nothing,
    /// A word of its own.
    Own(u64),
    /// That of this page of the file.
    File(usize),
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    held: Held,
    rights: i32,
    /// Pages side by side of one number are one area on every kernel, which may have joined more.
    area: u64,
}

const GONE: Slot = Slot { held: Held::Nothing, rights: 0, area: 0 };

/// Addresses and a file that are this model's alone.
pub struct Model {
    slots: Vec<Slot>,
    file: i32,
    words: Vec<u64>,
    next_area: u64,
    next_word: u64,
    /// Calls that were made.
    pub calls: u64,
}

/// Pages, by their places in the window.
pub type Pages = std::ops::Range<usize>;

impl Model {
    /// A window of so many pages that begins at a multiple of a block, with nothing in it, and a file of as many pages. One at a time.
    pub fn new(pages: usize) -> Self {
        let bytes = pages as u64 * page();
        let file = call(libc::SYS_memfd_create, &[c"model".as_ptr() as u64, 0]).expect("a file") as i32;
        call(libc::SYS_ftruncate, &[file as u64, bytes]).expect("it grows");
        Self { slots: vec![GONE; pages], file, words: vec![0; pages], next_area: 1, next_word: 1, calls: 0 }
    }

    /// Pages of the window.
    pub fn pages(&self) -> usize {
        self.slots.len()
    }

    /// The address of a page.
    pub fn at(&self, index: usize) -> u64 {
        BASE + index as u64 * page()
    }

    fn bytes(pages: &Pages) -> u64 {
        pages.len() as u64 * page()
    }

    fn new_area(&mut self) -> u64 {
        self.next_area += 1;
        self.next_area
    }

    /// What lies behind pages that changed is another area than what lies before them.
    fn cut(&mut self, pages: &Pages) {
        let Some(behind) = self.slots.get(pages.end).map(|slot| slot.area).filter(|area| *area != 0) else { return };
        let fresh = self.new_area();
        self.slots[pages.end..].iter_mut().take_while(|slot| slot.area == behind).for_each(|slot| slot.area = fresh);
    }

    fn set(&mut self, pages: &Pages, rights: i32, held: impl Fn(usize) -> Held) {
        self.cut(pages);
        let area = self.new_area();
        for (place, index) in pages.clone().enumerate() {
            self.slots[index] = Slot { held: held(place), rights, area };
        }
    }

    /// The pages of the area that a page is in.
    pub fn area(&self, index: usize) -> Option<Pages> {
        let area = Some(self.slots[index].area).filter(|area| *area != 0)?;
        let start = (0..index).rev().take_while(|one| self.slots[*one].area == area).last().unwrap_or(index);
        let end = (index..self.pages()).take_while(|one| self.slots[*one].area == area).last()? + 1;
        Some(start..end)
    }

    /// Whether an area is a program's own memory.
    pub fn is_own(&self, index: usize) -> bool {
        matches!(self.slots[index].held, Held::Own(_))
    }

    /// Maps zeros of its own.
    pub fn map_own(&mut self, pages: &Pages) {
        self.made(map(self.at(pages.start), Self::bytes(pages), READ_WRITE, ANONYMOUS | FIXED, NONE, 0));
        self.set(pages, READ_WRITE, |_| Held::Own(0));
    }

    /// Maps pages of the file from `first` on.
    pub fn map_file(&mut self, pages: &Pages, first: usize) {
        let (at, offset) = (self.at(pages.start), first as u64 * page());
        self.made(map(at, Self::bytes(pages), READ_WRITE, libc::MAP_SHARED | FIXED, self.file, offset));
        self.set(pages, READ_WRITE, |place| Held::File(first + place));
    }

    /// Unmaps pages, be they there or not.
    pub fn unmap(&mut self, pages: &Pages) {
        self.made(call(libc::SYS_munmap, &[self.at(pages.start), Self::bytes(pages)]));
        self.cut(pages);
        self.slots[pages.clone()].fill(GONE);
    }

    /// Changes the rights of pages of one area.
    pub fn protect(&mut self, pages: &Pages, rights: i32) {
        self.made(call(libc::SYS_mprotect, &[self.at(pages.start), Self::bytes(pages), rights as u64]));
        self.renew(pages);
        self.slots[pages.clone()].iter_mut().for_each(|slot| slot.rights = rights);
    }

    /// Pages of one area are an area by themselves.
    fn renew(&mut self, pages: &Pages) {
        self.cut(pages);
        let area = self.new_area();
        self.slots[pages.clone()].iter_mut().for_each(|slot| slot.area = area);
    }

    /// Moves pages of one area to a place that they do not touch, where there are `count` then. Those of the file stay as many.
    pub fn remap(&mut self, from: &Pages, to: usize, count: usize) {
        let target = to..to + count;
        let sizes = [self.at(from.start), Self::bytes(from), Self::bytes(&target), MOVE as u64, self.at(to)];
        self.made(call(libc::SYS_mremap, &sizes));
        let moved: Vec<Slot> = self.slots[from.clone()].to_vec();
        self.cut(from);
        self.slots[from.clone()].fill(GONE);
        self.set(&target, moved[0].rights, |place| moved.get(place).map_or(Held::Own(0), |slot| slot.held));
    }

    /// Moves what pages of a program's own hold, and leaves zeros.
    pub fn remap_and_keep(&mut self, from: &Pages, to: usize) {
        let bytes = Self::bytes(from);
        let flags = (MOVE | DONTUNMAP) as u64;
        self.made(call(libc::SYS_mremap, &[self.at(from.start), bytes, bytes, flags, self.at(to)]));
        let moved: Vec<Slot> = self.slots[from.clone()].to_vec();
        self.set(&(to..to + from.len()), moved[0].rights, |place| moved[place].held);
        self.set(from, moved[0].rights, |_| Held::Own(0));
    }

    /// Maps what pages of the file show a second time.
    pub fn duplicate(&mut self, from: &Pages, to: usize) {
        let sizes = [self.at(from.start), 0, Self::bytes(from), MOVE as u64, self.at(to)];
        self.made(call(libc::SYS_mremap, &sizes));
        let shown: Vec<Slot> = self.slots[from.clone()].to_vec();
        self.set(&(to..to + from.len()), shown[0].rights, |place| shown[place].held);
    }

    /// Advises something of pages of one area that changes no word, or, MADV_DONTNEED, makes zeros of what is a program's own.
    pub fn advise(&mut self, pages: &Pages, advice: i32) {
        self.made(call(libc::SYS_madvise, &[self.at(pages.start), Self::bytes(pages), advice as u64]));
        if advice == libc::MADV_DONTNEED {
            self.slots[pages.clone()].iter_mut().filter(|slot| matches!(slot.held, Held::Own(_))).for_each(|slot| {
                slot.held = Held::Own(0);
            });
            return;
        }
        self.renew(pages);
    }

    /// Gives pages up that are a program's own, and takes those back that can be written, by a write: none other is one's again.
    pub fn free(&mut self, pages: &Pages) {
        if self.slots[pages.start].rights == READ_WRITE {
            self.made(call(libc::SYS_madvise, &[self.at(pages.start), Self::bytes(pages), libc::MADV_FREE as u64]));
            self.write(pages);
        }
    }

    /// Writes a new word to each page that can be written.
    pub fn write(&mut self, pages: &Pages) {
        for index in pages.clone() {
            if self.slots[index].rights & libc::PROT_WRITE == 0 {
                continue;
            }
            let word = self.next_word;
            self.next_word += 1;
            long(self.at(index)).store(word, std::sync::atomic::Ordering::Relaxed);
            match &mut self.slots[index].held {
                Held::Own(own) => *own = word,
                Held::File(number) => self.words[*number] = word,
                Held::Nothing => {}
            }
        }
    }

    /// Has a child look at all pages, write to its own, and end. Whether it found all as it should be.
    pub fn fork(&mut self) -> Result<(), String> {
        self.calls += 1;
        let Some(number) = fork() else {
            let seen = self.check();
            let own: Vec<usize> = (0..self.pages()).filter(|index| self.is_own(*index)).collect();
            own.iter().for_each(|index| self.write(&(*index..index + 1)));
            exit(i32::from(seen.and_then(|()| self.check()).is_err()));
        };
        match child::ended(child::wait(number)).as_str() {
            "ended with 0" => Ok(()),
            other => Err(format!("a child {other}")),
        }
    }

    /// Looks at every page that can be read. The error is the first that differs.
    pub fn check(&self) -> Result<(), String> {
        for (index, slot) in self.slots.iter().enumerate().filter(|(_, slot)| slot.rights & libc::PROT_READ != 0) {
            let expected = match slot.held {
                Held::Nothing => continue,
                Held::Own(word) => word,
                Held::File(number) => self.words[number],
            };
            let found = long(self.at(index)).load(std::sync::atomic::Ordering::Relaxed);
            if found != expected {
                return Err(format!("page {index} of the window has the word {found}, expected {expected}: {slot:?}"));
            }
        }
        Ok(())
    }

    /// Looks whether pages are there, or are not, as `mincore` has it.
    pub fn check_presence(&self, index: usize) -> Result<(), String> {
        let mut found = 0u8;
        let is_there = call(libc::SYS_mincore, &[self.at(index), page(), &raw mut found as u64]).is_ok();
        match is_there == (self.slots[index].held != Held::Nothing) {
            true => Ok(()),
            false => Err(format!("page {index} of the window is there: {is_there}, expected otherwise")),
        }
    }

    fn made(&mut self, answer: Answer) {
        self.calls += 1;
        answer.expect("the call is one that Linux carries out");
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let bytes = self.pages() as u64 * page();
        // The next model is at the same addresses.
        call(libc::SYS_munmap, &[BASE, bytes]).expect("the window is whole pages");
        call(libc::SYS_close, &[self.file as u64]).expect("the file is open");
    }
}

/// Pages of a block of the level above pages.
pub fn block() -> usize {
    page() as usize / 8
}

/// Free memory, in KiB.
pub fn free_kib() -> u64 {
    let mut text = String::new();
    let _ = std::fs::File::open("/proc/meminfo").and_then(|mut file| file.read_to_string(&mut text));
    let line = text.lines().find_map(|line| line.strip_prefix("MemFree:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
