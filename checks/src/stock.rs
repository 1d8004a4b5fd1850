//! Conservation: every page of the pool is free, or is a table that is linked, once nobody goes on.

use pagetable::{Platform, Summary, View};
use vmsa::{Granule, Granule4K, Granule16K, Granule64K, PageSize, PhysAddr};

use crate::edited::{Edited, as_regime};
use crate::failure::Wrong;
use crate::peek::Peek;
use crate::run::Run;
use crate::scenario::Scenario;

/// No table is lost, and none is linked that is free.
pub(crate) fn check(run: &mut Run) {
    if run.failure().is_some() {
        return;
    }
    let (scenario, ledger, host) = run.parts();
    let (linked, free, all) = (count(scenario, Peek(host.machine()), ledger.root), ledger.free(), scenario.pool);
    if linked + free != all {
        run.fail(0, Wrong::Program(format!("{linked} tables are linked and {free} free, of {all} that there are")));
    }
}

fn count(scenario: &Scenario, peek: Peek<'_>, root: u64) -> usize {
    as_regime!(scenario.parameters.setting, R => match scenario.parameters.page_size {
        PageSize::Size4K => count_as::<Granule4K, R>(scenario, &peek, root),
        PageSize::Size16K => count_as::<Granule16K, R>(scenario, &peek, root),
        PageSize::Size64K => count_as::<Granule64K, R>(scenario, &peek, root),
    })
}

/// Tables that are linked, of those that came from the pool: a root of several tables has memory of its own.
fn count_as<G: Granule, R: Edited>(scenario: &Scenario, peek: &impl Platform, root: u64) -> usize {
    let parameters = &scenario.parameters;
    let Ok(geometry) = R::geometry::<G>(parameters) else { return 0 };
    let view: View<'_, G, R, _> = View::new(peek, geometry, R::of(parameters), PhysAddr::new(root));
    let tables = Summary::read(&view, view.range()).map_or(0, |summary| summary.tables());
    tables - usize::from(geometry.root_tables() > 1)
}
