//! Traces of a kernel that unmaps many pages and then gives away their frames: by every order, by leaf or by table, with
//! the right TLBIs, wrong ones or none.
#![allow(missing_docs, unreachable_pub)]

use std::fmt::Write;

use machine::seed::Seed;

const ROOT: u64 = 0x4000_0000;
const LEVEL_1: u64 = 0x4000_1000;
/// Tables of level 2, one after the other.
const LEVEL_2: u64 = 0x4100_0000;
/// Tables of level 3, one after the other.
const LEVEL_3: u64 = 0x8000_0000;
const FRAMES: u64 = 0x80_0000_0000;
/// Non-global, what software reads and writes.
const LEAF: u64 = 0x60_0000_0000_0f03 | FRAMES;
const ACCESS_FLAG: u64 = 1 << 10;
/// Where each table is linked a second time: this much further up.
const AGAIN: u64 = 1 << 38;

/// In which order pages lose their mapping, and their frames the owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    Ascending,
    Descending,
    Random,
}

/// What is stored to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// Every leaf, and one DSB after all.
    Leaf,
    /// Every leaf, and nothing after it.
    LeafUnfinished,
    /// One leaf after the other, each with its DSB, TLBI and free frame.
    EachAlone,
    /// The tables of level 3.
    Table,
    /// Every leaf, which stays, but its access flag is cleared where hardware sets it; and one DSB after all.
    Aged,
}

/// What follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tlbi {
    None,
    /// One for each page, or for the last-level table.
    Address,
    /// The same, and one DSB after all.
    Batch,
    /// One for each with an ASID that nobody uses.
    WrongAsid,
    /// One for all.
    Whole,
}

#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub pages: u64,
    pub order: Order,
    /// Every table of level 3 is linked at two places.
    pub is_shared: bool,
    pub by: By,
    pub tlbi: Tlbi,
}

impl Shape {
    /// Every shape of so many pages.
    pub fn all(pages: u64) -> Vec<Self> {
        let mut all = Vec::new();
        for (order, is_shared) in
            [(Order::Ascending, false), (Order::Descending, false), (Order::Random, false), (Order::Random, true)]
        {
            for (by, tlbis) in [
                (By::Leaf, &[Tlbi::None, Tlbi::Address, Tlbi::Batch, Tlbi::WrongAsid, Tlbi::Whole][..]),
                (By::LeafUnfinished, &[Tlbi::None, Tlbi::Batch, Tlbi::Whole]),
                (By::EachAlone, &[Tlbi::None, Tlbi::Address, Tlbi::WrongAsid]),
                (By::Table, &[Tlbi::None, Tlbi::Address, Tlbi::Batch, Tlbi::WrongAsid, Tlbi::Whole]),
                (By::Aged, &[Tlbi::Address, Tlbi::Batch]),
            ] {
                all.extend(tlbis.iter().map(|&tlbi| Self { pages, order, is_shared, by, tlbi }));
            }
        }
        all
    }

    /// How many frames are given away too early.
    pub fn findings(&self) -> u64 {
        let is_right = matches!(self.tlbi, Tlbi::Address | Tlbi::Batch | Tlbi::Whole) && self.by != By::LeafUnfinished;
        if is_right || self.by == By::Aged { 0 } else { self.pages }
    }

    fn places(&self) -> impl Iterator<Item = u64> {
        [0, AGAIN].into_iter().take(1 + usize::from(self.is_shared))
    }

    fn numbers(&self, count: u64) -> Vec<u64> {
        let mut numbers: Vec<u64> = (0..count).collect();
        match self.order {
            Order::Ascending => {}
            Order::Descending => numbers.reverse(),
            Order::Random => {
                let mut seed = Seed::new(count);
                (1..numbers.len()).rev().for_each(|at| numbers.swap(at, seed.below(at as u64 + 1) as usize));
            }
        }
        numbers
    }

    /// The trace.
    pub fn trace(&self) -> String {
        let mut text = String::from("vellum trace 1\ncpu 0 ets=2 tlb=2 hafdbs=1\n");
        self.memory(&mut text).expect("room");
        text += "0 msr tcr_el1 0x9500900010\n0 msr ttbr0_el1 0x1000040000000\n0 isb\n0 msr sctlr_el1 1\n0 isb\n";
        self.events(&mut text).expect("room");
        text
    }

    fn memory(&self, text: &mut String) -> std::fmt::Result {
        let (tables, frames) = (self.pages.div_ceil(512), self.numbers(self.pages));
        let middles = tables.div_ceil(512);
        writeln!(text, "memory {ROOT:#x} {:#x}", LEVEL_1 | 3)?;
        for place in self.places() {
            write!(text, "memory {:#x}", LEVEL_1 + (place >> 30) * 8)?;
            (0..middles).try_for_each(|it| write!(text, " {:#x}", (LEVEL_2 + (place >> 18) + it * 0x1000) | 3))?;
            writeln!(text)?;
            write!(text, "memory {:#x}", LEVEL_2 + (place >> 18))?;
            (0..tables).try_for_each(|it| write!(text, " {:#x}", (LEVEL_3 + it * 0x1000) | 3))?;
            writeln!(text)?;
        }
        write!(text, "memory {LEVEL_3:#x}")?;
        frames.iter().try_for_each(|it| write!(text, " {:#x}", LEAF | it << 12))?;
        writeln!(text)
    }

    fn events(&self, text: &mut String) -> std::fmt::Result {
        let frames = self.numbers(self.pages);
        let free = |text: &mut String, page: u64| {
            writeln!(text, "0 free frame {:#x} 0x1000", FRAMES | frames[page as usize] << 12)
        };
        for page in self.numbers(self.pages) {
            let aged = LEAF & !ACCESS_FLAG | frames[page as usize] << 12;
            match self.by {
                By::Table => {}
                By::Aged => writeln!(text, "0 store {:#x} {aged:#x}", LEVEL_3 + page * 8)?,
                _ => writeln!(text, "0 store {:#x} 0", LEVEL_3 + page * 8)?,
            }
            if self.by == By::EachAlone {
                writeln!(text, "0 dsb ishst")?;
                self.invalidate(text, page << 12)?;
                free(text, page)?;
            }
        }
        if self.by == By::Table {
            for table in self.numbers(self.pages.div_ceil(512)) {
                for place in self.places() {
                    writeln!(text, "0 store {:#x} 0", LEVEL_2 + (place >> 18) + table * 8)?;
                }
            }
        }
        if self.by != By::EachAlone {
            writeln!(text, "{}", if self.by == By::LeafUnfinished { "" } else { "0 dsb ishst" })?;
            if let Tlbi::Address | Tlbi::Batch | Tlbi::WrongAsid = self.tlbi {
                self.numbers(self.pages).into_iter().try_for_each(|page| self.invalidate(text, page << 12))?;
                if self.tlbi == Tlbi::Batch {
                    writeln!(text, "0 dsb ish\n0 isb")?;
                }
            } else {
                self.invalidate(text, 0)?;
            }
            self.numbers(self.pages).into_iter().try_for_each(|page| free(text, page))?;
        }
        Ok(())
    }

    fn invalidate(&self, text: &mut String, address: u64) -> std::fmt::Result {
        for place in self.places() {
            let operand = (address | place) >> 12;
            match self.tlbi {
                Tlbi::None => {}
                Tlbi::Address | Tlbi::Batch => writeln!(text, "0 tlbi vaae1is {operand:#x}")?,
                Tlbi::WrongAsid => writeln!(text, "0 tlbi vae1is {:#x}", 2 << 48 | operand)?,
                Tlbi::Whole => writeln!(text, "0 tlbi vmalle1is")?,
            }
        }
        if self.tlbi == Tlbi::Batch || self.tlbi == Tlbi::None && self.by != By::EachAlone {
            return Ok(());
        }
        writeln!(text, "0 dsb ish\n0 isb")
    }
}
