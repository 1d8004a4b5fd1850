//! What a checked kernel remembers: the last lock that is held on each CPU. As locks are given back in the reverse order, each remembers the
//! one before it.

#[cfg(not(feature = "checked"))]
pub(crate) use off::{Place, sleep, start, stop};
#[cfg(feature = "checked")]
pub(crate) use on::{Place, sleep, start, stop};

#[cfg(not(feature = "checked"))]
mod off {
    use kerncore::lock_order::Class;

    /// A lock's place in the order.
    pub(crate) struct Place;

    /// A lock that is held for as long as this is there.
    pub(crate) struct Taken;

    impl Place {
        pub(crate) const fn new(_: Class) -> Self {
            Self
        }

        #[inline(always)]
        pub(crate) fn check(&self) {}

        #[inline(always)]
        pub(crate) fn hold(&self) -> Taken {
            Taken
        }
    }

    #[inline(always)]
    pub(crate) fn sleep(_: bool, switch: impl FnOnce()) {
        switch();
    }

    pub(crate) fn start() {}

    pub(crate) fn stop() {}
}

#[cfg(feature = "checked")]
mod on {
    use core::cell::Cell;
    use core::ptr;
    use core::sync::atomic::{AtomicBool, Ordering};

    use hardware::{interrupts, per_cpu};
    use kerncore::lock_order::{Broken, Class, Held, check_sleep, check_take};

    /// The place of the last lock that each CPU, or the thread that it runs, has taken and has: one word, as interrupts come in between.
    struct Last([Cell<*const Place>; per_cpu::MAX_CPUS]);

    // SAFETY: each is its own CPU's, and an interrupt leaves it as it was.
    unsafe impl Sync for Last {}

    static LAST: Last = Last([const { Cell::new(ptr::null()) }; per_cpu::MAX_CPUS]);
    /// CPUs know their numbers, and the machine does not come to its end yet.
    static IS_ON: AtomicBool = AtomicBool::new(false);

    fn last() -> &'static Cell<*const Place> {
        &LAST.0[per_cpu::index()]
    }

    fn is_on() -> bool {
        IS_ON.load(Ordering::Relaxed)
    }

    /// Checks from now on.
    pub(crate) fn start() {
        IS_ON.store(true, Ordering::Relaxed);
    }

    /// Checks nothing from now on.
    pub(crate) fn stop() {
        IS_ON.store(false, Ordering::Relaxed);
    }

    /// Panics if a rule is broken.
    fn expect(result: Result<(), Broken>) {
        if let Err(broken) = result
            && IS_ON.swap(false, Ordering::Relaxed)
        {
            panic!("{broken}");
        }
    }

    /// A lock's place in the order.
    pub(crate) struct Place(Class);

    /// What was last before a lock that is held for as long as this is there.
    pub(crate) struct Taken(Option<*const Place>);

    impl Drop for Taken {
        fn drop(&mut self) {
            self.0.into_iter().for_each(|before| last().set(before));
        }
    }

    /// The last lock that is held.
    fn held(last: *const Place) -> Option<Held> {
        // SAFETY: a lock that is held is there.
        unsafe { last.as_ref() }.map(|place| Held(place.0, last.addr()))
    }

    impl Place {
        pub(crate) const fn new(class: Class) -> Self {
            Self(class)
        }

        /// Panics if the lock may not be taken here.
        pub(crate) fn check(&self) {
            if is_on() {
                let taken = Held(self.0, ptr::from_ref(self).addr());
                expect(check_take(held(last().get()), taken, interrupts::are_masked()));
            }
        }

        pub(crate) fn hold(&self) -> Taken {
            Taken(is_on().then(|| last().replace(self)))
        }
    }

    /// Runs `switch`, in which a thread leaves its CPU and comes back on any.
    pub(crate) fn sleep(is_masked: bool, switch: impl FnOnce()) {
        let before = last().replace(ptr::null());
        if is_on() {
            expect(check_sleep(held(before), is_masked));
        }
        switch();
        last().set(before);
    }
}
