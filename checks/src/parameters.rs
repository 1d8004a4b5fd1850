//! What a run is drawn from: the shape of the page table and what the CPUs can do.

use std::fmt;

use machine::registers::{Ets, Features};
use machine::seed::Seed;
use pagetable::{Census, HardwareUpdates, TlbFeatures, Tolerance};
use vmsa::{AddressHalf, Layout, Level, PageSize, Stage1Attributes};

use crate::levels::{Levels, MOST_CPUS};
use crate::setting::Setting;

/// The ASID of a page table that is not global.
pub const ASID: u16 = 0x5a;

/// Parameters of a machine and its page table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameters {
    /// Granule.
    pub page_size: PageSize,
    /// Descriptor layout.
    pub layout: Layout,
    /// Half of the input space.
    pub half: AddressHalf,
    /// Bits of input address.
    pub input_bits: u32,
    /// ID_AA64MMFR2_EL1.BBM.
    pub bbm: Levels,
    /// ID_AA64MMFR1_EL1.ETS.
    pub ets: Ets,
    /// TCR_EL1.HA, and TCR_EL1.HD with it.
    pub hardware: (bool, bool),
    /// TLBIs by range, level hints.
    pub tlb: TlbFeatures,
    /// Global, or of one address space.
    pub is_global: bool,
    /// CPUs, 1 to 4.
    pub cpus: usize,
    /// The regime, and who looks through it.
    pub setting: Setting,
    /// The level of a stage-2 root.
    pub start: Option<Level>,
}

impl Parameters {
    /// Granule 4K, 48 bits, no optional feature, level 0.
    pub const PLAIN: Self = Self {
        page_size: PageSize::Size4K,
        layout: Layout::Bits48,
        half: AddressHalf::Lower,
        input_bits: 48,
        bbm: Levels::all(0),
        ets: Ets::None,
        hardware: (false, false),
        tlb: TlbFeatures { range: false, level_hints: false, repeat: false },
        is_global: true,
        cpus: 2,
        setting: Setting::El1,
        start: None,
    };

    /// Parameters drawn from a seed.
    pub fn draw(seed: &mut Seed) -> Self {
        // 64K tables take 8192 stores to fill: they come up as often as their cost allows.
        let sizes = [PageSize::Size4K; 6].into_iter().chain([PageSize::Size16K; 2]).chain([PageSize::Size64K]);
        let page_size = *seed.pick(&sizes.collect::<Vec<_>>());
        let is_wide = seed.one_in(3);
        let layout = match page_size {
            PageSize::Size64K if is_wide => Layout::Lpa,
            _ if is_wide => Layout::Lpa2,
            _ => Layout::Bits48,
        };
        let input_bits = if layout == Layout::Bits48 { *seed.pick(&[39, 42, 48]) } else { *seed.pick(&[42, 48, 52]) };
        let is_global = seed.one_in(2);
        let access_flag = seed.one_in(2);
        let drawn = Self {
            page_size,
            layout,
            // A table of one address space is the lower half's.
            half: if is_global && seed.one_in(2) { AddressHalf::Upper } else { AddressHalf::Lower },
            input_bits,
            bbm: Levels::draw(seed),
            ets: *seed.pick(&[Ets::None, Ets::Ets2, Ets::Ets3]),
            hardware: (access_flag, access_flag && seed.one_in(2)),
            tlb: TlbFeatures { range: seed.one_in(2), level_hints: seed.one_in(2), repeat: seed.one_in(8) },
            is_global,
            cpus: 1 + seed.below(MOST_CPUS as u64) as usize,
            setting: Setting::El1,
            start: None,
        };
        let settings = [&[Setting::El1; 4][..], &Setting::ALL[1..]].concat();
        drawn.in_setting(*seed.pick(&settings), seed.below(8))
    }

    /// What the CPUs tolerate; all of them handle conflict aborts.
    pub fn census(&self) -> Census {
        let mut census = Census::new(self.tolerance(0));
        (1..self.cpus).for_each(|cpu| census.admit(self.tolerance(cpu)));
        census
    }

    /// What a CPU tolerates.
    pub fn tolerance(&self, cpu: usize) -> Tolerance {
        Tolerance::new(self.bbm.announced(cpu), true)
    }

    /// What hardware writes into leaves.
    pub const fn hardware_updates(&self) -> HardwareUpdates {
        match self.hardware {
            (false, _) => HardwareUpdates::None,
            (true, false) => HardwareUpdates::AccessFlag,
            (true, true) => HardwareUpdates::DirtyState,
        }
    }

    /// What every leaf has: inner shareable, accessed, not global if the table is not, not executable.
    pub fn data(&self) -> Stage1Attributes {
        let data = Stage1Attributes::AF.union(Stage1Attributes::NO_EXECUTE);
        let data = if self.layout == Layout::Lpa2 { data } else { data.union(Stage1Attributes::INNER_SHAREABLE) };
        if self.is_global { data } else { data.union(Stage1Attributes::NOT_GLOBAL) }
    }

    /// What each CPU announces.
    pub fn features(&self) -> Vec<Features> {
        (0..self.cpus).map(|cpu| self.features_of(cpu)).collect()
    }

    fn features_of(&self, cpu: usize) -> Features {
        Features {
            bbm: self.bbm.of(cpu),
            access_flag: self.hardware.0,
            dirty_state: self.hardware.1,
            ets: self.ets,
            range_tlbi: self.tlb.range,
            ttl: self.tlb.level_hints,
            lpa2: self.layout == Layout::Lpa2,
            lpa: self.layout == Layout::Lpa,
            output_bits: if self.layout == Layout::Bits48 { 48 } else { 52 },
            el2: self.setting != Setting::El1,
            repeat_tlbi: self.tlb.repeat,
            ..Features::plain()
        }
    }

    /// The same in another setting, as far as it has what they say; `choice` chooses a shape of stage 2.
    pub fn in_setting(mut self, setting: Setting, choice: u64) -> Self {
        self.setting = setting;
        if !setting.has_el0() {
            (self.half, self.is_global) = (AddressHalf::Lower, true);
        }
        if setting.is_stage2() {
            let shapes = stage2_shapes(self.page_size, self.layout);
            let (input_bits, start) = shapes[choice as usize % shapes.len()];
            (self.input_bits, self.start) = (input_bits, Some(start));
        }
        self
    }
}

/// Widths and start levels of stage 2 that are tried: one table, several side by side, the widest.
const fn stage2_shapes(size: PageSize, layout: Layout) -> &'static [(u32, Level)] {
    match (size, layout) {
        (PageSize::Size4K, Layout::Bits48) => {
            &[(40, Level::L1), (39, Level::L1), (32, Level::L2), (48, Level::L0), (41, Level::L1)]
        }
        (PageSize::Size4K, _) => &[(52, Level::MINUS_1), (42, Level::L1), (48, Level::L0), (49, Level::L0)],
        (PageSize::Size16K, Layout::Bits48) => &[(48, Level::L1), (42, Level::L1), (37, Level::L2)],
        (PageSize::Size16K, _) => &[(52, Level::L0), (48, Level::L1)],
        (PageSize::Size64K, Layout::Bits48) => &[(42, Level::L2), (48, Level::L1)],
        (PageSize::Size64K, _) => &[(52, Level::L1), (48, Level::L1)],
    }
}

impl fmt::Display for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { page_size, layout, input_bits, bbm, ets, cpus, setting, .. } = self;
        let half = if self.half == AddressHalf::Lower { "lower" } else { "upper" };
        let scope = if self.is_global { "global" } else { "one ASID" };
        let plural = if *cpus == 1 { "" } else { "s" };
        write!(f, "{setting}, {cpus} CPU{plural}, {page_size} {layout:?}, {input_bits} bits, ")?;
        match self.start {
            Some(start) => write!(f, "root at {start}, ")?,
            None if setting.has_el0() => write!(f, "{half} half, {scope}, ")?,
            None => {}
        }
        write!(f, "BBM {}, ETS {ets:?}", bbm.describe(*cpus))?;
        let flags = [
            (self.hardware.0, "HA"),
            (self.hardware.1, "HD"),
            (self.tlb.range, "range TLBIs"),
            (self.tlb.level_hints, "TTL"),
            (self.tlb.repeat, "repeated TLBIs"),
        ];
        flags.iter().filter(|(is_set, _)| *is_set).try_for_each(|(_, name)| write!(f, ", {name}"))
    }
}
