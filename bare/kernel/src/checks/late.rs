//! CPUs that come when boot has settled.

use super::{Detail, same_map, tell};
use crate::cpus;
use crate::high::facts;

/// Starts the CPUs that were held back. One that is refused has its reason printed, and is no failure.
pub(super) fn join(detail: &mut Detail) -> bool {
    let before = cpus::running();
    let late = cpus::start_late(facts());
    let joined = (cpus::running() & !before).count_ones();
    tell!(detail, "{joined} of {late} joined; ");
    same_map::compare(detail)
}
