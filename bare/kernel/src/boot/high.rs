//! Boot in the high half: from the handover to the verdict.

use core::slice;

use common::supply::ChangeError;
use hardware::per_cpu;
use kerncore::early::EarlyAllocator;
use kerncore::memory_map::MemoryMap;
use kerncore::range::PhysicalRange;
use pagetable::Change;

use crate::checks;
use crate::checks::moments::{self, Moment};
use crate::console;
use crate::cpus::stacks::{self, Kind};
use crate::cpus::{calls, parking, start, walkers};
use crate::facts::{self, Facts, page_size};
use crate::handover;
use crate::locks::checked;
use crate::memory::pages::{self, Absent};
use crate::memory::{coming, hidden_pages, kernel_table, linear_map, ranges, unneeded};
use crate::process::first;
use crate::procfs;
use crate::report::finish::{Status, finish, finish_with, refuse};
use crate::report::times::{self, Step};
use crate::report::{conflicts, counters, sections};
use crate::{measure, stress};

/// Entered from assembly, on the boot CPU's stack in the high half.
pub(crate) extern "C" fn main(_: u64) -> ! {
    let handover = handover::take();
    let facts = facts::set(handover.facts);
    set_up_boot_cpu(facts);
    if let Some(address) = facts.devices.console {
        // SAFETY: `Placement` chose the address and the kernel map has it.
        unsafe { console::set(address) };
    }
    times::record(Step::HighHalf);
    let mut map = MemoryMap::new();
    handover.fill(&mut map).expect("a copy has as many ranges as what it copies");
    unneeded::free(&mut map);
    let absent = pages::forget_what_is_not_there(&mut map);
    if let Err(error) = pages::start(EarlyAllocator::new(&mut map, page_size())) {
        refuse(format_args!("{error}"));
    }
    let first = start::this(0).walker(0);
    parking::start();
    parking::note(0, first.tolerance);
    if let Err(refused) = linear_map::start(first) {
        refuse(format_args!("linear map: {refused}"));
    }
    if let Err((range, error)) = unmap(&absent) {
        refuse(format_args!("memory: {range}, where none answers, cannot be unmapped: {error}"));
    }
    linear_map::get().refill();
    coming::withhold();
    hidden_pages::start();
    linear_map::get().heal_all();
    times::record(Step::PageAllocator);
    moments::pass(Moment::Alone);
    calls::start(facts);
    start::start_all(facts, &mut || moments::pass(Moment::Starting));
    moments::pass(Moment::Settled);
    times::record(Step::Cpus);
    if let Err(error) = checks::find_room() {
        refuse(format_args!("{error}"));
    }
    sections::detected();
    sections::chosen();
    sections::memory_map(&ranges::map());
    sections::linear_map();
    sections::summary();
    measure::run();
    stress::run(&facts.options);
    checks::run_all();
    let ended = init();
    times::record(Step::Checks);
    counters::print();
    conflicts::print();
    sections::times();
    match (sections::verdict(), ended) {
        (Status::Passed, Some(value)) => finish_with(value.into()),
        (status, _) => finish(status),
    }
}

/// Runs the first program, if one is asked for. What it ended with.
fn init() -> Option<u8> {
    let facts = facts::facts();
    let (start, bytes) = facts.options.init?;
    let address = facts.linear.address(facts.command_line.start).bits() + u64::from(start);
    // SAFETY: the device tree's command line, in which the word was found; the linear map has it, and nobody writes it.
    let text = unsafe { slice::from_raw_parts(address as *const u8, bytes as usize) };
    first::run_first(core::str::from_utf8(text).unwrap_or_default(), procfs::MOUNTS)
}

/// Unmaps what is not there, lest speculation reads it. An error has the range that shares a leaf with memory in use.
fn unmap(absent: &Absent) -> Result<(), (PhysicalRange, ChangeError)> {
    let linear = facts::facts().linear;
    absent.iter().try_for_each(|range| {
        let from = linear.address(range.start)..linear.address(range.end);
        kernel_table::change(&[Change::Unmap { from }], false).map_err(|error| (*range, error))
    })
}

/// The vectors and the boot CPU's own data, at their high addresses.
fn set_up_boot_cpu(facts: &Facts) {
    let emergency_stack = stacks::range(0, Kind::Emergency, page_size()).end;
    let address = per_cpu::prepare(0, emergency_stack, facts.conflict_patience());
    // SAFETY: prepared for this CPU; no `catch` runs yet.
    unsafe { per_cpu::install(address) };
    checked::start();
    hardware::exception::install_vectors();
    hardware::cache::note_this_cpu();
    walkers::note(0, start::this(0));
}
