//! Every workload in every setting: the engine is silent in EL2, EL2&0 and stage 2 too.

use checks::setting::Setting;
use checks::suite;
use checks::workloads::Size;

/// Every trial of the fixed parameters and of some drawn ones, in its plainest schedule.
#[test]
fn every_workload_is_silent_in_every_setting() {
    let mut met = std::collections::BTreeSet::new();
    for size in [Size::Small, Size::Long] {
        for trial in suite::trials(size, 6) {
            let prepared = trial.prepare(None);
            let parameters = prepared.start.scenario.parameters;
            met.insert((parameters.setting, parameters.bbm));
            let (ran, _) = suite::survey(&prepared);
            let name = trial.workload.name;
            if let Some(caught) = ran.caught {
                panic!("{name} with seed {}: {parameters}: {}", trial.seed, caught.failure);
            }
        }
    }
    for setting in Setting::ALL {
        assert!((0..4).all(|bbm| met.contains(&(setting, bbm))), "{setting}: not every BBM level was met");
    }
}
