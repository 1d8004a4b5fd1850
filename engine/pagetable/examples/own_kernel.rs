//! A platform for one's own kernel, and what is done with it: `cargo run -p vellum-pagetable --example own_kernel`.
//!
//! It runs on any host: its memory is a pool of this process. Comments tell what stands there in a kernel.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use vellum_pagetable::{Change, El1, HardwareUpdates, Licence, PageTable, Platform, Reserve, Scope, Slot, TlbFeatures};
use vellum_vmsa::{
    AddressHalf, Descriptor, Geometry, Granule, Granule4K, Layout, LeafSize, Maintenance, PhysAddr, Stage1Attributes,
    VirtAddr,
};

/// The machine: pages for tables, from the physical address `base` on. In a kernel, the distance at which it maps them.
struct Machine {
    base: PhysAddr,
    pool: Vec<AtomicU64>,
}

impl Machine {
    /// In a kernel: `unsafe { AtomicU64::from_ptr((slot.address().bits() + distance) as *mut u64) }`. One access of 64
    /// bits each, or a walker sees half a descriptor.
    fn word(&self, slot: Slot) -> &AtomicU64 {
        &self.pool[(slot.address() - self.base) as usize / size_of::<u64>()]
    }
}

impl Platform for Machine {
    fn load(&self, slot: Slot) -> Descriptor {
        Descriptor::new(self.word(slot).load(Ordering::Relaxed))
    }

    fn store(&self, slot: Slot, descriptor: Descriptor) {
        self.word(slot).store(descriptor.bits(), Ordering::Relaxed);
    }

    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        let (old, new) = (old.bits(), new.bits());
        let exchanged = self.word(slot).compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed);
        exchanged.map(drop).map_err(Descriptor::new)
    }

    fn maintain(&self, operation: Maintenance) {
        // No TLB holds this pool, so that it is enough to tell what a kernel would execute.
        println!("  {operation}");
        match operation {
            // In a kernel: `Barrier::DSB_ISHST => asm!("dsb ishst")`, `DSB_ISH => asm!("dsb ish")`, `Isb => asm!("isb")`,
            // and `asm!("dsb sy")` for any other. None may be left out, or merged with the next.
            Maintenance::Barrier(_) => fence(Ordering::SeqCst),
            // In a kernel: `TlbiOp::VAALE1IS => asm!("tlbi vaale1is, {}", in(reg) operand)` and so on for VAAE1IS and
            // RVAALE1IS, RVAAE1IS (with FEAT_TLBIRANGE); `asm!("tlbi vmalle1is")` for any other.
            Maintenance::Invalidate(_operation, _operand) => {}
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let base = PhysAddr::new(0x4000_0000);
    let machine = Machine { base, pool: (0..8 * Granule4K::ENTRIES).map(|_| AtomicU64::new(!0)).collect() };
    let mut reserve = Reserve::new();
    (0..8).for_each(|page| reserve.add(&machine, base + page * Granule4K::SIZE_BYTES));
    let geometry = Geometry::<Granule4K>::new(39, Layout::Bits48, AddressHalf::Upper)?;
    // From the ID registers of every CPU: `IdRegisters::has_range_invalidation` and its neighbours.
    let tlb = TlbFeatures { range: true, level_hints: false, repeat: false };
    let regime = El1 { scope: Scope::Global, tlb, hardware_updates: HardwareUpdates::None };
    // Its root goes to TTBR1_EL1 once it is published.
    let mut table = PageTable::offline(&machine, geometry, regime, &mut reserve)?.publish();

    let start = VirtAddr::new(0xffff_ff80_4000_0000);
    let (blocks, page) = (start..start + 0x40_0000, start + 0x5000..start + 0x6000);
    let attributes = Stage1Attributes::INNER_SHAREABLE | Stage1Attributes::AF | Stage1Attributes::NO_EXECUTE;
    let (read_only, nothing) = (Stage1Attributes::READ_ONLY, Stage1Attributes::empty());
    let steps = [
        ("map 4 MiB", Change::Map { from: blocks.clone(), to: base, attributes, largest: LeafSize::LARGEST }),
        ("protect a page", Change::Protect { from: page.clone(), set: read_only, clear: nothing }),
        ("split at 3 MiB", Change::Split { at: start + 0x30_0000 }),
        ("make the page writable again", Change::Protect { from: page, set: nothing, clear: read_only }),
        ("collapse", Change::Collapse { from: blocks }),
    ];
    // The promise: nobody needs what is broken while it is. A kernel gives what makes this true, such as a lock's guard.
    let licence = Licence::break_before_make(&());
    for (title, change) in steps {
        println!("{title}");
        let mut gather = table.gather();
        table.plan(&[change], Some(&licence))?.apply(&mut reserve, &mut gather)?;
        let mut retired = gather.finish(&machine);
        while let Some(page) = retired.take(&machine) {
            reserve.add(&machine, page);
        }
    }
    let found = table.view().translate(start + 0x5678).ok_or("not mapped")?;
    println!("{} leads to {} by a {}", start + 0x5678, found.output, found.size);
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
