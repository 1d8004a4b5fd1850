//! 64 KiB in a larger leaf are shared with a realm's host and taken back, at every moment of boot: what is called a success must be one, and
//! what the host did not do must be hidden, or be RAM.

use core::sync::atomic::{AtomicU64, Ordering};

use hardware::probe;
use hardware::translation::read_translation;
use kerncore::range::PhysicalRange;
use kerncore::realm::{self, Rmm, State};

use super::detail::{Detail, tell};
use crate::facts::{facts, page_size};
use crate::memory::handed::{self, NotHanded, Smc, page_starts};
use crate::memory::pages;

/// What is shared at once, whatever the page size.
const BYTES: u64 = 64 << 10;
const VALUE: u64 = 0x0123_4567_89ab_cdef;
/// How often that is tried once boot is over.
const TIMES: usize = 12;

static DONE: AtomicU64 = AtomicU64::new(0);
/// The host stopped, and it was seen what became of each page.
static STOPPED: AtomicU64 = AtomicU64::new(0);
static WRONG: AtomicU64 = AtomicU64::new(0);

/// Shares memory, and takes it back.
pub(super) fn pass() {
    pass_by(&Smc);
}

/// The same, where the RMM is called so for what is shared. Whether nothing was wrong until then.
pub(super) fn pass_by(rmm: &impl Rmm) -> bool {
    let order = (BYTES / page_size().size_bytes()).ilog2() as usize;
    let Some(first) = pages::allocate(order) else { return true };
    let range = PhysicalRange::from_size(first, BYTES);
    let away = facts().realm.map_or(0, |realm| realm.unprotected());
    // What was never shared stays uncounted when it is taken back.
    let went = back(range).and_then(|_| there(rmm, range, away)).and_then(|()| back(range));
    match went {
        Ok(true) => {
            pages::free(first, order);
            DONE.fetch_add(1, Ordering::Relaxed);
        }
        Err(NotHanded::Stopped(..)) if is_settled(range) => {
            handed::free_rest(first, order);
            STOPPED.fetch_add(1, Ordering::Relaxed);
        }
        _ => _ = WRONG.fetch_add(1, Ordering::Relaxed),
    }
    WRONG.load(Ordering::Relaxed) == 0
}

fn there(rmm: &impl Rmm, range: PhysicalRange, away: u64) -> Result<(), NotHanded> {
    handed::set_memory_decrypted_by(rmm, range)?;
    let is_right = leads(range, away) && (away == 0 || realm::is_all(&Smc, range, State::Empty));
    if !is_right {
        WRONG.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn back(range: PhysicalRange) -> Result<bool, NotHanded> {
    handed::set_memory_encrypted(range)?;
    Ok(leads(range, 0) && (facts().realm.is_none() || realm::is_ram(&Smc, range)))
}

/// Whether every page leads so far from its own address, and keeps what is written to it.
fn leads(range: PhysicalRange, away: u64) -> bool {
    page_starts(range).all(|page| {
        let address = facts().linear.address(page);
        // SAFETY: memory of this check.
        let is_written = || unsafe { probe::write(address, VALUE ^ page.bits()) }.is_ok();
        // SAFETY: as above.
        let is_read = || unsafe { probe::read(address) } == Ok(VALUE ^ page.bits());
        read_translation(address) == Ok(page + away) && is_written() && is_read()
    })
}

/// Whether every page is the realm's own and can be used, or is hidden and counted.
fn is_settled(range: PhysicalRange) -> bool {
    page_starts(range).all(|page| match handed::is_lost(page) {
        true => read_translation(facts().linear.address(page)).is_err(),
        false => {
            let whole = PhysicalRange::from_size(page, page_size().size_bytes());
            leads(whole, 0) && realm::is_ram(&Smc, whole)
        }
    })
}

/// Whether nothing went wrong.
pub(super) fn passed(detail: &mut Detail) -> bool {
    // A host that refuses now and then is asked often enough to.
    let times = if facts().realm.is_some() { TIMES } else { 1 };
    (0..times).for_each(|_| pass());
    let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (done, stopped, wrong) = (value(&DONE), value(&STOPPED), value(&WRONG));
    let (shared, lost) = handed::counts();
    match facts().realm {
        None => tell!(detail, "no realm: nothing to do, {done} times"),
        Some(realm) => tell!(
            detail,
            "a realm of {} bits: {done} times, {stopped} times the host stopped, {shared} pages shared, {lost} lost",
            realm.address_bits
        ),
    }
    if wrong > 0 {
        tell!(detail, "; {wrong} times wrong");
    }
    let noted = pages::lost_to_host().map_or(0, |set| set.count());
    done + stopped > 0 && (wrong, shared) == (0, 0) && lost == noted as u64
}
