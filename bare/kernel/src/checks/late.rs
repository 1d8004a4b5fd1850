//! CPUs that come when boot has settled.

use super::{Detail, same_map, tell};
use crate::cpus::{self, walkers};
use crate::high::facts;

/// Starts the CPUs that were held back. One that is refused has its reason printed, and is no failure.
pub(super) fn join(detail: &mut Detail) -> bool {
    let before = walkers::running();
    let late = cpus::start_late(facts());
    let joined = (walkers::running() & !before).count_ones();
    tell!(detail, "{joined} of {late} joined; ");
    same_map::compare(detail)
}
