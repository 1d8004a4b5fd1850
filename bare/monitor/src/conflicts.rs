//! TLB conflict aborts, which QEMU never raises: what [`moncore::conflicts`] chooses is carried out here, through stage 2.

use hardware::el2::exit::{Exit, cpu_index};
use hardware::el2::guest::{self, Injected, inject};
use hardware::lock::Lock;
use hardware::maintenance::maintain;
use kerncore::list::List;
use moncore::conflicts::{Access, Conflicts, MAX_ARMED, Settings, Strike};
use moncore::counts::Event;
use vmsa::{Maintenance, PhysAddr, TlbiOp};

use crate::console::say;
use crate::cpus::{self, COUNTS, REPORTED};
use crate::tables::PAGE_BYTES;
use crate::{memory, stage2};

static CONFLICTS: Lock<Option<Conflicts>> = Lock::new(None);

/// Pages by their intermediate physical addresses.
type Pages = List<u64, MAX_ARMED>;

/// DFSC and IFSC of a TLB conflict abort.
const CONFLICT: u32 = 0b11_0000;
/// WnR and CM of a data abort's ISS.
const WRITE_AND_MAINTENANCE: u32 = 1 << 6 | 1 << 8;

/// Chooses what is to come. Without settings nothing does.
pub(crate) fn set_up(settings: Option<Settings>) {
    CONFLICTS.with(|conflicts| *conflicts = settings.map(Conflicts::new));
}

/// The guest announces a resize, or its end. Whether that could be noted; where no conflicts are to come it need not be.
pub(crate) fn note_resize(start: u64, end: u64, is_begin: bool) -> bool {
    let range = start..end;
    CONFLICTS.with(|conflicts| {
        let Some(conflicts) = conflicts else { return true };
        if !is_begin {
            let is_noted = conflicts.end_resize(range);
            stage2::show(&all(|| conflicts.take_ended()));
            return is_noted;
        }
        let is_noted = conflicts.begin_resize(range.clone());
        if is_noted && is_translating() && conflicts.is_moment() {
            let chosen: [u64; MAX_ARMED] = core::array::from_fn(|_| conflicts.choose_in(&range));
            arm(conflicts, &chosen);
        }
        is_noted
    })
}

/// Pages that are given one by one, as many as can be armed.
fn all(mut next: impl FnMut() -> Option<u64>) -> Pages {
    let mut pages = Pages::new(0);
    while pages.room() != 0
        && let Some(page) = next()
    {
        pages.push(page).expect("there is room");
    }
    pages
}

/// The guest has executed a TLBI: conflicts may be over, and another one may begin.
pub(crate) fn note_tlbi(exit: &Exit, op: TlbiOp) {
    CONFLICTS.with(|conflicts| {
        let Some(conflicts) = conflicts else { return };
        stage2::show(&all(|| conflicts.note_tlbi(op, cpu_index())));
        if !is_translating() {
            return;
        }
        let mut pointers = [0; 34];
        pointers[..31].copy_from_slice(&exit.frame.registers);
        pointers[31..].copy_from_slice(&[exit.frame.return_address, guest::read_user_stack(), guest::read_stack()]);
        if let Some(address) = conflicts.choose(op, &pointers) {
            arm(conflicts, &[address]);
        }
    });
}

/// Whether this CPU's guest has its MMU on: with it off there are no TLB entries to conflict.
fn is_translating() -> bool {
    guest::read_control() & 1 == 1
}

/// Has the pages at these virtual addresses conflict, where the guest has memory. No more than can be armed at a time.
fn arm(conflicts: &mut Conflicts, addresses: &[u64]) {
    let (mut chosen, mut shown, mut hidden) = (Pages::new(0), Pages::new(0), Pages::new(0));
    for address in addresses {
        let page = guest::translate(*address).map(|at| at & !(PAGE_BYTES - 1));
        if let Some(page) = page.filter(|page| memory::is_guests(PhysAddr::new(*page))) {
            conflicts.arm(page, *address).into_iter().for_each(|before| shown.push(before).expect("one for each"));
            chosen.push(page).expect("one for each");
        }
    }
    // In this order, as what gave way may have been chosen again; and what was chosen may have given way.
    stage2::show(&shown);
    chosen.iter().filter(|page| conflicts.is_armed(**page)).for_each(|page| hidden.push(*page).expect("one for each"));
    stage2::hide(&hidden);
}

/// Answers an access to the guest's own memory that stage 2 refused: the page is armed, or was until a moment ago.
pub(crate) fn handle(exit: &mut Exit, page: u64) {
    let access = Access {
        address: exit.frame.fault_address,
        is_walk: exit.syndrome().is_on_stage1_walk(),
        cpu: cpu_index(),
        is_immune: cpus::is_immune(),
    };
    let struck = CONFLICTS.with(|conflicts| {
        let conflicts = conflicts.as_mut()?;
        let strike = conflicts.strike(page, access)?;
        if strike != (Strike::Guest { is_last: false }) {
            stage2::show(&[page]);
        }
        Some((strike, conflicts.settings().burst))
    });
    match struck {
        Some((Strike::Guest { is_last }, burst)) => {
            if is_last && burst > 1 {
                note_unanswered(&access, burst);
            }
            abort(exit);
        }
        Some((Strike::Stage2, _)) => handle_stage2(),
        // The access is made again, and finds the page.
        Some((Strike::Spared, _)) | None => {}
    }
}

/// A conflict has gone on for as long as it may. Hardware would let it go on.
fn note_unanswered(access: &Access, burst: u64) {
    let Access { address, cpu, .. } = access;
    if COUNTS.add(*cpu, Event::ConflictUnanswered) < REPORTED {
        say!(
            "\nmonitor: cpu {cpu}: the TLB conflict at address {address:#x} has aborted {burst} times, and no TLBI VMALLE1 or \
             VMALLE1IS has ended it"
        );
    }
}

fn abort(exit: &mut Exit) {
    let syndrome = exit.syndrome();
    let is_fetch = syndrome.is_instruction_abort();
    // M[3:2] of the guest's PSTATE: its exception level.
    let event = match (exit.frame.status >> 2 & 3 == 0, is_fetch) {
        (false, false) => Event::ConflictData,
        (false, true) => Event::ConflictFetch,
        (true, false) => Event::ConflictUserData,
        (true, true) => Event::ConflictUserFetch,
    };
    let address = exit.frame.fault_address;
    let cpu = cpu_index();
    // A kernel may die of it without a word.
    if COUNTS.add(cpu, event) == 0 {
        let instruction = exit.frame.return_address;
        say!(
            "\nmonitor: cpu {cpu}: the first of its {}: address {address:#x}, by the instruction at {instruction:#x}",
            event.name()
        );
    }
    let specific = CONFLICT | if is_fetch { 0 } else { syndrome.specific() & WRITE_AND_MAINTENANCE };
    inject(exit, Injected::Abort { is_fetch, specific, address });
}

/// Answers a conflict at stage 2, which comes to EL2. All that the TLBs of this CPU hold of the guest is forgotten, as nobody
/// knows which entries conflict, and the access is made again.
pub(crate) fn handle_stage2() {
    COUNTS.add(cpu_index(), Event::ConflictStage2);
    // The conflicting entries are this CPU's own. The DSB waits for the invalidation; the exception return to the guest
    // synchronizes the context.
    maintain(Maintenance::Invalidate(TlbiOp::VMALLS12E1, 0));
    maintain(Maintenance::DSB_NSH);
}
