//! Workloads: what the engine is asked to do, on which machines, and what others may see meanwhile. Each states what it
//! allows (`scenario`, `world`), so that a failure is always a bug. A new change of the engine becomes a workload by one
//! function in `basic` and its line in [`ALL`].

mod basic;
mod draft;
mod mixed;

use machine::seed::Seed;

use crate::parameters::Parameters;
use crate::scenario::Scenario;

pub use draft::Draft;

/// A workload.
#[derive(Clone, Copy)]
pub struct Workload {
    /// Name, as in schedules.
    pub name: &'static str,
    /// What the engine does.
    pub about: &'static str,
    draw: fn(&mut Draft),
    /// Small enough for every interleaving of three CPUs to be tried.
    pub is_small: bool,
}

const fn small(name: &'static str, about: &'static str, draw: fn(&mut Draft)) -> Workload {
    Workload { name, about, draw, is_small: true }
}

/// Every workload.
pub const ALL: &[Workload] = &[
    small("map-page", "a page into a hole of a table that is there", basic::map_page),
    small("map-table", "a page where a table has to be linked first", basic::map_table),
    small("map-block", "a block into a hole", basic::map_block),
    small("map-group", "a contiguous group of pages into holes", basic::map_group),
    small("protect-page", "a page becomes read-only", basic::protect_page),
    small("protect-pages", "pages of a whole table become read-only", basic::protect_pages),
    small("protect-block", "a block becomes read-only", basic::protect_block),
    small("protect-group", "a contiguous group becomes read-only, whole", basic::protect_group),
    small("protect-part", "a page of a block becomes read-only: break-before-make", basic::protect_part),
    small("protect-member", "a page of a contiguous group becomes read-only: break-before-make", basic::protect_member),
    small(
        "protect-member-part",
        "a page of a contiguous group of blocks becomes read-only",
        basic::protect_member_part,
    ),
    small("device", "a page becomes Device memory: break-before-make", basic::device),
    small("not-global", "pages of a global table become non-global, then read-only", basic::not_global),
    small("age", "a page loses its access flag and gets it back", basic::age),
    small("clean", "a page is made read-only while hardware manages its dirty state", basic::clean),
    small("ignored", "software's own bits of a page change", basic::ignored),
    small("split-block", "a block is split to tables", basic::split_block),
    small("split-group", "a contiguous group is dissolved", basic::split_group),
    small("unmap-page", "a page goes, its frame is reused", basic::unmap_page),
    small("unmap-block", "a block goes", basic::unmap_block),
    small("unmap-group", "a contiguous group goes whole", basic::unmap_group),
    small("unmap-part", "a page of a block goes: break-before-make", basic::unmap_part),
    small("unmap-table", "all of a table goes, and the table is reused", basic::unmap_table),
    small("unmap-many", "more tables go than a gather keeps", basic::unmap_many),
    small("unmap-scattered", "more scattered pages go than a gather keeps ranges", basic::unmap_scattered),
    small("unmap-all", "more goes than single TLBIs are worth", basic::unmap_all),
    small("remap", "a page goes, and its place is mapped to another frame", basic::remap),
    small("table-to-block", "a table goes, and a block takes its place", basic::table_to_block),
    small("batch", "several changes share one gather", basic::batch),
    small("two-editors", "two CPUs edit neighbours of one table", basic::two_editors),
    small("table-reuse", "a table that one CPU frees is built with by another", basic::table_reuse),
    Workload { name: "mixed", about: "random changes on every CPU", draw: mixed::draw, is_small: false },
];

impl Workload {
    /// The workload of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|it| it.name == name)
    }

    /// A scenario drawn from `seed`, without some of its steps.
    pub fn scenario(&self, seed: u64, without: &[(usize, usize)]) -> Scenario {
        let mut random = Seed::new(seed ^ 0x5eed_0000_0000_0000);
        let parameters = Parameters::draw(&mut random);
        self.scenario_with(seed, parameters, without)
    }

    /// A scenario with these parameters; what is left to chance is drawn from `seed`.
    pub fn scenario_with(&self, seed: u64, parameters: Parameters, without: &[(usize, usize)]) -> Scenario {
        let mut draft = Draft::new(Scenario::new(self.name, seed, parameters), Seed::new(seed));
        (self.draw)(&mut draft);
        draft.into_scenario().settle(without)
    }
}
