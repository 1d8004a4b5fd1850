//! What the kernel brings to the address spaces of programs: frames, shared memory, a lock whose waiters sleep.

use core::marker::PhantomData;
use core::ops::Range;

use hardware::platform::Hardware;
use pagetable::{Census, Licence};
use userspace::{Embedder, Frames, Lock};
use vmsa::{Granule, PhysAddr};

use crate::cpus::monitor;
use crate::facts::page_size;
use crate::files::inode::{Body, Inode};
use crate::locks::order;
use crate::memory::mapped::{Mapped, Path};
use crate::memory::told::Told;
use crate::memory::{folios, frames, pages, promises, strays};
use crate::threads::dispatcher;
use crate::threads::parted::Parted;

/// The kernel, as address spaces see it.
#[derive(Clone)]
pub(crate) struct Programs<G> {
    machine: Told,
    /// What every CPU tolerates that runs programs.
    census: &'static Census,
    granule: PhantomData<G>,
}

impl<G> Programs<G> {
    pub(crate) const fn new(hardware: Hardware, census: &'static Census) -> Self {
        Self { machine: Told(hardware), census, granule: PhantomData }
    }
}

/// The lock of an address space.
pub(crate) struct SpaceLock<T>(Parted<T>);

impl<T> Lock<T> for SpaceLock<T> {
    fn new(held: T) -> Self {
        Self(Parted::new(order::SPACE, held))
    }

    fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        self.0.with(body)
    }

    #[inline(always)]
    fn with_part<R>(&self, part: usize, body: impl FnOnce(&T) -> R) -> R {
        self.0.with_part(part, body)
    }

    fn try_with<R>(&self, body: impl FnOnce(&T) -> R) -> Option<R> {
        self.0.try_with(body)
    }
}

impl<G: Granule> Frames for Programs<G> {
    fn take(&self) -> Option<PhysAddr> {
        frames::take()
    }

    fn take_folio(&self, order: u32) -> Option<PhysAddr> {
        frames::take_folio(order)
    }

    fn share(&self, frame: PhysAddr) {
        frames::share(frame);
    }

    fn share_run(&self, first: PhysAddr, frames: u64, _: u32) {
        frames::share_run(first, frames as usize);
    }

    fn release(&self, frame: PhysAddr) {
        frames::release(frame);
    }

    fn release_run(&self, first: PhysAddr, frames: u64, _: u32) {
        frames::release_run(first, frames as usize);
    }

    fn is_sole(&self, frame: PhysAddr) -> bool {
        frames::is_sole(frame)
    }

    fn take_table(&self) -> Option<PhysAddr> {
        frames::take_table()
    }

    fn release_table(&self, table: PhysAddr) {
        frames::release_table(table);
    }

    fn zero_folio(&self, first: PhysAddr, order: u32) {
        // The tables lie in the linear map, as all memory does.
        let start = first.bits().wrapping_add(self.machine.0.offset());
        // SAFETY: the linear map has it, writable; nobody else knows of it.
        unsafe { pages::clear(start, G::SIZE_BYTES << order) };
    }

    fn copy(&self, to: PhysAddr, from: PhysAddr) {
        frames::copy(to, from);
    }

    fn make_fetchable(&self, frame: PhysAddr) {
        frames::make_fetchable(frame);
    }

    fn zero_frame(&self) -> PhysAddr {
        frames::zero_frame()
    }

    fn zeros(&self, order: u32) -> Option<PhysAddr> {
        if folios::uses_zeros() { frames::zeros(order) } else { None }
    }
}

/// Memory that processes share, promised to them for as long as it is there or not.
pub(crate) fn shared_memory(pages: u64, is_promised: bool) -> Option<Mapped> {
    let inode = Inode::regular(0o777).ok()?;
    if let Body::Regular(content) = &inode.body {
        content.resize(pages << page_size().shift()).ok()?;
        if is_promised && !content.promise(pages) {
            return None;
        }
    }
    Some(Mapped { inode, path: Path::Fixed("/dev/zero (deleted)") })
}

impl<G: Granule> Embedder for Programs<G> {
    type Granule = G;
    type Platform = Told;
    type File = Mapped;
    type Lock<T> = SpaceLock<T>;

    fn platform(&self) -> &Told {
        &self.machine
    }

    fn shared_memory(&self, pages: u64) -> Option<Mapped> {
        shared_memory(pages, true)
    }

    fn folio_orders(&self, is_advised: bool) -> u32 {
        folios::orders(is_advised)
    }

    fn licence(&self) -> Licence<'_> {
        // A CPU that meets a conflict, at EL0 or in a copy, forgets everything and makes the access again, whenever that is.
        let tolerated = self.census.tolerated().map(Licence::bearing_conflicts);
        tolerated.unwrap_or_else(|| Licence::break_before_make(self))
    }

    fn announce(&self, range: Range<u64>, resize: &mut dyn FnMut()) {
        monitor::announce(&[range.start.into()..range.end.into()], resize);
    }

    fn goes_on(&self) -> bool {
        dispatcher::goes_on()
    }

    fn check(&self, find_stray: &dyn Fn() -> Option<u64>) {
        strays::check(find_stray);
    }

    fn commit(&self, pages: u64) -> bool {
        promises::promise(pages)
    }

    fn uncommit(&self, pages: u64) {
        promises::take_back(pages);
    }
}
