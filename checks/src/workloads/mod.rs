//! Workloads: what the engine is asked to do, on which machines, and what others may see meanwhile. Each states what it
//! allows (`scenario`, `ledger`), so that a failure is always a bug. A new change of the engine becomes a workload by one
//! function in `basic` and its line in [`ALL`].

mod basic;
mod coming;
mod draft;
mod linear;
mod marked;
mod mixed;
mod neighbours;
mod parking;
mod resize;
mod text;

use machine::seed::Seed;

use crate::levels::Levels;
use crate::parameters::Parameters;
use crate::scenario::{Permit, Scenario};

use linear::{EVERY_2, EVERY_3, MIXED};
use marked::BROKEN;

pub use draft::Draft;

/// A licence, and what CPUs tolerate.
type Way = (Permit, Levels);

const IN_PLACE: Way = (Permit::Tolerated, Levels::all(3));
const WITH_CONFLICTS: Way = (Permit::Tolerated, Levels::all(2));
const NOT_CACHED: Way = (Permit::NotCached, Levels::all(1));
/// Level 3 for the CPU that changes the page table, less for others.
const ON_MIXED: Way = (Permit::Tolerated, Levels::mixed([3, 2, 3, 2]));

/// A workload.
#[derive(Clone, Copy)]
pub struct Workload {
    /// Name, as in schedules.
    pub name: &'static str,
    /// What the engine does.
    pub about: &'static str,
    draw: fn(&mut Draft),
    /// How it is run.
    pub size: Size,
}

/// How many interleavings a workload has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// Few enough for all of them to be tried, on three CPUs.
    Small,
    /// One operation of many steps: random schedules only.
    Long,
    /// Random operations under random schedules.
    Random,
    /// Of tests alone, which say how.
    Apart,
}

const fn small(name: &'static str, about: &'static str, draw: fn(&mut Draft)) -> Workload {
    Workload { name, about, draw, size: Size::Small }
}

const fn long(name: &'static str, about: &'static str, draw: fn(&mut Draft)) -> Workload {
    Workload { name, about, draw, size: Size::Long }
}

const fn apart(name: &'static str, about: &'static str, draw: fn(&mut Draft)) -> Workload {
    Workload { name, about, draw, size: Size::Apart }
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
    long("unmap-many", "more tables go than a gather keeps", basic::unmap_many),
    small("unmap-scattered", "more scattered pages go than a gather keeps ranges", basic::unmap_scattered),
    small("unmap-all", "more goes than single TLBIs are worth", basic::unmap_all),
    small("remap", "a page goes, and its place is mapped to another frame", basic::remap),
    small("table-to-block", "a table goes, and a block takes its place", basic::table_to_block),
    small("batch", "several changes share one gather", basic::batch),
    small("two-editors", "two CPUs edit neighbours of one table", basic::two_editors),
    small("two-parts", "two CPUs edit parts of one page table, each its own", basic::two_parts),
    small("two-larger-parts", "the same where a part has tables of its own below", basic::two_larger_parts),
    small("part-made", "a part is claimed and mapped, another is emptied and given back", basic::part_made),
    long("all-edit", "every CPU edits a page of one table, and looks at the others'", basic::all_edit),
    small("table-reuse", "a table that one CPU frees is built with by another", basic::table_reuse),
    small("split-in-place", "a block is split in place, where CPUs tolerate it", |it| resize::split(it, IN_PLACE)),
    small("split-with-conflicts", "the same where conflict aborts may come", |it| resize::split(it, WITH_CONFLICTS)),
    small("split-not-cached", "a block is split by the nT protocol", |it| resize::split(it, NOT_CACHED)),
    small("split-on-mixed", "a block is split in place on CPUs that differ, none under level 2", |it| {
        resize::split(it, ON_MIXED)
    }),
    small("split-not-cached-on-mixed", "the same by the nT protocol, none under 1", |it| {
        resize::split(it, (Permit::NotCached, Levels::mixed([3, 1, 2, 1])))
    }),
    small("split-on-one-at-0", "the same where one CPU tolerates nothing", |it| {
        resize::split(it, (Permit::Tolerated, Levels::mixed([0, 3, 3, 3])))
    }),
    small("split-to-pages", "a block's first pages become single ones", resize::split_to_pages),
    small("split-marked", "hardware marks a block dirty while it is split in place", resize::split_marked),
    small("dissolve-marked", "hardware marks a member of a group while it is dissolved", |it| {
        resize::marked_group(it, Permit::Break)
    }),
    small("dissolve-marked-in-place", "the same in place", |it| {
        resize::marked_group(it.on(EVERY_3), Permit::Tolerated)
    }),
    small("cut-marked", "hardware marks a member of a group of blocks that becomes a table", resize::cut_marked),
    small("protect-part-in-place", "a page of a block becomes read-only, in place", |it| {
        resize::protect_part(it, IN_PLACE)
    }),
    small("protect-part-not-cached", "the same by the nT protocol", |it| resize::protect_part(it, NOT_CACHED)),
    small("protect-group-of-block", "a group's worth of a block becomes read-only, in place", |it| {
        resize::protect_group_of_block(it, IN_PLACE)
    }),
    small("protect-group-of-block-with-conflicts", "the same where conflict aborts may come", |it| {
        resize::protect_group_of_block(it, WITH_CONFLICTS)
    }),
    small("protect-part-on-mixed", "a page of a block becomes read-only, in place, on CPUs that differ", |it| {
        resize::protect_part(it, ON_MIXED)
    }),
    small("protect-member-in-place", "a page of a group becomes read-only, in place", |it| {
        resize::protect_member(it, IN_PLACE)
    }),
    small("protect-member-with-conflicts", "the same where conflict aborts may come", |it| {
        resize::protect_member(it, WITH_CONFLICTS)
    }),
    long("fold-table", "pages fold into a block: break-before-make", |it| {
        resize::fold(it, (Permit::Break, Levels::all(0)))
    }),
    long("fold-table-in-place", "pages fold into a block in place, where CPUs tolerate it", |it| {
        resize::fold(it, IN_PLACE)
    }),
    long("fold-table-with-conflicts", "the same where conflict aborts may come", |it| resize::fold(it, WITH_CONFLICTS)),
    long("fold-table-on-mixed", "the same on CPUs that differ", |it| resize::fold(it, ON_MIXED)),
    long("fold-table-not-cached", "pages fold into a block by the nT protocol", |it| resize::fold(it, NOT_CACHED)),
    small("fold-group", "pages fold into a contiguous group", resize::fold_group),
    long("fold-offline", "a table folds before any CPU walks it", resize::fold_offline),
    long("fold-marked", "hardware marks a page dirty while its table folds", resize::fold_marked),
    long("fold-read-only", "pages that forbid writing fold, whose DBM means nothing", |it| {
        resize::read_only_with_dbm(it, Permit::Break)
    }),
    long("fold-read-only-in-place", "the same in place", |it| {
        resize::read_only_with_dbm(it.on(EVERY_3), Permit::Tolerated)
    }),
    small("remap-live", "a page leads elsewhere: break-before-make", resize::remap_live),
    small("remap-part", "a page of a block leads elsewhere", resize::remap_part),
    long("remap-table", "a block takes a live table's place", resize::remap_table),
    small("unmap-mapped", "pages go, which must be there", resize::unmap_mapped),
    small("unmap-and-map", "a page goes, and one gather maps its place elsewhere", resize::unmap_and_map),
    small(
        "split-and-remap",
        "a block is split in place, and by one gather a page of it leads elsewhere",
        resize::split_and_remap,
    ),
    small(
        "hide-and-alter",
        "a page is hidden, becomes Device memory and is shown by one gather",
        resize::hide_and_alter,
    ),
    small("hide-and-show", "a page is hidden, and shown again", resize::hide_and_show),
    small("age-leaves", "pages lose their access flag", resize::age_leaves),
    small("clean-leaves", "pages become clean while hardware manages their dirty state", resize::clean_leaves),
    small("pages-beside-block", "pages and the block after them become read-only", neighbours::pages_beside_block),
    small("block-beside-page", "a block goes, and the page after it", neighbours::block_beside_page),
    small("table-beside-page", "a table goes whole, and the page after it", neighbours::table_beside_page),
    small("page-beside-table", "a page goes, and the table after it whole", neighbours::page_beside_table),
    small("page-beside-split", "a page goes, and the first of a block, split in place", neighbours::page_beside_split),
    small("last-member-not-cached", "a group's last page becomes read-only: nT", |it| {
        neighbours::member_not_cached(it, true)
    }),
    small("first-member-not-cached", "the same of its first page", |it| neighbours::member_not_cached(it, false)),
    long("tables-side-by-side", "more tables go than a gather keeps, as one range", neighbours::tables_side_by_side),
    long("parked", "a block is split and a table folds while every other CPU is off the tables", resize::parked),
    long("parked-on-mixed", "the same by the one CPU that tolerates every size", |it| {
        resize::parked(it.on(Levels::mixed([3, 0, 1, 2])))
    }),
    small("protect-page-at-once", "a page becomes read-only by the shortcut for one page", |it| {
        basic::protect_page(it.take_shortcuts())
    }),
    small("hide-page-at-once", "a page is hidden and shown by it", |it| resize::hide_and_show(it.take_shortcuts())),
    small(
        "protect-member-at-once",
        "a page of a group becomes read-only by it, in place",
        resize::protect_member_at_once,
    ),
    small("marked-protect", "hardware marks a page while it becomes executable", marked::protect_page),
    small("marked-protect-at-once", "the same by the shortcut for one page", |it| {
        marked::protect_page(it.take_shortcuts())
    }),
    small("marked-hide", "hardware marks a page while it is hidden", marked::hide_page),
    small("marked-hide-at-once", "the same by the shortcut for one page", |it| marked::hide_page(it.take_shortcuts())),
    small("marked-unmap", "hardware marks a page while it goes", marked::unmap_page),
    small("marked-age", "hardware marks a page while pages lose their access flag", marked::age_pages),
    small("marked-clean", "hardware marks a page while pages become clean", marked::clean_pages),
    small("marked-device", "hardware marks a page while it becomes Device memory", marked::device),
    small("marked-remap", "hardware marks a page while it leads elsewhere", marked::remap),
    small(
        "marked-group",
        "hardware marks a member of a group while the group becomes executable",
        marked::protect_group,
    ),
    small("marked-member", "hardware marks a member of a group while another becomes executable", |it| {
        marked::member(it, BROKEN)
    }),
    small("marked-member-in-place", "the same in place", |it| marked::member(it, IN_PLACE)),
    small("marked-member-abrupt", "the same where conflict aborts may come", |it| marked::member(it, WITH_CONFLICTS)),
    small("marked-member-not-cached", "the same by the nT protocol", |it| marked::member(it, NOT_CACHED)),
    small("marked-part", "hardware marks a block while a page of it goes", |it| marked::part(it, BROKEN)),
    small("marked-part-in-place", "the same in place", |it| marked::part(it, IN_PLACE)),
    small("marked-part-abrupt", "the same where conflict aborts may come", |it| marked::part(it, WITH_CONFLICTS)),
    small("marked-part-not-cached", "the same by the nT protocol", |it| marked::part(it, NOT_CACHED)),
    long("marked-fold-in-place", "hardware marks a page while its table folds in place", |it| {
        marked::fold(it, IN_PLACE)
    }),
    long("marked-fold-abrupt", "the same where conflict aborts may come", |it| marked::fold(it, WITH_CONFLICTS)),
    long("marked-fold-not-cached", "the same by the nT protocol", |it| marked::fold(it, NOT_CACHED)),
    small("linear-read-only", "a page of a block becomes read-only, by the linear map", linear::read_only),
    small("linear-executable", "a page of a group becomes executable and read-only", |it| {
        linear::executable(it, EVERY_3)
    }),
    small("linear-hide", "a page of a block is hidden", |it| linear::hide(it, EVERY_3)),
    small("linear-show", "a page of a group is hidden, and shown", linear::show),
    small("linear-default", "a page of a group is protected and hidden, and as before", linear::default),
    small("linear-list", "pages of two blocks of a group are hidden by one list", |it| linear::list(it, EVERY_3)),
    small("linear-show-part", "a block is hidden, and a page of it shown", linear::show_part),
    small("linear-atomic", "a page is hidden and shown in atomic context", linear::atomic),
    small("linear-hide-with-conflicts", "a page of a block is hidden where conflict aborts may come", |it| {
        linear::hide(it, EVERY_2)
    }),
    small(
        "linear-executable-with-conflicts",
        "a page of a group becomes executable where conflict aborts may come",
        |it| linear::executable(it, EVERY_2),
    ),
    small("linear-list-on-mixed", "a list is hidden on CPUs that differ, none under level 2", |it| {
        linear::list(it, MIXED)
    }),
    long("linear-heal-on-mixed", "a block is split and heals on CPUs that differ, none under level 2", |it| {
        linear::heal(it, MIXED)
    }),
    long("linear-heal", "a page of a block is protected and released, and the block heals", |it| {
        linear::heal(it, EVERY_3)
    }),
    long("linear-heal-alone", "the same by one CPU that breaks before it makes", linear::heal_alone),
    small("memory-goes", "a page of a block is removed from a linear map", |it| {
        coming::remove(it, EVERY_3, (false, false))
    }),
    small("memory-goes-whole", "a block is removed in halves, and its table with the second", coming::remove_all),
    small("memory-goes-on-mixed", "a page is removed on CPUs that differ, none under level 2", |it| {
        coming::remove(it, MIXED, (false, false))
    }),
    long("memory-comes-back", "a page of a block is removed and added, and the block heals", |it| {
        coming::remove(it, EVERY_3, (true, true))
    }),
    long("memory-comes-back-alone", "the same by one CPU that breaks before it makes", coming::come_back_alone),
    long("memory-goes-and-heals", "a page of a block is removed, and what is left heals around it", |it| {
        coming::remove(it, EVERY_3, (false, true))
    }),
    small("parking", "a page of a block becomes read-only, while CPUs that must not see it park", |it| {
        parking::seen(it, parking::PROTECT)
    }),
    apart("parking-show", "a page of a block is hidden and shown, while CPUs park", |it| {
        parking::seen(it, parking::SHOW)
    }),
    apart("parking-heal", "a page of a block is protected and released, and the block heals, while CPUs park", |it| {
        parking::seen(it, parking::HEAL)
    }),
    small("arrival", "a CPU arrives while a page of a block becomes read-only", |it| {
        parking::met(it, parking::PROTECT)
    }),
    apart("arrival-at-show", "a CPU arrives while a page of a block is hidden and shown", |it| {
        parking::met(it, parking::SHOW)
    }),
    apart("arrival-at-heal", "a CPU arrives while a block is split and heals", |it| parking::met(it, parking::HEAL)),
    apart("two-initiators", "two CPUs change one linear map, and park for each other", parking::two),
    small("text-goes", "text goes with its table, and both are used anew, while a kernel reads it", text::goes),
    small("text-hidden", "text is hidden and shown by the linear map, while a kernel reads it", text::is_hidden),
    small("text-split", "the block is split by which a kernel reads text", text::is_split),
    Workload {
        name: "linear-mixed",
        about: "random wishes on every CPU, and healing",
        draw: linear::mixed,
        size: Size::Random,
    },
    Workload { name: "mixed", about: "random changes on every CPU", draw: mixed::draw, size: Size::Random },
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
