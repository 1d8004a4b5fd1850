//! Who has which memory: the monitor its image and a pool for tables, the guest all the rest. From this one list come
//! what the guest is told and what its stage 2 maps, so that the two agree.
//!
//! ```text
//! 0            RAM                                                    1 TiB
//! |  devices   |guest| image |  guest: Image, tree, initrd  | pool |  devices  |  nothing
//! ```

use core::fmt;

use common::supply::Bump;
use kerncore::devicetree::{MAX_HIDDEN, MachineDescription};
use kerncore::early::{EarlyAllocator, End, Request};
use kerncore::finding::Findings;
use kerncore::list::List;
use kerncore::memory_map::{Kind, MAX_RANGES, MapFull, MemoryMap, Occupants, Purpose};
use kerncore::range::{Bytes, PHYSICAL_END, PhysicalRange};
use moncore::realm::{Space, States};
use spin::Once;
use vmsa::{PageSize, PhysAddr};

use crate::map;
use crate::problem::NotStarted;
use crate::tables::{self, PAGE_BYTES};

/// The monitor takes whole pieces of this size, so that the guest can map what is beside them with blocks.
const PIECE_BYTES: u64 = 2 << 20;
/// Bytes that one table of pages maps.
const TABLE_REACH_BYTES: u64 = 2 << 20;
/// Where devices end: QEMU's virt machine has its PCIe window up to here.
const DEVICES_END: u64 = 1 << 40;

/// Ranges of memory.
pub(crate) type Ranges = List<PhysicalRange, MAX_RANGES>;
/// The guest's memory, in ascending order.
static GUEST: Once<Ranges> = Once::new();

/// Whether `address` is in the guest's memory. Not before it is laid out.
pub(crate) fn is_guests(address: PhysAddr) -> bool {
    GUEST.get().is_some_and(|ranges| ranges.iter().any(|range| range.contains(address)))
}

/// Where the guest's memory ends that begins with the page at `start`: there, if that is not the guest's.
pub(crate) fn guests_end(start: u64) -> u64 {
    let mut end = start;
    for range in GUEST.get().into_iter().flat_map(|ranges| ranges.iter()) {
        if range.contains(PhysAddr::new(end)) {
            end = range.end.bits();
        }
    }
    end
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

/// Divides the machine's memory. All of it must have a protected address if the guest is a realm.
pub(crate) fn lay_out(
    machine: &mut MachineDescription,
    occupied: &Occupied,
    realm: Option<Space>,
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
    map.mark(occupied.guest, Kind::Early(Purpose::Guest)).map_err(full)?;
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
    let mut bytes = (pages + pages / 512 + 8 * ram.len() as u64 + 32) * PAGE_BYTES;
    if let Some(space) = realm {
        let end = ram.iter().map(|range| range.end.bits()).max().unwrap_or(0);
        if end > space.protected_end() {
            return Err(NotStarted::RealmTooNarrow(space, end));
        }
        // Everything a second time at its unprotected address, and the states of pages.
        bytes = 2 * bytes + 8 * States::words(end) as u64;
    }
    let request = Request {
        size_bytes: bytes.next_multiple_of(PIECE_BYTES),
        alignment_bytes: PIECE_BYTES,
        below: PHYSICAL_END,
        from: End::Top,
        purpose: Purpose::Stage2Tables,
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

    /// Where memory ends.
    pub(crate) fn end(&self) -> u64 {
        self.ram.iter().map(|range| range.end.bits()).max().unwrap_or(0)
    }

    /// Makes the pool the monitor's to write, at its physical addresses.
    pub(crate) fn open_pool(&self) -> Result<Bump, NotStarted> {
        let pool = self.pool.start.bits()..self.pool.end.bits();
        map::add(pool.clone(), map::READ_WRITE).map_err(|error| NotStarted::Tables("the monitor's map", error))?;
        Ok(tables::pool(pool))
    }

    /// What the guest has of memory below `end`; from now on this is known to be its.
    pub(crate) fn give_guest(&self, end: u64) -> Result<&'static Ranges, NotStarted> {
        let reach = PhysicalRange::new(PhysAddr::new(0), PhysAddr::new(end));
        let mut guest = Ranges::new(PhysicalRange::EMPTY);
        let ram = self.ram.iter().map(|range| range.intersection(&reach));
        for range in ram.flat_map(|range| range.without(&self.hidden)) {
            guest.push(range).map_err(|_| NotStarted::Memory)?;
        }
        Ok(GUEST.call_once(|| guest))
    }

    /// Where devices may be below `end`: wherever no memory is.
    pub(crate) fn devices(&self, end: u64) -> Result<Ranges, NotStarted> {
        let all = PhysicalRange::new(PhysAddr::new(0), PhysAddr::new(end.min(DEVICES_END)));
        let mut not_devices = Ranges::new(PhysicalRange::EMPTY);
        for range in self.ram.iter() {
            let pages = map::pages(range.start.bits()..range.end.bits());
            let pages = PhysicalRange::new(PhysAddr::new(pages.start), PhysAddr::new(pages.end));
            not_devices.push(pages).map_err(|_| NotStarted::Memory)?;
        }
        let mut devices = Ranges::new(PhysicalRange::EMPTY);
        for range in all.without(&not_devices) {
            devices.push(range).map_err(|_| NotStarted::Memory)?;
        }
        Ok(devices)
    }
}
