//! What hardware writes by itself: the access flag and the dirty state, by an atomic update of the descriptor that a walk
//! finds. (DDI 0487, D8.5)

use machine::event::Event;
use machine::syndrome::AccessKind;
use pagetable::{El1, Platform, View};
use vmsa::{
    Geometry, Granule, Granule4K, Granule16K, Granule64K, Meaning, PageSize, PhysAddr, Stage1Attributes, VirtAddr,
};

use crate::program::Peek;
use crate::request::Reply;
use crate::run::Run;
use crate::scenario::Scenario;

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
        new &= !Stage1Attributes::READ_ONLY.bits();
    }
    if new != old {
        host.happen(cpu, &Event::CompareExchange { address: word, expected: old, value: new });
        run.sharing_mut().note(cpu, word, true);
    }
    Reply::Done
}

fn find(scenario: &Scenario, peek: Peek<'_>, root: u64, address: u64) -> Option<(u64, u64)> {
    match scenario.parameters.page_size {
        PageSize::Size4K => find_as::<Granule4K>(scenario, &peek, root, address),
        PageSize::Size16K => find_as::<Granule16K>(scenario, &peek, root, address),
        PageSize::Size64K => find_as::<Granule64K>(scenario, &peek, root, address),
    }
}

fn find_as<G: Granule>(scenario: &Scenario, peek: &impl Platform, root: u64, address: u64) -> Option<(u64, u64)> {
    let parameters = &scenario.parameters;
    let geometry = Geometry::<G>::new(parameters.input_bits, parameters.layout, parameters.half).ok()?;
    let view: View<'_, G, El1, _> = View::new(peek, geometry, parameters.regime(), PhysAddr::new(root));
    let leaf = view.path(VirtAddr::new(address)).last()?;
    matches!(leaf.meaning, Meaning::Leaf(..)).then(|| (leaf.slot.address().bits(), leaf.descriptor.bits()))
}
