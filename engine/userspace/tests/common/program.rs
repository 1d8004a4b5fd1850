//! What a program does, and what it asks for.

use vellum_pagetable::{Platform, Translation};
use vellum_userspace::{Access, AreaFlags, Backing, Fault, Kind, Place, Request, Rights, Source};
use vellum_vmsa::{Descriptor, Granule, PhysAddr, Stage1Attributes, VirtAddr};

use super::machine::Cached;
use super::{Space, TestFile};

/// What a program does, as a CPU would do it: by its TLB, by a walk, by a fault and again.
pub(crate) fn access<G: Granule>(space: &Space<G>, address: u64, kind: Kind, value: u64) -> Result<u64, Fault> {
    let kernel = space.embedder();
    let machine = &kernel.0.machine;
    let asid = kernel.0.asids.switch(machine, 0, space.context());
    let key = (asid, address >> G::SHIFT);
    let fault = |kind| {
        kernel.0.faults.set(kernel.0.faults.get() + 1);
        space.fault(Access { address, kind })
    };
    for _ in 0..4 {
        assert!(!machine.is_invalidating.get(), "an access before a TLBI has ended");
        let cached = machine.tlb.borrow().get(&key).copied();
        let found = cached.or_else(|| {
            let leaf = view(space, address)?;
            let is_cached = leaf.attributes.contains(Stage1Attributes::AF);
            is_cached.then(|| *machine.tlb.borrow_mut().entry(key).or_insert(leaf))
        });
        match found {
            Some(found) if permits(found.attributes, kind) => {
                if matches!(kind, Kind::Write | Kind::Atomic) {
                    kernel.set(found.frame, value);
                }
                return Ok(kernel.get(found.frame));
            }
            // Where a read would not fault, the CPU tells an atomic as a write.
            Some(found) if kind == Kind::Atomic && permits(found.attributes, Kind::Read) => {
                fault(Kind::Write)?;
            }
            _ => fault(kind)?,
        }
    }
    panic!("{address:#x} faults again and again");
}

fn permits(attributes: Stage1Attributes, kind: Kind) -> bool {
    let user = attributes.contains(Stage1Attributes::USER);
    match kind {
        Kind::Read => user,
        Kind::Write | Kind::Atomic => user && !attributes.contains(Stage1Attributes::READ_ONLY),
        Kind::Execute => !attributes.contains(Stage1Attributes::UXN),
    }
}

fn view<G: Granule>(space: &Space<G>, address: u64) -> Option<Cached> {
    let found = translation(space, address)?;
    let attributes = Stage1Attributes::from_bits_retain(found.descriptor.bits());
    let pages = if found.size.contiguous { 1 } else { found.size.size_bytes(G::PAGE_SIZE) >> G::SHIFT };
    Some(Cached { frame: found.output, pages, attributes })
}

/// The hardware of another CPU marks a page as written, and tells no TLB.
pub(crate) fn mark_elsewhere<G: Granule>(space: &Space<G>, address: u64) {
    let (machine, regime) = (&space.embedder().0.machine, vellum_pagetable::El1::space(1));
    let view = vellum_pagetable::View::new(machine, space.shape().geometry, regime, space.root());
    let leaf = view.path(VirtAddr::new(address)).last().expect("a page that is mapped");
    let written = leaf.descriptor.bits() & !Stage1Attributes::READ_ONLY.bits();
    machine.store(leaf.slot, Descriptor::new(written));
}

fn translation<G: Granule>(space: &Space<G>, address: u64) -> Option<Translation> {
    let (machine, shape) = (&space.embedder().0.machine, space.shape());
    let regime = vellum_pagetable::El1::space(1);
    let view = vellum_pagetable::View::new(machine, shape.geometry, regime, space.root());
    let page = address & !(G::SIZE_BYTES - 1);
    view.translate(VirtAddr::new(page))
}

/// The frame of a page that is mapped.
pub(crate) fn frame_at<G: Granule>(space: &Space<G>, address: u64) -> PhysAddr {
    view(space, address).expect("a page that is mapped").frame
}

/// The bytes of the leaf that maps an address, if one does.
pub(crate) fn leaf_bytes<G: Granule>(space: &Space<G>, address: u64) -> Option<u64> {
    translation(space, address).map(|found| found.size.size_bytes(G::PAGE_SIZE))
}

/// Whether a load there takes no fault.
pub(crate) fn can_be_read<G: Granule>(space: &Space<G>, address: u64) -> bool {
    view(space, address).is_some_and(|leaf| permits(leaf.attributes, Kind::Read))
}

/// Whether a store there takes no fault.
pub(crate) fn can_be_written<G: Granule>(space: &Space<G>, address: u64) -> bool {
    view(space, address).is_some_and(|leaf| permits(leaf.attributes, Kind::Write))
}

pub(crate) fn read<G: Granule>(space: &Space<G>, address: u64) -> Result<u64, Fault> {
    access(space, address, Kind::Read, 0)
}

pub(crate) fn write<G: Granule>(space: &Space<G>, address: u64, value: u64) -> Result<u64, Fault> {
    access(space, address, Kind::Write, value)
}

/// An anonymous private mapping of so many pages.
pub(crate) fn anonymous<G: Granule>(place: Place, pages: u64, rights: Rights) -> Request<TestFile<G>> {
    Request {
        place,
        bytes: pages << G::SHIFT,
        rights,
        source: Source::Anonymous,
        flags: AreaFlags::empty(),
        populates: false,
    }
}

/// A mapping of a file from page `from` on.
pub(crate) fn of_file<G: Granule>(
    file: &TestFile<G>,
    (place, from, pages): (Place, u64, u64),
    rights: Rights,
    flags: AreaFlags,
) -> Request<TestFile<G>> {
    let source = Source::File { file: file.clone(), offset: from << G::SHIFT, most: Rights::all() };
    Request { source, flags, ..anonymous::<G>(place, pages, rights) }
}

/// The areas: first page from `base`, pages, rights, as a program finds them in `maps`.
pub(crate) fn maps<G: Granule>(space: &Space<G>, base: u64) -> Vec<(i64, u64, Rights)> {
    let mut maps = Vec::new();
    space.areas(|area| {
        let page = (area.start as i64 - base as i64) >> G::SHIFT;
        maps.push((page, area.bytes() >> G::SHIFT, area.rights));
        assert!(matches!(area.backing, Backing::Anonymous { .. } | Backing::File { .. }));
    });
    maps
}
