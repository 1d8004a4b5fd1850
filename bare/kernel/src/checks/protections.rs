//! What must not be written, or executed.

use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering};

use hardware::catch::Fault;
use hardware::{cache, image, probe};
use vmsa::{FaultStatus, PhysAddr, VirtAddr};

use super::detail::{Detail, tell};
use crate::facts::{facts, is_read_only};

const PATTERN: u64 = 0x5a5a_5a5a_a5a5_a5a5;

/// In read-only data. Atomic, so that the compiler may not take its value for known; never written, so it stays there.
#[unsafe(link_section = ".rodata.checks")]
static CONSTANT: AtomicU64 = AtomicU64::new(PATTERN);

/// A function, in data.
static DATA: AtomicU64 = AtomicU64::new(probe::RET as u64);

pub(super) fn write_to_read_only_data(detail: &mut Detail) -> bool {
    let address = VirtAddr::new(ptr::from_ref(&CONSTANT) as u64);
    is_write_refused(address, detail)
}

pub(super) fn write_to_read_only_alias(detail: &mut Detail) -> bool {
    is_write_refused(alias(ptr::from_ref(&CONSTANT) as u64), detail)
}

/// The word that is written back is the one that is there, so that nothing breaks if it can be.
pub(super) fn write_to_text_alias(detail: &mut Detail) -> bool {
    is_write_refused(alias(image::text().start), detail)
}

/// By either of its addresses.
pub(super) fn execute_data(detail: &mut Detail) -> bool {
    let start = ptr::from_ref(&DATA) as usize;
    // If it could be executed the check must see that, not whatever the instruction cache held.
    cache::synchronize_instructions(start..start + 4);
    is_fetch_refused(VirtAddr::new(start as u64), detail) && {
        tell!(detail, "; ");
        is_fetch_refused(alias(start as u64), detail)
    }
}

fn is_fetch_refused(address: VirtAddr, detail: &mut Detail) -> bool {
    // SAFETY: it is a function that returns.
    match unsafe { probe::execute(address) } {
        Ok(()) => {
            tell!(detail, "{address} was executed");
            false
        }
        Err(fault) => is_permission_fault(&fault, address, detail) && fault.syndrome.is_instruction_abort(),
    }
}

/// Where the linear map has an address of the image.
pub(super) fn alias(address: u64) -> VirtAddr {
    let physical = address - image::whole().start + facts().load_address.bits();
    facts().linear.address(PhysAddr::new(physical))
}

/// Whether a write is refused, or, where `rodata=` asks for that, is not.
fn is_write_refused(address: VirtAddr, detail: &mut Detail) -> bool {
    let is_read_only = is_read_only();
    // SAFETY: what is there may be read.
    let Ok(before) = (unsafe { probe::read(address) }) else {
        tell!(detail, "{address} cannot even be read");
        return false;
    };
    // SAFETY: it is the value that is there.
    match unsafe { probe::write(address, before) } {
        Ok(()) => {
            tell!(detail, "{address} was written{}", if is_read_only { "" } else { ", as rodata asks" });
            !is_read_only
        }
        Err(fault) => is_permission_fault(&fault, address, detail) && fault.syndrome.is_write() && is_read_only,
    }
}

fn is_permission_fault(fault: &Fault, address: VirtAddr, detail: &mut Detail) -> bool {
    tell!(detail, "{}, at {}", fault.syndrome, fault.address);
    let is_permission = matches!(fault.syndrome.fault(), Some(FaultStatus::Permission(_)));
    is_permission && fault.address == address && CONSTANT.load(Ordering::Relaxed) == PATTERN
}
