//! What hardware writes by itself: the access flag and the dirty state, by an atomic update of the descriptor that a walk
//! finds. (DDI 0487, D8.5)

use machine::event::Event;
use machine::syndrome::AccessKind;
use pagetable::{Change, El1, Platform, View};
use vmsa::{Granule, Granule4K, Granule16K, Granule64K, Meaning, PageSize, PhysAddr, Stage1Attributes};

use crate::content::ends;
use crate::edited::{Edited, as_regime};
use crate::failure::Wrong;
use crate::program::Peek;
use crate::request::Reply;
use crate::run::Run;
use crate::scenario::{Scenario, Step};

/// Bit 7 of a leaf: AP[2] of stage 1, where it forbids writing, S2AP[1] of stage 2, where it grants it.
const WRITE: u64 = 1 << 7;

/// The walker of `cpu` walks for `address`, and sets what it may set of the leaf it finds.
pub(crate) fn update(run: &mut Run, cpu: u8, address: u64, kind: AccessKind) -> Reply {
    let (scenario, world, host) = run.parts_mut();
    let found = find(scenario, Peek(host.machine()), world.root, address);
    let Some((word, old)) = found else { return Reply::Done };
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
        run.mark_leaf(address, is_dirty);
        run.sharing_mut().note(cpu, word, true);
    }
    Reply::Done
}

/// What hardware marked must still be marked where leaves did but change size: the engine may not lose it.
pub(crate) fn check_marks(run: &mut Run) {
    let (scenario, world, host) = run.parts_mut();
    let lost = world.marked().iter().find(|(address, is_dirty)| {
        let is_resized = is_resized_only(scenario, *address);
        let Some((_, leaf)) = find(scenario, Peek(host.machine()), world.root, *address) else { return false };
        let is_clean = (leaf & WRITE == 0) == scenario.parameters.setting.is_stage2();
        is_resized && (leaf & Stage1Attributes::AF.bits() == 0 || *is_dirty && is_clean)
    });
    if let Some((address, is_dirty)) = lost.copied() {
        let what = if is_dirty { "written" } else { "accessed" };
        run.fail(0, Wrong::Program(format!("hardware marked {address:#x} as {what}, and the mark is lost")));
    }
}

/// Whether nothing but the size of the leaf at `address` was ever to change.
fn is_resized_only(scenario: &Scenario, address: u64) -> bool {
    let is_its = |change: &&Change<El1>| {
        let (first, last) = ends(change);
        first <= address && address <= last
    };
    let steps = scenario.programs.iter().flatten();
    let changes = steps.flat_map(|step| match step {
        Step::Change { changes, .. } => changes.as_slice(),
        _ => &[],
    });
    changes
        .filter(is_its)
        .all(|it| matches!(it, Change::Split { .. } | Change::SplitToPages { .. } | Change::Collapse { .. }))
}

fn find(scenario: &Scenario, peek: Peek<'_>, root: u64, address: u64) -> Option<(u64, u64)> {
    as_regime!(scenario.parameters.setting, R => match scenario.parameters.page_size {
        PageSize::Size4K => find_as::<Granule4K, R>(scenario, &peek, root, address),
        PageSize::Size16K => find_as::<Granule16K, R>(scenario, &peek, root, address),
        PageSize::Size64K => find_as::<Granule64K, R>(scenario, &peek, root, address),
    })
}

fn find_as<G: Granule, R: Edited>(
    scenario: &Scenario,
    peek: &impl Platform,
    root: u64,
    address: u64,
) -> Option<(u64, u64)> {
    let parameters = &scenario.parameters;
    let geometry = R::geometry::<G>(parameters).ok()?;
    let view: View<'_, G, R, _> = View::new(peek, geometry, R::of(parameters), PhysAddr::new(root));
    let leaf = view.path(address.into()).last()?;
    matches!(leaf.meaning, Meaning::Leaf(..)).then(|| (leaf.slot.address().bits(), leaf.descriptor.bits()))
}
