//! The other tests of this crate, at each width of addresses.

use crate::common::widths::run_all;

/// They have every width by themselves, draw one, or are about a width and a layout of their own; and this one.
const OWN: [&str; 28] = [
    "bounded::no_change",
    "bounded::what_was_larger",
    "copied_groups::groups_of_every_shape",
    "copies::nothing_is_copied_of_nothing",
    "each_change",
    "each_gather",
    "end_of_space",
    "extremes",
    "first_bits::no_leaf_stands",
    "folds::where_there_are_no_groups",
    "fuzz",
    "marks_anywhere",
    "mistakes::kernel_leaves",
    "model",
    "one_bit",
    "one_gather_",
    "plans::",
    "recorded",
    "refusals::",
    "regimes::a_stage_2_table_goes",
    "regimes::el2_",
    "regimes::many_stage_2_ranges",
    "reserve::",
    "stage2::concatenated_roots",
    "stage2::roots_and_shapes",
    "wide_outputs",
    "wide_tables",
    "widths",
];

#[test]
fn every_test_holds_at_each_width() {
    run_all(&OWN);
}
