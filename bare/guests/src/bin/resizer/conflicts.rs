//! TLB conflict aborts: which may come, and what is done about them.
//!
//! One may come in the block that is announced. A CPU may take it a moment before the end is announced, and come to its handler
//! after that: so each CPU also notes what was announced when it began what it does.

use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hardware::guest::CPUS;
use hardware::guest::translating::{Frame, Then, cpu_index, forget_everything};
use hardware::hypercall;
use moncore::counts::{Counts, Event};
use vmsa::{ExceptionClass, FaultStatus};

use crate::finish;
use crate::map::{BLOCKS, block};

/// The conflicts that came.
pub(crate) static COUNTS: Counts = Counts::new();

/// Whether a conflict is answered as it should be.
pub(crate) static FORGETS: AtomicBool = AtomicBool::new(true);

/// Of no block.
const NONE: usize = BLOCKS;
/// The block that is announced.
static ANNOUNCED: AtomicUsize = AtomicUsize::new(NONE);
/// What it was when each CPU began what it does.
static NOTED: [AtomicUsize; CPUS] = [const { AtomicUsize::new(NONE) }; CPUS];

/// Says that a block is being resized. `is_told` unless the monitor is to be left in the dark.
pub(crate) fn begin(index: usize, is_told: bool) {
    ANNOUNCED.store(index, Ordering::SeqCst);
    if is_told && !hypercall::begin_resize(block(index)) {
        finish::fail("the monitor notes what is announced", format_args!("it did not note the resize of {index}"));
    }
}

/// Says that every TLB has forgotten.
pub(crate) fn end(index: usize, is_told: bool) {
    if is_told && !hypercall::end_resize(block(index)) {
        finish::fail("the monitor notes what is announced", format_args!("it did not note the end of {index}"));
    }
    ANNOUNCED.store(NONE, Ordering::SeqCst);
}

/// The block that is announced, which this CPU's handler goes by until the next call.
pub(crate) fn note(cpu: usize) -> Option<usize> {
    let announced = ANNOUNCED.load(Ordering::SeqCst);
    NOTED[cpu].store(announced, Ordering::SeqCst);
    Some(announced).filter(|index| *index != NONE)
}

/// How many conflicts there were.
pub(crate) fn count() -> u64 {
    Event::ALL.into_iter().flat_map(|event| (0..CPUS).map(move |cpu| COUNTS.get(cpu, event))).sum()
}

fn is_allowed(cpu: usize, address: u64) -> bool {
    let is_in = |index: usize| index != NONE && block(index).contains(&address);
    is_in(NOTED[cpu].load(Ordering::SeqCst)) || is_in(ANNOUNCED.load(Ordering::SeqCst))
}

/// The vectors of exceptions from EL1 on its own stack, and from EL0.
const SYNCHRONOUS: Range<u64> = 4..5;
const SYNCHRONOUS_USER: Range<u64> = 8..9;

/// Called by the vectors.
pub(crate) fn handle(vector: u64, frame: &Frame) -> Then {
    let (cpu, syndrome) = (cpu_index(), frame.syndrome());
    let is_user = SYNCHRONOUS_USER.contains(&vector);
    if is_user && syndrome.class() == ExceptionClass::SupervisorCall {
        return Then::LeaveEl0;
    }
    let address = frame.fault_address;
    let instruction = frame.return_address;
    if !(is_user || SYNCHRONOUS.contains(&vector)) || syndrome.fault() != Some(FaultStatus::TlbConflict) {
        finish::fail(
            "no other exception comes",
            format_args!("cpu {cpu}: vector {vector}, {syndrome}, address {address:#x}, instruction {instruction:#x}"),
        );
    }
    COUNTS.add(
        cpu,
        match (is_user, syndrome.is_instruction_abort()) {
            (false, false) => Event::ConflictData,
            (false, true) => Event::ConflictFetch,
            (true, false) => Event::ConflictUserData,
            (true, true) => Event::ConflictUserFetch,
        },
    );
    if !is_allowed(cpu, address) {
        finish::fail(
            finish::WHERE_ANNOUNCED,
            format_args!("cpu {cpu}: {syndrome}, address {address:#x}, instruction {instruction:#x}"),
        );
    }
    if FORGETS.load(Ordering::Relaxed) {
        forget_everything();
    }
    Then::Return
}
