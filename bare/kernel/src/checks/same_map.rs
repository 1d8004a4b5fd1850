//! Whether every CPU translates as this one does, and shares what its TLB holds with no other (CnP): each forgets for itself, where it parks and
//! where a TLB conflict came to it.

use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use hardware::image;
use hardware::per_cpu;
use hardware::translation::{Translation, read_translation};
use vmsa::{PhysAddr, VirtAddr};

use super::detail::{Detail, tell};
use crate::cpus::stacks::{self, Kind};
use crate::cpus::{calls, walkers};
use crate::facts::{facts, page_size};
use crate::memory::{handed, hidden_pages, layout, ranges};

/// TTBRn_EL1.CnP.
const CNP: u64 = 1;
/// How many addresses are compared.
const SAMPLES: usize = 12;

pub(super) fn compare(detail: &mut Detail) -> bool {
    let registers = Translation::read();
    let samples = samples().map(|address| (address, read_translation(address)));
    let (asked, differing, sharing) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
    let (parking, workshop) = (facts().parking, facts().workshop.ttbr0);
    // What this CPU may have later, and those have that park.
    let later = parking.ttbr0 | parking.ttbr1 | workshop;
    let wrong_sample = AtomicUsize::new(SAMPLES);
    calls::on_every_cpu(&|cpu| {
        asked.fetch_or(1 << cpu, Ordering::Relaxed);
        let wrong = samples.iter().position(|(address, here)| read_translation(*address) != *here);
        if wrong.is_some() || Translation::read() != registers || per_cpu::index() != cpu {
            differing.fetch_or(1 << cpu, Ordering::Relaxed);
            wrong_sample.store(wrong.unwrap_or(SAMPLES), Ordering::Relaxed);
        }
        let Translation { ttbr0, ttbr1, .. } = Translation::read();
        if (ttbr0 | ttbr1 | later) & CNP != 0 {
            sharing.fetch_or(1 << cpu, Ordering::Relaxed);
        }
    });
    let [asked, differing, sharing] = [asked, differing, sharing].map(|cpus| cpus.load(Ordering::Relaxed));
    let linear = facts().linear;
    let physical = |address: VirtAddr| PhysAddr::new(address.bits().wrapping_sub(linear.offset()));
    let may_be = |address| hidden_pages::is_on() || handed::is_lost(physical(address));
    let is_hidden = |address| linear.contains(address) && may_be(address);
    let faults = samples.iter().filter(|(address, here)| here.is_err() && !is_hidden(*address)).count();
    tell!(detail, "{} CPUs, {SAMPLES} addresses, {faults} of them faulting", asked.count_ones());
    if differing != 0 {
        tell!(detail, "; CPUs {differing:#b} differ, in sample {}", wrong_sample.load(Ordering::Relaxed));
    }
    if sharing != 0 {
        tell!(detail, "; CPUs {sharing:#b} have CnP set");
    }
    // Two samples lie in guards, and the range of the checks is empty now.
    asked == walkers::running() && differing == 0 && sharing == 0 && faults == 3
}

/// Addresses of every kind.
fn samples() -> [VirtAddr; SAMPLES] {
    let linear = facts().linear;
    let edge = |range: Option<PhysAddr>| linear.address(range.unwrap_or(PhysAddr::new(linear.origin))).bits();
    let thread = stacks::range(0, Kind::Thread, page_size());
    let exception = stacks::range(0, Kind::Exception, page_size());
    [
        image::text().start,
        image::text().end - 8,
        image::rodata().start,
        image::data().start,
        ptr::from_ref(facts()) as u64,
        edge(ranges::mapped().first().map(|range| range.start)),
        edge(ranges::mapped().last().map(|range| PhysAddr::new(range.end.bits() - 8))),
        thread.start,
        thread.start - 8,
        exception.start - 8,
        exception.end - 8,
        layout::CHECKS.start,
    ]
    .map(VirtAddr::new)
}
