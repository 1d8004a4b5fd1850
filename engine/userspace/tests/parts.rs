//! Faults of one space side by side, each in a part of its own: at every step of the one the other comes, and all is as if they had come one
//! after the other. The kernel of these tests looks that no descriptor is of two parts (`common/lock.rs`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use crate::common;

use common::{Held, Kernel, RW, Space, TestFile, anonymous, frame_at, holding, leaf_bytes, of_file, read, write};
use vellum_pagetable::{Platform, Slot};
use vellum_userspace::{Access, Advice, AreaFlags, Fault, Kind, Move, Page, Place, Rights, Usage};
use vellum_vmsa::{Descriptor, Granule, Granule4K, Granule16K, Granule64K, Level, PhysAddr};

/// Where blocks of every size begin, and the first of them has nothing.
const BASE: u64 = 0x1_0000_0000;

/// What a fault in a block is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum About {
    /// The first touch of a page, where a table of pages is, or is not; or a read.
    Hole,
    NoTable,
    Read,
    /// A copy; and a page that nobody else has any more.
    Copy,
    Sole,
    /// An access flag.
    Old,
    /// A page of a file, and those around.
    OfFile,
    /// A contiguous group; the last page of one, which folds then; a group in the place of zeros of a block.
    Group,
    Fold,
    InZeros,
    /// Zeros of a block; and a block in their place.
    Zeros,
    Block,
}

const WITH_PAGES: [About; 7] =
    [About::Hole, About::NoTable, About::Read, About::Copy, About::Sole, About::Old, About::OfFile];
const WITH_GROUPS: [About; 3] = [About::Group, About::Fold, About::InZeros];
const WITH_BLOCKS: [About; 2] = [About::Zeros, About::Block];

/// What a test holds beside its space.
struct World<G: Granule> {
    kernel: Kernel<G>,
    space: Rc<Space<G>>,
    children: Vec<Space<G>>,
    file: TestFile<G>,
}

impl<G: Granule> World<G> {
    const BLOCK: u64 = G::SIZE_BYTES << (G::SHIFT - 3);

    /// A space that has a table of level 2, and two blocks in which faults are about to come.
    fn new(abouts: [About; 2]) -> Self {
        let kernel = Kernel::<G>::new();
        let space = Rc::new(kernel.space());
        let file = TestFile::new(&kernel, 1, 64);
        space.map(anonymous(Place::Fixed(BASE), 1, RW)).unwrap();
        write(&space, BASE, 1).unwrap();
        let mut world = Self { kernel, space, children: Vec::new(), file };
        (1..).zip(abouts).for_each(|(block, about)| world.prepare(about, BASE + block * Self::BLOCK));
        world
    }

    fn group() -> u32 {
        G::PAGE_SIZE.contiguous_shift(Level::L3).unwrap()
    }

    /// Brings a block to where a fault of this kind comes next.
    fn prepare(&mut self, about: About, at: u64) {
        let (space, kernel, page) = (Rc::clone(&self.space), self.kernel.0.clone(), G::SIZE_BYTES);
        if about == About::OfFile {
            space.map(of_file(&self.file, (Place::Fixed(at), 0, 64), Rights::READ, AreaFlags::empty())).unwrap();
            return;
        }
        space.map(anonymous(Place::Fixed(at), Self::BLOCK / page, RW)).unwrap();
        match about {
            About::Hole => _ = write(&space, at + Self::BLOCK - page, 1).unwrap(),
            About::Copy | About::Sole => {
                write(&space, at, 2).unwrap();
                let child = space.fork().unwrap();
                self.children.extend((about == About::Copy).then_some(child));
            }
            About::Old => {
                write(&space, at, 3).unwrap();
                space.advise(at, page, Advice::Cold).unwrap();
            }
            About::Group => kernel.folio_order.set(Self::group()),
            About::Fold => {
                kernel.folio_order.set(Self::group());
                write(&space, at, 4).unwrap();
                let child = space.fork().unwrap();
                write(&child, at + page, 5).unwrap();
                write(&space, at + page, 6).unwrap();
                drop(child);
                (2..1 << Self::group()).for_each(|number| _ = write(&space, at + number * page, number).unwrap());
                assert_eq!(leaf_bytes(&space, at), Some(page), "all but one may be written");
            }
            About::InZeros | About::Block => {
                kernel.folio_order.set(G::SHIFT - 3);
                read(&space, at + page).unwrap();
                kernel.folio_order.set(if about == About::Block { G::SHIFT - 3 } else { Self::group() });
            }
            About::Zeros => kernel.folio_order.set(G::SHIFT - 3),
            About::NoTable | About::Read | About::OfFile => {}
        }
    }

    /// What is there afterwards.
    fn end(self) -> (Usage, Vec<Page>, Vec<Option<u64>>) {
        let Self { kernel, space, children, file } = self;
        let usage = space.usage();
        let mut pages = Vec::new();
        // Which frame it is depends on who came first.
        space.pages(BASE..BASE + 3 * Self::BLOCK, |page| pages.push(Page { frame: PhysAddr::new(0), ..*page }));
        let leaves = [1, 2].map(|block| leaf_bytes(&space, BASE + block * Self::BLOCK)).to_vec();
        drop((space, children));
        file.close();
        assert_eq!(kernel.out(), (0, 0));
        (usage, pages, leaves)
    }
}

/// The fault.
fn fault<G: Granule>(space: &Space<G>, about: About, at: u64) -> Result<(), Fault> {
    let kind = match about {
        About::Read | About::Old | About::OfFile | About::Zeros => Kind::Read,
        _ => Kind::Write,
    };
    space.fault(Access { address: at, kind })
}

fn side_by_side<G: Granule>(outer: About, inner: About) {
    let (first, second) = (BASE + World::<G>::BLOCK, BASE + 2 * World::<G>::BLOCK);
    let alone = World::<G>::new([outer, inner]);
    fault(&alone.space, outer, first).unwrap();
    fault(&alone.space, inner, second).unwrap();
    let expected = alone.end();
    // All of the first steps, and some of more.
    for passes in (0..5).chain((0..).map(|number| 7 << number)) {
        let world = World::<G>::new([outer, inner]);
        let other = Rc::clone(&world.space);
        let beside = move || fault(&other, inner, second).unwrap();
        *world.kernel.0.machine.midst.borrow_mut() = Some((passes, Box::new(beside)));
        fault(&world.space, outer, first).unwrap();
        if world.kernel.0.machine.midst.take().is_some() {
            assert!(passes > 3, "{outer:?} has {passes} steps");
            break;
        }
        assert_eq!(world.end(), expected, "{inner:?} after {passes} steps of {outer:?}");
    }
}

#[test]
fn faults_of_two_parts_come_to_the_same_side_by_side() {
    for abouts in [&WITH_PAGES[..], &WITH_GROUPS, &WITH_BLOCKS] {
        abouts.iter().for_each(|&outer| abouts.iter().for_each(|&inner| side_by_side::<Granule4K>(outer, inner)));
    }
}

#[test]
fn faults_of_two_parts_come_to_the_same_with_larger_pages() {
    for outer in WITH_PAGES {
        side_by_side::<Granule16K>(outer, About::Hole);
    }
    for outer in WITH_GROUPS {
        side_by_side::<Granule16K>(outer, About::Group);
    }
    side_by_side::<Granule16K>(About::Block, About::Zeros);
    side_by_side::<Granule64K>(About::NoTable, About::Hole);
}

/// A table is of a part for as long as a descriptor leads to it, also where the whole lock fills it slot by slot.
#[test]
fn a_descriptor_that_two_parts_edit_is_found() {
    let kernel = Kernel::<Granule4K>::new();
    let (machine, table) = (&kernel.0.machine, PhysAddr::new(0x8000_1000));
    let (root, link) = (Slot::new(PhysAddr::new(0x8000_0000), 0), Descriptor::new(table.bits() | 3));
    let fill =
        || holding(Held::Whole, || (0..512).for_each(|at| machine.store(Slot::new(table, at), Descriptor::INVALID)));
    let load = |part| {
        let load = || holding(Held::Part(part), || machine.load(Slot::new(table, 7)));
        catch_unwind(AssertUnwindSafe(load)).is_ok()
    };
    fill();
    holding(Held::Whole, || machine.store(root, link));
    holding(Held::Part(1), || machine.store(Slot::new(table, 7), Descriptor::new(1)));
    fill();
    assert!(load(1) && !load(2));
    holding(Held::Whole, || machine.store(root, Descriptor::new(link.bits() | 1 << 59)));
    assert!(!load(2), "the table is still there");
    holding(Held::Whole, || machine.store(root, Descriptor::INVALID));
    assert!(load(2));
}

/// The table of the first of two areas that move comes free, and serves the second: the next fault there is of another part.
#[test]
fn a_table_that_comes_free_in_a_call_serves_another_part() {
    let (kernel, block, page) = (Kernel::<Granule4K>::new(), World::<Granule4K>::BLOCK, Granule4K::SIZE_BYTES);
    let (space, to) = (kernel.space(), BASE + 4 * World::<Granule4K>::BLOCK);
    space.map(anonymous(Place::Fixed(BASE), 1024, RW)).unwrap();
    (BASE..BASE + 2 * block).step_by(page as usize).for_each(|at| _ = write(&space, at, at).unwrap());
    space.protect(BASE + block, block, Rights::READ).unwrap();
    space.remap(BASE, 2 * block, 2 * block, Move::To(to), false).unwrap();
    space.protect(to + block, block, RW).unwrap();
    let hole = to + block + 5 * page;
    space.advise(hole, page, Advice::DontNeed).unwrap();
    assert_eq!((write(&space, hole, 1), read(&space, hole + page)), (Ok(1), Ok(BASE + block + 6 * page)));
    drop(space);
    assert_eq!(kernel.out(), (0, 0));
}

#[test]
fn a_hole_is_none_once_its_table_has_come_free_by_a_fault() {
    (0..3).for_each(a_table_comes_free_beside_a_call);
}

/// Pages elsewhere that a call drops or unmaps meanwhile do not make up for that.
fn a_table_comes_free_beside_a_call(call: u64) {
    let (kernel, block, page) = (Kernel::<Granule4K>::new(), World::<Granule4K>::BLOCK, Granule4K::SIZE_BYTES);
    let space = Rc::new(kernel.space());
    let (hole, last) = (BASE + 5 * page, BASE + 6 * page);
    space.map(anonymous(Place::Fixed(BASE), 1025, RW)).unwrap();
    kernel.0.folio_order.set(9);
    write(&space, BASE, 1).unwrap();
    kernel.0.folio_order.set(0);
    drop(space.fork().unwrap());
    let frame = frame_at(&space, hole);
    space.advise(hole, page, Advice::DontNeed).unwrap();
    let others = (BASE..BASE + block).step_by(page as usize).filter(|at| ![hole, last].contains(at));
    others.for_each(|at| _ = write(&space, at, 2).unwrap());
    // While a page is made for the hole, another CPU puts the frame there that was there before, and all is one block again: its table is
    // taken for another block, where nothing is mapped by what was the hole.
    let (other, its) = (Rc::clone(&space), kernel.clone());
    let beside = move || {
        let next = its.0.next.replace(frame.bits());
        write(&other, hole, 7).unwrap();
        its.0.next.set(next);
        write(&other, last, 8).unwrap();
        assert_eq!(leaf_bytes(&other, hole), Some(block));
        match call {
            0 => {}
            1 => other.advise(BASE + block, page, Advice::DontNeed).unwrap(),
            _ => other.unmap(BASE + 2 * block, page).unwrap(),
        }
        write(&other, BASE + block, 9).unwrap();
    };
    *kernel.0.beside.borrow_mut() = Some((0, Box::new(beside)));
    space.fault(Access { address: hole, kind: Kind::Write }).unwrap();
    assert_eq!((read(&space, hole), space.usage().anonymous), (Ok(7), 513));
    assert_eq!(leaf_bytes(&space, hole + block), None);
    drop(space);
    assert_eq!(kernel.out(), (0, 0));
}

#[test]
fn a_hole_is_none_once_all_that_is_of_its_table_was_dropped() {
    let (kernel, block, page) = (Kernel::<Granule4K>::new(), World::<Granule4K>::BLOCK, Granule4K::SIZE_BYTES);
    let space = Rc::new(kernel.space());
    let hole = BASE + 5 * page;
    space.map(anonymous(Place::Fixed(BASE), 1024, RW)).unwrap();
    write(&space, BASE, 1).unwrap();
    // Another CPU has its table come free, and be another block's.
    let other = Rc::clone(&space);
    let beside = move || {
        other.advise(BASE, block, Advice::DontNeed).unwrap();
        write(&other, BASE + block, 9).unwrap();
    };
    *kernel.0.beside.borrow_mut() = Some((0, Box::new(beside)));
    space.fault(Access { address: hole, kind: Kind::Write }).unwrap();
    assert_eq!((leaf_bytes(&space, hole), leaf_bytes(&space, hole + block)), (Some(page), None));
    assert_eq!((read(&space, BASE + block), space.usage().anonymous), (Ok(9), 2));
    drop(space);
    assert_eq!(kernel.out(), (0, 0));
}
