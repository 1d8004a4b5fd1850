//! A linear map for one's own kernel: `cargo run -p vellum-linearmap --example own_linear_map`.
//!
//! It runs on any host: its tables are a pool of this process. Comments tell what stands there in a kernel.

use std::error::Error;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use vellum_linearmap::{
    Calls, Context, Cpu, Embedder, Leaves, Levels, LinearMap, Lock, Map, Pages, Region, State, paint,
};
use vellum_pagetable::{El1, HardwareUpdates, Licence, PageTable, Platform, Reserve, Scope, Slot, TlbFeatures};
use vellum_vmsa::{
    AddressHalf, Descriptor, Geometry, Granule, Granule4K, IdRegisters, Layout, LeafSize, Level, Maintenance, Midr,
    PhysAddr, Stage1Attributes, VirtAddr,
};

/// Where the pool is, in physical memory, and how many pages it has.
const POOL: (PhysAddr, usize) = (PhysAddr::new(0x4000_0000), 256);

/// The kernel: here nothing but the memory that tables come from.
struct Kernel {
    words: Vec<AtomicU64>,
    free: Mutex<Vec<PhysAddr>>,
}

impl Kernel {
    fn new() -> Self {
        let pages = (0..POOL.1 as u64).map(|page| POOL.0 + page * Granule4K::SIZE_BYTES);
        let words = (0..POOL.1 * Granule4K::ENTRIES).map(|_| AtomicU64::new(!0));
        Self { words: words.collect(), free: Mutex::new(pages.collect()) }
    }

    /// In a kernel: `AtomicU64::from_ptr` of the slot's address in the linear map; within a window, in another mapping that is never
    /// resized.
    fn word(&self, slot: Slot) -> &AtomicU64 {
        &self.words[(slot.address() - POOL.0) as usize / size_of::<u64>()]
    }
}

impl Platform for Kernel {
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
        // In a kernel the instruction itself: see `own_kernel` of vellum-pagetable.
        println!("  {operation}");
        fence(Ordering::SeqCst);
    }
}

impl Pages for Kernel {
    /// In a kernel: its page allocator.
    fn allocate(&self) -> Option<PhysAddr> {
        self.free.lock().ok()?.pop()
    }

    fn free(&self, table: PhysAddr) {
        if let Ok(mut free) = self.free.lock() {
            free.push(table);
        }
    }
}

impl Calls for Kernel {
    /// In a kernel: exceptions are masked until `change` is done, which is reached, with its stack and the tables, by what never
    /// changes size.
    fn in_window(&self, change: &mut dyn FnMut(&Licence<'_>)) {
        println!("  (exceptions are masked)");
        change(&Licence::break_before_make(self));
    }

    // This kernel has one CPU, and leaves out `park`: where more than one runs and some CPU tolerates no resize, what takes one is
    // refused.
}

/// In a kernel: a spin lock that masks interrupts, and answers calls to park while it waits.
struct SpinLock<T>(Mutex<T>);

impl<T> Lock for SpinLock<T> {
    type Held = T;

    fn new(held: T) -> Self {
        Self(Mutex::new(held))
    }

    fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        body(&mut self.0.lock().unwrap())
    }
}

impl Embedder for Kernel {
    type Granule = Granule4K;
    type Platform = Self;
    type Lock = SpinLock<State<Granule4K>>;

    fn platform(&self) -> &Self {
        self
    }
}

/// Paints 2 GiB of memory at 1 GiB, 2 MiB of it the kernel's text, which cannot be written there.
fn map(kernel: Kernel) -> Result<LinearMap<Kernel>, Box<dyn Error>> {
    let geometry = Geometry::<Granule4K>::new(48, Layout::Bits48, AddressHalf::Upper)?;
    let regime = El1 { scope: Scope::Global, tlb: TlbFeatures::NONE, hardware_updates: HardwareUpdates::None };
    let mut reserve = Reserve::new();
    reserve.add(&kernel, kernel.allocate().ok_or("no page for a root")?);
    let mut table = PageTable::offline(&kernel, geometry, regime, &mut reserve)?;
    let data = Stage1Attributes::INNER_SHAREABLE | Stage1Attributes::NO_EXECUTE;
    let text = data | Stage1Attributes::READ_ONLY;
    let region = |start, end, attributes| Region { physical: PhysAddr::new(start)..PhysAddr::new(end), attributes };
    let regions = [
        region(0x4000_0000, 0x4020_0000, data),
        region(0x4020_0000, 0x4040_0000, text),
        region(0x4040_0000, 0xc000_0000, data),
    ];
    paint(&mut table, &kernel, &kernel, geometry.base(), &regions, Leaves::Largest)?;
    // Its root goes to TTBR1_EL1.
    let table = table.publish();
    let (root, range) = (table.root(), table.view().range());
    let map = Map { root, geometry, regime, range, leaves: Leaves::Largest, memory_bytes: 0x8000_0000 };
    // In a kernel: the ID registers and MIDR_EL1 of the boot CPU, and what the command line tells of levels.
    let (id, midr) = (IdRegisters::default(), Midr::new(0xc00f_ac30));
    let tolerance = Levels::default().tolerance(0, &id, midr, false);
    println!("{midr} tolerates resizing: {}", tolerance.level() as u8);
    let tlb = TlbFeatures { range: true, level_hints: true, repeat: midr.must_repeat_tlbi() };
    Ok(LinearMap::new(kernel, map, Cpu { tolerance, tlb })?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let map = map(Kernel::new())?;
    map.refill();
    let at = |physical: u64| VirtAddr::new(map.view().geometry().base() + physical);
    let page = [at(0x8000_5000)..at(0x8000_6000)];
    let size = || map.view().translate(at(0x8000_4000)).map(|found| found.size);
    println!("a page of a block of 1 GiB cannot be written any more");
    map.set_memory_ro(&page, Context::MayWait)?;
    println!("its neighbour is a {}", size().ok_or("the neighbour is mapped")?);
    println!("it is hidden, while a spinlock is held");
    map.set_direct_map_invalid(&page, Context::Atomic)?;
    println!("it is as it was");
    map.set_direct_map_default(&page, Context::MayWait)?;
    println!("and so is the block");
    map.heal_all();
    if size() != Some(LeafSize::single(Level::L1)) {
        return Err("the block is not whole".into());
    }
    let (counters, summary) = (map.counters(), map.summary()?);
    let (tables, reserve) = (summary.tables(), map.reserve());
    println!("{tables} tables, {reserve} in reserve; {} splits, {} folds", counters.splits, counters.folds);
    println!("{:?}", counters.operations);
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
