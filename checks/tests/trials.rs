//! Every workload with few interleavings, with the parameters that mutants are hunted with, in its plainest schedule: most of
//! what `cargo xtask check` finds is found there in seconds.

use checks::mutants::Survey;
use checks::suite;
use checks::workloads::Size;

#[test]
fn every_trial_is_silent_in_its_plainest_schedule() {
    let survey = Survey::of(suite::trials(Size::Small, 2)).expect("the engine itself is silent");
    assert!(survey.count_calls() > 0);
}
