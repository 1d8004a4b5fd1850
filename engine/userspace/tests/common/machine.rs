//! Memory and a TLB, which tell of all that is done to them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::ops::Range;

use seed::Digest;
use vellum_pagetable::{Memory, Platform, Slot};
use vellum_vmsa::maintenance::TlbiOp;
use vellum_vmsa::{Barrier, Descriptor, Maintenance, PhysAddr, Stage1Attributes};

use super::lock::{Beside, Held, Judge, held, holding, run_beside};

/// Where tables lie.
const TABLES: Range<u64> = 0x8000_0000..0xf000_0000;

/// What a TLB holds of a page.
#[derive(Clone, Copy)]
pub(super) struct Cached {
    pub(super) frame: PhysAddr,
    /// Pages of its leaf, of a group one.
    pub(super) pages: u64,
    pub(super) attributes: Stage1Attributes,
}

/// Memory, and one CPU's TLB, which keeps what it has walked until a TLBI names it.
pub(crate) struct Machine {
    pub(crate) memory: Memory,
    pub(super) tlb: RefCell<BTreeMap<(u16, u64), Cached>>,
    page_shift: u32,
    pub(crate) tlbis: Cell<usize>,
    /// A TLBI is under way, which a DSB has yet to end.
    pub(crate) is_invalidating: Cell<bool>,
    /// How often a DSB has ended TLBIs.
    pub(crate) waits: Cell<usize>,
    /// Nobody counts or judges what is read: the test itself looks.
    pub(crate) is_unseen: Cell<bool>,
    /// Descriptors that were read.
    pub(crate) loads: Cell<usize>,
    /// All that was done, as one number.
    told: RefCell<Digest>,
    pub(super) judge: Judge,
    /// What another CPU does in the midst of a step that has a part alone, and how many accesses to the machine come before.
    pub(crate) midst: RefCell<Option<Beside>>,
    /// The same of the hardware of another CPU, for which no lock is one.
    pub(crate) hardware: RefCell<Option<Beside>>,
}

impl Machine {
    /// One with pages of `1 << page_shift` bytes.
    pub(super) fn new(page_shift: u32) -> Self {
        Self {
            memory: Memory::new(),
            tlb: RefCell::default(),
            page_shift,
            tlbis: Cell::new(0),
            is_invalidating: Cell::new(false),
            waits: Cell::new(0),
            is_unseen: Cell::new(false),
            loads: Cell::new(0),
            told: RefCell::default(),
            judge: Judge::default(),
            midst: RefCell::default(),
            hardware: RefCell::default(),
        }
    }

    pub(crate) fn tell(&self, numbers: &[u64]) {
        numbers.iter().for_each(|number| self.told.borrow_mut().write_u64(*number));
    }

    pub(crate) fn says(&self, what: &str) {
        self.told.borrow_mut().write(what.as_bytes());
    }

    /// How many entries of the TLB let a program write in a range.
    pub(crate) fn count_writable(&self, range: Range<u64>) -> usize {
        let is_writable = |cached: &Cached| !cached.attributes.contains(Stage1Attributes::READ_ONLY);
        let pages = range.start >> self.page_shift..range.end >> self.page_shift;
        self.tlb.borrow().iter().filter(|((_, page), cached)| pages.contains(page) && is_writable(cached)).count()
    }

    pub(crate) fn told(&self) -> u64 {
        self.told.borrow().finish()
    }

    /// The table that a descriptor leads to: in this kernel frames lie above all tables.
    fn linked(&self, descriptor: Descriptor) -> Option<Range<u64>> {
        let at = descriptor.bits() & ((1 << 48) - 1) >> self.page_shift << self.page_shift;
        let is_table = descriptor.bits() & 3 == 3 && TABLES.contains(&at);
        is_table.then_some(at..at + (1 << self.page_shift))
    }

    /// Another descriptor has taken the place of this one. Once none leads to a table, what was stored there is of no part any more: the
    /// same call may have it serve another part.
    fn unlink(&self, before: Descriptor, now: Descriptor) {
        let Some(table) = self.linked(before).filter(|table| self.linked(now).as_ref() != Some(table)) else { return };
        for slot in table.clone().step_by(size_of::<u64>()) {
            self.unlink(self.memory.load(Slot::new(PhysAddr::new(slot), 0)), Descriptor::INVALID);
        }
        self.judge.forget(table);
    }

    /// A step has come so far.
    fn pass(&self) {
        run_beside(&self.hardware);
        if matches!(held(), Held::Part(_)) {
            holding(Held::Nothing, || run_beside(&self.midst));
        }
    }
}

impl Platform for Machine {
    fn load(&self, slot: Slot) -> Descriptor {
        if self.is_unseen.get() {
            return self.memory.load(slot);
        }
        self.loads.set(self.loads.get() + 1);
        self.judge.look(slot.address().bits(), false);
        let loaded = self.memory.load(slot);
        self.pass();
        loaded
    }

    fn store(&self, slot: Slot, descriptor: Descriptor) {
        self.tell(&[slot.address().bits(), descriptor.bits()]);
        self.judge.look(slot.address().bits(), true);
        let before = self.memory.load(slot);
        self.memory.store(slot, descriptor);
        self.unlink(before, descriptor);
        self.pass();
    }

    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        self.tell(&[slot.address().bits(), old.bits(), new.bits()]);
        self.judge.look(slot.address().bits(), true);
        let exchanged = self.memory.exchange(slot, old, new);
        if exchanged.is_ok() {
            self.unlink(old, new);
        }
        self.pass();
        exchanged
    }

    fn maintain(&self, operation: Maintenance) {
        self.says(&operation.to_string());
        match operation {
            Maintenance::Invalidate(..) => self.is_invalidating.set(true),
            Maintenance::Barrier(Barrier::Dsb(..)) => {
                self.waits.set(self.waits.get() + usize::from(self.is_invalidating.replace(false)));
            }
            Maintenance::Barrier(_) => {}
        }
        if let Maintenance::Invalidate(tlbi, operand) = operation {
            self.tlbis.set(self.tlbis.get() + 1);
            let (asid, page) = ((operand >> 48) as u16, (operand & ((1 << 44) - 1)) << 12 >> self.page_shift);
            self.tlb.borrow_mut().retain(|&(its_asid, its_page), cached| match tlbi {
                TlbiOp::VMALLE1 => false,
                TlbiOp::ASIDE1IS => its_asid != asid,
                // Whatever names a part of a block ends all of it.
                _ => its_asid != asid || its_page & !(cached.pages - 1) != page & !(cached.pages - 1),
            });
        }
        let _ = self.memory.take_steps();
        self.pass();
    }
}
