//! The other tests of this crate, at each width of addresses. By themselves their maps have 39 bits, or 42 with pages of 64 KiB.

use crate::common::widths::run_all;

/// They have every width by themselves, count the tables of three levels, or take long; and this one.
const OWN: [&str; 21] = [
    "announced::to_announce_changes_nothing_else",
    "boot",
    "coming::a_table_that_holds_nothing_goes_at_once",
    "coming::every_page_is_there_or_not_as_asked_16k",
    "coming::every_page_is_there_or_not_as_asked_64k",
    "coming::memory_goes_up_to_the_last_address",
    "costs",
    "elsewhere::what_is_a_table_still",
    "extremes",
    "healing::blocks_fold_through_groups",
    "healing::hidden_pages_fold",
    "model",
    "refusals::a_dry_reserve",
    "refusals::a_map_whose_range_or_root",
    "refusals::a_page_that_no_descriptor",
    "refusals::a_reserve_holds_no_more",
    "refusals::memory_that_runs_out",
    "refusals::painting_paints_all",
    "refusals::regions_are_painted",
    "refusals::who_cannot_be_parked",
    "widths",
];

#[test]
fn every_test_holds_at_each_width() {
    run_all(&OWN);
}
