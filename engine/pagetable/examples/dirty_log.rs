//! Which pages does a guest write? `cargo run -p vellum-pagetable --example dirty_log`.
//!
//! A hypervisor of one virtual machine, on any host: its memory is a pool of this process, and its guest writes by asking
//! stage 2. Comments tell what stands there in a hypervisor.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::error::Error;
use std::ops::Range;

use vellum_pagetable::{
    Change, HardwareUpdates, Licence, PageTable, Platform, Refusal, Reserve, Slot, Stage2, TlbFeatures,
};
use vellum_vmsa::{
    Descriptor, Geometry, Granule, Granule4K, IntermediateAddr, Layout, LeafSize, Level, Maintenance, PhysAddr,
    Stage2Attributes, Stage2Memory, TlbiOp,
};

const PAGE: u64 = Granule4K::SIZE_BYTES;
/// Where tables lie: the root first, of two tables.
const BASE: PhysAddr = PhysAddr::new(0x4000_0000);
const TABLES: usize = 8;
const VMID: u16 = 1;
const WRITE: Stage2Attributes = Stage2Attributes::WRITE;
const NOTHING: Stage2Attributes = Stage2Attributes::empty();

/// The machine: pages for tables. It counts TLBIs.
struct Machine {
    pool: Vec<Cell<u64>>,
    tlbis: Cell<usize>,
}

impl Machine {
    /// In a hypervisor: an `AtomicU64` at the address where EL2 has mapped the table.
    fn word(&self, slot: Slot) -> &Cell<u64> {
        &self.pool[(slot.address() - BASE) as usize / size_of::<u64>()]
    }
}

impl Platform for Machine {
    fn load(&self, slot: Slot) -> Descriptor {
        Descriptor::new(self.word(slot).get())
    }

    fn store(&self, slot: Slot, descriptor: Descriptor) {
        self.word(slot).set(descriptor.bits());
    }

    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        let held = self.load(slot);
        if held != old {
            return Err(held);
        }
        self.store(slot, new);
        Ok(())
    }

    fn maintain(&self, operation: Maintenance) {
        match operation {
            // In a hypervisor: `asm!("dsb ishst")`, `asm!("dsb ish")`, `asm!("isb")`. None may be left out or merged.
            Maintenance::Barrier(_) => {}
            // In a hypervisor, at EL2, with VTTBR_EL2 of this VMID in place and an ISB since, and HCR_EL2.TGE clear:
            // `asm!("tlbi ipas2le1is, {}", in(reg) operand)` and so on for IPAS2E1IS, RIPAS2LE1IS, RIPAS2E1IS;
            // `asm!("tlbi vmalle1is")`; `asm!("tlbi vmalls12e1is")` for any other.
            Maintenance::Invalidate(operation, _) => {
                assert!(operation != TlbiOp::VMALLE1, "the engine asks for broadcast forms alone");
                self.tlbis.set(self.tlbis.get() + 1);
            }
        }
    }
}

/// The memory of a guest whose writes are logged, page by page.
struct DirtyLog<'m> {
    machine: &'m Machine,
    table: PageTable<'m, Granule4K, Stage2, Machine>,
    reserve: Reserve,
    memory: Range<IntermediateAddr>,
    dirty: BTreeSet<IntermediateAddr>,
}

impl<'m> DirtyLog<'m> {
    /// Makes changes one after the other, in one gather.
    fn change(&mut self, changes: &[Change<Stage2>]) -> Result<(), Refusal> {
        // The promise: a guest that meets a broken leaf faults to EL2, where the fault is retried when the change is over.
        let licence = Licence::break_before_make(&());
        let mut gather = self.table.gather();
        for change in changes.chunks(1) {
            self.table.plan(change, Some(&licence))?.apply(&mut self.reserve, &mut gather)?;
        }
        let mut retired = gather.finish(self.machine);
        while let Some(page) = retired.take(self.machine) {
            self.reserve.add(self.machine, page);
        }
        Ok(())
    }

    /// From here on nothing may be written, and pages are apart.
    fn begin(&mut self) -> Result<(), Refusal> {
        let from = self.memory.clone();
        let protect = Change::Protect { from: from.clone(), set: NOTHING, clear: WRITE };
        self.change(&[protect, Change::SplitToPages { from }])
    }

    /// A permission fault on a write: in a hypervisor, at the address of HPFAR_EL2.
    fn fault(&mut self, at: IntermediateAddr) -> Result<(), Refusal> {
        let page = at.align_down(PAGE);
        self.dirty.insert(page);
        self.change(&[Change::Protect { from: page..page + PAGE, set: WRITE, clear: NOTHING }])
    }

    /// The pages that were written since the last time. They may be copied from now on: no CPU can write them unnoticed.
    fn collect(&mut self) -> Result<BTreeSet<IntermediateAddr>, Refusal> {
        let protect =
            |page: &IntermediateAddr| Change::Protect { from: *page..*page + PAGE, set: NOTHING, clear: WRITE };
        let changes: Vec<_> = self.dirty.iter().map(protect).collect();
        self.change(&changes)?;
        Ok(std::mem::take(&mut self.dirty))
    }

    /// Everything may be written, and leaves are as large as they can be.
    fn end(&mut self) -> Result<(), Refusal> {
        let from = self.memory.clone();
        let writable = Change::Protect { from: from.clone(), set: WRITE, clear: NOTHING };
        self.change(&[writable, Change::Collapse { from }])
    }

    /// What the guest does: it writes, and faults where it may not.
    fn guest_writes(&mut self, at: u64) -> Result<(), Box<dyn Error>> {
        let at = self.memory.start + at;
        let leaf = self.table.view().translate(at).ok_or("no memory there")?;
        if leaf.descriptor.bits() & WRITE.bits() == 0 {
            self.fault(at)?;
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let pool = (0..TABLES * Granule4K::ENTRIES).map(|_| Cell::new(!0)).collect();
    let machine = Machine { pool, tlbis: Cell::new(0) };
    // Two tables at level 1 translate 40 bits. `IdRegisters::has_stage2_shape` tells whether every CPU can.
    let geometry = Geometry::<Granule4K>::stage2(40, Level::L1, Layout::Bits48)?;
    let tlb = TlbFeatures { range: true, level_hints: false, repeat: false };
    let regime = Stage2 { vmid: VMID, tlb, hardware_updates: HardwareUpdates::None };
    let mut reserve = Reserve::new();
    (geometry.root_tables()..TABLES).for_each(|page| reserve.add(&machine, BASE + page as u64 * PAGE));
    let table = PageTable::offline_at(&machine, geometry, regime, BASE)?.publish();
    let memory = IntermediateAddr::new(0x4000_0000)..IntermediateAddr::new(0x4040_0000);
    let mut log = DirtyLog { machine: &machine, table, reserve, memory: memory.clone(), dirty: BTreeSet::new() };

    let write_back = Stage2Attributes::with_memory(Stage2Memory::WriteBack, false).ok_or("no such memory type")?;
    let attributes =
        write_back | Stage2Attributes::READ_WRITE | Stage2Attributes::AF | Stage2Attributes::INNER_SHAREABLE;
    let (from, to) = (memory.clone(), PhysAddr::new(0x8_0000_0000));
    log.change(&[Change::Map { from, to, attributes, largest: LeafSize::LARGEST }])?;
    let size = |log: &DirtyLog<'_>| log.table.view().translate(memory.start).map(|found| found.size.to_string());

    log.begin()?;
    println!("logging: the guest's memory is mapped by a {}", size(&log).unwrap_or_default());
    for round in [&[0x3008, 0x3010, 0x20_0000][..], &[0x20_0008], &[]] {
        for at in round {
            log.guest_writes(*at)?;
        }
        machine.tlbis.set(0);
        let dirty = log.collect()?;
        println!("{} writes, {} pages dirty, {} TLBIs to collect them", round.len(), dirty.len(), machine.tlbis.get());
    }
    log.end()?;
    println!("no more logging: it is mapped by a {}", size(&log).unwrap_or_default());
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
