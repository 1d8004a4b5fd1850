//! What is mapped beside the linear map goes: its addresses lead nowhere, and in the linear map its memory is what free memory is. One list, so
//! that both are done, or neither.
//!
//! ```text
//! addresses     mapped ──▶ hidden ┐                               ┌▶ unmapped, which takes nothing and cannot fail
//!                                 ├ one list, one round of TLBIs ─┤
//! linear map    read-only ──▶ rw  ┘                               └▶ free, once who had it says so
//! ```

use core::ops::Range;

use linearmap::{Context, Refused, Wanted};
use pagetable::Change;
use vmsa::VirtAddr;

use crate::memory::{kernel_table, linear_map};

/// Has these addresses lead nowhere, and these of the linear map be writable data: all of them, or none.
pub(crate) fn take_down(here: &[Range<VirtAddr>], aliases: &[Range<VirtAddr>]) -> Result<(), Refused> {
    make(&[(here, Wanted::Hidden), (aliases, Wanted::Default)])?;
    for from in here {
        let unmapped = kernel_table::change(&[Change::Unmap { from: from.clone() }], false);
        unmapped.expect("what was hidden whole is of leaves by itself");
    }
    Ok(())
}

/// Makes of the linear map what free memory takes. Where there is none for tables, the reserve for atomic context has some.
pub(crate) fn make(all: &[(&[Range<VirtAddr>], Wanted)]) -> Result<(), Refused> {
    match linear_map::get().change_all(all, Context::MayWait) {
        Err(Refused::OutOfTables(_)) => linear_map::get().change_all(all, Context::Atomic),
        made => made,
    }
}
