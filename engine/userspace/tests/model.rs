//! Random calls of up to three processes against a naive map from pages to what a program would read there and may do, with every
//! allocation of a call failed in turn: what runs out of memory has changed nothing, and nothing is lost, to the frame.

use crate::common;

use std::cell::Cell;
use std::collections::BTreeMap;

use common::{Kernel, Space, TestFile, access, anonymous, of_file};
use proptest::prelude::*;
use vellum_pagetable::HardwareUpdates;
use vellum_userspace::{Advice, AreaFlags, Backing, Error, Fault, Kind, Move, Place, Rights, Source};
use vellum_vmsa::{Granule, Granule4K, Granule16K, Granule64K};

/// Pages that are looked at: around the end of a table, with a contiguous group of 4 KiB pages on each side.
const PAGES: u64 = 40;
const FILE_PAGES: u64 = 16;

/// Frames and tables that no call here takes.
const ENOUGH: usize = 32;

/// What stands behind a page.
#[derive(Clone, PartialEq, Debug)]
enum Behind {
    Own(u64),
    Private { file: usize, index: u64, copy: Option<u64> },
    Shared { file: usize, index: u64 },
}

#[derive(Clone, PartialEq, Debug)]
struct Page {
    rights: Rights,
    most: Rights,
    behind: Behind,
    is_wiped: bool,
    is_not_forked: bool,
}

type Pages = BTreeMap<u64, Page>;

#[derive(Clone, Copy, Debug)]
enum Call {
    Map { page: u64, pages: u64, rights: u8, what: u8, replaces: bool },
    Unmap { page: u64, pages: u64 },
    Protect { page: u64, pages: u64, rights: u8 },
    Advise { page: u64, pages: u64, advice: u8 },
    Remap { page: u64, old: u64, new: u64, to: Option<u64>, keeps: bool },
    Access { page: u64, kind: u8, value: u64 },
    Fork,
    Exit,
}

fn call() -> impl Strategy<Value = Call> {
    let (page, pages) = (0..PAGES, prop_oneof![3 => 1..8_u64, 1 => 16..PAGES].boxed());
    prop_oneof![
        4 => (page.clone(), pages.clone(), 0..8_u8, 0..5_u8, any::<bool>())
            .prop_map(|(page, pages, rights, what, replaces)| Call::Map { page, pages, rights, what, replaces }),
        2 => (page.clone(), pages.clone()).prop_map(|(page, pages)| Call::Unmap { page, pages }),
        3 => (page.clone(), pages.clone(), 0..8_u8)
            .prop_map(|(page, pages, rights)| Call::Protect { page, pages, rights }),
        2 => (page.clone(), pages.clone(), 0..5_u8)
            .prop_map(|(page, pages, advice)| Call::Advise { page, pages, advice }),
        2 => (page.clone(), 0..5_u64, 1..6_u64, prop::option::of(page.clone()), any::<bool>())
            .prop_map(|(page, old, new, to, keeps)| Call::Remap { page, old, new, to, keeps }),
        12 => (page, 0..4_u8, 1..1000_u64).prop_map(|(page, kind, value)| Call::Access { page, kind, value }),
        1 => Just(Call::Fork),
        1 => Just(Call::Exit),
    ]
}

/// The real thing and the model, side by side.
struct World<G: Granule> {
    kernel: Kernel<G>,
    files: Vec<TestFile<G>>,
    /// What pages of files hold that were written.
    written: BTreeMap<(usize, u64), u64>,
    processes: Vec<(Space<G>, Pages)>,
    base: u64,
}

impl<G: Granule> World<G> {
    fn new(hardware_updates: HardwareUpdates, folio_order: u32) -> Self {
        let kernel = Kernel::<G>::new();
        kernel.0.folio_order.set(folio_order);
        let files = vec![TestFile::new(&kernel, 1, FILE_PAGES), TestFile::new(&kernel, 2, FILE_PAGES / 2)];
        let space = kernel.try_space(hardware_updates).unwrap();
        let table = G::SIZE_BYTES * G::ENTRIES as u64;
        Self {
            kernel,
            files,
            written: BTreeMap::new(),
            processes: vec![(space, Pages::new())],
            base: 2 * table - PAGES / 2 * G::SIZE_BYTES,
        }
    }

    /// Frames that are not of files, and tables.
    fn out(&self) -> (usize, usize) {
        let (frames, tables) = self.kernel.out();
        (frames - self.files.iter().map(|file| file.pages.borrow().len()).sum::<usize>(), tables)
    }

    /// Makes a call with fewer frames, then with less heap than it takes, until it takes no more.
    fn exhausted<T, E: Copy + PartialEq + std::fmt::Debug>(
        &self,
        lacks: E,
        call: impl Fn(&Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let limits: [&Cell<usize>; 2] = [&self.kernel.0.left, &self.kernel.0.heap_left];
        for limit in limits {
            for most in 0.. {
                let before = (self.out(), self.kernel.0.committed.get());
                limit.set(most);
                let result = call(self);
                limit.set(usize::MAX);
                match result {
                    // It fails whatever there is, if more than a call may take does not help.
                    Err(error) if error == lacks && most < ENOUGH => {
                        assert_eq!((self.out(), self.kernel.0.committed.get()), before, "lost after {error:?}");
                    }
                    Err(error) if error == lacks => break,
                    result => return result,
                }
            }
        }
        call(self)
    }

    fn at(&self, page: u64) -> u64 {
        self.base + page * G::SIZE_BYTES
    }

    /// What a page of a file holds.
    fn of_file(&self, file: usize, index: u64) -> Option<u64> {
        let its = &self.files[file];
        let held = self.written.get(&(file, index)).copied().unwrap_or_else(|| its.value(index));
        (index < its.count.get()).then_some(held)
    }

    fn make(&mut self, who: usize, call: Call) {
        match call {
            Call::Map { page, pages, rights, what, replaces } => self.map(who, (page, pages), rights, what, replaces),
            Call::Unmap { page, pages } => {
                let result = self.exhausted(Error::NoMemory, |world| {
                    world.processes[who].0.unmap(world.at(page), pages * G::SIZE_BYTES)
                });
                assert_eq!(result, Ok(()));
                self.processes[who].1.retain(|its, _| !(page..page + pages).contains(its));
            }
            Call::Protect { page, pages, rights } => {
                self.protect(who, (page, pages), Rights::from_bits_truncate(rights))
            }
            Call::Advise { page, pages, advice } => self.advise(who, (page, pages), advice),
            Call::Remap { page, old, new, to, keeps } => self.remap(who, (page, old, new), to, keeps),
            Call::Access { page, kind, value } => {
                let kind = [Kind::Read, Kind::Write, Kind::Execute, Kind::Atomic][usize::from(kind)];
                let make = |world: &Self| access(&world.processes[who].0, world.at(page), kind, value);
                // An atomic may take two faults, of which the first leaves its tables.
                let result = if kind == Kind::Atomic { make(self) } else { self.exhausted(Fault::OutOfMemory, make) };
                assert_eq!(result, self.expected(who, page, kind, value), "{page} {kind:?}");
                if matches!(kind, Kind::Write | Kind::Atomic) && result.is_ok() {
                    self.write(who, page, value);
                }
            }
            Call::Fork if self.processes.len() < 3 => self.fork(who),
            Call::Exit if self.processes.len() > 1 => drop(self.processes.remove(who)),
            Call::Fork | Call::Exit => {}
        }
    }

    fn expected(&self, who: usize, page: u64, kind: Kind, value: u64) -> Result<u64, Fault> {
        let page = self.processes[who].1.get(&page).ok_or(Fault::Unmapped)?;
        let is_allowed = match kind {
            Kind::Read | Kind::Atomic => !page.rights.is_empty(),
            Kind::Write => page.rights.contains(Rights::WRITE),
            Kind::Execute => page.rights.contains(Rights::EXECUTE),
        };
        is_allowed.then_some(()).ok_or(Fault::Denied)?;
        let held = match page.behind {
            Behind::Own(value) | Behind::Private { copy: Some(value), .. } => value,
            Behind::Private { file, index, .. } | Behind::Shared { file, index } => {
                self.of_file(file, index).ok_or(Fault::Beyond)?
            }
        };
        match kind {
            Kind::Write | Kind::Atomic => page.rights.contains(Rights::WRITE).then_some(value).ok_or(Fault::Denied),
            _ => Ok(held),
        }
    }

    fn write(&mut self, who: usize, page: u64, value: u64) {
        match &mut self.processes[who].1.get_mut(&page).unwrap().behind {
            Behind::Own(own) => *own = value,
            Behind::Private { copy, .. } => *copy = Some(value),
            Behind::Shared { file, index } => {
                self.written.insert((*file, *index), value);
            }
        }
    }

    fn map(&mut self, who: usize, (page, pages): (u64, u64), rights: u8, what: u8, replaces: bool) {
        let (rights, at) = (Rights::from_bits_truncate(rights), self.at(page));
        let place = if replaces { Place::Fixed(at) } else { Place::FixedNoReplace(at) };
        let (file, from, shared) = (usize::from(what & 1), page % 4, AreaFlags::SHARED);
        let mut request = match what {
            0 => anonymous::<G>(place, pages, rights),
            1 | 2 => of_file(&self.files[file], (place, from, pages), rights, AreaFlags::empty()),
            _ => of_file(&self.files[file], (place, from, pages), rights, shared),
        };
        // A file that was opened to be read.
        let mut most = Rights::all();
        if let (4, Source::File { most: its, .. }) = (what, &mut request.source) {
            *its = Rights::READ | Rights::EXECUTE;
            most = *its;
        }
        let result = self.exhausted(Error::NoMemory, |world| world.processes[who].0.map(request.clone()));
        let is_taken = (page..page + pages).any(|page| self.processes[who].1.contains_key(&page));
        if !most.contains(rights) {
            return assert_eq!(result, Err(Error::Denied));
        }
        if !replaces && is_taken {
            return assert_eq!(result, Err(Error::Exists));
        }
        assert_eq!(result, Ok(at));
        for number in 0..pages {
            let index = from + number;
            let behind = match what {
                0 => Behind::Own(0),
                1 | 2 => Behind::Private { file, index, copy: None },
                _ => Behind::Shared { file, index },
            };
            let new = Page { rights, most, behind, is_wiped: false, is_not_forked: false };
            self.processes[who].1.insert(page + number, new);
        }
    }

    fn protect(&mut self, who: usize, (page, pages): (u64, u64), rights: Rights) {
        let result = self.processes[who].0.protect(self.at(page), pages * G::SIZE_BYTES, rights);
        let held = &mut self.processes[who].1;
        let expected = (page..page + pages).try_for_each(|page| {
            let page = held.get_mut(&page).ok_or(Error::NoMemory)?;
            if !page.most.contains(rights) {
                return Err(Error::Denied);
            }
            page.rights = rights;
            Ok(())
        });
        assert_eq!(result, expected);
    }

    fn advise(&mut self, who: usize, (page, pages): (u64, u64), advice: u8) {
        let all = [Advice::DontNeed, Advice::DontFork, Advice::DoFork, Advice::WipeOnFork, Advice::Cold];
        let advice = all[usize::from(advice)];
        let result = self.processes[who].0.advise(self.at(page), pages * G::SIZE_BYTES, advice);
        let (held, mut expected) = (&mut self.processes[who].1, Ok(()));
        for page in page..page + pages {
            let Some(page) = held.get_mut(&page) else {
                expected = Err(Error::NoMemory);
                continue;
            };
            match (advice, &mut page.behind) {
                (Advice::DontNeed, Behind::Own(value)) => *value = 0,
                (Advice::DontNeed, Behind::Private { copy, .. }) => *copy = None,
                (Advice::DontFork, _) => page.is_not_forked = true,
                (Advice::DoFork, _) => page.is_not_forked = false,
                (Advice::WipeOnFork, Behind::Own(_)) => page.is_wiped = true,
                (Advice::WipeOnFork, _) => {
                    expected = Err(Error::Invalid);
                    break;
                }
                _ => {}
            }
        }
        assert_eq!(result, expected);
    }

    /// Which of the errors it is, the areas decide; here it is what a call that is done has done.
    fn remap(&mut self, who: usize, (page, old, new): (u64, u64, u64), to: Option<u64>, keeps: bool) {
        let moves = to.map_or(Move::Never, |page| Move::To(self.at(page)));
        let (at, bytes) = (self.at(page), G::SIZE_BYTES);
        let remap = |world: &Self| world.processes[who].0.remap(at, old * bytes, new * bytes, moves, keeps);
        let mut areas = 0;
        self.processes[who].0.areas(|area| areas += usize::from(area.start < at + old * bytes && at < area.end));
        // Of several areas those that came before the one that fails stay moved, as on Linux: what is left then is not known here.
        let result = if areas > 1 { remap(self) } else { self.exhausted(Error::NoMemory, remap) };
        let Ok(start) = result else { return };
        let start = (start - self.base) / bytes;
        let pages = &mut self.processes[who].1;
        let first = pages.get(&page).cloned().expect("a page that was there");
        let moved: Vec<Option<Page>> = (0..new)
            .map(|number| match pages.get(&(page + number)) {
                page if number < old.max(1) => page.cloned(),
                _ => Some(Page { behind: fresh(&first.behind, number), ..first.clone() }),
            })
            .collect();
        for number in 0..old {
            match pages.get_mut(&(page + number)) {
                Some(page) if keeps => page.behind = fresh(&page.behind, 0),
                _ => {
                    pages.remove(&(page + number));
                }
            }
        }
        for (page, moved) in (start..).zip(moved) {
            moved.map(|moved| pages.insert(page, moved));
        }
    }

    fn fork(&mut self, who: usize) {
        let child = self.exhausted(Error::NoMemory, |world| world.processes[who].0.fork()).unwrap();
        let mut pages = self.processes[who].1.clone();
        pages.retain(|_, page| !page.is_not_forked);
        for page in pages.values_mut() {
            page.behind = if page.is_wiped { Behind::Own(0) } else { page.behind.clone() };
        }
        self.processes.push((child, pages));
    }

    /// The areas hold what the model does, and no two of them could be one.
    fn check_areas(&self, who: usize) {
        let (space, pages) = &self.processes[who];
        let mut held = BTreeMap::new();
        let mut before: Option<vellum_userspace::Area<TestFile<G>>> = None;
        space.areas(|area| {
            for page in 0..area.bytes() / G::SIZE_BYTES {
                held.insert((area.start - self.base) / G::SIZE_BYTES + page, area.rights);
            }
            if let Some(before) = before.as_ref().filter(|before| before.end == area.start) {
                let follows = match (&before.backing, &area.backing) {
                    (Backing::Anonymous { origin }, Backing::Anonymous { origin: next }) => {
                        origin + before.bytes() == *next
                    }
                    (Backing::File { file, offset }, Backing::File { file: other, offset: next }) => {
                        file == other && offset + before.bytes() == *next
                    }
                    _ => false,
                };
                let is_alike = (before.rights, before.most, before.flags) == (area.rights, area.most, area.flags);
                assert!(!follows || !is_alike, "{:#x} could be one with what is before", area.start);
            }
            before = Some(area.clone());
        });
        let expected: BTreeMap<_, _> = pages.iter().map(|(&page, held)| (page, held.rights)).collect();
        assert_eq!(held, expected);
    }

    fn end(mut self) {
        for who in 0..self.processes.len() {
            for page in 0..PAGES + 8 {
                for kind in [Kind::Read, Kind::Write] {
                    self.make(who, Call::Access { page, kind: kind as u8, value: 7 * page });
                }
            }
        }
        self.processes.clear();
        assert_eq!(self.out(), (0, 0), "frames and tables are lost");
        assert_eq!(self.kernel.0.committed.get(), 0);
        self.files.iter().for_each(TestFile::close);
        assert_eq!(self.kernel.out().0, 0, "references to pages of files are lost");
    }
}

/// What is behind a page that nobody has written, so many pages behind this one.
fn fresh(behind: &Behind, pages: u64) -> Behind {
    match *behind {
        Behind::Own(_) => Behind::Own(0),
        Behind::Private { file, index, .. } => Behind::Private { file, index: index + pages, copy: None },
        Behind::Shared { file, index } => Behind::Shared { file, index: index + pages },
    }
}

fn run<G: Granule>(calls: &[(usize, Call)], hardware_updates: HardwareUpdates, folio_order: u32) {
    let mut world = World::<G>::new(hardware_updates, folio_order);
    for &(who, call) in calls {
        let who = who % world.processes.len();
        world.make(who, call);
        (0..world.processes.len()).for_each(|who| world.check_areas(who));
    }
    world.end();
}

fn calls() -> impl Strategy<Value = Vec<(usize, Call)>> {
    prop::collection::vec((0..3_usize, call()), 1..60)
}

const UPDATES: [HardwareUpdates; 3] = [HardwareUpdates::None, HardwareUpdates::AccessFlag, HardwareUpdates::DirtyState];

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn programs_find_what_they_left(calls in calls(), which in 0..3_usize, order in prop::sample::select(vec![0, 4])) {
        match (which, order) {
            (1, 0) => run::<Granule16K>(&calls, UPDATES[which], 0),
            (2, 0) => run::<Granule64K>(&calls, UPDATES[which], 0),
            _ => run::<Granule4K>(&calls, UPDATES[which], order),
        }
    }
}
