//! The auditor on a guest that is a few words of memory.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use machine::event::Level;
use machine::registers::{Features, Register};
use machine::trace::Judge;
use serde_json::Value;
use vellum_audit::auditor::{Auditor, Guest};
use vellum_audit::frames::Frames;
use vellum_audit::instruction::{self, Store};

pub(crate) const TCR: u64 = 0x15_0080_3510 & !0xc000 | 25 << 16 | 25;
pub(crate) const ROOT: u64 = 0x4000_0000;
pub(crate) const MIDDLE: u64 = 0x4000_1000;
pub(crate) const LAST: u64 = 0x4000_2000;
/// A page, writable, of EL1, its access flag set, inner shareable.
pub(crate) const PAGE: u64 = 0x703;
pub(crate) const VAE1IS: u32 = 0xd508_8320;
/// DSB ISHST, DSB ISH, ISB, and MSR TTBR0_EL1.
pub(crate) const DSB_STORES: u32 = 0xd503_3a9f;
pub(crate) const DSB: u32 = 0xd503_3b9f;
pub(crate) const ISB: u32 = 0xd503_3fdf;
pub(crate) const TTBR0: u32 = 0xd518_2003;

/// What the auditor writes of what it judged.
#[derive(Clone, Default)]
pub(crate) struct Trace(Arc<Mutex<Vec<u8>>>);

impl Write for Trace {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panicked").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) words: RefCell<BTreeMap<u64, u64>>,
    told: RefCell<Vec<Value>>,
}

impl Guest for Memory {
    fn read(&self, address: u64, words: &mut [u64]) -> bool {
        let known = self.words.borrow();
        for (at, word) in (address..).step_by(8).zip(words) {
            *word = known.get(&at).copied().unwrap_or(0);
        }
        address < 1 << 40
    }

    fn instructions(&self) -> u64 {
        0
    }

    fn chain(&self) -> Vec<u64> {
        Vec::new()
    }

    fn tell(&self, message: &Value) {
        self.told.borrow_mut().push(message.clone());
    }
}

/// A guest with two CPUs whose MMU is on, with one page at address 0.
pub(crate) struct Run<'f> {
    pub(crate) memory: Memory,
    frames: &'f Frames,
    pub(crate) auditor: Auditor<'f>,
    place: u64,
    trace: Trace,
}

impl<'f> Run<'f> {
    pub(crate) fn new(frames: &'f Frames, forgotten: &[u64]) -> Self {
        let features = [Features::full(0), Features::full(0)];
        let forgotten: BTreeSet<u64> = forgotten.iter().copied().collect();
        let trace = Trace::default();
        let auditor = Auditor::new(&features, frames, forgotten, Some(Box::new(trace.clone())));
        let mut run = Self { memory: Memory::default(), frames, auditor, place: 0x1000, trace };
        run.store(0, ROOT, MIDDLE | 3);
        run.store(0, MIDDLE, LAST | 3);
        run.store(0, LAST, 0x8000_0000 | PAGE);
        run.word(0, 0xd503_3f9f, 0);
        for cpu in 0..2 {
            let values = [
                (Register::MairEl1, 0xff),
                (Register::TcrEl1, TCR),
                (Register::Ttbr0El1, ROOT | 1 << 48),
                (Register::SctlrEl1, 1),
            ];
            run.auditor.refresh(&run.memory, cpu, Level::El1, &values);
        }
        run
    }

    /// The next instruction, by its 32 bits; returns where it is.
    pub(crate) fn word(&mut self, cpu: u8, word: u32, operand: u64) -> u64 {
        self.place += 4;
        let system = instruction::system(word).expect("an instruction that is looked at");
        self.auditor.system(&self.memory, cpu, self.place, system, operand);
        self.place
    }

    pub(crate) fn store(&mut self, cpu: u8, address: u64, value: u64) {
        self.place += 4;
        self.memory.words.borrow_mut().insert(address, value);
        if self.frames.store(cpu, address) {
            self.auditor.store(&self.memory, cpu, self.place, Store::default(), address, 8);
        }
    }

    /// `cpu` uses an address, as the plugin shows it.
    pub(crate) fn access(&mut self, cpu: u8, kind: machine::syndrome::AccessKind, address: u64) {
        self.place += 4;
        if self.frames.fresh.has(cpu, address) {
            self.auditor.access(&self.memory, cpu, self.place, address, kind);
        }
    }

    /// `cpu` takes a lock, or gives one away.
    pub(crate) fn pass_on(&mut self, cpu: u8, takes: bool, gives: bool) {
        self.place += 4;
        if takes {
            self.auditor.lock(&self.memory, cpu, self.place);
        }
        if gives {
            self.auditor.unlock(&self.memory, cpu, self.place);
        }
    }

    /// What is at address 0 is forgotten, with the barriers for that: where the instructions are.
    pub(crate) fn invalidate(&mut self, cpu: u8) -> [u64; 4] {
        [(DSB_STORES, 0), (VAE1IS, 1 << 48), (DSB, 0), (ISB, 0)].map(|(word, operand)| self.word(cpu, word, operand))
    }

    /// Another page at address 0, by break-before-make.
    fn remap(&mut self) -> [u64; 4] {
        self.store(0, LAST, 0);
        let places = self.invalidate(0);
        self.store(0, LAST, 0x9000_0000 | PAGE);
        places
    }

    /// `vellum judge` finds in the trace what the audit found.
    fn judge_again(&self) {
        let text = String::from_utf8(self.trace.0.lock().expect("nobody panicked").clone()).expect("text");
        let trace = machine::trace::Trace::read(&text).expect("a trace");
        let mut judge = Judge::new(&trace, false);
        while judge.step().expect("it makes sense") {}
        let told = self.memory.told.borrow();
        let found = told.iter().filter(|it| it.get("finding").is_some()).count();
        assert_eq!(judge.findings().is_empty(), found == 0, "{text}");
    }

    pub(crate) fn rules(&mut self) -> Vec<String> {
        self.auditor.end(&self.memory);
        self.judge_again();
        let told = self.memory.told.borrow();
        told.iter().filter_map(|it| it["finding"]["rule"].as_str().map(str::to_owned)).collect()
    }
}

#[test]
fn each_step_of_break_before_make_is_needed() {
    let frames = Frames::default();
    let mut whole = Run::new(&frames, &[]);
    let places = whole.remap();
    assert_eq!(whole.rules(), [""; 0]);
    for forgotten in &places[..3] {
        let frames = Frames::default();
        let mut run = Run::new(&frames, &[*forgotten]);
        assert_eq!(run.remap(), places);
        assert_eq!(run.rules(), ["V1"], "without the instruction at {forgotten:#x}");
    }
}

#[test]
fn a_tlbi_that_traps_was_none() {
    let frames = Frames::default();
    let mut run = Run::new(&frames, &[]);
    run.store(0, LAST, 0);
    run.word(0, DSB_STORES, 0);
    let tlbi = run.word(0, VAE1IS, 1 << 48);
    run.auditor.enter(&run.memory, 0, tlbi, Level::El2, true);
    run.auditor.enter(&run.memory, 0, tlbi, Level::El1, false);
    run.word(0, DSB, 0);
    run.store(0, LAST, 0x9000_0000 | PAGE);
    assert_eq!(run.rules(), ["V1"]);
}

#[test]
fn what_a_table_holds_must_be_ordered_before_the_table_is_linked() {
    const NEW: u64 = 0x4000_5000;
    for (barrier, expected) in [(None, &["V9"][..]), (Some(0xd503_3abf), &[])] {
        let frames = Frames::default();
        let mut run = Run::new(&frames, &[]);
        run.store(0, NEW, 0xa000_0000 | PAGE);
        if let Some(barrier) = barrier {
            run.word(0, barrier, 0);
        }
        run.store(0, MIDDLE + 8, NEW | 3);
        assert_eq!(run.rules(), expected);
    }
}

/// The root of another address space: its tables were some of the first one's, and one entry was made without a barrier.
#[test]
fn what_is_stored_below_a_root_that_nobody_walks_needs_no_barrier_of_its_own() {
    const NEXT: u64 = 0x4000_8000;
    let frames = Frames::default();
    let mut run = Run::new(&frames, &[]);
    run.store(0, MIDDLE, 0);
    run.invalidate(0);
    run.store(0, LAST, 0);
    run.store(0, NEXT + 0x1000, LAST | 3);
    run.store(0, NEXT, (NEXT + 0x1000) | 3);
    run.word(0, DSB_STORES, 0);
    run.store(0, LAST, 0x9000_0000 | PAGE);
    run.word(0, TTBR0, NEXT | 2 << 48);
    run.word(0, ISB, 0);
    assert_eq!(run.rules(), [""; 0]);
}

/// A root that a CPU left gets another address space, some of it before anybody walks there: all of it is known once somebody does.
#[test]
fn a_root_that_was_left_is_learnt_again_with_all_below() {
    let frames = Frames::default();
    let mut run = Run::new(&frames, &[]);
    run.store(0, MIDDLE, 0);
    run.store(0, ROOT, 0);
    run.invalidate(0);
    for cpu in 0..2 {
        run.word(cpu, TTBR0, 0x4000_9000 | 2 << 48);
        run.word(cpu, ISB, 0);
    }
    run.store(0, ROOT, 0x4000_5000 | 3);
    run.word(0, DSB_STORES, 0);
    run.store(0, 0x4000_5000, 0x4000_6000 | 3);
    run.store(0, 0x4000_6000, 0x9000_0000 | PAGE);
    assert!(!frames.is_table(0x4000_6000));
    run.word(0, DSB_STORES, 0);
    run.word(0, TTBR0, ROOT | 3 << 48);
    run.word(0, ISB, 0);
    assert!(frames.is_table(0x4000_5000) && frames.is_table(0x4000_6000));
    run.store(0, 0x4000_6000, 0xa000_0000 | PAGE);
    assert_eq!(run.rules(), ["V2"]);
}

/// The same of the root itself: no store links it, and what it held may still be walked.
#[test]
fn what_a_root_holds_needs_a_dsb_before_a_register_names_it() {
    for has_dsb in [false, true] {
        let frames = Frames::default();
        let mut run = Run::new(&frames, &[]);
        run.store(0, ROOT, 0);
        run.invalidate(0);
        // Once a table of the first address space; now a root.
        run.store(0, MIDDLE, 0x4000_8000 | 3);
        if has_dsb {
            run.word(0, DSB_STORES, 0);
        }
        run.word(0, TTBR0, MIDDLE | 2 << 48);
        run.word(0, ISB, 0);
        assert_eq!(run.rules().is_empty(), has_dsb);
    }
}

/// Roots smaller than a page share one: that somebody stored to another of them says nothing of this one.
#[test]
fn what_is_stored_beside_a_small_root_is_not_the_roots() {
    const PAGES: u64 = 0x4001_0000;
    for is_alone in [true, false] {
        let frames = Frames::default();
        let mut run = Run::new(&frames, &[]);
        // 52 bits of input address: 16 descriptors at level -1, and the ASID is the first one's no more.
        let small = TCR & !0x3f_003f | 12 << 16 | 12 | 1 << 59;
        run.store(0, PAGES, MIDDLE | 3);
        if !is_alone {
            run.word(0, DSB, 0);
            run.store(1, PAGES + 0x80, 0xffff_0000_1234_5678);
        }
        for (word, value) in [(0xd518_2043, small), (TTBR0, PAGES | 2 << 48)] {
            run.word(0, word, value);
        }
        run.word(0, ISB, 0);
        assert_eq!(run.rules().contains(&"V9".to_owned()), is_alone);
    }
}

/// A table comes back one level below, zeroed by an instruction whose stores QEMU does not show: what it maps then is data, and no table.
#[test]
fn a_page_that_is_mapped_in_what_was_a_table_above_is_no_table() {
    const OTHER: u64 = 0x4000_8000;
    const TEXT: u64 = 0x4001_0000;
    let frames = Frames::default();
    let mut run = Run::new(&frames, &[]);
    run.store(0, ROOT, 0);
    run.invalidate(0);
    run.memory.words.borrow_mut().insert(MIDDLE, 0);
    run.store(0, OTHER, MIDDLE | 3);
    run.word(0, DSB_STORES, 0);
    run.store(0, ROOT, OTHER | 3);
    for word in (TEXT..TEXT + 0x1000).step_by(8) {
        run.memory.words.borrow_mut().insert(word, 0x3030_3030_3030_3033);
    }
    run.store(0, MIDDLE + 8, TEXT | PAGE);
    assert!(frames.is_table(MIDDLE) && !frames.is_table(TEXT));
    run.store(0, MIDDLE, 0x9000_0000 | PAGE);
    assert_eq!(run.rules(), [""; 0]);
}

#[test]
fn a_table_that_is_unlinked_is_data_once_it_is_forgotten() {
    for is_invalidated in [true, false] {
        let frames = Frames::default();
        let mut run = Run::new(&frames, &[]);
        run.store(0, MIDDLE, 0);
        if is_invalidated {
            run.invalidate(0);
        }
        // Somebody's data, which would be a page if a walk still came there.
        run.store(1, LAST, 0xb000_0000 | PAGE);
        assert_eq!(frames.is_table(LAST), !is_invalidated);
        assert_eq!(run.rules().is_empty(), is_invalidated);
    }
}

/// After a reset nobody walks what was walked before, and nothing is in a TLB; a call that traps to EL2 is another one.
#[test]
fn a_machine_that_is_reset_begins_anew() {
    const SYSTEM_RESET: u64 = 0x8400_0009;
    const CPU_OFF: u64 = 0x8400_0002;
    for (call, is_trap, expected) in
        [(SYSTEM_RESET, false, &[][..]), (SYSTEM_RESET, true, &["V2"]), (CPU_OFF, false, &["V2"])]
    {
        let frames = Frames::default();
        let mut run = Run::new(&frames, &[]);
        let place = run.word(0, 0xd400_0002, call);
        run.auditor.enter(&run.memory, 0, place, Level::El1, is_trap);
        run.auditor.refresh(&run.memory, 0, Level::El1, &[(Register::SctlrEl1, 0)]);
        run.store(0, LAST, 0x9000_0000 | PAGE);
        assert_eq!(run.rules(), expected, "{call:#x}");
    }
}

#[test]
fn memory_that_is_freed_must_be_forgotten() {
    for is_invalidated in [true, false] {
        let frames = Frames::default();
        let mut run = Run::new(&frames, &[]);
        run.store(0, LAST, 0);
        run.word(0, DSB_STORES, 0);
        if is_invalidated {
            run.word(0, VAE1IS, 1 << 48);
        }
        run.word(0, DSB, 0);
        run.word(0, ISB, 0);
        // Somebody else's memory first: nothing leads there.
        for address in [0x9000_0000, 0x8000_0000] {
            run.auditor.free(&run.memory, 0, 0x2000, address, 0x1000);
        }
        assert_eq!(run.rules().concat(), if is_invalidated { "" } else { "V3" });
    }
}

#[test]
fn tables_that_lead_to_themselves_end_the_audit_and_nothing_else() {
    let frames = Frames::default();
    let mut run = Run::new(&frames, &[]);
    for slot in 0..512 {
        run.store(0, ROOT + slot * 8, ROOT | 3);
    }
    run.remap();
    run.auditor.end(&run.memory);
    let told = run.memory.told.borrow();
    let end = told.last().map(|it| it["end"].clone()).unwrap_or_default();
    assert!(end["cut"].as_str().is_some_and(|it| it.contains("too many ways")), "{end}");
}
