//! Boot in the high half: from the handover to the verdict.

use hardware::per_cpu;
use kerncore::early::EarlyAllocator;
use kerncore::memory_map::MemoryMap;
use spin::Once;
use vmsa::PageSize;

use crate::finish::{finish, refuse};
use crate::handover::{self, Facts};
use crate::stacks::{self, Kind};
use crate::times::{self, Step};
use crate::{calls, checks, console, cpus, memory, report};

static FACTS: Once<Facts> = Once::new();

/// What boot found, chose and built. Not before the high half.
pub(crate) fn facts() -> &'static Facts {
    FACTS.get().expect("the high half begins with the facts")
}

/// The facts, for who may be asked before there are any.
pub(crate) fn known_facts() -> Option<&'static Facts> {
    FACTS.get()
}

/// The page size of the kernel.
pub(crate) fn page_size() -> PageSize {
    facts().choice.page_size
}

/// Entered from assembly, on the boot CPU's stack in the high half.
pub(crate) extern "C" fn main(_: u64) -> ! {
    let handover = handover::take();
    let facts = FACTS.call_once(|| handover.facts);
    set_up_boot_cpu();
    if let Some(address) = facts.devices.console {
        // SAFETY: `Placement` chose the address and the kernel map has it.
        unsafe { console::set(address) };
    }
    times::record(Step::HighHalf);
    let mut map = MemoryMap::new();
    handover.fill(&mut map).expect("a copy has as many ranges as what it copies");
    memory::free_early_tables(&mut map);
    let absent = memory::forget_what_is_not_there(&mut map);
    if let Err(error) = memory::start(EarlyAllocator::new(&mut map, page_size())) {
        refuse(format_args!("{error}"));
    }
    if let Err((range, error)) = memory::unmap(&absent) {
        refuse(format_args!("memory: {range}, where none answers, cannot be unmapped: {error}"));
    }
    times::record(Step::PageAllocator);
    calls::start(facts);
    cpus::start_all(facts);
    times::record(Step::Cpus);
    if let Err(error) = checks::find_room() {
        refuse(format_args!("{error}"));
    }
    report::detected();
    report::chosen();
    report::memory_map(&map);
    report::linear_map();
    report::summary();
    let outcome = checks::run_all();
    times::record(Step::Checks);
    report::times();
    finish(report::verdict(outcome))
}

/// The vectors and the boot CPU's own data, at their high addresses.
fn set_up_boot_cpu() {
    let emergency_stack = stacks::range(0, Kind::Emergency, page_size()).end;
    let address = per_cpu::prepare(0, emergency_stack);
    // SAFETY: prepared for this CPU; no `catch` runs yet.
    unsafe { per_cpu::install(address) };
    hardware::exception::install_vectors();
    cpus::note_this(0);
}
