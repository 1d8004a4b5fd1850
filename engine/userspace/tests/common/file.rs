//! Files that can be mapped.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use vellum_userspace::{File, FileError, Frames};
use vellum_vmsa::{Granule, PhysAddr};

use super::{Held, Kernel, held};

/// What another CPU does, once.
type Call = Box<dyn FnOnce()>;

/// A file: pages that come when they are asked for, and hold `name` and their number.
#[derive(Clone)]
pub(crate) struct TestFile<G> {
    kernel: Kernel<G>,
    pub(crate) name: u64,
    pub(crate) pages: Rc<RefCell<BTreeMap<u64, PhysAddr>>>,
    pub(crate) count: Rc<Cell<u64>>,
    pub(crate) written: Rc<Cell<u64>>,
    /// Whether pages in memory are mapped around one that is read.
    pub(crate) gives_around: Rc<Cell<bool>>,
    /// What another CPU does when a page is asked for.
    pub(crate) beside: Rc<RefCell<Option<Call>>>,
}

impl<G> PartialEq for TestFile<G> {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.pages, &other.pages)
    }
}

impl<G: Granule> TestFile<G> {
    pub(crate) fn new(kernel: &Kernel<G>, name: u64, count: u64) -> Self {
        let (pages, written) = (Rc::default(), Rc::default());
        Self {
            kernel: kernel.clone(),
            name,
            pages,
            count: Rc::new(Cell::new(count)),
            written,
            gives_around: Rc::default(),
            beside: Rc::default(),
        }
    }

    /// What a page holds that nobody has written.
    pub(crate) fn value(&self, index: u64) -> u64 {
        if self.name == 0 { 0 } else { self.name << 32 | index }
    }

    fn run_beside(&self) {
        let beside = self.beside.take();
        if let Some(beside) = beside {
            beside();
        }
    }

    /// Gives back all that it holds.
    pub(crate) fn close(&self) {
        let pages = std::mem::take(&mut *self.pages.borrow_mut());
        pages.values().for_each(|&frame| self.kernel.release(frame));
    }
}

impl<G: Granule> File for TestFile<G> {
    fn frame(&self, index: u64) -> Result<PhysAddr, FileError> {
        assert!(held() == Held::Nothing, "a file was read under the lock");
        if index >= self.count.get() {
            return Err(FileError::Beyond);
        }
        let known = self.pages.borrow().get(&index).copied();
        let frame = match known {
            Some(frame) => frame,
            None => {
                let frame = self.kernel.take().ok_or(FileError::NoMemory)?;
                self.kernel.set(frame, self.value(index));
                self.pages.borrow_mut().insert(index, frame);
                frame
            }
        };
        self.kernel.share(frame);
        self.run_beside();
        Ok(frame)
    }

    fn resident_frames(&self, pages: Range<u64>, mut sink: impl FnMut(u64, PhysAddr)) {
        assert!(held() == Held::Nothing, "a file was read under the lock");
        if !self.gives_around.get() {
            return;
        }
        for (index, frame) in self.pages.borrow().range(pages) {
            self.kernel.share(*frame);
            sink(*index, *frame);
        }
        self.run_beside();
    }

    fn mark_written(&self, _: u64) {
        self.written.set(self.written.get() + 1);
    }

    fn is_resident(&self, index: u64) -> bool {
        self.pages.borrow().contains_key(&index)
    }
}
