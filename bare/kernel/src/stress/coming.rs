//! Memory that goes and comes while all CPUs use the rest: any that is free, for a moment, and what is withheld, which others use until it
//! goes again.
//!
//! ```text
//! free      │ taken: refused │ free │ gone: no leaf leads there │ free
//! withheld  │ come │ used by whoever is given it: refused │ gone │ … one unit for each CPU, and in the end each is withheld again
//! ```

use core::sync::atomic::{AtomicU64, Ordering};

use hardware::per_cpu::MAX_CPUS;
use hardware::probe;
use hardware::translation::read_translation;
use kerncore::list::List;
use kerncore::memory_map::{COMING_BYTES, Kind};
use kerncore::range::PhysicalRange;
use seed::Seed;
use vmsa::{PhysAddr, VirtAddr};

use super::tally::Came;
use crate::console::say;
use crate::facts::{facts, page_size};
use crate::memory::coming::{self, NotMoved};
use crate::memory::{linear_map, pages, ranges};

/// One operation in so many is to have free memory go for a moment, to have withheld memory come or go.
const GOES: u64 = 16;
const COMES: u64 = 16;

/// What is withheld, and how often memory moved.
pub(super) struct Coming {
    /// A unit for each CPU, which no other moves.
    withheld: List<PhysicalRange, MAX_CPUS>,
    went: AtomicU64,
    came: AtomicU64,
    stayed: AtomicU64,
}

impl Coming {
    /// With memory that is withheld, unless it may be given to CPUs that join, for ever.
    pub(super) fn new() -> Self {
        let mut withheld = List::new(PhysicalRange::EMPTY);
        let may_stay = facts().options.late_cpus.is_some_and(|late| late > 0);
        let map = ranges::map();
        for piece in map.pieces().iter().filter(|piece| piece.kind == Kind::Withheld && !may_stay) {
            let units =
                (0..piece.range.size_bytes() / COMING_BYTES).map(|unit| piece.range.start + unit * COMING_BYTES);
            // As many as there are CPUs.
            units.map(unit).take_while(|unit| withheld.push(*unit).is_ok()).for_each(drop);
        }
        let counter = || AtomicU64::new(0);
        Self { withheld, went: counter(), came: counter(), stayed: counter() }
    }

    /// Moves memory, or none.
    pub(super) fn use_one(&self, cpu: usize, seed: &mut Seed) -> Came {
        if seed.one_in(GOES) {
            return self.go_and_come();
        }
        match self.withheld.get(cpu) {
            Some(unit) if seed.one_in(COMES) => self.come_or_go(*unit),
            _ => Came::Right,
        }
    }

    /// Memory that is in use stays; once it is free it goes and comes, unless somebody takes some of it before.
    fn go_and_come(&self) -> Came {
        let order = (COMING_BYTES / page_size().size_bytes()).ilog2() as usize;
        // None is free that lies together: what is in use is elsewhere.
        let Some(first) = pages::allocate(order) else { return Came::Right };
        let range = unit(first);
        let is_kept = coming::remove(range) == Err(NotMoved::Given(first));
        pages::free(first, order);
        if !is_kept {
            say!("stress: {range} was in use, and could go");
            return Came::Wrong;
        }
        if self.withheld.contains(&range) {
            return Came::Right;
        }
        match coming::remove(range) {
            Ok(()) if !is_gone(range) => wrong_of(range, "has gone, and is mapped"),
            Ok(()) => {
                Self::count(&self.went);
                self.come(range)
            }
            // Another CPU moves it.
            Err(NotMoved::NoSuch(_)) => Came::Right,
            Err(why) => self.stay(range, why),
        }
    }

    fn come_or_go(&self, unit: PhysicalRange) -> Came {
        if is_withheld(unit) {
            return self.come(unit);
        }
        match coming::remove(unit) {
            Ok(()) if !is_gone(unit) => wrong_of(unit, "has gone, and is mapped"),
            Ok(()) => {
                Self::count(&self.went);
                Came::Right
            }
            Err(why) => self.stay(unit, why),
        }
    }

    fn come(&self, range: PhysicalRange) -> Came {
        if let Err(why) = coming::add(range) {
            say!("stress: {range} does not come: {why}");
            return Came::Wrong;
        }
        Self::count(&self.came);
        Came::Right
    }

    /// Memory that somebody has, or that is hidden for ever, stays.
    fn stay(&self, range: PhysicalRange, why: NotMoved) -> Came {
        if let NotMoved::Given(_) | NotMoved::Hidden = why {
            Self::count(&self.stayed);
            return Came::Right;
        }
        say!("stress: {range} does not go: {why}");
        Came::Wrong
    }

    /// Nobody has anything any more: what came goes again, and what never came comes and goes. Whether each unit does.
    pub(super) fn end(&self) -> bool {
        let map = linear_map::get();
        // Tables that wait may be of what goes.
        map.heal_all();
        map.refill();
        let tables = map.counters().reserve as usize;
        map.set_reserve(0);
        let is_right = self.withheld.iter().all(|unit| {
            let come = if is_withheld(*unit) { coming::add(*unit) } else { Ok(()) };
            let went = come.and_then(|()| coming::remove(*unit));
            went.inspect_err(|why| say!("stress: {unit} does not go in the end: {why}")).is_ok()
        });
        map.set_reserve(tables);
        let [went, came, stayed] =
            [&self.went, &self.came, &self.stayed].map(|counter| counter.load(Ordering::Relaxed));
        say!("stress: memory went {went} times, came {came} times and stayed in use {stayed} times");
        match self.withheld.len() {
            0 => say!("stress: no memory is withheld"),
            units if is_right => say!("stress: {units} withheld units came, and are withheld again"),
            _ => {}
        }
        is_right
    }

    fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

fn wrong_of(range: PhysicalRange, what: &str) -> Came {
    say!("stress: {range} {what}");
    Came::Wrong
}

fn is_withheld(unit: PhysicalRange) -> bool {
    ranges::user(unit.start) == Some(Kind::Withheld)
}

fn unit(start: PhysAddr) -> PhysicalRange {
    PhysicalRange::from_size(start, COMING_BYTES)
}

/// Whether no leaf leads to memory that nobody has.
fn is_gone(range: PhysicalRange) -> bool {
    let ends = [range.start, PhysAddr::new(range.end.bits() - 8)].map(|word| facts().linear.address(word));
    // SAFETY: memory that nobody has, or nothing.
    let is_found = |word: VirtAddr| read_translation(word).is_ok() || unsafe { probe::read(word) }.is_ok();
    !ends.into_iter().any(is_found)
}
