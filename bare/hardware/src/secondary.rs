//! Starting another CPU: the record that it reads with its MMU off, its answer, and the gate.
//!
//! ```text
//! start ──▶ reset ──▶ it says what it is, and waits, its MMU off ──┬─▶ open_gate ──▶ MMU on, Start::entry
//!                                                                  └─▶ turn_away ──▶ off
//! ```

use core::cell::UnsafeCell;
use core::ptr;

use vmsa::PhysAddr;

use crate::per_cpu::MAX_CPUS;
use crate::psci::{Conduit, PsciError};
use crate::translation::Translation;
use crate::{cache, image, interrupts};

/// Which CPU is to be started, and how firmware is asked to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// The CPU's number, below [`MAX_CPUS`].
    pub index: usize,
    /// How firmware is called.
    pub conduit: Conduit,
    /// The identifier of CPU_ON.
    pub cpu_on: u32,
    /// The CPU's affinity.
    pub affinity: u64,
}

/// Where the CPU goes once its MMU is on. Addresses are high ones.
#[derive(Clone, Copy)]
pub struct Start {
    /// The function to enter.
    pub entry: extern "C" fn(u64) -> !,
    /// Its argument.
    pub argument: u64,
    /// The end of its stack.
    pub stack: u64,
    /// The end of its exception stack.
    pub exception_stack: u64,
    /// From [`crate::per_cpu::prepare`].
    pub per_cpu: u64,
}

/// What a CPU says of itself before its MMU is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Said {
    /// MIDR_EL1.
    pub midr: u64,
    /// ID_AA64ISAR0_EL1.
    pub isar0: u64,
    /// ID_AA64MMFR0_EL1.
    pub mmfr0: u64,
    /// ID_AA64MMFR2_EL1.
    pub mmfr2: u64,
}

/// What stands in [`StartRecord::gate`] once the boot CPU has decided.
const OPEN: u64 = 1;
pub(crate) const TURNED_AWAY: u64 = 2;

/// Written by the boot CPU through its caches and read by the other past them; the answer goes the other way. Each half
/// has lines of its own (2 KiB is the largest there is), so that neither's maintenance touches the other's.
#[repr(C, align(4096))]
pub(crate) struct StartRecord {
    pub(crate) translation: Translation,
    pub(crate) stack: u64,
    pub(crate) exception_stack: u64,
    pub(crate) per_cpu: u64,
    pub(crate) vectors: u64,
    pub(crate) entry: u64,
    pub(crate) argument: u64,
    pub(crate) is_smc: u64,
    /// 0 while it is closed, then [`OPEN`] or [`TURNED_AWAY`].
    pub(crate) gate: u64,
    pub(crate) answer: Answer,
}

#[repr(C, align(2048))]
pub(crate) struct Answer {
    /// Written last, and not 0 then.
    has_answered: u64,
    pub(crate) midr: u64,
    pub(crate) isar0: u64,
    pub(crate) mmfr0: u64,
    pub(crate) mmfr2: u64,
}

impl Answer {
    const NONE: Self = Self { has_answered: 0, midr: 0, isar0: 0, mmfr0: 0, mmfr2: 0 };
}

impl StartRecord {
    const NONE: Self = Self {
        translation: Translation::NONE,
        stack: 0,
        exception_stack: 0,
        per_cpu: 0,
        vectors: 0,
        entry: 0,
        argument: 0,
        is_smc: 0,
        gate: 0,
        answer: Answer::NONE,
    };
}

/// A record for each CPU: one that firmware starts long after it was asked to finds its own, whoever was started since.
struct Shared([UnsafeCell<StartRecord>; MAX_CPUS]);

// SAFETY: one CPU starts the others, one at a time, and alone uses the records in Rust.
unsafe impl Sync for Shared {}

static RECORDS: Shared = Shared([const { UnsafeCell::new(StartRecord::NONE) }; MAX_CPUS]);

unsafe extern "C" {
    fn secondary_entry();
    fn vectors();
}

/// Asks firmware to start a CPU. It says what it is and waits; once [`open_gate`] lets it through, it turns its MMU on with
/// `translation`. Whoever opens the gate has seen that the CPU knows what that asks for.
///
/// # Safety
///
/// This runs in the high half; `load_address` is the image's physical address. `translation` is what this CPU uses, and
/// maps all that `start` names, which no other CPU uses. No CPU was started by this number before, unless it was turned away.
pub unsafe fn start(
    call: Call,
    load_address: PhysAddr,
    translation: Translation,
    start: Start,
) -> Result<(), PsciError> {
    let record = RECORDS.0[call.index].get();
    let filled = StartRecord {
        translation,
        stack: start.stack,
        exception_stack: start.exception_stack,
        per_cpu: start.per_cpu,
        vectors: vectors as *const () as u64,
        entry: start.entry as *const () as u64,
        argument: start.argument,
        is_smc: (call.conduit == Conduit::Smc).into(),
        gate: 0,
        answer: Answer::NONE,
    };
    // SAFETY: no other CPU uses this number's record, by the caller's promise.
    unsafe { record.write(filled) };
    let bytes = record as usize..record as usize + size_of::<StartRecord>();
    // The other CPU reads memory past its caches. Invalidated too: no dirty line may later fall on its answer.
    cache::clean_and_invalidate(bytes);
    let physical = |address: u64| PhysAddr::new(address - image::whole().start + load_address.bits());
    let entry = physical(secondary_entry as *const () as u64);
    let argument = physical(record as u64).bits();
    // SAFETY: `secondary_entry` expects the record's physical address, and the record is in memory.
    unsafe { call.conduit.cpu_on(call.cpu_on, call.affinity, entry, argument) }
}

/// What the CPU that was started as number `index`, below [`MAX_CPUS`], has said so far.
pub fn read_answer(index: usize) -> Option<Said> {
    // SAFETY: the record is a static; only its address is taken.
    let answer = unsafe { &raw mut (*RECORDS.0[index].get()).answer };
    // The answer was written past the caches: what is in them is from before.
    cache::clean_and_invalidate(answer as usize..answer as usize + size_of::<Answer>());
    // The first field.
    let has_answered = answer.cast::<u64>();
    // SAFETY: plain data that another CPU may be writing; this word is written last.
    if unsafe { ptr::read_volatile(has_answered) } == 0 {
        return None;
    }
    cache::clean_and_invalidate(answer as usize..answer as usize + size_of::<Answer>());
    // SAFETY: the other CPU wrote all of it before that word, and does not write any more.
    let Answer { midr, isar0, mmfr0, mmfr2, .. } = unsafe { ptr::read_volatile(answer) };
    Some(Said { midr, isar0, mmfr0, mmfr2 })
}

/// Lets CPU `index`, below [`MAX_CPUS`], through the gate: it walks the tables from now on.
///
/// # Safety
///
/// It has been started and supports `translation`. What [`start`] was promised of that still holds, and who changes the tables
/// knows of the CPU.
pub unsafe fn open_gate(index: usize) {
    tell(index, OPEN);
}

/// Has CPU `index`, below [`MAX_CPUS`], go off, once it is at the gate.
pub fn turn_away(index: usize) {
    tell(index, TURNED_AWAY);
}

fn tell(index: usize, word: u64) {
    // SAFETY: the record is a static, and the other CPU reads this word past its caches alone.
    let gate = unsafe { &raw mut (*RECORDS.0[index].get()).gate };
    // SAFETY: as above; nobody else writes it.
    unsafe { ptr::write_volatile(gate, word) };
    // The CPU reads memory: a dirty line would keep it waiting.
    cache::clean(gate as usize..gate as usize + size_of::<u64>());
    interrupts::send_event();
}
