//! What caches could do to data that is written through them and read past them, or the other way, and to instructions.
//!
//! Memory has one value, the newest; per line it is noted who may see another one. A clean copy may be fetched by anybody at
//! any time, and an instruction cache may keep what it once held. Maintenance counts from a DSB for loads and stores of its
//! CPU on, of a domain wide enough: inner shareable to the point of unification, outer shareable to the point of coherency,
//! for that is what accesses are with the MMU off. (DDI 0487, B2.7, D7.5)

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use a64::instruction::Cache;
use machine::barrier::{Accesses, Barrier, Domain};

/// Bytes of a line: the largest there is, so that what shares one by mistake shows.
pub const LINE: u64 = 2048;
/// CTR_EL0 with that size for data and instructions, as the logarithm of words.
pub const CTR: u64 = 9 << 16 | 9;

/// Data in one line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Line {
    /// A cache holds it and will write it back: over whatever is in memory.
    is_dirty: bool,
    /// Memory lacks what was written last: that is in a cache.
    is_memory_old: bool,
    /// A cache may hold what was there before it was written past the caches.
    is_cache_old: bool,
    /// A store past the caches that no barrier orders before later stores yet.
    is_loose: bool,
    /// The same, before later maintenance of its line: that a barrier for stores alone does it is nowhere promised.
    is_racing: bool,
}

/// How far instructions that were written are from being fetched.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Code {
    /// In a data cache alone.
    Written,
    /// At the point of unification; instruction caches may hold what was there before.
    Unified,
    /// Dropped from instruction caches; this CPU may have fetched it before.
    Dropped,
}

/// One operation that is not complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Open {
    cpu: usize,
    operation: Cache,
    /// The line; 0 for all of them.
    line: u64,
    /// A store or another operation that it must come after may still come after it.
    is_early: bool,
}

/// The caches of a machine.
#[derive(Clone, Debug, Default)]
pub struct Caches {
    lines: BTreeMap<u64, Line>,
    /// Code that was written, or left over.
    code: Vec<(Range<u64>, Code)>,
    /// A word whose new value tells that others have theirs.
    flag: Option<u64>,
    open: Vec<Open>,
    /// Lines of page tables.
    tables: BTreeSet<u64>,
}

const fn line_of(address: u64) -> u64 {
    address & !(LINE - 1)
}

impl Caches {
    /// A loader has left dirty lines over a range.
    pub fn leave_dirty(&mut self, range: Range<u64>) {
        for line in range.step_by(LINE as usize) {
            self.lines.entry(line_of(line)).or_default().is_dirty = true;
        }
    }

    /// Instruction caches may hold other code from before.
    pub fn leave_old_code(&mut self, range: Range<u64>) {
        self.code.push((range, Code::Unified));
    }

    /// From now on a store to `address` tells another CPU that what was stored before it is there.
    pub fn set_flag(&mut self, address: u64) {
        self.flag = Some(address);
    }

    /// A word of a page table.
    pub fn note_table(&mut self, address: u64) {
        self.tables.insert(line_of(address));
    }

    /// Instructions are written, through the caches.
    pub fn write_code(&mut self, address: u64) {
        self.code.push((address..address + 4, Code::Written));
    }

    /// A store, through the caches or past them. Errors: other bytes of the line are newer elsewhere.
    pub fn store(&mut self, address: u64, is_through: bool) -> Result<(), String> {
        if self.flag == Some(address) && self.lines.values().any(|line| line.is_loose) {
            return Err(format!("{address:#x} may be seen before what was stored past the caches before it"));
        }
        let line = self.lines.entry(line_of(address)).or_default();
        if is_through && line.is_cache_old {
            return Err(format!("{address:#x} is stored to a line that was written past the caches and may be old"));
        }
        if !is_through && line.is_memory_old {
            return Err(format!("{address:#x} is stored past a line that a cache holds dirty"));
        }
        if is_through {
            (line.is_dirty, line.is_memory_old) = (true, true);
        } else {
            (line.is_cache_old, line.is_loose, line.is_racing) = (true, true, true);
        }
        Ok(())
    }

    /// A load, through the caches or past them. Errors: it may not see what was written last.
    pub fn load(&self, address: u64, is_through: bool) -> Result<(), String> {
        let line = self.lines.get(&line_of(address)).copied().unwrap_or_default();
        if is_through && line.is_cache_old {
            return Err(format!("{address:#x} was written past the caches, and one may hold what was there before"));
        }
        if !is_through && line.is_memory_old {
            return Err(format!("{address:#x} is read past the caches, and one holds what was written last"));
        }
        if !is_through && line.is_dirty && line.is_cache_old {
            return Err(format!("a dirty line may by now have been written over {address:#x}"));
        }
        Ok(())
    }

    /// A fetch. Errors: it may not see what was written last.
    pub fn fetch(&self, address: u64) -> Result<(), String> {
        match self.code.iter().find(|(range, _)| range.contains(&address)).map(|it| it.1) {
            None => Ok(()),
            Some(Code::Written) => Err(format!("the code at {address:#x} may still be in a data cache alone")),
            Some(Code::Unified) => Err(format!("an instruction cache may hold other code for {address:#x}")),
            Some(Code::Dropped) => Err(format!("the code at {address:#x} may have been fetched before it was there")),
        }
    }

    /// Table walks begin, through the caches. Errors: a table that they may not see.
    pub fn walk(&self) -> Result<(), String> {
        let old = self.tables.iter().find(|line| self.load(**line, true).is_err());
        old.map_or(Ok(()), |line| Err(format!("a walk may read what a cache held of the table at {line:#x} before")))
    }

    /// DC or IC of `cpu`; the address is physical.
    pub fn maintain(&mut self, cpu: usize, operation: Cache, address: u64) {
        let line = line_of(address);
        let is_early = match operation {
            Cache::InvalidateInstructions => self.code_in(line).any(|state| *state == Code::Written),
            Cache::InvalidateAllInstructions | Cache::InvalidateAllInstructionsInner => {
                self.code.iter().any(|(_, state)| *state == Code::Written)
            }
            _ => self.lines.get(&line).is_some_and(|line| line.is_racing),
        };
        self.open.push(Open { cpu, operation, line, is_early });
    }

    /// A barrier of `cpu`. Errors: what it completes destroys something.
    pub fn barrier(&mut self, cpu: usize, barrier: Barrier) -> Result<(), String> {
        let (domain, accesses) = match barrier {
            Barrier::Isb => {
                self.code.retain(|(_, state)| *state != Code::Dropped);
                return Ok(());
            }
            Barrier::Dsb { domain, accesses, .. } | Barrier::Dmb { domain, accesses } => (domain, accesses),
        };
        if accesses != Accesses::Loads && domain >= Domain::Outer {
            self.lines.values_mut().for_each(|line| line.is_loose = false);
        }
        if accesses == Accesses::All && domain >= Domain::Outer {
            self.lines.values_mut().for_each(|line| line.is_racing = false);
        }
        if !matches!(barrier, Barrier::Dsb { accesses: Accesses::All, is_nxs: false, .. }) {
            return Ok(());
        }
        let is_done = |open: &Open| open.cpu == cpu && domain >= needed(open.operation);
        let done: Vec<Open> = self.open.iter().copied().filter(|open| is_done(open)).collect();
        self.open.retain(|open| !is_done(open));
        done.iter().try_for_each(|open| self.complete(open))
    }

    fn complete(&mut self, open: &Open) -> Result<(), String> {
        let mut advance = |from, to| {
            self.code_in(open.line).filter(|state| **state == from).for_each(|state| *state = to);
        };
        match open.operation {
            Cache::InvalidateAllInstructions | Cache::InvalidateAllInstructionsInner if open.is_early => {}
            Cache::InvalidateAllInstructions | Cache::InvalidateAllInstructionsInner => {
                let all = self.code.iter_mut().map(|it| &mut it.1);
                all.filter(|state| **state == Code::Unified).for_each(|state| *state = Code::Dropped);
            }
            Cache::InvalidateInstructions if open.is_early => {}
            Cache::InvalidateInstructions => advance(Code::Unified, Code::Dropped),
            Cache::CleanToUnification => advance(Code::Written, Code::Unified),
            Cache::Clean | Cache::CleanAndInvalidate | Cache::Invalidate => return self.complete_data(open),
        }
        Ok(())
    }

    /// Code that lies in a line.
    fn code_in(&mut self, line: u64) -> impl Iterator<Item = &mut Code> {
        self.code.iter_mut().filter(move |(range, _)| line_of(range.start) == line).map(|it| &mut it.1)
    }

    fn complete_data(&mut self, open: &Open) -> Result<(), String> {
        let line = self.lines.entry(open.line).or_default();
        let (cleans, drops) = (open.operation != Cache::Invalidate, open.operation != Cache::Clean && !open.is_early);
        if cleans && line.is_dirty && line.is_cache_old {
            return Err(format!("a dirty line is written over {:#x}, which was written past the caches", open.line));
        }
        if !cleans && line.is_memory_old {
            return Err(format!("the line at {:#x} is dropped with what was written last", open.line));
        }
        if cleans {
            (line.is_dirty, line.is_memory_old) = (false, false);
        }
        if drops {
            (line.is_dirty, line.is_cache_old) = (false, false);
        }
        Ok(())
    }
}

/// The domain that the DSB must have at least.
const fn needed(operation: Cache) -> Domain {
    match operation {
        Cache::InvalidateAllInstructions => Domain::NonShareable,
        Cache::Clean | Cache::CleanAndInvalidate | Cache::Invalidate => Domain::Outer,
        Cache::CleanToUnification | Cache::InvalidateInstructions | Cache::InvalidateAllInstructionsInner => {
            Domain::Inner
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 0x4000_0000;
    const DSB_ISHST: Barrier = Barrier::DSB_ISHST;

    fn told(result: Result<(), String>) -> String {
        result.expect_err("a cache is in the way")
    }

    #[test]
    fn what_is_written_through_is_read_past_only_when_it_is_cleaned() {
        let mut caches = Caches::default();
        assert_eq!(caches.store(AT, true), Ok(()));
        assert_eq!(caches.load(AT, true), Ok(()));
        assert!(told(caches.load(AT, false)).contains("one holds what was written last"));
        assert!(told(caches.clone().store(AT + 8, false)).contains("that a cache holds dirty"));
        caches.maintain(0, Cache::Clean, AT);
        for barrier in [DSB_ISHST, Barrier::DSB_ISH, Barrier::Dmb { domain: Domain::System, accesses: Accesses::All }] {
            assert_eq!(caches.barrier(0, barrier), Ok(()));
            assert!(caches.load(AT, false).is_err(), "{barrier}");
        }
        assert_eq!(caches.barrier(1, Barrier::DSB_SY), Ok(()));
        assert!(caches.load(AT, false).is_err(), "the DSB of another CPU");
        assert_eq!(caches.barrier(0, Barrier::DSB_SY), Ok(()));
        assert_eq!(caches.load(AT + LINE - 8, false), Ok(()));
    }

    #[test]
    fn what_is_written_past_is_read_through_only_when_the_line_is_dropped() {
        let mut caches = Caches::default();
        assert_eq!(caches.store(AT, false), Ok(()));
        assert_eq!(caches.load(AT, false), Ok(()));
        assert!(told(caches.load(AT, true)).contains("one may hold what was there before"));
        assert!(caches.store(AT + 8, true).is_err());
        let mut racing = caches.clone();
        for caches in [&mut racing, &mut caches] {
            caches.maintain(0, Cache::Invalidate, AT);
            assert_eq!(caches.barrier(0, Barrier::DSB_SY), Ok(()));
            assert!(caches.load(AT, true).is_err(), "the store may have come after it");
            caches.maintain(0, Cache::Invalidate, AT);
        }
        assert_eq!(caches.barrier(0, Barrier::DSB_SY), Ok(()));
        assert_eq!(caches.load(AT, true), Ok(()));
        caches.note_table(AT);
        assert_eq!(caches.walk(), Ok(()));
        racing.note_table(AT);
        assert!(told(racing.walk()).contains("a walk may read"));
    }

    #[test]
    fn dirty_lines_fall_on_memory_and_dropped_ones_are_lost() {
        let mut left = Caches::default();
        left.leave_dirty(AT..AT + LINE);
        assert_eq!(left.store(AT, false), Ok(()));
        assert!(told(left.load(AT, false)).contains("a dirty line may by now"));
        left.maintain(0, Cache::CleanAndInvalidate, AT);
        assert!(told(left.barrier(0, Barrier::DSB_SY)).contains("written over"));
        let mut lost = Caches::default();
        assert_eq!(lost.store(AT, true), Ok(()));
        lost.maintain(0, Cache::Invalidate, AT);
        assert!(told(lost.barrier(0, Barrier::DSB_SY)).contains("dropped with what was written last"));
    }

    #[test]
    fn a_flag_comes_after_what_it_tells_of() {
        let mut caches = Caches::default();
        caches.set_flag(AT);
        assert_eq!(caches.store(AT + 8, false), Ok(()));
        assert!(told(caches.clone().store(AT, false)).contains("may be seen before"));
        assert_eq!(caches.barrier(0, Barrier::Dmb { domain: Domain::System, accesses: Accesses::Stores }), Ok(()));
        assert_eq!(caches.store(AT, false), Ok(()));
    }

    #[test]
    fn written_code_takes_every_step_in_order() {
        let go = |last: Cache, left_out: Option<usize>| {
            let steps = [Some(Cache::CleanToUnification), None, Some(last), None];
            let mut caches = Caches::default();
            caches.write_code(AT);
            for (_, step) in steps.iter().enumerate().filter(|(at, _)| Some(*at) != left_out) {
                match step {
                    Some(operation) => caches.maintain(0, *operation, AT),
                    None => caches.barrier(0, Barrier::DSB_ISH).expect("it destroys nothing"),
                }
            }
            caches
        };
        for last in [Cache::InvalidateInstructions, Cache::InvalidateAllInstructionsInner] {
            let mut whole = go(last, None);
            assert!(told(whole.fetch(AT)).contains("may have been fetched before"));
            assert_eq!(whole.barrier(0, Barrier::Isb), Ok(()));
            assert_eq!(whole.fetch(AT), Ok(()));
            for left_out in 0..4 {
                let mut caches = go(last, Some(left_out));
                assert_eq!(caches.barrier(0, Barrier::Isb), Ok(()));
                assert!(caches.fetch(AT).is_err(), "without step {left_out}");
            }
        }
    }
}
