//! The lock of a test's kernel, and who looks whether it is held where descriptors are read and written.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;

use vellum_userspace::{Lock, PARTS};

/// What of a lock this thread holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Held {
    Nothing,
    Part(usize),
    Whole,
}

thread_local! {
    static HELD: Cell<Held> = const { Cell::new(Held::Nothing) };
    static BEFORE_WHOLE: RefCell<Option<Beside>> = const { RefCell::new(None) };
}

/// Has another CPU do something before this one gets a lock's whole next.
pub(crate) fn before_whole(body: impl FnOnce() + 'static) {
    BEFORE_WHOLE.set(Some((0, Box::new(body))));
}

/// What of a lock this thread holds.
pub(crate) fn held() -> Held {
    HELD.get()
}

/// A lock of one thread: what would have to wait panics. In the midst of a body with one part, one with another may run.
pub(crate) struct Alone<T> {
    value: RefCell<T>,
    parts: [Cell<bool>; PARTS],
}

/// Runs `body` as if this were held.
pub(crate) fn holding<R>(held: Held, body: impl FnOnce() -> R) -> R {
    let before = HELD.replace(held);
    let result = body();
    HELD.set(before);
    result
}

impl<T> Lock<T> for Alone<T> {
    fn new(value: T) -> Self {
        Self { value: RefCell::new(value), parts: [const { Cell::new(false) }; PARTS] }
    }

    fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        BEFORE_WHOLE.with(run_beside);
        holding(Held::Whole, || body(&mut self.value.borrow_mut()))
    }

    fn with_part<R>(&self, part: usize, body: impl FnOnce(&T) -> R) -> R {
        assert!(!self.parts[part].replace(true), "part {part} would have to wait");
        let result = holding(Held::Part(part), || body(&self.value.borrow()));
        self.parts[part].set(false);
        result
    }
}

/// Who has stored where with the lock of a part alone: nobody may look there with that of another.
#[derive(Default)]
pub(crate) struct Judge(RefCell<BTreeMap<u64, usize>>);

impl Judge {
    /// A descriptor is read or written.
    pub(crate) fn look(&self, slot: u64, is_store: bool) {
        let Held::Part(part) = held() else { return };
        let mut stored = self.0.borrow_mut();
        let by = stored.get(&slot).copied().unwrap_or(part);
        assert_eq!(by, part, "the descriptor at {slot:#x} is of two parts");
        if is_store {
            stored.insert(slot, part);
        }
    }

    /// A table is in no use.
    pub(crate) fn forget(&self, table: Range<u64>) {
        let mut stored = self.0.borrow_mut();
        while let Some((&slot, _)) = stored.range(table.clone()).next() {
            stored.remove(&slot);
        }
    }
}

/// After how many steps another CPU comes, and what it does.
pub(crate) type Beside = (usize, Box<dyn FnOnce()>);

/// Has another CPU do what it does, or comes a step closer to that.
pub(crate) fn run_beside(beside: &RefCell<Option<Beside>>) {
    match beside.take() {
        Some((0, body)) => body(),
        Some((passes, body)) => *beside.borrow_mut() = Some((passes - 1, body)),
        None => {}
    }
}
