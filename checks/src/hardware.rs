//! What hardware writes by itself: the access flag and the dirty state, by an atomic update of the descriptor that a walk
//! finds. (DDI 0487, D8.5)

use std::ops::Range;

use machine::event::Event;
use machine::syndrome::AccessKind;
use pagetable::{Change, El1, Platform, View};
use vmsa::{Granule, Granule4K, Granule16K, Granule64K, LeafSize, Meaning, PageSize, PhysAddr, Stage1Attributes};

use crate::content::ends;
use crate::edited::{Edited, as_regime};
use crate::failure::Wrong;
use crate::host::Host;
use crate::ledger::Ledger;
use crate::peek::Peek;
use crate::request::Reply;
use crate::scenario::{Scenario, Step};
use crate::sharing::Sharing;

/// Bit 7 of a leaf: AP[2] of stage 1, where it forbids writing, S2AP[1] of stage 2, where it grants it.
const WRITE: u64 = 1 << 7;

/// The walker of `cpu` walks for `address`, and sets what it may set of the leaf it finds.
pub(crate) fn update(
    scenario: &Scenario,
    (ledger, host, sharing): (&mut Ledger, &mut Host, &mut Sharing),
    cpu: u8,
    address: u64,
    kind: AccessKind,
) -> Reply {
    let found = find(scenario, Peek(host.machine()), ledger.root, address);
    let Some(Found { word, descriptor: old, covered, .. }) = found else { return Reply::Done };
    let (has_access_flag, has_dirty_state) = scenario.parameters.hardware;
    let mut new = old;
    if has_access_flag {
        new |= Stage1Attributes::AF.bits();
    }
    if has_dirty_state && kind == AccessKind::Write && old & Stage1Attributes::DBM.bits() != 0 {
        new = new & !WRITE | if scenario.parameters.setting.is_stage2() { WRITE } else { 0 };
    }
    if new != old {
        host.happen(cpu, &Event::CompareExchange { address: word, expected: old, value: new });
        let is_dirty = (old ^ new) & WRITE != 0;
        // TLBs that hold the marked leaf, or its contiguous group, let all of it be written from now on.
        for marked in [covered.start, address, covered.end - 1] {
            ledger.mark(marked, is_dirty);
        }
        sharing.note(cpu, word, true);
    }
    Reply::Done
}

/// A mark of hardware's that is lost: where leaves did but change size the engine must keep it. What a member of a contiguous
/// group says is said of all of them.
pub(crate) fn find_lost_mark(scenario: &Scenario, ledger: &Ledger, host: &Host) -> Option<Wrong> {
    let find = |address| find(scenario, Peek(host.machine()), ledger.root, address);
    let lost = ledger.marked().iter().find(|(address, is_dirty)| {
        let Some(found) = find(*address).filter(|_| is_resized_only(scenario, *address)) else { return false };
        let members = || found.covered.clone().step_by(found.bytes).filter_map(find);
        let is_accessed = members().any(|it| it.descriptor & Stage1Attributes::AF.bits() != 0);
        let is_written = members().any(|it| (it.descriptor & WRITE != 0) == scenario.parameters.setting.is_stage2());
        !is_accessed || *is_dirty && !is_written
    });
    lost.map(|(address, is_dirty)| {
        let what = if *is_dirty { "written" } else { "accessed" };
        Wrong::Program(format!("hardware marked {address:#x} as {what}, and the mark is lost"))
    })
}

/// Whether nothing but the size of the leaf at `address` was ever to change.
fn is_resized_only(scenario: &Scenario, address: u64) -> bool {
    let is_its = |change: &&Change<El1>| {
        let (first, last) = ends(change);
        first <= address && address <= last
    };
    let steps = scenario.programs.iter().flatten();
    let changes: Vec<_> = steps.filter_map(Step::changes).flat_map(|(_, changes)| changes).collect();
    changes
        .iter()
        .filter(is_its)
        .all(|it| matches!(it, Change::Split { .. } | Change::SplitToPages { .. } | Change::Collapse { .. }))
}

/// A leaf.
struct Found {
    /// Where its descriptor stands.
    word: u64,
    descriptor: u64,
    /// The addresses that it translates, or its contiguous group does.
    covered: Range<u64>,
    /// How many of them are its own.
    bytes: usize,
}

fn find(scenario: &Scenario, peek: Peek<'_>, root: u64, address: u64) -> Option<Found> {
    as_regime!(scenario.parameters.setting, R => match scenario.parameters.page_size {
        PageSize::Size4K => find_as::<Granule4K, R>(scenario, &peek, root, address),
        PageSize::Size16K => find_as::<Granule16K, R>(scenario, &peek, root, address),
        PageSize::Size64K => find_as::<Granule64K, R>(scenario, &peek, root, address),
    })
}

fn find_as<G: Granule, R: Edited>(scenario: &Scenario, peek: &impl Platform, root: u64, address: u64) -> Option<Found> {
    let parameters = &scenario.parameters;
    let geometry = R::geometry::<G>(parameters).ok()?;
    let view: View<'_, G, R, _> = View::new(peek, geometry, R::of(parameters), PhysAddr::new(root));
    let leaf = view.path(address.into()).last()?;
    let Meaning::Leaf(_, contiguous) = leaf.meaning else { return None };
    let bytes = LeafSize { level: leaf.level, contiguous }.size_bytes(G::PAGE_SIZE);
    let start = address & !(bytes - 1);
    Some(Found {
        word: leaf.slot.address().bits(),
        descriptor: leaf.descriptor.bits(),
        covered: start..start + bytes,
        bytes: LeafSize::single(leaf.level).size_bytes(G::PAGE_SIZE) as usize,
    })
}
