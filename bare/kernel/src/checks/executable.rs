//! Text that comes at run time: every CPU executes it, nobody can write it, an instruction of it and of the kernel's own gives way to
//! another, and nothing is left.

use core::hint::black_box;
use core::sync::atomic::{AtomicU32, Ordering};

use hardware::translation::{read_translation, read_translation_to_write};
use vmsa::VirtAddr;

use super::detail::{Detail, tell};
use crate::cpus::{calls, walkers};
use crate::facts::{facts, is_read_only};
use crate::memory::exchange::exchange;
use crate::memory::executable::Text;
use crate::memory::{current, linear_map};

const NOP: u32 = 0xd503_201f;
const RET: u32 = 0xd65f_03c0;

/// MOV W0, #n.
const fn mov(n: u32) -> u32 {
    0x5280_0000 | n << 5
}

/// B, so many instructions further.
const fn branch(words: u32) -> u32 {
    0x1400_0000 | words
}

#[inline(never)]
extern "C" fn of_image() -> u32 {
    1
}

pub(super) fn run(detail: &mut Detail) -> bool {
    if !is_read_only() {
        // Boot's parts of the image are alike then, and heal to fewer leaves than boot made: once.
        drop(Text::take(24));
    }
    linear_map::get().heal_all();
    let before = linear_map::digest();
    let (Some(one), Some(other)) = (Text::take(24), Text::take(4096)) else {
        tell!(detail, "no memory for text");
        return false;
    };
    let (at, behind) = (one.range().start, other.range().start);
    let is_written = write(&one, &[NOP, mov(1), RET, mov(2), RET]) && write(&other, &[mov(3), RET]);
    let is_run = is_written && gives(at, 1) && gives(behind, 3);
    let is_safe = [at, behind].into_iter().all(cannot_be_written);
    // The first by what may be exchanged freely, the second by parking the others.
    let steps = [(at, [NOP, branch(3)], 2), (at + 12, [mov(2), mov(4)], 4)];
    let is_exchanged = steps.into_iter().all(|(place, [old, new], value)| {
        let done = exchange(place, old, new).inspect_err(|error| tell!(detail, "{place}: {error}; "));
        done.is_ok() && gives(at, value)
    });
    let is_own = exchange_own(detail);
    let is_refused = exchange(at, NOP, RET).is_err() && exchange(facts().linear.range().start, RET, NOP).is_err();
    let leaf = current::upper().translate(at).map_or(0, |found| found.size.size_bytes(crate::facts::page_size()));
    drop((one, other));
    linear_map::get().heal_all();
    let is_gone = [at, behind].into_iter().all(|at| read_translation(at).is_err()) && linear_map::digest() == before;
    let all = [is_run, is_safe, is_exchanged, is_own, is_refused, is_gone];
    tell!(detail, "{} CPUs, by a leaf of {}", walkers::running().count_ones(), kerncore::range::Bytes(leaf));
    if all.contains(&false) {
        tell!(detail, ": {all:?}");
    }
    !all.contains(&false)
}

fn write(text: &Text, words: &[u32]) -> bool {
    text.write(words.len(), |index| words[index])
}

/// An instruction of the image, and back.
fn exchange_own(detail: &mut Detail) -> bool {
    let at = VirtAddr::new(of_image as *const () as u64);
    let mut exchange = |old, new| exchange(at, old, new).inspect_err(|error| tell!(detail, "{at}: {error}; ")).is_ok();
    let is_protected = is_read_only();
    let is_safe = || !is_protected || cannot_be_written(at);
    exchange(mov(1), mov(2)) && gives(at, 2) && is_safe() && exchange(mov(2), mov(1)) && gives(at, 1)
}

/// Whether every CPU that calls `at` gets this.
fn gives(at: VirtAddr, value: u32) -> bool {
    let right = AtomicU32::new(0);
    // SAFETY: text of a function that takes nothing and gives a number.
    let function = unsafe { core::mem::transmute::<u64, extern "C" fn() -> u32>(black_box(at.bits())) };
    calls::on_every_cpu(&|cpu| {
        right.fetch_or(u32::from(function() == value) << cpu, Ordering::Relaxed);
    });
    right.load(Ordering::Relaxed) == walkers::running()
}

/// Neither there nor in the linear map.
fn cannot_be_written(at: VirtAddr) -> bool {
    let alias = read_translation(at).map(|memory| facts().linear.address(memory));
    [Ok(at), alias].into_iter().all(|at| at.is_ok_and(|at| read_translation_to_write(at).is_err()))
}
