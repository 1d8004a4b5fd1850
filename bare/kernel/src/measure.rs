//! `vellum.measure=`: what single changes of the linear map cost the CPU that makes them, in instructions, TLBIs and DSBs. With
//! `--icount` a run is the same each time.

mod secret;

use core::ops::Range;

use hardware::{interrupts, pmu};
use kerncore::buddy::MAX_ORDER;
use kerncore::command_line::Measure;
use kerncore::range::Bytes;
use linearmap::{Context, Operations, Wanted};
use vmsa::{LeafSize, Level, VirtAddr};

use crate::console::say;
use crate::cpus::{parking, walkers};
use crate::facts::{facts, page_size};
use crate::memory::{linear_map, pages, ranges};

/// log2 of the pages of the block in which pages are changed.
const ORDER: usize = 9;
/// How often each is done; the last one counts, when nothing is new to it.
const TIMES: usize = 4;
/// What is changed as a whole.
const LONG_BYTES: u64 = 1 << 30;

/// Measures, if that is asked for. No other CPU has anything to do.
pub(crate) fn run() {
    let measure = facts().options.measure.unwrap_or_default();
    if matches!(measure, Measure::Nothing | Measure::Masked) {
        return;
    }
    say!("# measure");
    if !pmu::counts_instructions() {
        return say!("measure: this CPU counts no instructions");
    }
    match measure {
        Measure::Secret => secret::run(),
        _ => linear(),
    }
}

fn linear() {
    let Some(block) = pages::allocate(ORDER) else { return say!("measure: there is no memory for it") };
    let start = facts().linear.address(block) + page_size().size_bytes();
    let page = [start..start + page_size().size_bytes()];
    let change = |wanted, context| _ = linear_map::get().change(&page, wanted, context);
    linear_map::get().refill();
    say!("measure: of CPU 0, of {} that run", walkers::running().count_ones());
    tell("ro and rw of a page of a larger leaf, and the leaf whole again", &mut || {
        change(Wanted::ReadOnly, Context::MayWait);
        change(Wanted::Writable, Context::MayWait);
        linear_map::get().heal_all();
    });
    change(Wanted::ReadOnly, Context::MayWait);
    tell("ro and rw of a page that is a leaf", &mut || {
        change(Wanted::ReadOnly, Context::MayWait);
        change(Wanted::Writable, Context::MayWait);
    });
    tell("rw of a page that is read-only", &mut || change(Wanted::Writable, Context::MayWait));
    tell("a page hidden and shown in atomic context", &mut || {
        let masks = interrupts::mask();
        change(Wanted::Hidden, Context::Atomic);
        change(Wanted::Shown, Context::Atomic);
        interrupts::restore(masks);
    });
    linear_map::get().heal_all();
    pages::free(block, ORDER);
    block_alone();
    tell("a round of parking, and no change", &mut || {
        linear_map::get().with_standing(&mut |_| _ = parking::run(|| {}));
    });
    match long_range() {
        Some(range) => {
            tell("x and nx of 1G, from the second page of a leaf, exceptions masked all the time", &mut || {
                let masks = interrupts::mask();
                for wanted in [Wanted::Executable, Wanted::NotExecutable] {
                    _ = linear_map::get().change(core::slice::from_ref(&range), wanted, Context::Atomic);
                }
                interrupts::restore(masks);
            })
        }
        None => say!("measure: no {} of memory lie together, so that no long change is measured", Bytes(LONG_BYTES)),
    }
    linear_map::get().heal_all();
    linear_map::get().refill();
}

/// A block that is of no group, because one page of its neighbour is protected.
fn block_alone() {
    let order = (LeafSize::single(Level::L2).shift(page_size()) - page_size().shift()) as usize;
    let two = (order < MAX_ORDER).then(|| pages::allocate(order + 1)).flatten();
    let Some(two) = two else { return say!("measure: there is no memory for two blocks") };
    let start = facts().linear.address(two) + page_size().size_bytes();
    let change = |start: VirtAddr, wanted| {
        _ = linear_map::get().change(&[start..start + page_size().size_bytes()], wanted, Context::MayWait)
    };
    let neighbour = start + (page_size().size_bytes() << order);
    change(neighbour, Wanted::ReadOnly);
    tell("ro and rw of a page of a block that is of no group, and the block whole again", &mut || {
        change(start, Wanted::ReadOnly);
        change(start, Wanted::Writable);
        linear_map::get().heal_all();
    });
    change(neighbour, Wanted::Writable);
    linear_map::get().heal_all();
    pages::free(two, order + 1);
}

/// So much memory from the second page of what may be the largest leaf, if there is so much.
fn long_range() -> Option<Range<VirtAddr>> {
    let mapped = ranges::mapped();
    let mut starts = mapped.iter().filter_map(|range| {
        let start = range.start.align_up(LONG_BYTES / 2)?;
        let fits = start.bits() + LONG_BYTES + page_size().size_bytes() <= range.end.bits();
        fits.then(|| facts().linear.address(start) + page_size().size_bytes())
    });
    starts.next().map(|start| start..start + LONG_BYTES)
}

fn tell(what: &str, work: &mut dyn FnMut()) {
    (1..TIMES).for_each(|_| work());
    let before = linear_map::get().counters().operations;
    let count = pmu::read_instructions();
    work();
    let instructions = pmu::read_instructions().wrapping_sub(count);
    let after = linear_map::get().counters().operations;
    let tlbis = |operations: &Operations| operations.tlbi_address + operations.tlbi_range + operations.tlbi_everything;
    let dsbs = |operations: &Operations| operations.dsb_stores + operations.dsb_all;
    let (tlbis, dsbs) = (tlbis(&after) - tlbis(&before), dsbs(&after) - dsbs(&before));
    say!("measure: {what}: {instructions} instructions, {tlbis} TLBIs, {dsbs} DSBs");
}
