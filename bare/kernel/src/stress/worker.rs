//! One CPU of the stress.

use core::ops::Range;

use hardware::translation::{read_translation, read_translation_to_write};
use hardware::{interrupts, probe};
use kerncore::command_line::StressKind;
use kerncore::list::List;
use linearmap::{Context, Refused, Wanted};
use seed::Seed;
use vmsa::{Stage1Attributes, VirtAddr};

use super::pool::{CLUSTER, Pool, value};
use super::tally::Tally;
use super::users::Users;
use crate::console::say;
use crate::facts::page_size;
use crate::memory::vmalloc::Area;
use crate::memory::{current, linear_map, secret};

/// Ranges of a list.
const MOST_RANGES: usize = 4;
/// One operation in so many is to look at pages alone, to heal, to hold secret pages, to have an area of virtual addresses.
const LOOKS: u64 = 3;
const HEALS: u64 = 64;
const SECRETS: u64 = 8;
const AREAS: u64 = 16;
/// Pages of an area of virtual addresses, at most.
const AREA_PAGES: usize = 100;
/// Runs of secret pages that are held at once.
const RUNS: [usize; 3] = [0, 1, 0];
/// Slots that one healing looks at.
const BUDGET: usize = 8;
/// Pages that are looked at beside each operation.
const LOOKED_AT: usize = 4;
/// Pages that are wrong of which is told.
const TOLD: u64 = 8;

/// What is wanted of pages, and then wanted back.
const PAIRS: [(Wanted, &[Wanted]); 5] = [
    (Wanted::ReadOnly, &[Wanted::Writable]),
    (Wanted::Hidden, &[Wanted::Shown]),
    (Wanted::Hidden, &[Wanted::Default]),
    (Wanted::ReadOnlyExecutable, &[Wanted::NotExecutable, Wanted::Writable]),
    (Wanted::ReadOnly, &[Wanted::Default]),
];

/// One CPU, and what it draws.
pub(super) struct Worker<'s> {
    seed: Seed,
    pool: &'s Pool,
    tally: &'s Tally,
    cpu: usize,
    users: &'s Users,
}

/// Pages that this CPU has claimed: the first page and the number of each range.
type Claimed = List<(usize, usize), MOST_RANGES>;

impl<'s> Worker<'s> {
    pub(super) fn new(cpu: usize, seed: u32, pool: &'s Pool, users: &'s Users, tally: &'s Tally) -> Self {
        Self { seed: Seed::new(u64::from(seed) << 8 | cpu as u64), pool, tally, cpu, users }
    }

    /// Does operations until none is left.
    pub(super) fn run(mut self, kind: StressKind) {
        while self.tally.take() {
            self.look_around();
            if kind == StressKind::Kfence {
                self.hide_one();
            } else if !self.seed.one_in(LOOKS) {
                self.change_some();
            }
            if kind == StressKind::Mixed && self.seed.one_in(SECRETS) {
                self.hold_secret();
            }
            if kind == StressKind::Mixed && self.seed.one_in(AREAS) {
                self.have_area();
            }
            if kind == StressKind::Mixed {
                self.tally.count(self.users.use_one(self.cpu, &mut self.seed));
            }
            if self.seed.one_in(HEALS) {
                linear_map::get().heal(BUDGET);
            }
        }
    }

    /// Looks at pages that nobody is changing.
    fn look_around(&mut self) {
        for _ in 0..LOOKED_AT {
            let page = self.seed.index(self.pool.pages());
            let seen = self.pool.look(page, |address| self.is_as_ever(address));
            if let Some(is_right) = seen {
                Tally::add(&self.tally.read);
                self.judge(is_right, page, "beside");
            }
        }
    }

    /// Hides a page and shows it, as an allocator does that samples (KFENCE): one page, anywhere, in atomic context.
    fn hide_one(&mut self) {
        let page = self.seed.index(self.pool.pages());
        if self.pool.claim(page) {
            let mut claimed = Claimed::new((page, 1));
            claimed.push((page, 1)).expect("one fits");
            self.change_there_and_back(&claimed, (Wanted::Hidden, &[Wanted::Shown]), true);
        }
    }

    /// Holds secret pages for a moment, in which no read of them may succeed.
    fn hold_secret(&mut self) {
        let Some(runs) = secret::take(RUNS) else { return Tally::add(&self.tally.refused) };
        let first = runs[self.seed.index(RUNS.len())].hidden().start;
        // SAFETY: nothing, or memory of this CPU's.
        if unsafe { probe::read(first) }.is_ok() {
            Tally::add(&self.tally.wrong);
            say!("stress: secret memory at {first} can be read");
        }
        Tally::add(&self.tally.secret);
    }

    /// Has an area of virtual addresses for a moment, one page of it read-only, here and in the linear map, and one freed before the others.
    fn have_area(&mut self) {
        let (page, pages) = (page_size().size_bytes(), 1 + self.seed.index(AREA_PAGES) as u64);
        let Some(mut area) = Area::take(pages * page) else { return Tally::add(&self.tally.refused) };
        let offset = self.seed.index(pages as usize) as u64 * page;
        let at = area.range().start + offset;
        if area.protect(offset..offset + page, true).is_err() {
            return Tally::add(&self.tally.refused);
        }
        let others = (0..pages).map(|number| area.range().start + number * page);
        let is_right = others.into_iter().all(|other| {
            let can_be_written = read_translation_to_write(other).is_ok();
            read_translation(other).is_ok() && can_be_written == (other != at)
        });
        if !is_right {
            Tally::add(&self.tally.wrong);
            say!("stress: the area at {} is wrong", area.range().start);
        }
        // One page of it goes before the others do.
        let other = self.seed.index(pages as usize) as u64 * page;
        if area.free(other..other + page).is_err() {
            return Tally::add(&self.tally.refused);
        }
        if read_translation(area.range().start + other).is_ok() {
            Tally::add(&self.tally.wrong);
            say!("stress: the page at {} was freed, and is mapped", area.range().start + other);
        }
        Tally::add(&self.tally.areas);
    }

    /// Changes pages, looks at them, changes them back, and looks again.
    fn change_some(&mut self) {
        let claimed = self.claim();
        if !claimed.is_empty() {
            let (pair, is_atomic) = (*self.seed.pick(&PAIRS), self.seed.one_in(2));
            self.change_there_and_back(&claimed, pair, is_atomic);
        }
    }

    fn change_there_and_back(&self, claimed: &Claimed, (wanted, back): (Wanted, &[Wanted]), is_atomic: bool) {
        let bytes = page_size().size_bytes();
        let mut ranges = [const { VirtAddr::new(0)..VirtAddr::new(0) }; MOST_RANGES];
        for (range, (first, count)) in ranges.iter_mut().zip(claimed.iter()) {
            let start = self.pool.address(*first);
            *range = start..start + *count as u64 * bytes;
        }
        let ranges = &ranges[..claimed.len()];
        if self.change(ranges, wanted, is_atomic) {
            self.for_each(claimed, |worker, page, address| {
                worker.judge(worker.is_now(address, wanted), page, "changed")
            });
            // What is hidden must be shown again whatever comes; a list that was changed can be changed back without a table.
            for wanted in back {
                self.change(ranges, *wanted, is_atomic);
            }
            Tally::add(&self.tally.changed);
            if is_atomic {
                Tally::add(&self.tally.atomic);
            }
        }
        self.for_each(claimed, |worker, page, address| {
            worker.judge(worker.is_as_ever(address), page, "changed back");
            worker.pool.release(page);
        });
    }

    fn for_each(&self, claimed: &Claimed, mut body: impl FnMut(&Self, usize, VirtAddr)) {
        for (first, count) in claimed.iter() {
            (*first..first + count).for_each(|page| body(self, page, self.pool.address(page)));
        }
    }

    /// Makes a change. One that finds the reserve dry is made once more, where it may wait.
    fn change(&self, ranges: &[Range<VirtAddr>], wanted: Wanted, is_atomic: bool) -> bool {
        let changed = match is_atomic {
            true => {
                let masks = interrupts::mask();
                let changed = linear_map::get().change(ranges, wanted, Context::Atomic);
                interrupts::restore(masks);
                changed
            }
            false => linear_map::get().change(ranges, wanted, Context::MayWait),
        };
        match changed {
            Err(Refused::ReserveDry(_)) => {
                Tally::add(&self.tally.dry);
                self.change(ranges, wanted, false)
            }
            Err(refused) => {
                Tally::add(&self.tally.refused);
                if self.tally.refused.load(core::sync::atomic::Ordering::Relaxed) <= TOLD {
                    say!("stress: {wanted:?} of {} ranges at {}: {refused}", ranges.len(), ranges[0].start);
                }
                false
            }
            Ok(()) => true,
        }
    }

    /// Claims some pages: one, a few neighbours, or a few of either far apart.
    fn claim(&mut self) -> Claimed {
        let mut claimed = Claimed::new((0, 0));
        for _ in 0..1 + self.seed.index(MOST_RANGES) {
            let page = self.seed.index(self.pool.pages());
            let most = if self.seed.one_in(2) { 1 } else { CLUSTER - page % CLUSTER };
            let count = (page..page + 1 + self.seed.index(most)).take_while(|page| self.pool.claim(*page)).count();
            if count > 0 && claimed.push((page, count)).is_err() {
                break;
            }
        }
        claimed
    }

    /// Whether a page is as nobody has changed it: it holds its value, by a read and by a write, and cannot be executed.
    fn is_as_ever(&self, address: VirtAddr) -> bool {
        let can_be_written = read_translation_to_write(address).is_ok();
        can_be_written && self.pool.is_right(address) && self.attributes(address).contains(Stage1Attributes::PXN)
    }

    /// Whether a page that this CPU has changed is so.
    fn is_now(&self, address: VirtAddr, wanted: Wanted) -> bool {
        let can_be_written = read_translation_to_write(address).is_ok();
        // SAFETY: memory of the pool: it is the value that is there.
        let is_written = || unsafe { probe::write(address, value(address)) }.is_ok();
        match wanted {
            Wanted::Hidden => read_translation(address).is_err() && !self.pool.is_right(address),
            Wanted::ReadOnlyExecutable => {
                !can_be_written
                    && self.pool.is_right(address)
                    && !self.attributes(address).contains(Stage1Attributes::PXN)
            }
            _ => !can_be_written && self.pool.is_right(address) && !is_written(),
        }
    }

    fn attributes(&self, address: VirtAddr) -> Stage1Attributes {
        let leaf = current::upper().translate(address);
        Stage1Attributes::from_bits_retain(leaf.map_or(0, |leaf| leaf.descriptor.bits()))
    }

    fn judge(&self, is_right: bool, page: usize, when: &str) {
        if is_right {
            return;
        }
        Tally::add(&self.tally.wrong);
        if self.tally.wrong.load(core::sync::atomic::Ordering::Relaxed) <= TOLD {
            let address = self.pool.address(page);
            say!("stress: {address} is wrong ({when}): {:?}", current::upper().translate(address));
        }
    }
}
