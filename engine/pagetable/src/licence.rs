//! The right to change a live leaf in a way that TLBs must not see half-done, and who may have it.
//!
//! | licence | who makes it | how a leaf changes size |
//! |---|---|---|
//! | tolerated, alone | [`Census`], from what every CPU tolerates | in place |
//! | not cached | [`Census`], every CPU at level 1 or above | by the nT protocol, with a window |
//! | parked | who keeps every other CPU off the tables | in place, or by break-before-make |
//! | break-before-make | who can bear its window | by break-before-make |
//!
//! Tables that are not live need none.

use core::marker::PhantomData;

use vmsa::{BbmLevel, IdRegisters, Midr};

/// Why a live leaf may change size, memory type or grouping. Without one such a change is refused.
///
/// A licence borrows what makes it true, so it cannot outlive it.
#[cfg_attr(feature = "alloc", doc = include_str!("../docs/licences.md"))]
#[derive(Debug)]
pub struct Licence<'guard> {
    method: Method,
    guard: PhantomData<&'guard ()>,
}

/// How a live leaf changes size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Method {
    /// The new descriptor is stored over the old one. `may_conflict` is set where a TLB that holds both may raise conflict
    /// aborts until it is told to forget.
    InPlace { may_conflict: bool },
    /// The block is made uncacheable (nT) and forgotten before it is replaced (D8.17.1, level 1).
    NotCached,
    /// The leaf is invalid and forgotten before it is replaced.
    Break,
}

impl<'guard> Licence<'guard> {
    const fn new(method: Method) -> Self {
        Self { method, guard: PhantomData }
    }

    /// Break-before-make: the leaf is invalid for a moment (its *window*), in which every access to it faults. The one
    /// licence under which memory type, shareability and output address may change too.
    ///
    /// By making this licence the caller states, for as long as `guard` is held, that
    /// - no CPU accesses what the leaf maps during the window, or each one retries the fault it takes;
    /// - the changing CPU runs `apply` with exceptions masked, and reaches its code, stack, vectors and the descriptors
    ///   it writes through other leaves.
    pub const fn break_before_make<T: ?Sized>(guard: &'guard T) -> Self {
        let _ = guard;
        Self::new(Method::Break)
    }

    /// No other CPU walks these tables, nor will until it has forgotten them, for as long as `guard` is held. The changing
    /// CPU is `changer`; if it does not tolerate the change itself, it breaks before it makes, and the second promise of
    /// [`Self::break_before_make`] is made too.
    pub const fn parked<T: ?Sized>(guard: &'guard T, changer: Tolerance) -> Self {
        let _ = guard;
        match changer.in_place() {
            Some(method) => Self::new(method),
            None => Self::new(Method::Break),
        }
    }

    /// The same where another walker has these tables too, which tolerates so much: what that is too little for is done by
    /// break-before-make, and who has `guard` promises what [`Self::break_before_make`] asks for.
    #[must_use]
    pub const fn capped<T: ?Sized>(self, walker: Tolerance, guard: &'guard T) -> Self {
        let _ = guard;
        match (self.method, walker.in_place()) {
            (Method::InPlace { may_conflict }, Some(Method::InPlace { may_conflict: its })) => {
                Self::new(Method::InPlace { may_conflict: may_conflict || its })
            }
            _ => Self::new(Method::Break),
        }
    }

    /// The same where whoever meets a TLB conflict abort on what changes bears it at any later time, and not only until the change is complete:
    /// its CPU forgets everything, and the access is made again. So no TLB is told of a contiguous group that ends or begins.
    #[must_use]
    pub const fn bearing_conflicts(self) -> Self {
        match self.method {
            Method::InPlace { .. } => Self::new(Method::InPlace { may_conflict: false }),
            method => Self::new(method),
        }
    }

    /// Whether a leaf changes size in place: TLBs may hold both what it was and what it is, until they are told to forget.
    pub const fn is_in_place(&self) -> bool {
        matches!(self.method, Method::InPlace { .. })
    }

    pub(crate) const fn method(&self) -> Method {
        self.method
    }
}

/// What one CPU tolerates, and what is promised about its conflict aborts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tolerance {
    level: BbmLevel,
    handles_conflicts: bool,
}

impl Tolerance {
    /// What a CPU tolerates by its registers, or by its model where that is known to tolerate more than it says, or less.
    ///
    /// `handles_conflicts` is the promise of level 2, made for code that may meet a TLB conflict abort: the vectors, the
    /// entry and exit code, every stack and exception frame and the data that exceptions use are mapped by pages without
    /// the Contiguous bit that are never resized, and the handler forgets everything (VMALLE1 without a stage 2 beneath,
    /// VMALLS12E1 from EL2 with one).
    pub fn read(registers: &IdRegisters, midr: Midr, handles_conflicts: bool) -> Self {
        let level = match registers.bbm() {
            _ if midr.must_break_before_make() => BbmLevel::Level0,
            _ if midr.tolerates_resizing() => BbmLevel::Level3,
            level => level,
        };
        Self { level, handles_conflicts }
    }

    /// A CPU of this level.
    pub const fn new(level: BbmLevel, handles_conflicts: bool) -> Self {
        Self { level, handles_conflicts }
    }

    /// The level.
    pub const fn level(self) -> BbmLevel {
        self.level
    }

    /// What this one and another tolerate.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            level: self.level.min(other.level),
            handles_conflicts: self.handles_conflicts && other.handles_conflicts,
        }
    }

    /// How the CPU lets live leaves change size in place, if it does.
    const fn in_place(self) -> Option<Method> {
        match self.level {
            BbmLevel::Level3 => Some(Method::InPlace { may_conflict: false }),
            BbmLevel::Level2 if self.handles_conflicts => Some(Method::InPlace { may_conflict: true }),
            _ => None,
        }
    }
}

/// Every CPU that may walk the tables. While a licence from it lives, none can join: joining needs it mutably.
#[derive(Debug)]
pub struct Census {
    weakest: Tolerance,
    cpus: usize,
}

impl Census {
    /// A system of one CPU.
    pub const fn new(first: Tolerance) -> Self {
        Self { weakest: first, cpus: 1 }
    }

    /// Another CPU will walk the tables from now on.
    pub fn admit(&mut self, cpu: Tolerance) {
        self.weakest = self.weakest.with(cpu);
        self.cpus += 1;
    }

    /// What every CPU tolerates.
    pub const fn weakest(&self) -> Tolerance {
        self.weakest
    }

    /// How many CPUs there are.
    pub const fn cpus(&self) -> usize {
        self.cpus
    }

    /// Every CPU tolerates live leaves that change size: all at level 3, or all at level 2 or above with the promise of
    /// [`Tolerance::read`].
    pub const fn tolerated(&self) -> Option<Licence<'_>> {
        match self.weakest.in_place() {
            Some(method) => Some(Licence::new(method)),
            None => None,
        }
    }

    /// Every CPU is at level 1 or above, so that blocks can be replaced by the nT protocol. It has a window, as nT may
    /// fault: the caller makes the promises of [`Licence::break_before_make`].
    pub const fn not_cached(&self) -> Option<Licence<'_>> {
        match self.weakest.level {
            BbmLevel::Level0 => None,
            _ => Some(Licence::new(Method::NotCached)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn cpu(level: BbmLevel, handles_conflicts: bool) -> Tolerance {
        Tolerance::new(level, handles_conflicts)
    }

    #[test]
    fn a_walker_caps_a_licence() {
        let levels = [BbmLevel::Level0, BbmLevel::Level1, BbmLevel::Level2, BbmLevel::Level3];
        let method = |system: BbmLevel, walker: BbmLevel, handles_conflicts| {
            let census = Census::new(cpu(system, true));
            let licence = census.tolerated().unwrap_or(Licence::break_before_make(&levels));
            licence.capped(cpu(walker, handles_conflicts), &levels).method()
        };
        for (system, walker) in levels.iter().flat_map(|&system| levels.map(|walker| (system, walker))) {
            let expected = match system.min(walker) {
                BbmLevel::Level0 | BbmLevel::Level1 => Method::Break,
                BbmLevel::Level2 => Method::InPlace { may_conflict: true },
                BbmLevel::Level3 => Method::InPlace { may_conflict: false },
            };
            assert_eq!(method(system, walker, true), expected, "{system:?} {walker:?}");
        }
        assert_eq!(
            method(BbmLevel::Level3, BbmLevel::Level2, false),
            Method::Break,
            "it has conflicts, and no handler"
        );
    }

    #[test]
    fn conflicts_are_borne_where_leaves_change_in_place_alone() {
        let method =
            |level| Census::new(cpu(level, true)).tolerated().map(|licence| licence.bearing_conflicts().method());
        let in_place = Some(Method::InPlace { may_conflict: false });
        assert_eq!((method(BbmLevel::Level2), method(BbmLevel::Level3)), (in_place, in_place));
        assert_eq!(Licence::break_before_make(&0).bearing_conflicts().method(), Method::Break);
        // Another walker bears nothing.
        let licence = Licence::new(Method::InPlace { may_conflict: true }).bearing_conflicts();
        let capped = licence.capped(cpu(BbmLevel::Level2, true), &0);
        assert_eq!(capped.method(), Method::InPlace { may_conflict: true });
    }

    #[test]
    fn the_weakest_cpu_decides() {
        let mut census = Census::new(cpu(BbmLevel::Level3, false));
        assert_eq!(census.tolerated().map(|licence| licence.method()), Some(Method::InPlace { may_conflict: false }));
        census.admit(cpu(BbmLevel::Level2, true));
        assert!(census.tolerated().is_none(), "the first CPU does not handle conflicts, and the level is 2 now");
        assert!(census.not_cached().is_some());
        census.admit(cpu(BbmLevel::Level0, true));
        assert!(census.not_cached().is_none());
        assert_eq!(census.cpus(), 3);
    }

    #[test]
    fn level_2_needs_the_promise() {
        assert!(Census::new(cpu(BbmLevel::Level2, false)).tolerated().is_none());
        let promised = Census::new(cpu(BbmLevel::Level2, true));
        assert_eq!(promised.tolerated().map(|licence| licence.method()), Some(Method::InPlace { may_conflict: true }));
    }

    #[test]
    fn a_parker_that_tolerates_nothing_breaks() {
        let guard = ();
        let method = |level| Licence::parked(&guard, cpu(level, false)).method();
        assert_eq!(method(BbmLevel::Level3), Method::InPlace { may_conflict: false });
        assert_eq!(method(BbmLevel::Level2), Method::Break);
        assert_eq!(method(BbmLevel::Level0), Method::Break);
    }

    #[test]
    fn what_has_a_window_is_not_in_place() {
        let is_in_place = |licence: Option<Licence<'_>>| licence.map(|licence| licence.is_in_place());
        let census = |level| Census::new(cpu(level, true));
        assert_eq!(is_in_place(census(BbmLevel::Level3).tolerated()), Some(true));
        assert_eq!(is_in_place(census(BbmLevel::Level2).tolerated()), Some(true));
        assert_eq!(is_in_place(census(BbmLevel::Level2).not_cached()), Some(false));
        assert_eq!(is_in_place(Some(Licence::break_before_make(&()))), Some(false));
    }

    #[test]
    fn models_may_tolerate_more_than_their_registers_say() {
        let silent = IdRegisters::default();
        assert_eq!(Tolerance::read(&silent, Midr::new(0xc00f_ac30), false).level(), BbmLevel::Level3);
        assert_eq!(Tolerance::read(&silent, Midr::new(0x410f_d0c0), false).level(), BbmLevel::Level0);
    }

    #[test]
    fn releases_with_an_erratum_tolerate_nothing_whatever_their_registers_say() {
        let level = |midr, mmfr2| {
            let registers = IdRegisters { mmfr2, ..IdRegisters::default() };
            Tolerance::read(&registers, Midr::new(midr), false).level()
        };
        // ID_AA64MMFR2_EL1.BBM, bits 55:52.
        assert_eq!((level(0x410f_d840, 2 << 52), level(0x410f_d842, 2 << 52)), (BbmLevel::Level0, BbmLevel::Level3));
        assert_eq!((level(0x411f_d8c0, 3 << 52), level(0x410f_d810, 2 << 52)), (BbmLevel::Level0, BbmLevel::Level2));
    }
}
