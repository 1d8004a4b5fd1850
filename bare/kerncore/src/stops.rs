//! How a process stands with signals that stop it, and what `wait` tells of it.

use core::sync::atomic::{AtomicU32, Ordering};

/// SIGCONT's number.
const CONTINUE: i32 = 18;

/// Whether a process is stopped, and what of that its parent has not heard yet: one word, so that who stops it, has it go on and tells of it at
/// once come one after the other.
#[derive(Default)]
pub struct Stops(AtomicU32);

/// The word: what the process is stopped by, 0 if it runs; whether the parent was told of that; what is new for the parent, SIGCONT or what it
/// was stopped by, 0 for nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
struct State {
    by: u8,
    is_told: bool,
    news: u8,
}

impl State {
    const fn unpack(word: u32) -> Self {
        Self { by: word as u8, is_told: word >> 8 & 1 != 0, news: (word >> 16) as u8 }
    }

    const fn pack(self) -> u32 {
        self.by as u32 | (self.is_told as u32) << 8 | (self.news as u32) << 16
    }
}

impl Stops {
    /// Makes the state another in one step. Nothing if `change` says so.
    fn change<T>(&self, change: impl Fn(State) -> Option<(State, T)>) -> Option<T> {
        let mut word = self.0.load(Ordering::SeqCst);
        loop {
            let (new, answer) = change(State::unpack(word))?;
            match self.0.compare_exchange(word, new.pack(), Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return Some(answer),
                Err(found) => word = found,
            }
        }
    }

    /// What stops it, if anything does.
    #[inline]
    pub fn by(&self) -> Option<i32> {
        Some(State::unpack(self.0.load(Ordering::SeqCst)).by.into()).filter(|by| *by != 0)
    }

    /// Stops it by this signal. Whether it ran.
    pub fn stop(&self, signal: i32) -> bool {
        self.change(|state| (state.by == 0).then_some((State { by: signal as u8, ..state }, ()))).is_some()
    }

    /// Nothing of it runs any more: what the parent is told, once.
    pub fn tell(&self) -> Option<News> {
        self.change(|state| {
            let told = State { is_told: true, news: state.by, ..state };
            (state.by != 0 && !state.is_told).then_some((told, News::Signal(state.by.into())))
        })
    }

    /// It runs again: what the parent is told, if that was told that it had stopped.
    pub fn go_on(&self) -> Option<News> {
        self.change(|state| {
            let was_told = state.by != 0 && state.is_told;
            let news = if was_told { CONTINUE as u8 } else { state.news };
            Some((State { by: 0, is_told: false, news }, was_told.then_some(News::Signal(CONTINUE))))
        })?
    }

    /// What is new, of stops or of going on; no longer new for the next who asks, unless it stays.
    pub fn news(&self, stops: bool, going_on: bool, stays: bool) -> Option<News> {
        self.change(|state| {
            let news = i32::from(state.news);
            let is_wanted = if news == CONTINUE { going_on } else { stops && news != 0 };
            let after = State { news: if stays { state.news } else { 0 }, ..state };
            is_wanted.then_some((after, News::Signal(news)))
        })
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
