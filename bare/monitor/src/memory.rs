//! Who has which memory: the monitor its image and a pool for tables, the guest all the rest. From this one list come
//! what the guest is told and what its stage 2 maps, so that the two agree.
//!
//! ```text
//! 0            RAM                                                    1 TiB
//! |  devices   |guest| image |  guest: Image, tree, initrd  | pool |  devices  |  nothing
//! ```

use core::fmt;
use core::ops::Range;

use kerncore::devicetree::{MAX_HIDDEN, MachineDescription};
use kerncore::early::{EarlyAllocator, End, Request};
use kerncore::finding::Findings;
use kerncore::list::List;
use kerncore::memory_map::{Kind, MAX_RANGES, MapFull, MemoryMap, Occupants};
use kerncore::range::{Bytes, PHYSICAL_END, PhysicalRange};
use pagetable::{Change, Stage2, TlbFeatures};
use spin::Once;
use vmsa::registers::{Stage2Control, encode_vttbr};
use vmsa::{
    Geometry, Granule4K, IdRegisters, IntermediateAddr, Layout, LeafSize, Level, PageSize, PhysAddr, Stage2Attributes,
    Stage2Memory,
};

use crate::boot::NotStarted;
use crate::map;
use crate::tables::{self, HARDWARE, PAGE_BYTES, Pool, Table};

/// The monitor takes whole pieces of this size, so that the guest can map what is beside them with blocks.
const PIECE_BYTES: u64 = 2 << 20;
/// Bytes that one table of pages maps.
const TABLE_REACH_BYTES: u64 = 2 << 20;
/// Where devices end: QEMU's virt machine has its PCIe window up to here.
const DEVICES_END: u64 = 1 << 40;
/// The guest's VMID; there is one guest.
const VMID: u16 = 1;

/// What the guest's memory may be used for: everything. What stage 1 says of memory, stage 2 leaves as it is.
const RAM: Stage2Attributes = memory(Stage2Memory::WriteBack);
const DEVICE: Stage2Attributes = memory(Stage2Memory::Device(1)).union(Stage2Attributes::XN1);

const fn memory(kind: Stage2Memory) -> Stage2Attributes {
    let Some(bits) = Stage2Attributes::with_memory(kind, false) else { panic!("every CPU has these") };
    bits.union(Stage2Attributes::READ_WRITE).union(Stage2Attributes::INNER_SHAREABLE).union(Stage2Attributes::AF)
}

/// The guest's memory.
type Ranges = List<PhysicalRange, MAX_RANGES>;
static GUEST: Once<Ranges> = Once::new();

/// The guest's stage 2: its shape and its root.
static STAGE2: Once<(Geometry<Granule4K>, PhysAddr)> = Once::new();

/// Stage 2 while the guest runs, changed under VMID [`VMID`] with HCR_EL2.{E2H, TGE} = {0, 0}: no TLBI that a CPU might lack,
/// and every one repeated, should one need it.
const REGIME: Stage2 =
    Stage2 { vmid: VMID, tlb: TlbFeatures { range: false, level_hints: false, repeat: true }, hardware_updates: false };

/// Has pages of the guest's memory fault at stage 2, on every CPU. One caller at a time, as for [`show`].
pub(crate) fn hide(pages: &[u64]) {
    edit(|from| Change::Hide { from }, pages);
}

/// Has pages that were hidden be there again.
pub(crate) fn show(pages: &[u64]) {
    edit(|from| Change::Show { from }, pages);
}

fn edit(change: impl Fn(Range<IntermediateAddr>) -> Change<Stage2>, pages: &[u64]) {
    let Some((geometry, root)) = STAGE2.get() else { return };
    let mut table = Table::live(&HARDWARE, *geometry, REGIME, *root);
    let mut gather = table.gather();
    for page in pages {
        let from = IntermediateAddr::new(*page)..IntermediateAddr::new(page + PAGE_BYTES);
        // A page changes in place: no table is needed, and none comes free.
        let changed = tables::change(&mut table, change(from), &mut gather, &mut Pool::new(0..0));
        debug_assert!(changed.is_ok());
    }
    let retired = gather.finish(&HARDWARE);
    debug_assert!(retired.count() == 0);
}

/// Whether `address` is in the guest's memory. Not before it is laid out.
pub(crate) fn is_guests(address: PhysAddr) -> bool {
    GUEST.get().is_some_and(|ranges| ranges.iter().any(|range| range.contains(address)))
}

/// What a loader has put into memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Occupied {
    /// The monitor.
    pub(crate) image: PhysicalRange,
    pub(crate) device_tree: PhysicalRange,
    /// The guest's Image.
    pub(crate) guest: PhysicalRange,
}

/// Who has which memory.
pub(crate) struct GuestMemory {
    /// The monitor's.
    pub(crate) hidden: List<PhysicalRange, MAX_HIDDEN>,
    /// All RAM, the monitor's too.
    ram: Ranges,
    pool: PhysicalRange,
}

/// How much memory the guest and the monitor have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summary {
    guest_bytes: u64,
    monitor_bytes: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of memory for the guest, {} for itself", Bytes(self.guest_bytes), Bytes(self.monitor_bytes))
    }
}

/// The registers that turn the guest's stage 2 on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stage2Registers {
    pub(crate) vtcr: u64,
    pub(crate) vttbr: u64,
    /// The widest ID_AA64MMFR0_EL1.PARange that the guest may see.
    pub(crate) physical_range: u64,
}

const GUEST_IMAGE: &str = "the guest's Image";
const POOL: &str = "the tables of stage 2";

/// Divides the machine's memory.
pub(crate) fn lay_out(
    machine: &mut MachineDescription,
    occupied: &Occupied,
    findings: &mut Findings,
) -> Result<GuestMemory, NotStarted> {
    let mut map = MemoryMap::new();
    let image = whole_pieces(occupied.image);
    map.make(machine, &Occupants { image: occupied.image, device_tree: occupied.device_tree }, findings);
    if findings.fatal().is_some() {
        return Err(NotStarted::Memory);
    }
    if !machine.has_memory(&occupied.guest) {
        return Err(NotStarted::Image("no memory is there for all of it", occupied.guest.start));
    }
    let full = |_: MapFull| NotStarted::Memory;
    map.mark(occupied.guest, Kind::Early(GUEST_IMAGE)).map_err(full)?;
    let other = |piece: &&kerncore::memory_map::Piece| {
        piece.range.overlaps(&image) && !matches!(piece.kind, Kind::Image | Kind::Free)
    };
    if let Some(piece) = map.pieces().iter().find(other) {
        return Err(NotStarted::Occupied(image, piece.kind));
    }
    map.mark(image, Kind::Image).map_err(full)?;
    let mut ram = Ranges::new(PhysicalRange::EMPTY);
    for range in map.ram() {
        ram.push(range.shrink_to_pages(PageSize::Size4K)).expect("the list is as long as the map");
    }
    let pages: u64 = ram.iter().map(|range| range.size_bytes() / TABLE_REACH_BYTES + 2).sum();
    // Tables of tables are one in 512; devices take blocks, and a few tables at each end of RAM.
    let tables = pages + pages / 512 + 8 * ram.len() as u64 + 32;
    let request = Request {
        size_bytes: (tables * PAGE_BYTES).next_multiple_of(PIECE_BYTES),
        alignment_bytes: PIECE_BYTES,
        below: PHYSICAL_END,
        from: End::Top,
        purpose: POOL,
    };
    let pool = EarlyAllocator::new(&mut map, PageSize::Size4K).allocate(&request).map_err(NotStarted::NoRoom)?;
    let mut hidden = List::new(PhysicalRange::EMPTY);
    for range in [image, pool] {
        hidden.push(range).expect("there is room for more than two");
    }
    Ok(GuestMemory { hidden, ram, pool })
}

fn whole_pieces(range: PhysicalRange) -> PhysicalRange {
    let end = range.end.align_up(PIECE_BYTES).unwrap_or(PHYSICAL_END);
    PhysicalRange::new(range.start.align_down(PIECE_BYTES), end)
}

impl GuestMemory {
    pub(crate) fn summary(&self) -> Summary {
        let bytes = |ranges: &[PhysicalRange]| ranges.iter().map(PhysicalRange::size_bytes).sum::<u64>();
        let monitor_bytes = bytes(&self.hidden);
        Summary { guest_bytes: bytes(&self.ram) - monitor_bytes, monitor_bytes }
    }

    /// Makes the guest's stage 2: its memory page by page (an emulator forgets blocks as a whole, and hides what a guest
    /// forgets to invalidate), and devices wherever no memory is.
    pub(crate) fn build_stage2(&self, cpu: &IdRegisters) -> Result<Stage2Registers, NotStarted> {
        let failed = |error| NotStarted::Tables("stage 2", error);
        let pool = self.pool.start.bits()..self.pool.end.bits();
        map::add(pool.clone(), map::READ_WRITE).map_err(|error| NotStarted::Tables("the monitor's map", error))?;
        let mut pool = Pool::new(pool);
        let geometry = geometry(cpu);
        let limit = 1 << geometry.input_bits();
        let root = pool.take(geometry.root_bytes(), geometry.root_bytes().max(PAGE_BYTES)).map_err(failed)?;
        let mut table =
            Table::offline_at(&HARDWARE, geometry, REGIME, root).map_err(|refusal| failed(refusal.into()))?;
        let mut gather = table.gather();
        let reach = PhysicalRange::new(PhysAddr::new(0), PhysAddr::new(limit));
        let mut guest = Ranges::new(PhysicalRange::EMPTY);
        let ram = self.ram.iter().map(|range| range.intersection(&reach));
        for range in ram.flat_map(|range| range.without(&self.hidden)) {
            guest.push(range).map_err(|_| NotStarted::Memory)?;
            tables::change(&mut table, mapped(range, RAM, LeafSize::PAGE), &mut gather, &mut pool).map_err(failed)?;
        }
        let devices = PhysicalRange::new(PhysAddr::new(0), PhysAddr::new(limit.min(DEVICES_END)));
        let mut not_devices = Ranges::new(PhysicalRange::EMPTY);
        for range in self.ram.iter() {
            let pages = map::pages(range.start.bits()..range.end.bits());
            not_devices.push(physical(pages)).map_err(|_| NotStarted::Memory)?;
        }
        for range in devices.without(&not_devices) {
            let change = mapped(range, DEVICE, LeafSize::LARGEST);
            tables::change(&mut table, change, &mut gather, &mut pool).map_err(failed)?;
        }
        // Nothing was live, so nothing comes free.
        let retired = gather.finish(&HARDWARE);
        debug_assert_eq!(retired.count(), 0);
        GUEST.call_once(|| guest);
        let range = cpu.physical_range().min(5);
        let root = table.publish().root();
        STAGE2.call_once(|| (geometry, root));
        Ok(Stage2Registers {
            vtcr: Stage2Control::new(geometry, range).encode().expect("the root is at level 0 or 1"),
            vttbr: encode_vttbr(Layout::Bits48, root, VMID, false),
            physical_range: range.into(),
        })
    }
}

fn physical(range: Range<u64>) -> PhysicalRange {
    PhysicalRange::new(PhysAddr::new(range.start), PhysAddr::new(range.end))
}

/// As many bits as the CPU's physical addresses have, up to 48, and the root where such a CPU wants it (D8.2.10).
fn geometry(cpu: &IdRegisters) -> Geometry<Granule4K> {
    let bits = cpu.output_bits().min(48);
    let start = if bits >= 44 { Level::L0 } else { Level::L1 };
    Geometry::stage2(bits, start, Layout::Bits48).expect("32 to 48 bits have such a root")
}

fn mapped(range: PhysicalRange, attributes: Stage2Attributes, largest: LeafSize) -> Change<Stage2> {
    let from = IntermediateAddr::new(range.start.bits())..IntermediateAddr::new(range.end.bits());
    Change::Map { from, to: range.start, attributes, largest }
}
