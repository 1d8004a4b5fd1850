//! Writing to text. Its pages have an alias that can be written in the lower half of the CPU that writes, for as long as that takes:
//! no other CPU ever has it, and no address can be both written and executed.
//!
//! ```text
//! TTBR0_EL1   a program's ──▶ the alias ──▶ a program's       masked; this CPU has forgotten the alias when the masks go
//! ```

use core::ops::Range;

use common::supply::{ChangeError, TableSource};
use hardware::maintenance::maintain;
use hardware::translation::exchange_lower;
use hardware::{cache, interrupts};
use pagetable::{El1, Scope};
use vmsa::registers::encode_ttbr;
use vmsa::{AddressHalf, Maintenance, PhysAddr, Stage1Attributes, TlbiOp};

use crate::cpus::calls;
use crate::facts::{facts, page_size};
use crate::memory::tables::{AnyTable, CAUTIOUS, READ_WRITE, map};
use crate::memory::{current, pages};

/// The aliases' ASID, on every CPU.
pub(crate) const ASID: u16 = 2;

/// Words that are stored with exceptions masked.
const MOST_WORDS: usize = 1024;
/// The most tables that an alias takes: of two pages that have no table in common but the root.
const MOST_TABLES: usize = 9;

/// Tables of an alias.
struct Tables([Option<PhysAddr>; MOST_TABLES]);

impl TableSource for Tables {
    fn take(&mut self) -> Option<PhysAddr> {
        let place = self.0.iter_mut().find(|place| place.is_none())?;
        *place = pages::allocate(0);
        *place
    }

    fn give(&mut self, table: PhysAddr) {
        let place = self.0.iter_mut().find(|place| **place == Some(table));
        place.and_then(Option::take).into_iter().for_each(pages::free_table);
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        self.0.iter_mut().filter_map(Option::take).for_each(pages::free_table);
    }
}

/// An alias of whole pages, which no CPU has yet.
pub(crate) struct Alias {
    ttbr0: u64,
    /// From physical addresses to the alias.
    offset: u64,
    _tables: Tables,
}

impl Alias {
    /// Of the pages that so many words at `memory` lie in.
    pub(crate) fn of(memory: PhysAddr, words: usize) -> Result<Self, ChangeError> {
        let (page, offset) = (page_size().size_bytes(), facts().workshop.offset);
        let (start, end) = (memory.bits() & !(page - 1), (memory.bits() + 4 * words as u64).next_multiple_of(page));
        let change = map(start..end, start.wrapping_add(offset), READ_WRITE.union(Stage1Attributes::NOT_GLOBAL));
        let (shape, regime) = (current::upper().shape(), El1 { scope: Scope::Asid(ASID), ..CAUTIOUS });
        let (hardware, mut tables) = (current::lower().hardware(), Tables([None; MOST_TABLES]));
        let mut changes = [change].into_iter();
        let table = AnyTable::build(hardware, shape, AddressHalf::Lower, regime, &mut changes, &mut tables)?;
        Ok(Self { ttbr0: encode_ttbr(shape.layout, table.root(), ASID, false), offset, _tables: tables })
    }

    /// Stores words, each of them at once: `word` gives each by its number. What it takes until CPUs execute them is
    /// [`fetch_anew`], and that each of them synchronizes.
    pub(crate) fn store(&self, memory: PhysAddr, words: Range<usize>, word: impl Fn(usize) -> u32) {
        let masks = interrupts::mask();
        // SAFETY: the tables are complete, by the granule and layout that this CPU translates by. What it held of this ASID it has
        // forgotten when the last alias went. What runs until the old map is back is in the upper half.
        let before = unsafe { exchange_lower(self.ttbr0) };
        let at = memory.bits().wrapping_add(self.offset) as *mut u32;
        for index in words {
            let place = at.wrapping_add(index);
            // SAFETY: text whose owner has it written; mapped.
            unsafe { place.write_volatile(word(index)) };
        }
        // SAFETY: it is what was there.
        unsafe { exchange_lower(before) };
        // What is left of the alias would be found under this ASID by the next one.
        maintain(Maintenance::Invalidate(TlbiOp::ASIDE1, u64::from(ASID) << 48));
        // It is gone when the call returns, so that its tables may be anybody's.
        maintain(Maintenance::DSB_NSH);
        // This CPU itself is sure of that.
        maintain(Maintenance::ISB);
        interrupts::restore(masks);
    }
}

/// Writes words of text that no CPU executes, and has every CPU fetch them from now on.
pub(crate) fn write(memory: PhysAddr, words: usize, word: impl Fn(usize) -> u32) -> Result<(), ChangeError> {
    let alias = Alias::of(memory, words)?;
    for first in (0..words).step_by(MOST_WORDS) {
        alias.store(memory, first..words.min(first + MOST_WORDS), &word);
    }
    fetch_anew(memory, words);
    calls::on_every_cpu(&|_| synchronize());
    Ok(())
}

/// Makes words that were stored what every CPU fetches, once it has synchronized.
pub(crate) fn fetch_anew(memory: PhysAddr, words: usize) {
    let start = facts().linear.address(memory).bits() as usize;
    cache::synchronize_aliased_instructions(start..start + 4 * words);
}

/// This CPU executes nothing any more that it fetched before.
pub(crate) fn synchronize() {
    maintain(Maintenance::ISB);
}
