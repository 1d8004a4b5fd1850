//! Starting another CPU: the record that it reads with its MMU off.

use core::cell::UnsafeCell;

use vmsa::PhysAddr;

use super::boot::Translation;
use super::stack;
use crate::cache;
use crate::psci::{Conduit, PsciError};

/// What a CPU turns on and where it goes, in lines of its own (2 KiB is the largest there is).
#[repr(C, align(2048))]
pub(crate) struct StartRecord {
    pub(crate) translation: Translation,
    pub(crate) stack: u64,
    pub(crate) index: u64,
}

struct Shared([UnsafeCell<StartRecord>; stack::CPUS]);

// SAFETY: `start` is called by one CPU at a time for each index, and the CPU that reads the record is not in Rust.
unsafe impl Sync for Shared {}

static RECORDS: Shared = Shared(
    [const { UnsafeCell::new(StartRecord { translation: Translation::NONE, stack: 0, index: 0 }) }; stack::CPUS],
);

/// Starts the CPU with this affinity as CPU `index`, below [`stack::CPUS`]: it enters the monitor's `secondary`.
///
/// # Safety
///
/// `translation` is what this CPU uses. No CPU runs as `index`, or reads its record, and nobody else starts one as it.
pub unsafe fn start(index: usize, affinity: u64, translation: Translation) -> Result<(), PsciError> {
    unsafe extern "C" {
        fn monitor_secondary_entry();
    }
    const CPU_ON: u32 = 0xc400_0003;
    let record = RECORDS.0[index].get();
    let filled = StartRecord { translation, stack: stack::range(index).end, index: index as u64 };
    // SAFETY: no other CPU uses the record, by the caller's promise.
    unsafe { record.write(filled) };
    // The other CPU reads memory past its caches.
    cache::clean(record as usize..record as usize + size_of::<StartRecord>());
    let entry = PhysAddr::new(monitor_secondary_entry as *const () as u64);
    // SAFETY: the monitor runs at physical addresses; the entry expects the record's, and the record is in memory.
    unsafe { Conduit::Smc.cpu_on(CPU_ON, affinity, entry, record as u64) }
}
