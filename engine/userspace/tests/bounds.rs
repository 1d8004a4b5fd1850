//! Calls whose ranges begin and end one below, at and one above each bound of the engine: a contiguous group, a block and its table, ten of
//! them. After each call every page is compared with a naive model, and every frame has the references that pages make.

use crate::common;

use std::collections::BTreeMap;

use common::{Kernel, RW, Space, anonymous, is_zeros, write};
use proptest::prelude::*;
use vellum_pagetable::HardwareUpdates;
use vellum_userspace::{Advice, Error, Move, Place, Rights};
use vellum_vmsa::{Granule, Granule4K, Granule16K, Granule64K, Level, PhysAddr};

/// What a program was promised of a page, and the word that it holds.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Page {
    rights: Rights,
    word: u64,
}

type Pages = BTreeMap<u64, Page>;

/// Up to two processes, and their models.
struct World<G: Granule> {
    kernel: Kernel<G>,
    processes: Vec<(Space<G>, Pages)>,
    base: u64,
    next_word: u64,
}

impl<G: Granule> World<G> {
    fn new(order: u32, hardware_updates: HardwareUpdates, tolerates: bool) -> Self {
        let kernel = Kernel::<G>::new();
        kernel.0.folio_order.set(order);
        kernel.0.tolerates.set(tolerates);
        let space = kernel.try_space(hardware_updates).unwrap();
        Self { processes: vec![(space, Pages::new())], base: (64 * block::<G>()) << G::SHIFT, kernel, next_word: 1 }
    }

    fn at(&self, page: u64) -> u64 {
        self.base + (page << G::SHIFT)
    }

    fn map(&mut self, who: usize, page: u64, pages: u64) {
        let request = anonymous(Place::Fixed(self.at(page)), pages, RW);
        assert_eq!(self.processes[who].0.map(request), Ok(self.at(page)));
        let new = Page { rights: RW, word: 0 };
        self.processes[who].1.extend((page..page + pages).map(|page| (page, new)));
    }

    fn unmap(&mut self, who: usize, page: u64, pages: u64) {
        assert_eq!(self.processes[who].0.unmap(self.at(page), pages << G::SHIFT), Ok(()));
        self.processes[who].1.retain(|at, _| !(page..page + pages).contains(at));
    }

    /// Writes every `step`th page that may be written.
    fn write(&mut self, who: usize, page: u64, pages: u64, step: usize) {
        for at in (page..page + pages).step_by(step) {
            let address = self.at(at);
            let (space, held) = &mut self.processes[who];
            let Some(held) = held.get_mut(&at).filter(|held| held.rights == RW) else { continue };
            held.word = self.next_word;
            self.next_word += 1;
            assert_eq!(write(space, address, held.word), Ok(held.word));
        }
    }

    fn protect(&mut self, who: usize, page: u64, pages: u64, rights: Rights) {
        let result = self.processes[who].0.protect(self.at(page), pages << G::SHIFT, rights);
        let held = &mut self.processes[who].1;
        let end = (page..page + pages).find(|at| !held.contains_key(at));
        assert_eq!(result, if end.is_none() { Ok(()) } else { Err(Error::NoMemory) });
        held.range_mut(page..end.unwrap_or(page + pages)).for_each(|(_, held)| held.rights = rights);
    }

    fn drop_pages(&mut self, who: usize, page: u64, pages: u64) {
        let _ = self.processes[who].0.advise(self.at(page), pages << G::SHIFT, Advice::DontNeed);
        self.processes[who].1.range_mut(page..page + pages).for_each(|(_, held)| held.word = 0);
    }

    /// Moves pages to another range of the same size, of one area or several.
    fn remap(&mut self, who: usize, page: u64, pages: u64, to: u64, keeps: bool) {
        let (from, target, bytes) = (self.at(page), self.at(to), pages << G::SHIFT);
        let result = self.processes[who].0.remap(from, bytes, bytes, Move::To(target), keeps);
        let held = &mut self.processes[who].1;
        let overlap = page < to + pages && to < page + pages;
        let expected = match held.contains_key(&page) {
            false => Err(Error::BadAddress),
            true if overlap => Err(Error::Invalid),
            true => Ok(target),
        };
        assert_eq!(result, expected);
        if result.is_err() {
            return;
        }
        let moved: Vec<_> = held.range(page..page + pages).map(|(at, held)| (at - page + to, *held)).collect();
        for at in page..page + pages {
            // A hole moves nothing, and what is there stays.
            let Some(its) = held.get_mut(&at) else { continue };
            if keeps { its.word = 0 } else { _ = held.remove(&at) }
        }
        held.extend(moved);
    }

    fn fork(&mut self, who: usize) {
        if self.processes.len() > 1 {
            return drop(self.processes.remove(who));
        }
        let child = (self.processes[who].0.fork().unwrap(), self.processes[who].1.clone());
        self.processes.push(child);
    }

    /// Each page holds its word or is a hole, none is where the model has none, and each frame has as many references as pages lead to it.
    fn check(&self) {
        let mut references = BTreeMap::<PhysAddr, usize>::new();
        for (space, held) in &self.processes {
            let (mut at, mut own) = (BTreeMap::new(), 0);
            space.pages(0..space.shape().highest, |page| {
                at.insert((page.address - self.base) >> G::SHIFT, page.frame);
                own += u64::from(page.is_counted);
                if !is_zeros(page.frame) {
                    *references.entry(page.frame).or_default() += 1;
                }
            });
            assert_eq!(space.usage().anonymous, own, "pages are counted");
            for (page, frame) in &at {
                let its = held.get(page).unwrap_or_else(|| panic!("page {page} is mapped, where no area is"));
                assert_eq!(self.kernel.get(*frame), its.word, "page {page}");
            }
            let lost = held.iter().find(|(page, its)| its.word != 0 && !at.contains_key(page));
            assert_eq!(lost, None, "a page is lost");
        }
        let frames = self.kernel.0.frames.borrow();
        let counts: BTreeMap<_, _> = frames.iter().map(|(frame, held)| (*frame, held.count)).collect();
        assert!(counts == references, "frames are lost: {} of {}", counts.len(), references.len());
        let committed: usize = self.processes.iter().map(|(_, held)| held.len()).sum();
        assert!(self.kernel.0.committed.get() <= committed as u64, "{committed} pages are promised");
    }

    fn end(mut self) {
        self.processes.clear();
        assert_eq!((self.kernel.out(), self.kernel.0.committed.get()), ((0, 0), 0));
    }
}

/// Pages of a block, and of a table.
const fn block<G: Granule>() -> u64 {
    G::ENTRIES as u64
}

fn group<G: Granule>() -> u64 {
    1 << G::PAGE_SIZE.contiguous_shift(Level::L3).unwrap()
}

/// One below, at and one above each of these.
fn around(bounds: &[u64]) -> Vec<u64> {
    bounds.iter().flat_map(|bound| [bound - 1, *bound, bound + 1]).collect()
}

/// A range of written pages moves there and back: its leaves whole, cut at either end, and out of step with where they come to.
fn moves_there_and_back<G: Granule>(order: u32, starts: &[u64], lengths: &[u64], targets: &[u64]) {
    for (number, &pages) in lengths.iter().enumerate().filter(|(_, pages)| **pages > 0) {
        for &start in starts {
            let target = targets[number % targets.len()] + start;
            let updates = [HardwareUpdates::None, HardwareUpdates::DirtyState][number % 2];
            let mut world = World::<G>::new(order, updates, number % 3 == 0);
            let all = start + pages + 2;
            world.map(0, 0, all);
            world.write(0, 0, all, 1);
            for (from, to) in [(start, target), (target, start), (start, target + 1), (target + 1, start)] {
                world.remap(0, from, pages, to, false);
                world.check();
            }
            world.end();
        }
    }
}

#[test]
fn ranges_at_each_bound_move_there_and_back() {
    let (group, block) = (group::<Granule4K>(), block::<Granule4K>());
    let lengths = around(&[2, group, 10 * group, block, 10 * block]);
    for order in [0, 4, 9] {
        moves_there_and_back::<Granule4K>(
            order,
            &[0, 1, block - 1],
            &lengths,
            &[16 * block, 16 * block + group, 17 * block - 1],
        );
    }
}

#[test]
fn ranges_of_other_page_sizes_move_there_and_back() {
    let block = block::<Granule16K>();
    moves_there_and_back::<Granule16K>(11, &[0, 1], &around(&[128, 2 * block]), &[16 * block, 16 * block + 128]);
    moves_there_and_back::<Granule16K>(7, &[127], &around(&[2 * block]), &[16 * block + 1]);
    let block = self::block::<Granule64K>();
    moves_there_and_back::<Granule64K>(13, &[1], &[32, block + 1], &[16 * block, 16 * block + 32]);
}

/// Ten blocks that become pages and one less, with each number of tables that may be left: all or nothing.
#[test]
fn a_move_of_blocks_that_lacks_tables_moves_nothing() {
    let (block, to) = (block::<Granule4K>(), 1 + 32 * block::<Granule4K>());
    let mut refused = 0;
    for left in 0.. {
        let mut world = World::<Granule4K>::new(9, HardwareUpdates::None, false);
        world.map(0, 0, 10 * block);
        world.write(0, 0, 10 * block, 100);
        world.kernel.0.left.set(left);
        let (from, bytes) = (world.at(0), (10 * block) << Granule4K::SHIFT);
        let moved = world.processes[0].0.remap(from, bytes, bytes, Move::To(world.at(to)), false);
        world.kernel.0.left.set(usize::MAX);
        if moved.is_ok() {
            let held = std::mem::take(&mut world.processes[0].1);
            world.processes[0].1 = held.into_iter().map(|(page, held)| (page + to, held)).collect();
        } else {
            assert_eq!(moved, Err(Error::NoMemory));
            refused += 1;
        }
        world.check();
        assert_eq!(world.kernel.0.committed.get(), 10 * block);
        world.end();
        if moved.is_ok() {
            break;
        }
    }
    assert_eq!(refused, 11, "a table for each block that is out of step, and one for both ends");
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Map,
    Unmap,
    Write(usize),
    Protect(bool),
    Drop,
    Remap { to: u64, keeps: bool },
    Fork,
}

/// A bound by number: of those below, near the start of one of a few blocks.
fn bound<G: Granule>(number: u64) -> u64 {
    let within = around(&[1, group::<G>(), 2 * group::<G>(), block::<G>() - group::<G>()]);
    let count = within.len() as u64;
    number / count % 5 * block::<G>() + within[(number % count) as usize]
}

fn calls() -> impl Strategy<Value = Vec<(usize, u64, u64, Call)>> {
    let call = prop_oneof![
        2 => Just(Call::Map),
        1 => Just(Call::Unmap),
        4 => prop::sample::select(vec![1, 1, 7, 100]).prop_map(Call::Write),
        2 => any::<bool>().prop_map(Call::Protect),
        1 => Just(Call::Drop),
        5 => (0..120_u64, any::<bool>()).prop_map(|(to, keeps)| Call::Remap { to, keeps }),
        1 => Just(Call::Fork),
    ];
    prop::collection::vec((0..2_usize, 0..60_u64, 0..60_u64, call), 1..24)
}

fn run<G: Granule>(calls: &[(usize, u64, u64, Call)], mut world: World<G>) {
    world.map(0, 0, 2 * block::<G>() + 1);
    world.write(0, 0, 2 * block::<G>() + 1, 1);
    for &(who, page, end, call) in calls {
        let who = who % world.processes.len();
        let (page, end) = (bound::<G>(page), bound::<G>(end));
        let (page, pages) = (page.min(end), page.abs_diff(end).max(1));
        match call {
            Call::Map => world.map(who, page, pages),
            Call::Unmap => world.unmap(who, page, pages),
            Call::Write(step) => world.write(who, page, pages, step),
            Call::Protect(is_less) => world.protect(who, page, pages, if is_less { Rights::READ } else { RW }),
            Call::Drop => world.drop_pages(who, page, pages),
            Call::Remap { to, keeps } => world.remap(who, page, pages, bound::<G>(to), keeps),
            Call::Fork => world.fork(who),
        }
        world.check();
    }
    world.end();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn calls_at_each_bound_keep_every_page(calls in calls(), order in prop::sample::select(vec![0, 4, 9, 9]), marks in any::<bool>(), tolerates in any::<bool>()) {
        let updates = if marks { HardwareUpdates::DirtyState } else { HardwareUpdates::None };
        run(&calls, World::<Granule4K>::new(order, updates, tolerates));
    }

    #[test]
    fn calls_at_each_bound_of_16k_keep_every_page(calls in prop::sample::subsequence((0..24).collect::<Vec<usize>>(), 6), all in calls(), order in prop::sample::select(vec![7, 11])) {
        let few: Vec<_> = calls.iter().filter_map(|at| all.get(*at)).copied().collect();
        run(&few, World::<Granule16K>::new(order, HardwareUpdates::None, true));
    }
}
