//! A kernel that brings the least: frames, one lock for all, no folios and no file of its own. What it does not bring is given, and is enough.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::rc::Rc;

use vellum_pagetable::{HardwareUpdates, Memory, Platform, Slot, TlbFeatures};
use vellum_userspace::{
    Access, AddressSpace, AreaFlags, Embedder, Error, Fault, File, FileError, Frames, Kind, Limits, Lock, Place,
    Request, Rights, Shape, Source,
};
use vellum_vmsa::{Descriptor, Granule, Granule4K, Maintenance, PhysAddr, Stage1Attributes};

const BASE: u64 = 0x1000_0000;
const PAGE: u64 = Granule4K::SIZE_BYTES;
const ZEROS: PhysAddr = PhysAddr::new(0x4000_0000);

/// Memory, and how often it was asked to wait for who reads tables beside.
struct Ram {
    memory: Memory,
    waits: Cell<usize>,
}

impl Platform for Ram {
    fn load(&self, slot: Slot) -> Descriptor {
        self.memory.load(slot)
    }

    fn store(&self, slot: Slot, descriptor: Descriptor) {
        self.memory.store(slot, descriptor);
    }

    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        self.memory.exchange(slot, old, new)
    }

    fn maintain(&self, operation: Maintenance) {
        self.memory.maintain(operation);
    }

    fn wait_for_views(&self) {
        self.waits.set(self.waits.get() + 1);
    }
}

struct Inner {
    ram: Ram,
    /// Who refers to each frame that is out.
    frames: RefCell<BTreeMap<PhysAddr, usize>>,
    next: Cell<u64>,
}

#[derive(Clone)]
struct Kernel(Rc<Inner>);

impl Deref for Kernel {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

/// A file of two pages, which are the same frame.
#[derive(Clone)]
struct OneFrame(Kernel, PhysAddr);

impl PartialEq for OneFrame {
    fn eq(&self, other: &Self) -> bool {
        self.1 == other.1
    }
}

impl File for OneFrame {
    fn frame(&self, index: u64) -> Result<PhysAddr, FileError> {
        if index > 1 {
            return Err(FileError::Beyond);
        }
        self.0.share(self.1);
        Ok(self.1)
    }
}

struct Alone<T>(RefCell<T>);

impl<T> Lock<T> for Alone<T> {
    fn new(held: T) -> Self {
        Self(RefCell::new(held))
    }

    fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        body(&mut self.0.borrow_mut())
    }
}

impl Frames for Kernel {
    fn take(&self) -> Option<PhysAddr> {
        let frame = PhysAddr::new(self.next.get());
        self.next.set(self.next.get() + PAGE);
        self.frames.borrow_mut().insert(frame, 1);
        Some(frame)
    }

    fn share(&self, frame: PhysAddr) {
        *self.frames.borrow_mut().get_mut(&frame).expect("a frame that is out") += 1;
    }

    fn release(&self, frame: PhysAddr) {
        let mut frames = self.frames.borrow_mut();
        let count = frames.get_mut(&frame).expect("a frame that is out");
        *count -= 1;
        if *count == 0 {
            frames.remove(&frame);
        }
    }

    fn is_sole(&self, frame: PhysAddr) -> bool {
        self.frames.borrow()[&frame] == 1
    }

    fn zero_folio(&self, _: PhysAddr, order: u32) {
        assert_eq!(order, 0, "there are pages alone");
    }

    fn copy(&self, _: PhysAddr, _: PhysAddr) {}

    fn make_fetchable(&self, _: PhysAddr) {}

    fn zero_frame(&self) -> PhysAddr {
        ZEROS
    }
}

impl Embedder for Kernel {
    type Granule = Granule4K;
    type Platform = Ram;
    type File = OneFrame;
    type Lock<T> = Alone<T>;

    fn platform(&self) -> &Ram {
        &self.ram
    }

    fn shared_memory(&self, _: u64) -> Option<OneFrame> {
        None
    }
}

fn kernel() -> Kernel {
    let ram = Ram { memory: Memory::new(), waits: Cell::new(0) };
    Kernel(Rc::new(Inner { ram, frames: RefCell::default(), next: Cell::new(0x8000_0000) }))
}

fn space(kernel: &Kernel) -> AddressSpace<Kernel> {
    let shape = Shape {
        geometry: crate::common::geometry().0,
        tlb: TlbFeatures::NONE,
        hardware_updates: HardwareUpdates::None,
        memory: Stage1Attributes::memory(0),
        has_execute_only: false,
        lowest: 0x1_0000,
        lowest_fixed: 0x1_0000,
        highest: crate::common::geometry::<Granule4K>().1,
        guard_bytes: 0,
    };
    AddressSpace::new(kernel.clone(), shape, crate::common::ceiling(), Limits::USUAL).unwrap()
}

/// 1024 pages at `BASE`, of two tables.
fn request(source: Source<OneFrame>, flags: AreaFlags) -> Request<OneFrame> {
    let rights = Rights::READ | Rights::WRITE;
    Request { place: Place::Fixed(BASE), bytes: 1024 * PAGE, rights, source, flags, populates: false }
}

#[test]
fn every_frame_and_every_table_goes_back() {
    let kernel = kernel();
    let parent = space(&kernel);
    parent.map(request(Source::Anonymous, AreaFlags::empty())).unwrap();
    let write =
        |space: &AddressSpace<Kernel>, page| space.fault(Access { address: BASE + page * PAGE, kind: Kind::Write });
    let read =
        |space: &AddressSpace<Kernel>, page| space.fault(Access { address: BASE + page * PAGE, kind: Kind::Read });
    assert_eq!((write(&parent, 3), read(&parent, 4), write(&parent, 700)), (Ok(()), Ok(()), Ok(())));
    let child = parent.fork().unwrap();
    assert_eq!(write(&child, 3), Ok(()));
    assert_eq!((parent.usage().anonymous, child.usage().anonymous), (2, 2));
    // Of each space the root, tables down to level 2, and two of level 3; two frames, and one more of the child's.
    let tables = 4 + crate::common::levels_above::<Granule4K>();
    assert_eq!(kernel.frames.borrow().len(), 2 * tables + 3);
    drop(parent);
    assert_eq!(kernel.frames.borrow().len(), tables + 2);
    drop(child);
    assert_eq!(kernel.frames.borrow().len(), 0);
}

#[test]
fn a_table_is_used_again_when_nobody_reads_it_any_more() {
    let kernel = kernel();
    let space = space(&kernel);
    space.map(request(Source::Anonymous, AreaFlags::empty())).unwrap();
    space.fault(Access { address: BASE, kind: Kind::Write }).unwrap();
    kernel.ram.waits.set(0);
    space.unmap(BASE, PAGE).unwrap();
    assert_eq!(kernel.ram.waits.get(), 0, "its table has the other pages");
    space.unmap(BASE, 1024 * PAGE).unwrap();
    assert!(kernel.ram.waits.get() > 0);
}

#[test]
fn pages_of_a_file_come_one_by_one_and_all_of_them_are_in_memory() {
    let kernel = kernel();
    let file = OneFrame(kernel.clone(), kernel.take().unwrap());
    let space = space(&kernel);
    let source = Source::File { file: file.clone(), offset: 0, most: Rights::all() };
    space.map(request(source, AreaFlags::SHARED)).unwrap();
    assert_eq!(space.fault(Access { address: BASE, kind: Kind::Read }), Ok(()));
    assert_eq!(space.usage().file, 1, "nothing around it");
    assert_eq!(space.fault(Access { address: BASE + PAGE, kind: Kind::Write }), Ok(()));
    assert_eq!(space.fault(Access { address: BASE + 2 * PAGE, kind: Kind::Read }), Err(Fault::Beyond));
    let mut told = Vec::new();
    space.residency(BASE, 4 * PAGE, |is_resident| told.push(is_resident)).unwrap();
    assert_eq!(told, [true; 4]);
    assert_eq!(space.map(request(Source::Anonymous, AreaFlags::SHARED)), Err(Error::NoMemory), "it has no such memory");
    drop(space);
    assert_eq!(kernel.frames.borrow()[&file.1], 1);
}

#[test]
fn what_is_not_brought_is_not_there_or_does_nothing() {
    let kernel = kernel();
    let folio = kernel.take_folio(0).expect("a page is a folio of order 0");
    assert_eq!((kernel.take_folio(1), kernel.take_folio(9)), (None, None));
    kernel.release(folio);
    assert_eq!((kernel.zeros(9), kernel.folio_orders(true), kernel.folio_orders(false)), (None, 0, 0));
    assert!(kernel.has_heap(usize::MAX) && kernel.commit(u64::MAX), "there is no limit");
    let mut resized = 0;
    kernel.announce(BASE..BASE + PAGE, &mut || resized += 1);
    assert_eq!(resized, 1, "nobody is told, and leaves change size all the same");
}
