//! Faults of one space on two threads: whom one holds up that is in the midst of a store. Nobody waits for a time to pass: a lock tells when
//! somebody has to wait for it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::thread;

use vellum_pagetable::{HardwareUpdates, Platform, Slot, TlbFeatures};
use vellum_userspace::{
    Access, AddressSpace, AreaFlags, Embedder, File, FileError, Frames, Kind, Limits, Lock, PARTS, Place, Request,
    Rights, Shape, Source,
};
use vellum_vmsa::{Descriptor, Geometry, Granule, Granule4K, Maintenance, PhysAddr, Stage1Attributes};

/// What a thread tells of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum News {
    HeldUp,
    Ended,
}

thread_local! {
    static TELLS: RefCell<Option<Sender<News>>> = const { RefCell::new(None) };
}

fn tell(news: News) {
    // What comes after the first news nobody listens to.
    TELLS.with_borrow(|tells| tells.iter().for_each(|tells| _ = tells.send(news)));
}

struct Parted<T> {
    parts: [Mutex<()>; PARTS],
    value: RwLock<T>,
}

impl<T> Parted<T> {
    fn take(&self, part: usize) -> MutexGuard<'_, ()> {
        self.parts[part].try_lock().unwrap_or_else(|_| {
            tell(News::HeldUp);
            self.parts[part].lock().unwrap()
        })
    }
}

impl<T> Lock<T> for Parted<T> {
    fn new(value: T) -> Self {
        Self { parts: [const { Mutex::new(()) }; PARTS], value: RwLock::new(value) }
    }

    fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        let _all: Vec<_> = (0..PARTS).map(|part| self.take(part)).collect();
        body(&mut self.value.write().unwrap())
    }

    fn with_part<R>(&self, part: usize, body: impl FnOnce(&T) -> R) -> R {
        let _part = self.take(part);
        body(&self.value.read().unwrap())
    }
}

type Hook = Box<dyn FnOnce() + Send>;

/// Words of memory, and what comes in the midst of the next store.
#[derive(Default)]
struct Ram {
    words: Mutex<BTreeMap<u64, u64>>,
    next: AtomicU64,
    at_store: Mutex<Option<Hook>>,
}

impl Platform for Ram {
    fn load(&self, slot: Slot) -> Descriptor {
        Descriptor::new(*self.words.lock().unwrap().entry(slot.address().bits()).or_default())
    }

    fn store(&self, slot: Slot, descriptor: Descriptor) {
        let hook = self.at_store.lock().unwrap().take();
        hook.into_iter().for_each(|hook| hook());
        self.words.lock().unwrap().insert(slot.address().bits(), descriptor.bits());
    }

    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        let is = self.load(slot);
        if is != old {
            return Err(is);
        }
        self.store(slot, new);
        Ok(())
    }

    fn maintain(&self, _: Maintenance) {}
}

#[derive(Clone, Default)]
struct Kernel(Arc<Ram>);

#[derive(Clone, PartialEq)]
struct NoFile;

impl File for NoFile {
    fn frame(&self, _: u64) -> Result<PhysAddr, FileError> {
        Err(FileError::Beyond)
    }
}

impl Frames for Kernel {
    fn take(&self) -> Option<PhysAddr> {
        Some(PhysAddr::new(0x8000_0000 + self.0.next.fetch_add(4096, Ordering::Relaxed)))
    }

    fn share(&self, _: PhysAddr) {}

    fn release(&self, _: PhysAddr) {}

    fn is_sole(&self, _: PhysAddr) -> bool {
        false
    }

    fn zero_folio(&self, _: PhysAddr, _: u32) {}

    fn copy(&self, _: PhysAddr, _: PhysAddr) {}

    fn make_fetchable(&self, _: PhysAddr) {}

    fn zero_frame(&self) -> PhysAddr {
        PhysAddr::new(0x4000_0000)
    }
}

impl Embedder for Kernel {
    type Granule = Granule4K;
    type Platform = Ram;
    type File = NoFile;
    type Lock<T> = Parted<T>;

    fn platform(&self) -> &Ram {
        &self.0
    }

    fn shared_memory(&self, _: u64) -> Option<NoFile> {
        None
    }
}

const BASE: u64 = 0x1000_0000;
const BLOCK: u64 = 2 << 20;

/// A space of four blocks, each of which has a table with one page.
fn space() -> AddressSpace<Kernel> {
    let shape = Shape {
        geometry: Geometry::<Granule4K>::lower(48).unwrap(),
        tlb: TlbFeatures::NONE,
        hardware_updates: HardwareUpdates::None,
        memory: Stage1Attributes::memory(0),
        has_execute_only: false,
        lowest: 0x1_0000,
        lowest_fixed: 0x1_0000,
        highest: 1 << 48,
        guard_bytes: 0,
    };
    let space = AddressSpace::new(Kernel::default(), shape, 1 << 47, Limits::USUAL).unwrap();
    let request = Request {
        place: Place::Fixed(BASE),
        bytes: 4 * BLOCK,
        rights: Rights::READ | Rights::WRITE,
        source: Source::Anonymous,
        flags: AreaFlags::empty(),
        populates: false,
    };
    space.map(request).unwrap();
    (0..4).for_each(|block| write(&space, BASE + block * BLOCK));
    space
}

fn write(space: &AddressSpace<Kernel>, address: u64) {
    space.fault(Access { address, kind: Kind::Write }).unwrap();
}

/// What is heard first of a thread that does `second` while another is in the midst of the store that maps a page of the first block.
fn beside(second: impl FnOnce(&AddressSpace<Kernel>) + Send) -> News {
    let space = space();
    let ((go, goes), (tells, news), (first, heard)) = (channel(), channel(), channel());
    let hook = move || {
        go.send(()).unwrap();
        first.send(news.recv().unwrap()).unwrap();
    };
    *space.embedder().0.at_store.lock().unwrap() = Some(Box::new(hook));
    let its = &space;
    thread::scope(|scope| {
        scope.spawn(move || {
            TELLS.set(Some(tells));
            goes.recv().unwrap();
            second(its);
            tell(News::Ended);
        });
        write(&space, BASE + Granule4K::SIZE_BYTES);
    });
    assert_eq!(space.usage().anonymous, 6);
    heard.recv().unwrap()
}

#[test]
fn a_fault_in_the_midst_of_a_store_holds_up_none_of_another_block() {
    for block in 1..4 {
        assert_eq!(beside(|space| write(space, BASE + block * BLOCK + 2 * 4096)), News::Ended);
    }
}

#[test]
fn a_fault_holds_up_another_of_its_block() {
    assert_eq!(beside(|space| write(space, BASE + 2 * 4096)), News::HeldUp);
}

#[test]
fn a_fault_holds_up_a_call_of_all_blocks() {
    let call = |space: &AddressSpace<Kernel>| {
        space.protect(BASE + 3 * BLOCK, BLOCK, Rights::READ).unwrap();
        write(space, BASE + BLOCK + 2 * 4096);
    };
    assert_eq!(beside(call), News::HeldUp);
}
