//! The guest's stage 2: made before it runs, changed while it does, on one CPU at a time.
//!
//! A realm's has all its memory twice, and one of the two is kept invalid, so that no change needs a table:
//!
//! ```text
//! 0                                protected end
//! |  RAM: valid  |  EMPTY: kept    |  RAM: kept  |  EMPTY: valid, for data  |  devices
//! ```

use core::ops::Range;
use core::slice;

use common::supply::{Bump, ChangeError};
use hardware::lock::Lock;
use kerncore::range::PhysicalRange;
use moncore::realm::{GRANULE_BYTES, Settings, Space, State, States};
use pagetable::{Change, Gather, HardwareUpdates, Stage2};
use vmsa::registers::{Stage2Control, encode_vttbr};
use vmsa::{
    Geometry, Granule4K, IdRegisters, IntermediateAddr, Layout, LeafSize, Level, PhysAddr, Stage2Attributes,
    Stage2Memory,
};

use crate::map::{self, WINDOW_PAGES, Window};
use crate::memory::{self, GuestMemory};
use crate::problem::NotStarted;
use crate::tables::{self, HARDWARE, PAGE_BYTES, Table};

/// The guest's VMID; there is one guest.
const VMID: u16 = 1;

/// What the guest's memory may be used for: everything. What stage 1 says of memory, stage 2 leaves as it is.
const RAM: Stage2Attributes = memory_of(Stage2Memory::WriteBack);
/// What a realm shares: no instruction is fetched from there (Arm DEN 0137, A5.2.6).
const SHARED: Stage2Attributes = RAM.union(Stage2Attributes::XN1);
const DEVICE: Stage2Attributes = memory_of(Stage2Memory::Device(1)).union(Stage2Attributes::XN1);

const fn memory_of(kind: Stage2Memory) -> Stage2Attributes {
    let Some(bits) = Stage2Attributes::with_memory(kind, false) else { panic!("every CPU has these") };
    bits.union(Stage2Attributes::READ_WRITE).union(Stage2Attributes::INNER_SHAREABLE).union(Stage2Attributes::AF)
}

/// Stage 2 while the guest runs, changed under VMID [`VMID`] with HCR_EL2.{E2H, TGE} = {0, 0}: no TLBI that a CPU might lack,
/// and every one repeated, should one need it.
const REGIME: Stage2 = Stage2 { vmid: VMID, tlb: common::ANY_CPU, hardware_updates: HardwareUpdates::None };

/// What every byte of a page is once its state has changed, for a realm's host may have any memory there.
const SCRUBBED: u64 = 0x5c5c_5c5c_5c5c_5c5c;

/// The registers that turn the guest's stage 2 on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stage2Registers {
    pub(crate) vtcr: u64,
    pub(crate) vttbr: u64,
    /// The widest ID_AA64MMFR0_EL1.PARange that the guest may see.
    pub(crate) physical_range: u64,
}

/// The guest's stage 2 once it may be live.
struct Live {
    geometry: Geometry<Granule4K>,
    root: PhysAddr,
    realm: Option<(Space, States<'static>)>,
}

/// Its lock is that of the page table and of what the realm's window shows.
static STAGE2: Lock<Option<Live>> = Lock::new(None);

/// A stage 2 that is being made.
struct Maker {
    table: Table<Stage2>,
    gather: Gather<Granule4K, Stage2>,
    pool: Bump,
}

impl Maker {
    /// Maps a range `distance` bytes above its physical addresses.
    fn map(
        &mut self,
        range: &PhysicalRange,
        distance: u64,
        attributes: Stage2Attributes,
        largest: LeafSize,
    ) -> Result<(), NotStarted> {
        let from = inputs(range.start.bits() + distance..range.end.bits() + distance);
        self.change(Change::Map { from, to: range.start, attributes, largest })
    }

    fn change(&mut self, change: Change<Stage2>) -> Result<(), NotStarted> {
        tables::change(&mut self.table, change, &mut self.gather, &mut self.pool).map_err(failed)
    }
}

fn failed(error: ChangeError) -> NotStarted {
    NotStarted::Tables("stage 2", error)
}

/// Makes the guest's stage 2: its memory page by page (an emulator forgets blocks as a whole, and hides what a guest
/// forgets to invalidate), and devices wherever no memory is.
pub(crate) fn build(
    memory: &GuestMemory,
    cpu: &IdRegisters,
    realm: Option<Settings>,
) -> Result<Stage2Registers, NotStarted> {
    let bits = input_bits(cpu, realm)?;
    let geometry = geometry(bits);
    let mut pool = memory.open_pool()?;
    let root = pool.take_bytes(geometry.root_bytes(), geometry.root_bytes().max(PAGE_BYTES)).map_err(failed)?;
    let table = Table::offline_at(&HARDWARE, geometry, REGIME, root).map_err(|refusal| failed(refusal.into()))?;
    let mut maker = Maker { gather: table.gather(), table, pool };
    let unprotected = realm.map(|realm| realm.space.protected_end());
    let end = unprotected.unwrap_or(1 << bits);
    let guest = memory.give_guest(end)?;
    for range in guest.iter() {
        maker.map(range, 0, RAM, LeafSize::PAGE)?;
        if let Some(distance) = unprotected {
            maker.map(range, distance, SHARED, LeafSize::PAGE)?;
            maker.change(Change::MakeInvalid {
                from: inputs(range.start.bits() + distance..range.end.bits() + distance),
            })?;
        }
    }
    for range in memory.devices(end)?.iter() {
        if realm.is_none_or(|realm| realm.has_protected_devices) {
            maker.map(range, 0, DEVICE, LeafSize::LARGEST)?;
        }
        if let Some(distance) = unprotected {
            maker.map(range, distance, DEVICE, LeafSize::LARGEST)?;
        }
    }
    let realm = match realm {
        Some(realm) => Some((realm.space, all_ram(memory, &mut maker.pool)?)),
        None => None,
    };
    // Nothing was live, so nothing comes free.
    let retired = maker.gather.finish(&HARDWARE);
    debug_assert_eq!(retired.count(), 0);
    let root = maker.table.publish().root();
    STAGE2.with(|stage2| *stage2 = Some(Live { geometry, root, realm }));
    let range = cpu.physical_range().min(5);
    Ok(Stage2Registers {
        vtcr: Stage2Control::new(geometry, range).encode().expect("the root is at level 0 or 1"),
        vttbr: encode_vttbr(Layout::Bits48, root, VMID, false),
        physical_range: range.into(),
    })
}

/// The states of a realm's pages as it finds them: all its memory is RAM.
fn all_ram(memory: &GuestMemory, pool: &mut Bump) -> Result<States<'static>, NotStarted> {
    let count = States::words(memory.end());
    let start = pool.take_bytes(8 * count as u64, PAGE_BYTES).map_err(failed)?;
    // SAFETY: the pool is mapped writable at its physical addresses and gives out each page once.
    let words = unsafe { slice::from_raw_parts_mut(start.bits() as *mut u64, count) };
    let mut states = States::new(words);
    for range in memory.give_guest(memory.end())?.iter() {
        states.set(range.start.bits()..range.end.bits(), State::Ram);
    }
    Ok(states)
}

/// As many bits as the CPU's physical addresses have, up to 48, or as the realm's have.
fn input_bits(cpu: &IdRegisters, realm: Option<Settings>) -> Result<u32, NotStarted> {
    let most = cpu.output_bits().min(48);
    match realm.map(|realm| realm.space) {
        Some(space) if space.bits() > most => Err(NotStarted::RealmTooWide(space, most)),
        space => Ok(space.map_or(most, Space::bits)),
    }
}

/// The root where a CPU with so many physical address bits wants it (D8.2.10).
fn geometry(bits: u32) -> Geometry<Granule4K> {
    let start = if bits >= 44 { Level::L0 } else { Level::L1 };
    Geometry::stage2(bits, start, Layout::Bits48).expect("32 to 48 bits have such a root")
}

fn inputs(range: Range<u64>) -> Range<IntermediateAddr> {
    IntermediateAddr::new(range.start)..IntermediateAddr::new(range.end)
}

impl Live {
    /// Makes changes of pages in place, for which no table is needed, up to the first that fails; every CPU knows of them when
    /// this returns.
    fn edit(&self, changes: impl IntoIterator<Item = Change<Stage2>>) -> Result<(), ChangeError> {
        let mut table: Table<Stage2> = Table::live(&HARDWARE, self.geometry, REGIME, self.root)?;
        let mut gather = table.gather();
        let make = |change| tables::change(&mut table, change, &mut gather, &mut tables::pool(0..0));
        let changed = changes.into_iter().try_for_each(make);
        let retired = gather.finish(&HARDWARE);
        debug_assert_eq!(retired.count(), 0);
        changed
    }

    /// Whether the page of an address of the guest's memory is at that address: it is private, if the guest is a realm.
    fn is_private(&self, address: u64) -> bool {
        self.realm.as_ref().is_none_or(|(_, states)| states.state(address) == State::Ram)
    }

    /// Changes the state of a run of pages that is not longer than the window, all of it or nothing: what was mapped is
    /// forgotten by every CPU before the memory is scrubbed, and scrubbed before the other address leads to it.
    fn turn(&mut self, run: Range<u64>, state: State) -> Result<(), ChangeError> {
        let Some((space, _)) = self.realm else { return Ok(()) };
        let distance = space.protected_end();
        let (protected, alias) = (inputs(run.clone()), inputs(run.start + distance..run.end + distance));
        let (hidden, shown) = if state == State::Ram { (alias, protected) } else { (protected, alias) };
        self.edit([Change::MakeInvalid { from: hidden.clone() }])?;
        let pages = PhysicalRange::new(PhysAddr::new(run.start), PhysAddr::new(run.end));
        if let Err(error) = map::with_window(pages, |window| window.fill(SCRUBBED)) {
            self.edit([Change::MakeValid { from: hidden }])?;
            return Err(error);
        }
        self.edit([Change::MakeValid { from: shown }])
    }

    /// The same for any range of pages of the guest's memory that is not longer than the window.
    fn set_state(&mut self, range: Range<u64>, state: State) -> Result<(), ChangeError> {
        let mut at = range.start;
        while at < range.end {
            let Some((_, states)) = &self.realm else { return Ok(()) };
            let (before, end) = states.run(at..range.end);
            if before != state {
                self.turn(at..end, state)?;
                if let Some((_, states)) = &mut self.realm {
                    states.set(at..end, state);
                }
            }
            at = end;
        }
        Ok(())
    }
}

/// Runs `body` with the guest's stage 2, if there is one yet.
fn with_live<R>(body: impl FnOnce(&mut Live) -> R) -> Option<R> {
    STAGE2.with(|stage2| stage2.as_mut().map(body))
}

/// Has pages of the guest's memory fault at stage 2, on every CPU.
pub(crate) fn hide(pages: &[u64]) {
    change_private(pages, |from| Change::MakeInvalid { from });
}

/// Has pages that were hidden be there again, unless the guest has shared them meanwhile.
pub(crate) fn show(pages: &[u64]) {
    change_private(pages, |from| Change::MakeValid { from });
}

fn change_private(pages: &[u64], change: impl Fn(Range<IntermediateAddr>) -> Change<Stage2>) {
    with_live(|live| {
        let private = pages.iter().filter(|page| live.is_private(**page));
        let changed = live.edit(private.map(|page| change(inputs(*page..page + PAGE_BYTES))));
        debug_assert!(changed.is_ok());
    });
}

/// What an intermediate physical address is to the guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Meaning {
    /// Its memory, there for it.
    Present,
    /// Memory that it shares, which is at the unprotected address.
    Shared,
    /// Its own memory, which is at the protected address.
    Private,
    /// Nothing of its memory.
    Other,
}

/// Tells what an address means at this moment.
pub(crate) fn meaning(address: u64) -> Meaning {
    let live = with_live(|live| {
        let unalias = live.realm.as_ref().and_then(|(space, _)| space.unalias(address));
        let is_private = live.is_private(unalias.unwrap_or(address));
        (unalias, is_private)
    });
    let Some((unalias, is_private)) = live else { return Meaning::Other };
    match (memory::is_guests(PhysAddr::new(unalias.unwrap_or(address))), unalias.is_none(), is_private) {
        (false, ..) => Meaning::Other,
        (true, true, true) | (true, false, false) => Meaning::Present,
        (true, true, false) => Meaning::Shared,
        (true, false, true) => Meaning::Private,
    }
}

/// The state of the first page of a protected range, and where in the range that ends.
pub(crate) fn state(range: Range<u64>) -> (State, u64) {
    let found = with_live(|live| live.realm.as_ref().map(|(_, states)| states.run(range.clone())));
    found.flatten().unwrap_or((State::Empty, range.end))
}

/// Changes the state of a protected range, of which only what is the guest's memory may become RAM. Gives where it stopped,
/// which is the end of the range unless something is wrong.
pub(crate) fn set_state(range: Range<u64>, state: State) -> u64 {
    const CHUNK_BYTES: u64 = WINDOW_PAGES * GRANULE_BYTES;
    let mut at = range.start;
    while at < range.end {
        // Where nothing changes there is nothing to hold the lock for.
        let (before, end) = self::state(at..range.end);
        let end = if before == state { end } else { end.min(at + CHUNK_BYTES) };
        if before != state && with_live(|live| live.set_state(at..end, state)).is_none_or(|done| done.is_err()) {
            return at;
        }
        at = end;
    }
    at
}

/// Runs `body` with a page that the guest shares, given its address: a realm's is EMPTY, and at its unprotected address; any other guest
/// shares all. `None` if that is none. The page stays shared meanwhile.
pub(crate) fn with_shared_page<R>(address: u64, body: impl FnOnce(&Window) -> R) -> Option<Result<R, ChangeError>> {
    with_live(|live| {
        let page = match &live.realm {
            Some((space, states)) => space.unalias(address).filter(|page| states.state(*page) == State::Empty)?,
            None => address,
        };
        let pages = PhysicalRange::from_size(PhysAddr::new(page), PAGE_BYTES);
        let is_one = page.is_multiple_of(PAGE_BYTES) && memory::is_guests(pages.start);
        is_one.then(|| map::with_window(pages, body))
    })
    .flatten()
}

/// Runs `body` with the private page of a realm's that holds an address; `None` if that is none. The page stays private
/// meanwhile.
pub(crate) fn with_private_page<R>(address: u64, body: impl FnOnce(&Window) -> R) -> Option<Result<R, ChangeError>> {
    let page = address & !(PAGE_BYTES - 1);
    if !memory::is_guests(PhysAddr::new(page)) {
        return None;
    }
    let pages = PhysicalRange::from_size(PhysAddr::new(page), PAGE_BYTES);
    with_live(|live| live.is_private(page).then(|| map::with_window(pages, body))).flatten()
}
