//! What a system of many CPUs tolerates: what its weakest does, whoever comes first.

use vellum_pagetable::{Census, Tolerance};
use vellum_vmsa::BbmLevel;

/// Every CPU there can be.
fn cpus() -> impl Iterator<Item = Tolerance> {
    [BbmLevel::Level0, BbmLevel::Level1, BbmLevel::Level2, BbmLevel::Level3]
        .into_iter()
        .flat_map(|level| [false, true].map(|handles_conflicts| Tolerance::new(level, handles_conflicts)))
}

/// Whether live leaves may change size in place on all of these CPUs.
fn tolerate(cpus: &[Tolerance]) -> bool {
    let mut census = Census::new(cpus[0]);
    cpus[1..].iter().for_each(|cpu| census.admit(*cpu));
    assert_eq!(census.cpus(), cpus.len());
    census.tolerated().is_some()
}

#[test]
fn one_cpu_without_the_promise_takes_level_2_from_all() {
    let [promises, silent] = [true, false].map(|handles_conflicts| Tolerance::new(BbmLevel::Level2, handles_conflicts));
    assert!(tolerate(&[promises, promises]));
    assert!(!tolerate(&[promises, silent]));
    assert!(!tolerate(&[silent, promises]));
    assert!(!tolerate(&[promises, promises, silent]));
}

#[test]
fn a_cpu_more_never_makes_a_system_more_tolerant() {
    for (first, second) in cpus().flat_map(|first| cpus().map(move |second| (first, second))) {
        let both = tolerate(&[first, second]);
        assert_eq!(both, tolerate(&[second, first]), "{first:?} and {second:?}");
        assert!(!both || tolerate(&[first]) && tolerate(&[second]), "{first:?} and {second:?}");
    }
}
