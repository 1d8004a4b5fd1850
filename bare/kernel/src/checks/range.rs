//! The checks' own range of addresses.

use pagetable::Change;
use vmsa::VirtAddr;

use super::detail::{Detail, tell};
use crate::memory::{kernel_table, layout};

/// Unmaps the checks' own range, all of it, so that no empty table stays there. Whether that was possible.
pub(super) fn clear(detail: &mut Detail) -> bool {
    let from = VirtAddr::new(layout::CHECKS.start)..VirtAddr::new(layout::CHECKS.end);
    let unmapped = kernel_table::change(&[Change::Unmap { from }], false);
    unmapped.inspect_err(|error| tell!(detail, "; it could not be unmapped: {error}")).is_ok()
}
