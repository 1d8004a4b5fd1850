//! Restartable sequences, as Linux's `rseq`: a thread finds in its memory on which CPU it runs, and where it lost its CPU or takes a
//! signal amid a sequence, it goes on at the abort handler of that.
//!
//! ```text
//!  area    cpu_id_start │ cpu_id │ rseq_cs ──▶ version, flags │ start │ bytes │ abort        bytes 0, 4, 8 of both, and so on
//!          flags │ node_id │ mm_cid                                              └─▶ the signature stands before the handler
//! ```

use hardware::exception::Frame;
use hardware::per_cpu;

use super::copies;
use super::sequences::{Area, Sequences};
use crate::errno::*;

/// Bytes of the smallest area, which it is aligned to.
const LEAST: u64 = 32;
/// What stands in `cpu_id` before an area is registered, and after.
const NO_CPU: u64 = 0xffff_ffff;
/// Bytes of an area that mean something, as the auxiliary vector tells.
pub(super) const MEANING: u64 = 28;

/// Writes the numbers of a CPU. That of its node is 0, and a number that no other thread of the process has now is the CPU's own.
fn tell(area: &Area, first: u64, cpu: u64, within: u32) -> Result<(), Errno> {
    copies::write_words(area.address, &[first | cpu << 32])?;
    copies::write_words(area.address + 20, &[u64::from(within) << 32])
}

fn tell_here(area: &Area) -> Result<(), Errno> {
    let cpu = per_cpu::index();
    tell(area, cpu as u64, cpu as u64, cpu as u32)
}

/// Has a program that is in a sequence go on at its handler. The sequence is over.
fn abandon(area: &Area, frame: &mut Frame) -> Result<(), Errno> {
    let sequence = area.address + 8;
    let [at] = copies::read_words(sequence)?;
    if at == 0 {
        return Ok(());
    }
    let [head, start, bytes, handler] = copies::read_words(at)?;
    let end = start.checked_add(bytes).filter(|end| *end < copies::END).ok_or(EINVAL)?;
    let is_bad = head != 0 || handler >= copies::END || (start..end).contains(&handler);
    if is_bad || copies::read_half(handler.wrapping_sub(4))? != area.signature {
        return Err(EINVAL);
    }
    copies::write_words(sequence, &[0])?;
    if (start..end).contains(&frame.return_address) {
        frame.return_address = handler;
    }
    Ok(())
}

/// The call: registers the thread's area, or takes it back.
pub(super) fn set(sequences: &Sequences, address: u64, bytes: u32, flags: u32, signature: u32) -> Answer {
    const UNREGISTER: u32 = 1;
    let wanted = Area { address, bytes, signature };
    let is_same = |area: Area| (area.address, area.bytes) == (address, bytes);
    match (flags, sequences.area.get()) {
        (UNREGISTER, Some(area)) if area == wanted => {
            tell(&area, 0, NO_CPU, 0)?;
            sequences.forget();
            Ok(0)
        }
        (0, None) if u64::from(bytes) >= LEAST && address.is_multiple_of(LEAST) => {
            tell_here(&wanted)?;
            sequences.area.set(Some(wanted));
            Ok(0)
        }
        (UNREGISTER | 0, Some(area)) if is_same(area) => Err(if area == wanted { EBUSY } else { EPERM }),
        _ => Err(EINVAL),
    }
}

/// Before EL0: if the thread has left its CPU, a sequence is over, and the area tells of the CPU that it is on.
pub(super) fn resume(sequences: &Sequences, frame: &mut Frame) -> Result<(), Errno> {
    let Some(area) = sequences.area.get().filter(|_| sequences.has_left.take()) else { return Ok(()) };
    abandon(&area, frame)?;
    tell_here(&area)
}

/// Before a handler: what it comes back to is the sequence's end.
pub(super) fn interrupt(sequences: &Sequences, frame: &mut Frame) -> Result<(), Errno> {
    sequences.area.get().map_or(Ok(()), |area| abandon(&area, frame))
}
