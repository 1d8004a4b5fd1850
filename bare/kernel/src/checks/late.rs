//! CPUs that come when boot has settled.

use super::detail::{Detail, tell};
use super::moments::{self, Moment};
use super::same_map;
use crate::cpus::{start, walkers};
use crate::facts::facts;

/// Starts the CPUs that were held back. One that is refused has its reason printed, and is no failure.
pub(super) fn join(detail: &mut Detail) -> bool {
    let before = walkers::running();
    match start::start_late(facts()) {
        Some(late) => tell!(detail, "{} of {late} joined; ", (walkers::running() & !before).count_ones()),
        None => tell!(detail, "they joined in the midst of the stress; "),
    }
    moments::pass(Moment::Late);
    same_map::compare(detail)
}
