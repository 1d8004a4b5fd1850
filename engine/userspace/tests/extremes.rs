//! Every call of an address space, with addresses and sizes at the bounds of all numbers: 0, powers of two, one page beside them, 2^63 and 2^64,
//! and the ends of what is there. Nothing overflows, what is refused has changed nothing, and nothing outside the named range changes ever.

use crate::common;

use std::ops::Range;

use common::{Kernel, RW, RX, Space, TestFile, of_file, write};
use seed::Seed;
use vellum_pagetable::HardwareUpdates;
use vellum_userspace::{
    Access, Advice, Area, AreaFlags, Backing, Error, Kind, Limits, Locking, Move, Place, Request, Rights, Source,
};
use vellum_vmsa::{Geometry, Granule, Granule4K, Granule16K, Granule64K, Level};

/// Pages that a call may make or look at one by one.
const FEW: u64 = 200;
const FRAMES: usize = 1000;
const KINDS: [Kind; 4] = [Kind::Read, Kind::Write, Kind::Execute, Kind::Atomic];
const HOW: [Locking; 3] = [Locking::Now, Locking::OnFault, Locking::Not];
const ADVICE: [Advice; 10] = [
    Advice::Normal,
    Advice::WillNeed,
    Advice::DontNeed,
    Advice::DontNeedLocked,
    Advice::Free,
    Advice::Cold,
    Advice::DontFork,
    Advice::WipeOnFork,
    Advice::Huge,
    Advice::NotHuge,
];

/// What a program may find: its areas, and each page that is mapped, with where it leads.
#[derive(Clone, PartialEq)]
struct Held<G: Granule> {
    areas: Vec<Area<TestFile<G>>>,
    pages: Vec<(u64, u64, bool)>,
}

impl<G: Granule> Held<G> {
    fn of(space: &Space<G>) -> Self {
        let (mut areas, mut pages) = (Vec::new(), Vec::new());
        space.areas(|area| areas.push(area.clone()));
        space.pages(0..space.shape().highest, |page| pages.push((page.address, page.frame.bits(), page.is_own)));
        Self { areas, pages }
    }

    /// The same without a range. What it cut apart is as one.
    fn outside(&self, range: &Range<u128>) -> Self {
        let is_outside = |at: u64| !range.contains(&u128::from(at));
        let (start, end) = (|end: u64| range.start.min(end.into()) as u64, |start: u64| range.end.max(start.into()));
        let parts = self.areas.iter().flat_map(|area| {
            let above = end(area.start).min(area.end.into()) as u64;
            [part(area, area.start, start(area.end)), part(area, above, area.end)]
        });
        let mut areas: Vec<Area<_>> = Vec::new();
        for part in parts.filter(|part| part.start < part.end) {
            match areas.last_mut() {
                Some(last)
                    if last.end == part.start && after(last, last.bytes()) == part.backing && alike(last, &part) =>
                {
                    last.end = part.end;
                }
                _ => areas.push(part),
            }
        }
        Self { areas, pages: self.pages.iter().copied().filter(|page| is_outside(page.0)).collect() }
    }

    /// Bytes of areas.
    fn bytes(&self, is_counted: impl Fn(&Area<TestFile<G>>) -> bool) -> u64 {
        self.areas.iter().filter(|area| is_counted(area)).map(Area::bytes).sum()
    }

    /// Pages of areas within a range.
    fn pages_within(&self, range: &Range<u128>) -> u64 {
        let within =
            |area: &Area<_>| (u128::from(area.end).min(range.end)).saturating_sub(range.start.max(area.start.into()));
        (self.areas.iter().map(within).sum::<u128>() >> G::SHIFT) as u64
    }

    fn check(&self, highest: u64) {
        let mut end = 0;
        for area in &self.areas {
            let is_sound = end <= area.start && area.start < area.end && area.end <= highest;
            assert!(
                is_sound && (area.start | area.end).is_multiple_of(G::SIZE_BYTES),
                "{:#x?} behind {end:#x}",
                area.range()
            );
            end = area.end;
        }
        let mut areas = self.areas.iter().peekable();
        for &(page, ..) in &self.pages {
            while areas.next_if(|area| area.end <= page).is_some() {}
            assert!(areas.peek().is_some_and(|area| area.start <= page), "a leaf without an area at {page:#x}");
        }
    }
}

fn part<G: Granule>(area: &Area<TestFile<G>>, start: u64, end: u64) -> Area<TestFile<G>> {
    let start = start.max(area.start);
    Area { start, end: end.max(start), backing: after(area, start - area.start), ..area.clone() }
}

fn after<G: Granule>(area: &Area<TestFile<G>>, bytes: u64) -> Backing<TestFile<G>> {
    match &area.backing {
        Backing::Anonymous { origin } => Backing::Anonymous { origin: origin.wrapping_add(bytes) },
        Backing::File { file, offset } => Backing::File { file: file.clone(), offset: offset + bytes },
    }
}

fn alike<G: Granule>(one: &Area<TestFile<G>>, other: &Area<TestFile<G>>) -> bool {
    (one.rights, one.most, one.flags) == (other.rights, other.most, other.flags)
}

/// What a call may have changed.
enum May {
    /// Anything, where it was done.
    Change,
    /// What lies in a range, and where it was refused nothing of that either.
    ChangeAll(Range<u128>),
    /// What lies in a range, as far as it went.
    ChangePart(Range<u128>),
    /// The same, and pages that were made: a folio may be of more than the range.
    MakePart(Range<u128>),
}

struct World<G: Granule> {
    kernel: Kernel<G>,
    space: Space<G>,
    file: TestFile<G>,
    seed: Seed,
    /// Ends of areas.
    ends: Vec<u64>,
}

impl<G: Granule> World<G> {
    fn new(number: u64) -> Self {
        let (kernel, seed, page) = (Kernel::<G>::new(), Seed::new(number), G::SIZE_BYTES);
        let group = G::PAGE_SIZE.contiguous_shift(Level::L3).unwrap_or(0);
        kernel.0.folio_order.set(*[0, group].get(number as usize % 2).unwrap_or(&0));
        let (file, space) = (TestFile::new(&kernel, 1, 64), kernel.try_space(HardwareUpdates::None).unwrap());
        let highest = space.shape().highest;
        let block = 4 << Geometry::<G>::shift(Level::L2);
        for (at, rights, flags) in [
            (block - 20 * page, RW, AreaFlags::empty()),
            (block + 30 * page, RX, AreaFlags::SHARED),
            (highest - 40 * page, RW, AreaFlags::empty()),
            (block + 300 * page, RW, AreaFlags::GROWS_DOWN),
        ] {
            let is_of_file = flags.contains(AreaFlags::SHARED);
            let anonymous = Request { flags, ..common::anonymous(Place::Fixed(at), 40, rights) };
            let request = if is_of_file { of_file(&file, (Place::Fixed(at), 8, 40), rights, flags) } else { anonymous };
            space.map(request).unwrap();
        }
        for at in [block - 20 * page, block, highest - page, block + 320 * page] {
            write(&space, at, 1).unwrap();
        }
        space.set_heap(block + 100 * page + 8);
        space.set_break(block + 104 * page);
        kernel.0.left.set(FRAMES);
        Self { kernel, space, file, seed, ends: Vec::new() }
    }

    /// A number at a bound.
    fn number(&mut self) -> u64 {
        let (page, table) = (G::SIZE_BYTES, G::SIZE_BYTES * G::ENTRIES as u64);
        let beside = *self.seed.pick(&[0, 1, page - 1, page, page + 1, 2 * page, 17 * page, table]);
        let beside = if self.seed.one_in(2) { beside } else { beside.wrapping_neg() };
        let bound = match self.seed.below(6) {
            0..=2 if !self.ends.is_empty() => *self.seed.pick(&self.ends),
            3 => self.space.shape().highest,
            4 => 0,
            _ => 1 << self.seed.below(64),
        };
        let number = bound.wrapping_add(beside);
        // Most calls take whole pages alone.
        if self.seed.one_in(8) { number } else { number & !(page - 1) }
    }

    /// A size, as often one by which a range ends at a bound.
    fn size(&mut self, start: u64) -> u64 {
        let number = self.number();
        if self.seed.one_in(2) { number } else { number.wrapping_sub(start) }
    }

    fn request(&mut self) -> Request<TestFile<G>> {
        let at = self.number();
        let place = *self.seed.pick(&[Place::Anywhere, Place::Near(at), Place::Fixed(at), Place::FixedNoReplace(at)]);
        let (bytes, offset, file) = (self.size(at), self.number(), self.file.clone());
        let source = if self.seed.one_in(3) { Source::File { file, offset, most: RW } } else { Source::Anonymous };
        let all =
            [AreaFlags::empty(), AreaFlags::GROWS_DOWN, AreaFlags::NO_RESERVE, AreaFlags::LOCKED, AreaFlags::SHARED];
        let flags = *self.seed.pick(&all);
        // Memory that is shared is a file of its own, which nobody closes here.
        let is_few = bytes <= FEW * G::SIZE_BYTES;
        let flags = if matches!(source, Source::Anonymous) || !is_few { flags - AreaFlags::SHARED } else { flags };
        let flags = if is_few { flags } else { flags - AreaFlags::LOCKED };
        Request { place, bytes, rights: RW, source, flags, populates: is_few && self.seed.one_in(4) }
    }

    fn remap(&mut self, before: &Held<G>) -> (May, Result<(), Error>) {
        let start = self.number();
        let (old_bytes, to) = (self.size(start), self.number());
        let bytes = if self.seed.one_in(4) { old_bytes } else { self.size(start) };
        let moves = *self.seed.pick(&[Move::Never, Move::May, Move::Near(to), Move::To(to)]);
        let result = self.space.remap(start, old_bytes, bytes, moves, self.seed.one_in(5)).map(drop);
        let range = named::<G>(start, old_bytes);
        // Of several areas those that came before the one that fails stay moved.
        let areas =
            before.areas.iter().filter(|area| u128::from(area.start) < range.end && range.start < u128::from(area.end));
        (if areas.count() > 1 { May::ChangePart(0..1 << 64) } else { May::Change }, result)
    }

    /// A call about a range.
    fn call(&mut self, before: &Held<G>) -> (May, Result<(), Error>) {
        let start = self.number();
        let bytes = self.size(start);
        let (space, range) = (&self.space, named::<G>(start, bytes));
        let is_few = before.pages_within(&range) <= FEW;
        let few = |result: &dyn Fn() -> Result<(), Error>| if is_few { result() } else { Ok(()) };
        match self.seed.below(8) {
            0 => (May::ChangeAll(range), space.unmap(start, bytes)),
            1 => (
                May::ChangePart(range),
                space.protect(start, bytes, Rights::from_bits_truncate(self.seed.below(4) as u8)),
            ),
            2 | 3 => (May::ChangePart(range), space.advise(start, bytes, *self.seed.pick(&ADVICE))),
            4 => {
                let kind = *self.seed.pick(&[Kind::Read, Kind::Write]);
                (May::MakePart(range), few(&|| space.populate(start, bytes, kind)))
            }
            5 => (May::ChangeAll(0..0), few(&|| space.residency(start, bytes, |_| ()))),
            6 => {
                let how = *self.seed.pick(&HOW);
                // Of all pages that the bytes touch.
                let first = start & !(G::SIZE_BYTES - 1);
                let range = named::<G>(first, 0).start..named::<G>(start, bytes).end + u128::from(G::SIZE_BYTES);
                let is_few = before.pages_within(&range) <= FEW;
                (May::MakePart(range), if is_few { space.lock(start, bytes, how) } else { Ok(()) })
            }
            _ => (May::ChangeAll(0..0), space.sync(start, bytes, self.seed.one_in(2))),
        }
    }

    /// What is set, and what is asked of one address.
    fn set(&mut self) {
        let (one, other) = (self.number(), self.number());
        match self.seed.below(8) {
            0 => self.space.set_ceiling(one),
            1 => self.space.set_heap(one),
            2 => {
                let at = self.space.set_break(one);
                assert!(at == one || at == self.space.heap().end);
            }
            3 => self.space.pages(one..other, |page| {
                assert!(one < page.address + G::SIZE_BYTES && page.address < other);
            }),
            4 => self.space.forget_file(&self.file, one..other, self.seed.one_in(2)),
            5 => {
                let limit = |seed: &mut Seed| if seed.one_in(2) { u64::MAX } else { one };
                let (address_space, data, stack) =
                    (limit(&mut self.seed), limit(&mut self.seed), limit(&mut self.seed));
                let areas = if self.seed.one_in(8) { other as usize } else { 65_530 };
                self.space.set_limits(Limits { address_space, data, stack, locked: limit(&mut self.seed), areas });
            }
            6 => drop(self.space.fork()),
            _ => drop(self.space.fault(Access { address: one, kind: *self.seed.pick(&KINDS) })),
        }
    }

    fn step(&mut self) {
        let before = Held::of(&self.space);
        self.ends = before.areas.iter().flat_map(|area| [area.start, area.end]).collect();
        let (may, result) = match self.seed.below(8) {
            0 | 1 => {
                let request = self.request();
                (May::Change, self.space.map(request).map(drop))
            }
            2 | 3 => self.remap(&before),
            4 => {
                self.set();
                (May::Change, Ok(()))
            }
            _ => self.call(&before),
        };
        let now = Held::of(&self.space);
        now.check(self.space.shape().highest);
        let kept = match &may {
            May::Change | May::ChangeAll(_) if result.is_err() => Some(0..0),
            May::Change => None,
            May::ChangeAll(range) | May::ChangePart(range) | May::MakePart(range) => Some(range.clone()),
        };
        if let Some(range) = kept {
            let (before, mut after) = (before.outside(&range), now.outside(&range));
            if let May::MakePart(_) = may {
                after.pages.clone_from(&before.pages);
            }
            assert!(before == after, "{result:?} changed what is outside {range:x?}");
        }
        let usage = self.space.usage();
        assert_eq!((usage.mapped << G::SHIFT, usage.tables > 0), (now.bytes(|_| true), true));
        assert_eq!(
            self.kernel.0.committed.get(),
            now.bytes(|area| area.flags.contains(AreaFlags::ACCOUNTED)) >> G::SHIFT
        );
    }
}

/// The pages that a call names.
fn named<G: Granule>(start: u64, bytes: u64) -> Range<u128> {
    let end = u128::from(start) + u128::from(bytes);
    start.into()..end.next_multiple_of(G::SIZE_BYTES.into())
}

fn run<G: Granule>(numbers: Range<u64>) {
    for number in numbers {
        let mut world = World::<G>::new(number);
        (0..100).for_each(|_| world.step());
        let World { kernel, space, file, .. } = world;
        drop(space);
        file.close();
        assert_eq!((kernel.out(), kernel.0.committed.get()), ((0, 0), 0), "lost in run {number}");
    }
}

#[test]
fn no_address_and_no_size_is_too_large_with_4k() {
    run::<Granule4K>(0..30);
}

#[test]
fn no_address_and_no_size_is_too_large_with_16k() {
    run::<Granule16K>(0..12);
}

#[test]
fn no_address_and_no_size_is_too_large_with_64k() {
    run::<Granule64K>(0..4);
}

/// The sum of what is locked and what is to be is more than there are numbers.
#[test]
fn no_size_passes_the_limit_of_what_may_be_locked() {
    let kernel = Kernel::<Granule4K>::new();
    let (space, page) = (kernel.space(), Granule4K::SIZE_BYTES);
    space.map(common::anonymous(Place::Fixed(0x8000), 4, RW)).unwrap();
    space.lock(0x8000, page, Locking::OnFault).unwrap();
    space.set_limits(Limits { locked: 2 * page, ..Limits::USUAL });
    let rest = 0_u64.wrapping_sub(page) - 0x9000;
    for bytes in [2 * page, 4 * page, rest, rest + page] {
        assert!(space.lock(0x9000, bytes, Locking::OnFault).is_err());
        assert_eq!(space.usage().locked, 1, "{bytes:#x}");
    }
}
