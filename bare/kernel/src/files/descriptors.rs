//! What a process has at each number: in parts of a page at most, so that a table grows by parts and needs no memory side by side.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::locks::Owner;
use super::open::File;
use crate::errno::{EBADF, EBUSY, EMFILE, Errno};
use crate::fallible::{Arc, List, NoMemory, try_box};
use crate::locks::{OpenLock, order};

/// Numbers of a part.
const PART: usize = 256;

/// A descriptor.
#[derive(Clone)]
pub(crate) struct Descriptor {
    pub(crate) file: Arc<File>,
    pub(crate) closes_on_exec: bool,
}

/// What is at a number.
#[derive(Clone, Default)]
enum Place {
    #[default]
    Free,
    /// A call opens something, which gets this number if it can be opened.
    Kept,
    Open(Descriptor),
}

impl Place {
    fn descriptor(&self) -> Option<&Descriptor> {
        if let Self::Open(descriptor) = self { Some(descriptor) } else { None }
    }

    /// Takes what is open.
    fn take(&mut self) -> Option<Descriptor> {
        match core::mem::take(self) {
            Self::Open(descriptor) => Some(descriptor),
            other => {
                *self = other;
                None
            }
        }
    }
}

/// The places of all numbers up to some.
#[derive(Default)]
pub(super) struct Places(Vec<Box<[Place; PART]>>);

impl Places {
    fn get(&self, number: usize) -> Option<&Place> {
        self.0.get(number / PART).map(|part| &part[number % PART])
    }

    fn get_mut(&mut self, number: usize) -> Option<&mut Place> {
        self.0.get_mut(number / PART).map(|part| &mut part[number % PART])
    }

    /// That of a number, if there is memory for it.
    fn make(&mut self, number: usize) -> Result<&mut Place, NoMemory> {
        while self.0.len() <= number / PART {
            self.0.try_push(try_box([const { Place::Free }; PART])?)?;
        }
        self.get_mut(number).ok_or(NoMemory)
    }

    /// What is open, by number.
    pub(super) fn open(&self) -> impl Iterator<Item = (usize, &Descriptor)> {
        let all = self.0.iter().flat_map(|part| part.iter()).enumerate();
        all.filter_map(|(number, place)| Some((number, place.descriptor()?)))
    }
}

/// The place of a number, if it may have one.
fn index(number: i32) -> Result<usize, Errno> {
    usize::try_from(number).map_err(|_| EBADF)
}

/// The descriptors of a process.
pub(crate) struct Descriptors {
    places: Places,
    /// No number below is free.
    lowest: usize,
    /// RLIMIT_NOFILE.
    pub(crate) most: usize,
}

impl Descriptors {
    pub(crate) const fn new() -> Self {
        Self { places: Places(Vec::new()), lowest: 0, most: 1024 }
    }

    /// A child's, if there is memory for them.
    pub(crate) fn try_clone(&self) -> Result<Self, Errno> {
        let mut places = Places::default();
        for (number, descriptor) in self.places.open() {
            *places.make(number)? = Place::Open(descriptor.clone());
        }
        Ok(Self { places, lowest: 0, most: self.most })
    }

    /// All, of which none is left.
    pub(super) fn take_all(&mut self) -> Places {
        self.lowest = 0;
        core::mem::take(&mut self.places)
    }

    pub(crate) fn get(&self, number: i32) -> Result<&Descriptor, Errno> {
        self.places.get(index(number)?).and_then(Place::descriptor).ok_or(EBADF)
    }

    pub(crate) fn get_mut(&mut self, number: i32) -> Result<&mut Descriptor, Errno> {
        match self.places.get_mut(index(number)?) {
            Some(Place::Open(descriptor)) => Ok(descriptor),
            _ => Err(EBADF),
        }
    }

    /// Keeps the lowest number from `least` on that is free: for [`Self::settle`].
    pub(crate) fn keep(&mut self, least: usize) -> Result<usize, Errno> {
        let first = least.max(self.lowest);
        let is_free = |number: &usize| self.places.get(*number).is_none_or(|place| matches!(place, Place::Free));
        let number = (first..self.most).find(is_free).ok_or(EMFILE)?;
        *self.places.make(number)? = Place::Kept;
        if least <= self.lowest {
            self.lowest = number + 1;
        }
        Ok(number)
    }

    /// Gives a number that was kept to what has been opened, or lets go of it.
    pub(crate) fn settle(&mut self, number: usize, opened: Result<Descriptor, Errno>) -> Result<u64, Errno> {
        let Some(place @ Place::Kept) = self.places.get_mut(number) else { return opened.and(Err(EBADF)) };
        let (now, answer) = match opened {
            Ok(descriptor) => (Place::Open(descriptor), Ok(number as u64)),
            Err(error) => (Place::Free, Err(error)),
        };
        *place = now;
        if answer.is_err() {
            self.lowest = self.lowest.min(number);
        }
        answer
    }

    /// Gives the lowest number from `least` on to a descriptor.
    pub(crate) fn add(&mut self, least: usize, descriptor: Descriptor) -> Result<u64, Errno> {
        let number = self.keep(least)?;
        self.settle(number, Ok(descriptor))
    }

    /// Gives it this number; the one that had it is to be dropped.
    pub(crate) fn set(&mut self, number: usize, descriptor: Descriptor) -> Result<Option<Descriptor>, Errno> {
        if number >= self.most {
            return Err(EBADF);
        }
        let place = self.places.make(number)?;
        if matches!(place, Place::Kept) {
            return Err(EBUSY);
        }
        let before = place.take();
        *place = Place::Open(descriptor);
        Ok(before)
    }

    pub(crate) fn take(&mut self, number: i32) -> Result<Descriptor, Errno> {
        let number = index(number)?;
        let taken = self.places.get_mut(number).and_then(Place::take).ok_or(EBADF)?;
        self.lowest = self.lowest.min(number);
        Ok(taken)
    }

    /// Takes one that a new program does not get; it is to be dropped.
    pub(crate) fn take_for_exec(&mut self) -> Option<Descriptor> {
        let number = self.places.open().find(|(_, descriptor)| descriptor.closes_on_exec)?.0;
        self.take(number as i32).ok()
    }

    /// The number behind the highest that was ever in use.
    pub(crate) fn room(&self) -> usize {
        self.places.0.len() * PART
    }

    /// The numbers that are in use.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = usize> {
        self.places.open().map(|(number, _)| number)
    }
}

/// A table of descriptors, which several processes may have. What is open there is closed once none of them has it, and its locks go.
pub(crate) struct Table(OpenLock<Descriptors>);

impl Table {
    pub(crate) fn new(descriptors: Descriptors) -> Result<Arc<Self>, NoMemory> {
        Arc::try_new(Self(OpenLock::new(order::TABLE, descriptors)))
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        let (owner, places) = (Owner::table(self), self.0.with(Descriptors::take_all));
        places.open().for_each(|(_, place)| place.file.give_up_locks(owner));
    }
}

/// Which table a process has: none once it has ended, whoever waits for it.
pub(crate) struct Files(OpenLock<Option<Arc<Table>>>);

impl Files {
    pub(crate) const fn new(table: Arc<Table>) -> Self {
        Self(OpenLock::new(order::FILES, Some(table)))
    }

    /// Runs `body` with the descriptors.
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut Descriptors) -> R) -> R {
        self.0.with(|table| match table {
            Some(table) => table.0.with(body),
            None => body(&mut Descriptors::new()),
        })
    }

    /// Who has the locks of ranges.
    pub(crate) fn owner(&self) -> Owner {
        self.0.with(|table| table.as_ref().map_or(Owner::NONE, |table| Owner::table(&**table)))
    }

    /// The table, for one more process.
    pub(crate) fn share(&self) -> Result<Arc<Table>, Errno> {
        self.0.with(|table| table.clone()).ok_or(EBADF)
    }

    /// A table with the same descriptors.
    pub(crate) fn copy(&self) -> Result<Arc<Table>, Errno> {
        Ok(Table::new(self.with(|files| files.try_clone())?)?)
    }

    /// Has a process go on with a table of its own.
    pub(crate) fn unshare(&self) -> Result<(), Errno> {
        let is_shared = self.0.with(|table| table.as_ref().is_some_and(|table| Arc::strong_count(table) > 1));
        if is_shared {
            let own = self.copy()?;
            let before = self.0.with(|table| table.replace(own));
            drop(before);
        }
        Ok(())
    }

    /// A process has ended.
    pub(crate) fn let_go(&self) {
        let before = self.0.with(Option::take);
        drop(before);
    }
}
