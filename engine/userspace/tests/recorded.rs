//! What address spaces did for random programs, run by run, beside what they did when somebody last looked (`recorded/`): what each call says,
//! every area, frame, store, exchange, barrier and TLBI, and how often a descriptor was looked at. The model (`model.rs`) says what is
//! right; here shows what was changed. Whoever means to do something else reads which lines it changes:
//! `VELLUM_RECORD=1 cargo test -p vellum-userspace --test all recorded` writes them anew.

use crate::common;

use std::fmt::Debug;
use std::ops::Range;

use common::{Kernel, Space, TestFile};
use seed::Seed;
use vellum_pagetable::{HardwareUpdates, Tolerance};
use vellum_userspace::{
    Access, Advice, AreaFlags, Backing, Kind, Limits, Locking, Move, Place, Request, Rights, Source,
};
use vellum_vmsa::{BbmLevel, Geometry, Granule, Granule4K, Granule16K, Granule64K, Level};

#[path = "../../pagetable/tests/common/recorded.rs"]
pub(crate) mod record;

const FILE_PAGES: u64 = 24;
const PROCESSES: usize = 3;
const KINDS: [Kind; 4] = [Kind::Read, Kind::Write, Kind::Execute, Kind::Atomic];
const LOCKINGS: [Locking; 3] = [Locking::Now, Locking::OnFault, Locking::Not];
const ADVICE: [Advice; 16] = [
    Advice::Normal,
    Advice::Random,
    Advice::Sequential,
    Advice::WillNeed,
    Advice::DontNeed,
    Advice::DontNeedLocked,
    Advice::Free,
    Advice::Cold,
    Advice::DontFork,
    Advice::DoFork,
    Advice::WipeOnFork,
    Advice::KeepOnFork,
    Advice::DontDump,
    Advice::DoDump,
    Advice::Huge,
    Advice::NotHuge,
];
/// What an area may be asked to be.
const FLAGS: [AreaFlags; 8] = [
    AreaFlags::empty(),
    AreaFlags::empty(),
    AreaFlags::SHARED,
    AreaFlags::GROWS_DOWN,
    AreaFlags::NO_RESERVE,
    AreaFlags::LOCKED,
    AreaFlags::LOCKED.union(AreaFlags::LOCKED_ON_FAULT),
    AreaFlags::DROPPABLE,
];

/// A run: what is drawn, and the processes for which it is.
struct Run<G: Granule> {
    kernel: Kernel<G>,
    seed: Seed,
    files: Vec<TestFile<G>>,
    processes: Vec<Space<G>>,
    /// Where calls go: the end of one table and the start of another.
    base: u64,
    refused: u64,
}

impl<G: Granule> Run<G> {
    fn new(number: u64) -> Self {
        let (kernel, seed) = (Kernel::<G>::new(), Seed::new(number));
        let group = G::PAGE_SIZE.contiguous_shift(Level::L3).unwrap_or(0);
        kernel.0.folio_order.set(*[0, group, G::SHIFT - 3].get(number as usize % 3).unwrap_or(&0));
        kernel.0.tolerates.set(!number.is_multiple_of(4));
        kernel.0.is_at_2.set(number.is_multiple_of(8));
        let updates = [HardwareUpdates::None, HardwareUpdates::AccessFlag, HardwareUpdates::DirtyState];
        let files = vec![TestFile::new(&kernel, 1, FILE_PAGES), TestFile::new(&kernel, 2, FILE_PAGES / 2)];
        files[0].gives_around.set(true);
        let space = kernel.try_space(updates[number as usize / 3 % 3]).expect("a space");
        let base = 4 << Geometry::<G>::shift(Level::L2);
        space.set_ceiling(base + 64 * G::SIZE_BYTES);
        space.set_heap(base + 80 * G::SIZE_BYTES + 24);
        Self { kernel, seed, files, processes: vec![space], base, refused: 0 }
    }

    fn tell(&self, numbers: &[u64]) {
        self.kernel.0.machine.tell(numbers);
    }

    /// What a call says.
    fn says<T: Debug, E: Debug>(&mut self, result: Result<T, E>) {
        self.refused += u64::from(result.is_err());
        self.kernel.0.machine.says(&format!("{result:?}"));
    }

    /// An address, mostly of a page, within some 96 pages around the boundary.
    fn address(&mut self) -> u64 {
        let odd = if self.seed.one_in(30) { self.seed.below(G::SIZE_BYTES) } else { 0 };
        let far = if self.seed.one_in(60) { 1 << 38 } else { 0 };
        self.base + self.seed.below(80) * G::SIZE_BYTES - 32 * G::SIZE_BYTES + odd + far
    }

    fn bytes(&mut self) -> u64 {
        let pages = if self.seed.one_in(5) { self.seed.below(48) } else { 1 + self.seed.below(6) };
        let odd = if self.seed.one_in(10) { self.seed.below(G::SIZE_BYTES) } else { 0 };
        let wrong = if self.seed.one_in(80) { u64::MAX / 2 } else { 0 };
        pages * G::SIZE_BYTES + odd + wrong
    }

    fn range(&mut self) -> Range<u64> {
        let start = self.address() & !(G::SIZE_BYTES - 1);
        start..start + (1 + self.seed.below(24)) * G::SIZE_BYTES
    }

    fn rights(&mut self) -> Rights {
        if !self.seed.one_in(3) { common::RW } else { Rights::from_bits_truncate(self.seed.below(8) as u8) }
    }

    /// Something where many calls go.
    fn request(&mut self) -> Request<TestFile<G>> {
        let (address, flags) = (self.address(), *self.seed.pick(&FLAGS));
        let place = match self.seed.below(6) {
            0 => Place::Anywhere,
            1 => Place::Near(address),
            2 => Place::FixedNoReplace(address),
            _ => Place::Fixed(address),
        };
        let file = self.files[self.seed.index(2)].clone();
        let offset = self.seed.below(8) * G::SIZE_BYTES + if self.seed.one_in(20) { 8 } else { 0 };
        let most = if self.seed.one_in(4) { Rights::READ } else { Rights::all() };
        let is_file = self.seed.one_in(3);
        let source = if is_file { Source::File { file, offset, most } } else { Source::Anonymous };
        let bytes = self.bytes() + if self.seed.one_in(2) { 24 * G::SIZE_BYTES } else { 0 };
        Request { place, bytes, rights: self.rights(), source, flags, populates: self.seed.one_in(6) }
    }

    /// A call about a range.
    fn call(&mut self, who: usize) {
        let (kind, address, bytes) = (self.seed.below(24), self.address(), self.bytes());
        self.tell(&[1, kind, address, bytes]);
        let machine = self.kernel.clone();
        let told = |is_there: bool| machine.0.machine.tell(&[2, u64::from(is_there)]);
        let space = &self.processes[who];
        let result = match kind {
            0 | 1 => space.unmap(address, bytes),
            2..=6 => {
                let rights = self.rights();
                self.processes[who].protect(address, bytes, rights)
            }
            7..=14 => {
                let advice = *self.seed.pick(&ADVICE);
                space.advise(address, bytes, advice)
            }
            15 => space.populate(address, bytes, *self.seed.pick(&KINDS[..2])),
            16 => space.residency(address, bytes, told),
            17 | 18 => space.lock(address, bytes, *self.seed.pick(&LOCKINGS)),
            19 => space.sync(address, bytes, self.seed.one_in(2)),
            20 => {
                let (how, future) = (*self.seed.pick(&LOCKINGS), *self.seed.pick(&LOCKINGS));
                space.lock_all(how, self.seed.one_in(2), future)
            }
            _ => {
                let at = space.set_break(address + 48 * G::SIZE_BYTES);
                self.tell(&[3, at, self.processes[who].heap().end]);
                Ok(())
            }
        };
        self.says(result);
    }

    fn remap(&mut self, who: usize) {
        let (old, bytes, to) = (self.seed.below(5) * G::SIZE_BYTES, self.bytes(), self.address());
        let bytes = if self.seed.one_in(2) { old } else { bytes };
        let moves = *self.seed.pick(&[Move::Never, Move::May, Move::Near(to), Move::To(to)]);
        let (from, keeps) = (self.address(), self.seed.one_in(5));
        let result = self.processes[who].remap(from, old, bytes, moves, keeps);
        self.says(result);
    }

    fn fork_or_end(&mut self, who: usize) {
        if self.processes.len() == PROCESSES || self.seed.one_in(3) && self.processes.len() > 1 {
            drop(self.processes.remove(who));
            return;
        }
        let forked = self.processes[who].fork();
        self.says(forked.as_ref().map(|_| ()));
        self.processes.extend(forked);
    }

    /// What the kernel asks and tells a space.
    fn manage(&mut self, who: usize) {
        let (range, kind, count) = (self.range(), self.seed.below(8), self.seed.below(9));
        let space = &self.processes[who];
        match kind {
            0 => self.tell(&[4, space.take_lazy(count as usize) as u64]),
            1 => {
                let file = &self.files[self.seed.index(2)];
                space.forget_file(file, count..count + 1 + self.seed.below(12), self.seed.one_in(2));
            }
            2 if self.seed.one_in(3) => space.share_with(Tolerance::new(BbmLevel::Level1, true)),
            3 if self.seed.one_in(4) => space.clear(),
            5 => {
                // Near the lowest address there is room above alone.
                let low = space.shape().lowest + count * G::SIZE_BYTES;
                space.set_ceiling(*self.seed.pick(&[low, self.base + 64 * G::SIZE_BYTES, common::ceiling()]));
            }
            4 => {
                let scarce = |seed: &mut Seed, usual, pages: u64| {
                    if seed.one_in(4) { (16 + seed.below(pages)) * G::SIZE_BYTES } else { usual }
                };
                let seed = &mut self.seed;
                let limits = Limits {
                    address_space: scarce(seed, u64::MAX, 200),
                    data: scarce(seed, u64::MAX, 100),
                    stack: scarce(seed, 8 << 20, 40),
                    locked: scarce(seed, u64::MAX, 60),
                    areas: if seed.one_in(4) { 4 + seed.index(8) } else { 100 },
                };
                space.set_limits(limits);
            }
            _ => space.pages(range, |page| self.kernel.0.machine.says(&format!("{page:?}"))),
        }
    }

    fn step(&mut self) {
        let who = self.seed.index(self.processes.len());
        // Once in a while there is little of something.
        let (scarce, left) = (self.seed.below(24), self.seed.index(5));
        match scarce {
            0 => self.kernel.0.left.set(left),
            1 => self.kernel.0.heap_left.set(left),
            2 => self.kernel.0.most_committed.set(self.kernel.0.committed.get() + left as u64),
            _ => {}
        }
        match self.seed.below(40) {
            0..=8 => {
                let request = self.request();
                let result = self.processes[who].map(request);
                self.says(result);
            }
            9..=17 => self.call(who),
            18..=20 => self.remap(who),
            21 => self.fork_or_end(who),
            22 | 23 => self.manage(who),
            _ => {
                let (address, kind, value) = (self.address(), *self.seed.pick(&KINDS), self.seed.below(1000));
                self.tell(&[5, address, value]);
                let result = if self.seed.one_in(8) {
                    self.processes[who].fault(Access { address, kind }).map(|()| 0)
                } else {
                    common::access(&self.processes[who], address, kind, value)
                };
                self.says(result);
            }
        }
        self.kernel.0.left.set(usize::MAX);
        self.kernel.0.heap_left.set(usize::MAX);
        self.kernel.0.most_committed.set(u64::MAX);
        self.look();
    }

    /// All that there is then.
    fn look(&mut self) {
        let mut files = std::mem::take(&mut self.files);
        let is_all = self.seed.one_in(16);
        for space in &self.processes {
            space.areas(|area| {
                let backing = match &area.backing {
                    Backing::Anonymous { origin } => [0, *origin],
                    Backing::File { file, offset } => {
                        // Memory that processes share is closed in the end as well.
                        if !files.contains(file) {
                            files.push(file.clone());
                        }
                        [1 + file.name, *offset]
                    }
                };
                self.tell(&[6, area.start, area.end, area.rights.bits().into(), area.most.bits().into()]);
                self.tell(&[area.flags.bits().into(), backing[0], backing[1]]);
            });
            if is_all {
                self.kernel.0.machine.says(&format!("{:?}", space.usage()));
            }
        }
        self.files = files;
        let (frames, tables) = self.kernel.out();
        // Each knows what it has by counts alone.
        let usages = || self.processes.iter().map(|space| space.usage());
        assert_eq!(usages().map(|usage| usage.tables).sum::<u64>(), tables as u64, "tables");
        let resident = self.processes.iter().map(|space| space.resident());
        assert!(resident.flatten().eq(usages().map(|usage| usage.anonymous + usage.file + usage.tables)));
        self.tell(&[7, frames as u64, tables as u64, self.kernel.0.committed.get()]);
    }

    fn finish(mut self, number: u64) -> String {
        self.processes.clear();
        self.files.iter().for_each(TestFile::close);
        assert_eq!(self.kernel.out(), (0, 0), "frames or tables are lost");
        let (inner, machine) = (&self.kernel.0, &self.kernel.0.machine);
        let (faults, loads, tlbis) = (inner.faults.get(), machine.loads.get(), machine.tlbis.get());
        let digest = machine.told();
        format!("{number}: {digest:016x} faults={faults} loads={loads} tlbis={tlbis} refused={}", self.refused)
    }
}

fn check<G: Granule>(name: &str, runs: u64) {
    let told: Vec<String> = (0..runs)
        .map(|number| {
            let mut run = Run::<G>::new(number);
            (0..200).for_each(|_| run.step());
            run.finish(number)
        })
        .collect();
    record::compare(name, &told);
}

#[test]
fn with_4k() {
    check::<Granule4K>("with_4k", 36);
}

#[test]
fn with_16k() {
    check::<Granule16K>("with_16k", 8);
}

#[test]
fn with_64k() {
    check::<Granule64K>("with_64k", 3);
}
