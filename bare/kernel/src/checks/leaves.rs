//! Every leaf of the kernel's page table, held against what it is for. The tables say where the leaves are, the MMU where
//! they lead.

use core::ops::Range;

use hardware::image;
use hardware::translation::{read_translation, read_translation_to_write};
use kerncore::range::{Bytes, PhysicalRange};
use vmsa::{FaultStatus, Meaning, PhysAddr, Stage1Attributes, VirtAddr};

use super::detail::{Detail, tell};
use super::protections::alias;
use crate::cpus::stacks::{self, Kind};
use crate::facts::{facts, is_read_only, page_size};
use crate::memory::tables::AnyTable;
use crate::memory::{current, handed, hidden_pages, ranges};

/// A leaf as the tables have it.
struct Leaf {
    input: VirtAddr,
    bytes: u64,
    output: PhysAddr,
    attributes: Stage1Attributes,
}

/// The first leaf of a range that is not as it must be.
fn find_wrong(table: &AnyTable, range: Range<VirtAddr>, mut is_right: impl FnMut(&Leaf) -> bool) -> Option<Leaf> {
    let mut wrong = None;
    let walked = table.for_each(range.clone(), &mut |entry| {
        let Meaning::Leaf(output, _) = entry.lookup.meaning else { return };
        let attributes = Stage1Attributes::from_bits_retain(entry.lookup.descriptor.bits());
        let leaf = Leaf { input: entry.input, bytes: 1 << entry.shift, output, attributes };
        if wrong.is_none() && !is_right(&leaf) {
            wrong = Some(leaf);
        }
    });
    let nothing = Stage1Attributes::empty();
    let unwalked = Leaf { input: range.start, bytes: 0, output: PhysAddr::new(0), attributes: nothing };
    wrong.or(walked.is_err().then_some(unwalked))
}

fn tell_wrong(leaf: &Leaf, detail: &mut Detail) -> bool {
    tell!(detail, "{} of {} at {} is {:?}", leaf.output, Bytes(leaf.bytes), leaf.input, leaf.attributes);
    false
}

/// Each leaf of the linear map leads to its own memory, by the tables and by the MMU, and together they are all there is.
pub(super) fn linear_map(detail: &mut Detail) -> bool {
    let linear = facts().linear;
    let (mut leaves, mut bytes) = (0, 0);
    let mapped = ranges::mapped();
    let wrong = find_wrong(&current::upper(), linear.range(), |leaf| {
        (leaves, bytes) = (leaves + 1, bytes + leaf.bytes);
        let physical = PhysicalRange::from_size(leaf.output, leaf.bytes);
        let leads = |offset| read_translation(leaf.input + offset) == Ok(leaf.output + offset);
        let is_memory = mapped.iter().any(|range| range.covers(&physical));
        is_memory && linear.address(leaf.output) == leaf.input && leads(0) && leads(leaf.bytes - 8)
    });
    let all: u64 = mapped.iter().map(|range| range.size_bytes()).sum();
    let expected = all - hidden_pages::bytes() - handed::counts().1 * page_size().size_bytes();
    if let Some(leaf) = wrong {
        return tell_wrong(&leaf, detail);
    }
    tell!(detail, "{leaves} leaves of {} in all, of {} that may be mapped", Bytes(bytes), Bytes(expected));
    bytes == expected
}

/// What EL1 may execute is text, at its link address and, for the little that needs it, at its physical one; it cannot be
/// written. EL0 gets nothing.
pub(super) fn executable(detail: &mut Detail) -> bool {
    let physical = |range: Range<u64>| {
        let to = |address| facts().load_address.bits() + (address - image::whole().start);
        to(range.start)..to(range.end)
    };
    let (upper, lower) = (current::upper(), current::lower());
    let mut leaves = 0;
    let texts = [(&upper, image::text(), is_read_only()), (&lower, physical(image::identity_text()), true)];
    for (table, text, is_read_only) in texts {
        let mut executable_bytes = 0;
        let wrong = find_wrong(table, table.range(), |leaf| {
            leaves += 1;
            let Leaf { input, bytes, attributes, .. } = leaf;
            if attributes.contains(Stage1Attributes::USER) || !attributes.contains(Stage1Attributes::UXN) {
                return false;
            }
            let is_text = text.start <= input.bits() && input.bits() + (bytes - 1) < text.end;
            executable_bytes += if attributes.contains(Stage1Attributes::PXN) { 0 } else { *bytes };
            attributes.contains(Stage1Attributes::PXN)
                || is_text && attributes.contains(Stage1Attributes::READ_ONLY) == is_read_only
        });
        if let Some(leaf) = wrong {
            return tell_wrong(&leaf, detail);
        }
        tell!(detail, "{} at {:#x}, ", Bytes(executable_bytes), text.start);
        if executable_bytes != text.end - text.start {
            return false;
        }
    }
    tell!(detail, "of {leaves} leaves");
    true
}

/// The MMU refuses a write to each page of text and constants, by both of its addresses unless `rodata=` asks for that, and allows one
/// to data.
pub(super) fn read_only(detail: &mut Detail) -> bool {
    let is_refused = |address| {
        let fault = read_translation_to_write(address).err().map(|par| FaultStatus::decode((par >> 1) as u8));
        matches!(fault, Some(FaultStatus::Permission(_)))
    };
    let mut pages = 0;
    for (range, is_constant) in [(image::text().start..image::rodata().end, true), (image::data(), false)] {
        for address in range.step_by(page_size().size_bytes() as usize) {
            let both = [VirtAddr::new(address), alias(address)];
            let is_one_page = read_translation(both[0]).is_ok_and(|one| read_translation(both[1]) == Ok(one));
            let is_protected = is_constant && is_read_only();
            if !is_one_page || both.into_iter().any(|at| is_refused(at) != is_protected) {
                tell!(detail, "{} and {} are not as they must be", both[0], both[1]);
                return false;
            }
            pages += u64::from(is_constant);
        }
    }
    tell!(detail, "{pages} pages, each at its link address and in the linear map");
    pages > 0
}

/// The vectors, what can be written of the image, and the stacks are in pages that belong to no contiguous group: no TLB conflict can
/// come where its handler or the way to another would need them.
pub(super) fn of_exceptions(detail: &mut Detail) -> bool {
    let stacks = Kind::ALL.map(|kind| stacks::range(0, kind, page_size()));
    let ranges = [image::vectors(), image::data()].into_iter().chain(stacks);
    let (table, mut count) = (current::upper(), 0);
    for range in ranges.filter(|range| !range.is_empty()) {
        let mut wrong = None;
        let walked = table.for_each(VirtAddr::new(range.start)..VirtAddr::new(range.end), &mut |entry| match entry
            .lookup
            .meaning
        {
            Meaning::Table(_) => {}
            Meaning::Leaf(_, false) if entry.shift == page_size().shift() => count += 1,
            _ => wrong = wrong.or(Some(entry.input)),
        });
        if let Some(address) = wrong {
            tell!(detail, "{address} is in no page of its own");
            return false;
        }
        if walked.is_err() {
            return false;
        }
    }
    tell!(detail, "{count} pages");
    count > 0
}
