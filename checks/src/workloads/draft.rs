//! A scenario while it is being written: regions, pages and steps in a few words.

use std::ops::Range;

use linearmap::{Context, Wanted};
use machine::seed::Seed;
use machine::syndrome::AccessKind;
use pagetable::{Change, El1};
use vmsa::{AddressHalf, Layout, LeafSize, Level, PageSize, PhysAddr, Stage1Attributes, VirtAddr};

use crate::levels::Levels;
use crate::parameters::Parameters;
use crate::scenario::{FRAMES, Permit, Scenario, Step};

/// A scenario under way.
pub struct Draft {
    scenario: Scenario,
    /// First input address of each region.
    bases: Vec<u64>,
    /// Where random choices come from.
    pub seed: Seed,
    /// Regions share tables of pages.
    pub is_near: bool,
}

impl Draft {
    /// A draft of an empty scenario.
    pub(crate) fn new(scenario: Scenario, seed: Seed) -> Self {
        let mut draft = Self { scenario, bases: Vec::new(), seed, is_near: false };
        // A page that nobody touches keeps the tables that regions share from being empty.
        draft.region(&[]);
        let anchor = draft.map(0, 0..1, LeafSize::PAGE);
        draft.scenario.initial[0].push(anchor);
        draft
    }

    pub(crate) fn into_scenario(self) -> Scenario {
        self.scenario
    }

    /// The parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.scenario.parameters
    }

    /// The parameters, to be bent before the first region.
    pub fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.scenario.parameters
    }

    /// The first CPU is the only one.
    pub fn one_cpu(&mut self) {
        self.set_cpus(1);
    }

    /// There are so many CPUs.
    pub fn set_cpus(&mut self, cpus: usize) {
        self.scenario.parameters.cpus = cpus;
        self.scenario.programs.resize(cpus, Vec::new());
    }

    /// All programs use one linear map, whose reserve is for so many tables, and call each other to park.
    pub fn share_map(&mut self, reserve: usize) {
        self.scenario.is_shared = true;
        self.scenario.reserve = reserve;
    }

    /// `cpu` begins off the page table, has the linear map count it, and walks the page table from then on.
    pub fn arrive(&mut self, cpu: usize) {
        self.scenario.off |= 1 << cpu;
        self.scenario.programs[cpu].push(Step::Arrive);
    }

    /// Each region is edited as a part of its own, a table of `level`. To be said before the first region.
    pub fn claim_parts(&mut self, level: Level) {
        self.scenario.parts = Some(level);
    }

    /// Changes of one page take the shortcut for it.
    pub fn take_shortcuts(&mut self) -> &mut Self {
        self.scenario.has_shortcuts = true;
        self
    }

    /// CPUs tolerate that much.
    pub fn on(&mut self, levels: Levels) -> &mut Self {
        self.parameters_mut().bbm = levels;
        self
    }

    /// Pages in the pool.
    pub fn set_pool(&mut self, pages: usize) {
        self.scenario.pool = pages;
    }

    fn page_size(&self) -> PageSize {
        self.scenario.parameters.page_size
    }

    /// Pages of a level-2 block.
    pub fn block(&self) -> u64 {
        1 << self.page_size().index_bits()
    }

    /// Pages of a contiguous group of pages.
    pub fn group(&self) -> u64 {
        LeafSize::group(Level::L3).size_bytes(self.page_size()) >> self.page_size().shift()
    }

    /// Pages of a contiguous group of level-2 blocks.
    pub fn block_group(&self) -> u64 {
        LeafSize::group(Level::L2).size_bytes(self.page_size()) >> self.page_size().shift()
    }

    /// A new region, with these leaf sizes from its start on.
    pub fn region(&mut self, leaves: &[(Range<u64>, LeafSize)]) -> usize {
        let number = self.bases.len() as u64;
        let size = self.page_size();
        let stride = match self.scenario.parts {
            // What a table of level 2 reaches, as parts share no table of theirs.
            Some(Level::L2) => LeafSize::single(Level::L1),
            _ if self.is_near => LeafSize::group(Level::L3),
            _ => LeafSize::group(Level::L2),
        };
        let parameters = &self.scenario.parameters;
        let half = match parameters.half {
            AddressHalf::Lower => 0,
            AddressHalf::Upper => !0 << parameters.input_bits,
        };
        // Near regions lie in the anchor's own table.
        self.bases.push(half + number * stride.size_bytes(size));
        self.scenario.initial.push(Vec::new());
        let changes: Vec<_> =
            leaves.iter().map(|(pages, largest)| self.map(number as usize, pages.clone(), *largest)).collect();
        self.scenario.initial[number as usize] = changes;
        number as usize
    }

    /// The input address of a page.
    pub fn address(&self, region: usize, page: u64) -> u64 {
        self.bases[region] + (page << self.page_size().shift())
    }

    /// The input addresses of pages.
    pub fn range(&self, region: usize, pages: Range<u64>) -> Range<VirtAddr> {
        VirtAddr::new(self.address(region, pages.start))..VirtAddr::new(self.address(region, pages.end))
    }

    /// Maps pages to frames that keep their place, so that the largest leaves fit.
    pub fn map(&self, region: usize, pages: Range<u64>, largest: LeafSize) -> Change<El1> {
        self.map_to(region, pages, largest, 0)
    }

    /// Maps pages to frames `skew` pages further on, in another part of memory.
    pub fn map_to(&self, region: usize, pages: Range<u64>, largest: LeafSize, skew: u64) -> Change<El1> {
        let high = if self.parameters().layout == Layout::Bits48 { 0 } else { 0x9 << 48 };
        let part = if skew == 0 { 0 } else { 1 << 37 };
        let offset = self.address(region, pages.start) - self.bases[0];
        let to = high + FRAMES + part + offset + (skew << self.page_size().shift());
        let attributes = self.parameters().data();
        Change::Map { from: self.range(region, pages), to: PhysAddr::new(to), attributes, largest }
    }

    /// Maps pages of a region to the frames of another region.
    pub fn map_like(&self, region: usize, pages: Range<u64>, largest: LeafSize, other: usize) -> Change<El1> {
        let from = self.range(region, pages.clone());
        match self.map(other, pages, largest) {
            Change::Map { to, attributes, largest, .. } => Change::Map { from, to, attributes, largest },
            change => change,
        }
    }

    /// Maps pages as [`Draft::map_to`] does, whatever they hold now.
    pub fn remap(&self, region: usize, pages: Range<u64>, largest: LeafSize, skew: u64) -> Change<El1> {
        match self.map_to(region, pages, largest, skew) {
            Change::Map { from, to, attributes, largest } => Change::Remap { from, to, attributes, largest },
            change => change,
        }
    }

    /// Sets and clears attributes of pages.
    pub fn protect(
        &self,
        region: usize,
        pages: Range<u64>,
        set: Stage1Attributes,
        clear: Stage1Attributes,
    ) -> Change<El1> {
        Change::Protect { from: self.range(region, pages), set, clear }
    }

    /// Makes pages read-only.
    pub fn read_only(&self, region: usize, pages: Range<u64>) -> Change<El1> {
        self.protect(region, pages, Stage1Attributes::READ_ONLY, Stage1Attributes::empty())
    }

    /// Unmaps pages.
    pub fn unmap(&self, region: usize, pages: Range<u64>) -> Change<El1> {
        Change::Unmap { from: self.range(region, pages) }
    }

    /// Makes the leaves of pages as large as they can be.
    pub fn collapse(&self, region: usize, pages: Range<u64>) -> Change<El1> {
        Change::Collapse { from: self.range(region, pages) }
    }

    /// One more change of a region before any CPU walks it.
    pub fn begin_with(&mut self, region: usize, change: Change<El1>) {
        self.scenario.initial[region].push(change);
    }

    /// Every CPU but the first begins off the page table, until it joins.
    pub fn park(&mut self) {
        self.scenario.off = !1;
    }

    /// `cpu` waits until every change of a region is complete, and walks the page table from then on.
    pub fn join(&mut self, cpu: usize, region: usize) {
        self.scenario.programs[cpu].push(Step::Join(region));
    }

    /// Splits at a page.
    pub fn split(&self, region: usize, page: u64) -> Change<El1> {
        Change::Split { at: VirtAddr::new(self.address(region, page)) }
    }

    /// `cpu` makes changes, which wait for [`Draft::finish`].
    pub fn change(&mut self, cpu: usize, region: usize, changes: Vec<Change<El1>>) {
        self.scenario.programs[cpu].push(Step::Change { region, changes, permit: Permit::None });
    }

    /// `cpu` makes changes with a licence.
    pub fn change_by(&mut self, permit: Permit, cpu: usize, region: usize, changes: Vec<Change<El1>>) {
        self.scenario.programs[cpu].push(Step::Change { region, changes, permit });
    }

    /// `cpu` finishes its gather.
    pub fn finish(&mut self, cpu: usize) {
        self.scenario.programs[cpu].push(Step::Finish);
    }

    /// `cpu` reads a page.
    pub fn read(&mut self, cpu: usize, region: usize, page: u64) {
        self.access(cpu, region, page, AccessKind::Read);
    }

    /// `cpu` accesses a page.
    pub fn access(&mut self, cpu: usize, region: usize, page: u64, kind: AccessKind) {
        let address = self.address(region, page) + 0x40;
        self.scenario.programs[cpu].push(Step::Access { region, address, kind });
    }

    /// `cpu` executes an ISB.
    pub fn synchronize(&mut self, cpu: usize) {
        self.scenario.programs[cpu].push(Step::Synchronize);
    }

    /// Hardware of `cpu` sets what it sets for an access to a page.
    pub fn update(&mut self, cpu: usize, region: usize, page: u64, kind: AccessKind) {
        let address = self.address(region, page);
        self.scenario.programs[cpu].push(Step::Update(address, kind));
    }

    /// The kernel of `cpu` recognizes what a page of text begins with, by the linear map.
    pub fn recognize(&mut self, cpu: usize, (text, page): (usize, u64), linear: usize, choices: &[(usize, usize)]) {
        let (place, choices) = (self.address(text, page), choices.to_vec());
        self.scenario.programs[cpu].push(Step::Recognize { text, place, linear, choices });
    }

    /// `cpu` asks the linear map for something.
    pub fn want(&mut self, cpu: usize, region: usize, pages: &[Range<u64>], wanted: Wanted) {
        self.want_from(Context::MayWait, cpu, region, pages, wanted);
    }

    /// The same from a context of its own.
    pub fn want_from(&mut self, context: Context, cpu: usize, region: usize, pages: &[Range<u64>], wanted: Wanted) {
        let ranges = pages.iter().map(|pages| self.range(region, pages.clone())).collect();
        self.scenario.programs[cpu].push(Step::Linear { region, ranges, wanted: Some(wanted), context });
    }

    /// `cpu` has the linear map heal these pages, and whatever else it has changed.
    pub fn heal(&mut self, cpu: usize, region: usize, pages: Range<u64>) {
        let ranges = vec![self.range(region, pages)];
        self.scenario.programs[cpu].push(Step::Linear { region, ranges, wanted: None, context: Context::MayWait });
    }

    /// Changes, finished; then the editor looks at what it did, and every other CPU looks too, before and after an ISB.
    pub fn edit(&mut self, region: usize, changes: Vec<Change<El1>>, permit: Permit, pages: &[u64]) {
        self.scenario.programs[0].push(Step::Change { region, changes, permit });
        self.finish(0);
        for page in pages {
            self.read(0, region, *page);
        }
        self.readers(region, pages);
    }

    /// One such change, of leaves that are there before.
    pub fn one(
        &mut self,
        leaves: &[(Range<u64>, LeafSize)],
        change: impl Fn(&Self, usize) -> Change<El1>,
        permit: Permit,
        pages: &[u64],
    ) {
        let region = self.region(leaves);
        let change = change(self, region);
        self.edit(region, vec![change], permit, pages);
    }

    /// Every CPU but the first looks at pages.
    pub fn readers(&mut self, region: usize, pages: &[u64]) {
        for cpu in 1..self.parameters().cpus {
            self.readers_of(cpu, region, pages);
        }
    }

    /// `cpu` looks at one of the pages, before and after an ISB.
    pub fn readers_of(&mut self, cpu: usize, region: usize, pages: &[u64]) {
        let page = pages[cpu % pages.len()];
        let kind = if cpu == 2 { AccessKind::Write } else { AccessKind::Read };
        self.access(cpu, region, page, kind);
        self.synchronize(cpu);
        self.access(cpu, region, page, kind);
    }
}
