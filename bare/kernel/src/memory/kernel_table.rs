//! The live upper half outside the linear map: stacks, and what the self-checks map. The lock of the linear map guards it, for both
//! are in one page table.

use common::supply::{ChangeError, TableSource};
use hardware::platform::Hardware;
use pagetable::{Change, El1, Licence, Reserve, TlbFeatures};
use vmsa::PhysAddr;

use crate::memory::tables::AnyTable;
use crate::memory::{current, linear_map, pages, readers};

/// The most tables that a change of the kernel's may take.
const MOST_TABLES: usize = 64;

/// Makes changes in the upper half, all or none. Leaves may be broken before they are remade if nobody else can meet the window:
/// `may_break`.
pub(crate) fn change(changes: &[Change<El1>], may_break: bool) -> Result<(), ChangeError> {
    change_in(current::upper_with, changes, may_break)
}

/// The same in another page table of the kernel's.
pub(crate) fn change_in(
    table: fn(TlbFeatures) -> AnyTable,
    changes: &[Change<El1>],
    may_break: bool,
) -> Result<(), ChangeError> {
    let mut stock = Stock { hardware: current::upper().hardware(), tables: Reserve::new() };
    let mut changed = Err(ChangeError::NoTables);
    loop {
        linear_map::get().with_standing(&mut |standing| {
            // Exceptions are masked while the lock is held, and nothing of this code lies in what is broken.
            let licence = may_break.then(|| Licence::break_before_make(standing));
            changed = table(standing.tlb()).change(changes, licence.as_ref(), &mut stock);
        });
        // Not under the lock: a page may have to be shown before it is a table.
        if changed != Err(ChangeError::NoTables) || !stock.grow() {
            break;
        }
    }
    // A report on another CPU reads without the lock: a table that was unlinked may be in its sight, and must not get another owner yet.
    readers::wait();
    stock.give_back();
    changed
}

/// Tables that were allocated before the lock was taken, or came free under it.
struct Stock {
    hardware: Hardware,
    tables: Reserve,
}

impl Stock {
    /// Takes twice as many. Whether there are.
    fn grow(&mut self) -> bool {
        let count = (2 * self.tables.count()).max(1);
        while self.tables.count() < count {
            match pages::allocate(0) {
                Some(table) if count <= MOST_TABLES => self.tables.add(&self.hardware, table),
                Some(table) => {
                    pages::free_table(table);
                    return false;
                }
                None => return false,
            }
        }
        true
    }

    fn give_back(mut self) {
        while let Some(table) = self.tables.take(&self.hardware) {
            pages::free_table(table);
        }
    }
}

impl TableSource for Stock {
    fn take(&mut self) -> Option<PhysAddr> {
        self.tables.take(&self.hardware)
    }

    fn give(&mut self, table: PhysAddr) {
        self.tables.add(&self.hardware, table);
    }
}
