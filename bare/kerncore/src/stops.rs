//! How a process stands with signals that stop it, and what `wait` tells of it.

use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// SIGCONT's number.
const CONTINUE: i32 = 18;

/// Whether a process is stopped, and what of that its parent has not heard yet.
#[derive(Default)]
pub struct Stops {
    /// What it is stopped by; 0 if it runs.
    by: AtomicI32,
    is_told: AtomicBool,
    /// What it is stopped by, or SIGCONT; 0 for nothing.
    news: AtomicI32,
}

impl Stops {
    /// What stops it, if anything does.
    #[inline]
    pub fn by(&self) -> Option<i32> {
        Some(self.by.load(Ordering::SeqCst)).filter(|by| *by != 0)
    }

    /// Stops it by this signal. Whether it ran.
    pub fn stop(&self, signal: i32) -> bool {
        self.by.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Nothing of it runs any more: what the parent is told, once.
    pub fn tell(&self) -> Option<News> {
        let by = self.by().filter(|_| !self.is_told.swap(true, Ordering::AcqRel))?;
        self.news.store(by, Ordering::Release);
        Some(News::Signal(by))
    }

    /// It runs again: what the parent is told, if that was told that it had stopped.
    pub fn go_on(&self) -> Option<News> {
        let was_stopped = self.by.swap(0, Ordering::SeqCst) != 0;
        let was_told = self.is_told.swap(false, Ordering::AcqRel);
        (was_stopped && was_told).then(|| self.news.store(CONTINUE, Ordering::Release))?;
        Some(News::Signal(CONTINUE))
    }

    /// What is new, of stops or of going on; no longer new for the next who asks, unless it stays.
    pub fn news(&self, stops: bool, going_on: bool, stays: bool) -> Option<News> {
        let news = self.news.load(Ordering::Acquire);
        let is_wanted = if news == CONTINUE { going_on } else { stops && news != 0 };
        let after = if stays { news } else { 0 };
        let is_mine = || self.news.compare_exchange(news, after, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        (is_wanted && is_mine()).then_some(News::Signal(news))
    }
}

/// What is told of a child: that it is over, with its status, or what stopped it or had it go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum News {
    /// As `wait4` has it.
    Over(i32),
    /// A signal's number.
    Signal(i32),
}

impl News {
    /// As `wait4` has it.
    pub fn status(self) -> i32 {
        match self {
            Self::Over(status) => status,
            Self::Signal(CONTINUE) => 0xffff,
            Self::Signal(signal) => signal << 8 | 0x7f,
        }
    }

    /// As SIGCHLD has it: `si_code` and `si_status`.
    pub fn code(self) -> (i32, i32) {
        match self {
            Self::Over(status) if status & 0x7f == 0 => (1, status >> 8 & 0xff),
            Self::Over(status) => (2, status & 0x7f),
            Self::Signal(CONTINUE) => (6, CONTINUE),
            Self::Signal(signal) => (5, signal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stop_is_told_once() {
        let stops = Stops::default();
        assert!(stops.tell().is_none() && stops.go_on().is_none() && stops.news(true, true, false).is_none());
        assert!(stops.stop(19) && !stops.stop(20));
        assert_eq!((stops.tell(), stops.tell()), (Some(News::Signal(19)), None));
        assert_eq!((stops.news(false, true, false), stops.news(true, false, true)), (None, Some(News::Signal(19))));
        assert_eq!(stops.news(true, true, false).map(|news| (news.status(), news.code())), Some((0x137f, (5, 19))));
        assert!(stops.news(true, true, false).is_none());
        assert_eq!(stops.go_on().map(|news| (news.status(), news.code())), Some((0xffff, (6, 18))));
        assert!(stops.stop(19) && stops.go_on().is_none(), "nobody was told of the stop");
        assert_eq!([News::Over(0x300), News::Over(9)].map(News::code), [(1, 3), (2, 9)]);
    }
}
