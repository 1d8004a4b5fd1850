//! Every workload with few interleavings, with the parameters that mutants are hunted with, in its plainest schedule: most of
//! what `cargo xtask check` finds is found there in seconds.

use checks::mutants::Survey;
use checks::suite::{self, Trial};
use checks::workloads::{Size, Workload};

#[test]
fn every_trial_is_silent_in_its_plainest_schedule() {
    let survey = Survey::of(suite::trials(Size::Small, 2)).expect("the engine itself is silent");
    assert!(survey.count_calls() > 0);
}

/// Parts of 64 GiB beneath a guest: what the guest maps reaches as far.
#[test]
fn a_guest_maps_all_that_larger_parts_hold() {
    let workload = Workload::find("two-larger-parts").expect("a workload");
    for seed in [10, 24] {
        Survey::of(vec![Trial { workload, seed }]).map(|_| ()).expect("the engine itself is silent");
    }
}
