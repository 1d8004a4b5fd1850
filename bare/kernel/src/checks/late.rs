//! CPUs that come when boot has settled; those of a realm while memory is hidden that it shares.

use core::cell::Cell;

use kerncore::realm::Rmm;

use super::detail::{Detail, tell};
use super::moments::{self, Moment};
use super::{handed, same_map};
use crate::cpus::{start, walkers};
use crate::facts::facts;
use crate::memory::handed::Smc;

/// Starts the CPUs that were held back before it calls the RMM, and says how many there were.
struct Starting<'s>(&'s Cell<Option<usize>>);

impl Rmm for Starting<'_> {
    fn call(&self, function: u32, arguments: [u64; 4]) -> [u64; 4] {
        self.0.set(self.0.get().or_else(|| start::start_late(facts())));
        Smc.call(function, arguments)
    }
}

/// Starts the CPUs that were held back. One that is refused has its reason printed, and is no failure.
pub(super) fn join(detail: &mut Detail) -> bool {
    let (before, late) = (walkers::running(), Cell::new(None));
    // Between the hiding and the showing of what is shared; a realm alone asks for that.
    let is_right = handed::pass_by(&Starting(&late));
    let meanwhile = if late.get().is_some() { ", while memory was hidden" } else { "" };
    match late.get().or_else(|| start::start_late(facts())) {
        Some(late) => {
            let joined = (walkers::running() & !before).count_ones();
            tell!(detail, "{joined} of {late} joined{meanwhile}; ");
        }
        None => tell!(detail, "they joined in the midst of the stress; "),
    }
    moments::pass(Moment::Late);
    same_map::compare(detail) && is_right
}
