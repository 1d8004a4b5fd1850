//! What happens in a run: the parameters, the regions with what they hold from change to change, and one program per CPU.
//! All of it is data, so a run can be printed, shrunk and repeated.

use std::ops::Range;

use linearmap::{Context, Wanted};
use machine::syndrome::AccessKind;
use pagetable::{Change, El1};
use vmsa::{LeafSize, Level, PageSize, Stage1Attributes, VirtAddr};

use crate::content::{Content, ends};
use crate::omission::Omission;
use crate::parameters::Parameters;

/// First physical address of the pages that become tables.
pub const POOL: u64 = 0x10_0000_0000;
/// First physical address of the frames that leaves map.
pub const FRAMES: u64 = 0x40_0000_0000;

/// Tables that a linear map keeps where nothing else is said.
const RESERVE: usize = 4;

/// The licence that a change is made with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Permit {
    /// None.
    None,
    /// Break-before-make.
    Break,
    /// What every CPU tolerates; break-before-make if that is nothing.
    Tolerated,
    /// The nT protocol; break-before-make at level 0.
    NotCached,
    /// Every other CPU is off the page table; what the changing one tolerates, or break-before-make.
    Parked,
}

impl Permit {
    /// What it comes to where the CPUs that it concerns have level `bbm` at least and handle conflict aborts.
    pub const fn at(self, bbm: u8) -> Self {
        match self {
            Self::Tolerated if bbm < 2 => Self::Break,
            Self::NotCached if bbm < 1 => Self::Break,
            permit => permit,
        }
    }

    /// Whether an access may fault for a while.
    pub const fn has_window(self, bbm: u8) -> bool {
        match self {
            Self::Break | Self::NotCached => true,
            Self::Parked => bbm < 2,
            Self::None | Self::Tolerated => false,
        }
    }

    /// Whether conflict aborts may come for a while, which the census promises to handle: in place below level 3. The nT
    /// protocol changes the Contiguous bit in place.
    pub const fn is_abrupt(self, bbm: u8) -> bool {
        match self {
            Self::Tolerated | Self::NotCached => matches!(bbm, 1 | 2),
            Self::Parked => bbm == 2,
            Self::None | Self::Break => false,
        }
    }
}

/// One step of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Plans changes of a region and applies them. What TLBs must forget waits for [`Step::Finish`].
    Change {
        /// Region.
        region: usize,
        /// The list.
        changes: Vec<Change<El1>>,
        /// The licence.
        permit: Permit,
    },
    /// Pages of a region become what is wanted of them by the linear map, or it heals what it has changed there. All is complete
    /// then.
    Linear {
        /// Region.
        region: usize,
        /// Where.
        ranges: Vec<Range<VirtAddr>>,
        /// What; nothing is to heal.
        wanted: Option<Wanted>,
        /// From where.
        context: Context,
    },
    /// Finishes the gather: tables and frames that came free are reused from here on.
    Finish,
    /// An access by virtual address.
    Access {
        /// Region.
        region: usize,
        /// Virtual address.
        address: u64,
        /// What it does.
        kind: AccessKind,
    },
    /// An ISB.
    Synchronize,
    /// Waits until every change of a region is complete, then walks the page table from then on.
    Join(usize),
    /// Has the linear map count this CPU, then walks the page table from then on.
    Arrive,
    /// Hardware sets the access flag or the dirty state for an access to this address.
    Update(u64, AccessKind),
    /// Recognizes the instruction that a program runs, as a kernel does after a fault.
    Recognize {
        /// Region of the text.
        text: usize,
        /// Where in it.
        place: u64,
        /// Region of the linear map, which leads to the same frames.
        linear: usize,
        /// As often as this, each with its choices of what AT and the load come to.
        choices: Vec<(usize, usize)>,
    },
}

impl Step {
    /// The changes of a region that it makes.
    pub fn changes(&self) -> Option<(usize, Vec<Change<El1>>)> {
        match self {
            Self::Change { region, changes, .. } => Some((*region, changes.clone())),
            Self::Linear { region, ranges, wanted, .. } => {
                Some((*region, ranges.iter().flat_map(|range| linear(range.clone(), *wanted)).collect()))
            }
            _ => None,
        }
    }
}

/// What the linear map is to make of a range.
fn linear(from: Range<VirtAddr>, wanted: Option<Wanted>) -> Vec<Change<El1>> {
    const NONE: Stage1Attributes = Stage1Attributes::empty();
    let protect = |set, clear| Change::Protect { from: from.clone(), set, clear };
    let (read_only, never) = (Stage1Attributes::READ_ONLY, Stage1Attributes::PXN);
    let change = match wanted {
        None => Change::Collapse { from },
        Some(Wanted::ReadOnly) => protect(read_only, NONE),
        Some(Wanted::Writable) => protect(NONE, read_only),
        Some(Wanted::Executable) => protect(NONE, never),
        Some(Wanted::NotExecutable) => protect(never, NONE),
        Some(Wanted::ReadOnlyExecutable) => protect(read_only, never),
        Some(Wanted::Hidden) => Change::MakeInvalid { from },
        Some(Wanted::Shown) => Change::MakeValid { from },
        Some(Wanted::Leading { displacement, attributes }) => {
            let to = vmsa::PhysAddr::new(from.start.bits().wrapping_add(displacement));
            Change::Remap { from, to, attributes, largest: LeafSize::LARGEST }
        }
        Some(Wanted::Present { displacement, attributes }) => {
            let to = vmsa::PhysAddr::new(from.start.bits().wrapping_add(displacement));
            let attributes = attributes.union(Stage1Attributes::AF);
            Change::Map { from, to, attributes, largest: LeafSize::LARGEST }
        }
        Some(Wanted::Absent) => Change::UnmapMapped { from },
        Some(Wanted::Default) => return vec![protect(NONE, read_only), Change::MakeValid { from }],
    };
    vec![change]
}

/// A part of the input space that one program edits.
#[derive(Clone, Debug, Default)]
pub struct Region {
    /// What it holds at first, and after each [`Step::Change`].
    pub contents: Vec<Content>,
    /// Addresses where the final content is looked at.
    pub probes: Vec<u64>,
    /// log2 of the bytes of the largest leaf there may be: what a break-before-make window covers at most.
    pub largest_shift: u32,
}

/// A whole run, but for its schedule.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Name of the workload.
    pub workload: &'static str,
    /// What it was drawn from.
    pub seed: u64,
    /// Parameters.
    pub parameters: Parameters,
    /// What each region is mapped with at first: lists of changes to an empty table.
    pub initial: Vec<Vec<Change<El1>>>,
    /// Regions.
    pub regions: Vec<Region>,
    /// One program for each CPU.
    pub programs: Vec<Vec<Step>>,
    /// Steps left out, as (CPU, number).
    pub without: Vec<(usize, usize)>,
    /// Pages in the pool.
    pub pool: usize,
    /// CPUs that begin off the page table, as bits.
    pub off: u8,
    /// All programs use one linear map, under its lock, and call each other to park.
    pub is_shared: bool,
    /// Tables that the linear map keeps for atomic context: enough for what a workload asks of one CPU.
    pub reserve: usize,
    /// How far boot has come: whether it was said that others would be started, and that all run that were to.
    pub boot: (bool, bool),
    /// The table, of those that the linear map asks a program's CPU for, for which there is no memory.
    pub fails_at: Option<usize>,
    /// What the kernel of the linear map does not do.
    pub omitted: Option<Omission>,
    /// Each region is in a part of the page table, of a table of this level, which its editor claims.
    pub parts: Option<Level>,
    /// Changes of one page take the shortcut for it.
    pub has_shortcuts: bool,
}

impl Scenario {
    /// A scenario with no regions and no programs yet.
    pub fn new(workload: &'static str, seed: u64, parameters: Parameters) -> Self {
        let programs = vec![Vec::new(); parameters.cpus];
        let (initial, regions) = (Vec::new(), Vec::new());
        Self {
            workload,
            seed,
            parameters,
            initial,
            regions,
            programs,
            without: Vec::new(),
            pool: 24,
            off: 0,
            is_shared: false,
            reserve: RESERVE,
            boot: (true, true),
            fails_at: None,
            omitted: None,
            parts: None,
            has_shortcuts: false,
        }
    }

    /// CPUs that walk the page table from the beginning, as bits.
    pub fn walking(&self) -> u8 {
        (0..self.parameters.cpus).fold(0, |bits, cpu| bits | 1 << cpu) & !self.off
    }

    /// Whether a CPU edits page tables, as the first always does.
    pub fn edits(&self, cpu: usize) -> bool {
        cpu == 0 || self.programs[cpu].iter().any(|step| *step == Step::Finish || step.changes().is_some())
    }

    /// Where the first page of the first region leads, which no step touches.
    pub(crate) fn first_frame(&self) -> u64 {
        let stretch = self.regions.first().and_then(|region| region.contents.first()?.stretches().first());
        stretch.map_or(FRAMES, |stretch| stretch.output)
    }

    /// Leaves steps out, and with them those that make no sense any more; then works out what the regions hold.
    pub fn settle(mut self, without: &[(usize, usize)]) -> Self {
        self.without = without.to_vec();
        self.regions = vec![Region::default(); self.initial.len()];
        let page_size = self.parameters.page_size;
        for (region, initial) in self.regions.iter_mut().zip(&self.initial) {
            let mut content = Content::default();
            initial.iter().for_each(|change| content.make(change));
            region.contents.push(content);
            region.largest_shift = initial.iter().map(|it| largest_shift(it, page_size)).max().unwrap_or_default();
        }
        for cpu in 0..self.programs.len() {
            let program = std::mem::take(&mut self.programs[cpu]);
            let kept = program.into_iter().enumerate().filter(|(number, _)| !without.contains(&(cpu, *number)));
            let kept: Vec<Step> = kept.map(|(_, step)| step).filter(|step| self.advance(step)).collect();
            self.programs[cpu] = kept;
        }
        self.find_probes();
        self
    }

    /// Whether a step makes sense after those before it.
    fn advance(&mut self, step: &Step) -> bool {
        let Some((region, changes)) = step.changes() else { return true };
        let largest = changes.iter().map(|it| largest_shift(it, self.parameters.page_size)).max().unwrap_or_default();
        let Region { contents, largest_shift, .. } = &mut self.regions[region];
        let Some(mut content) = contents.last().cloned() else { return false };
        for change in &changes {
            if !is_possible(&content, change) {
                return false;
            }
            content.make(change);
        }
        contents.push(content);
        *largest_shift = largest.max(*largest_shift);
        true
    }

    /// The ends of every stretch there ever is.
    fn find_probes(&mut self) {
        for region in &mut self.regions {
            let page = self.parameters.page_size.size_bytes();
            let ends = |content: &Content| {
                content.stretches().iter().flat_map(|it| [it.first, it.last() & !(page - 1)]).collect::<Vec<_>>()
            };
            region.probes = region.contents.iter().flat_map(ends).collect();
            region.probes.sort_unstable();
            region.probes.dedup();
        }
    }
}

/// Whether the engine has to accept a change: maps go into holes, protects go where something is throughout.
pub fn is_possible(content: &Content, change: &Change<El1>) -> bool {
    let (first, last) = ends(change);
    let covered: u64 = content.within(first, last).map(|it| it.bytes).sum();
    match change {
        Change::Map { .. } => covered == 0,
        Change::Protect { .. } | Change::UnmapMapped { .. } | Change::MakeInvalid { .. } | Change::MakeValid { .. } => {
            covered == last - first + 1
        }
        _ => true,
    }
}

/// log2 of the bytes of the largest leaf that a change makes.
fn largest_shift(change: &Change<El1>, page_size: PageSize) -> u32 {
    match change {
        Change::Map { largest, .. } | Change::Remap { largest, .. } => largest.shift(page_size),
        // Whatever folds may fold as far as groups of level-2 blocks.
        Change::Collapse { .. } => LeafSize::group(Level::L2).shift(page_size),
        _ => 0,
    }
}

/// What a break-before-make window may cover: the largest leaves around a change.
pub fn window(region: &Region, change: &Change<El1>, page_size: PageSize) -> (u64, u64) {
    let (first, last) = ends(change);
    let bytes = 1u64 << region.largest_shift.max(page_size.shift());
    (first & !(bytes - 1), last | (bytes - 1))
}
