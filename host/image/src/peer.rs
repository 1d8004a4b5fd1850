//! The other end of a conversation, and the time that it may take.
//!
//! A peer made to harm sends a byte now and then, or words without end. So each reply has its time, and all replies together have
//! what a slow line takes.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use crate::Error;
use crate::endpoint::Stream;

/// How long all replies may be waited for, and what each that comes adds to that.
const WHOLE: Duration = Duration::from_secs(60);
const EACH: Duration = Duration::from_millis(50);
/// How long one that has failed may still take to be let go.
const PARTING: Duration = Duration::from_secs(2);

/// A peer, and what has come from it and is not yet read.
pub(crate) struct Peer {
    name: String,
    /// What may be wrong if it is silent.
    hint: &'static str,
    stream: Box<dyn Stream>,
    /// How long a reply may take.
    patience: Duration,
    deadline: Instant,
    left: Duration,
    has_failed: bool,
    pending: Vec<u8>,
}

impl Peer {
    pub(crate) fn new(name: String, hint: &'static str, stream: Box<dyn Stream>, patience: Duration) -> Self {
        let deadline = stream.now() + patience;
        Self { name, hint, stream, patience, deadline, left: WHOLE, has_failed: false, pending: Vec::new() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.stream.write_all(bytes).map_err(|error| Error::io(&self.name, &error))
    }

    /// From now on the next reply is waited for; of one that has failed, a moment only.
    pub(crate) fn begin_reply(&mut self) {
        (self.patience, self.left) = match self.has_failed {
            true => (PARTING, PARTING),
            false => (self.patience, (self.left + EACH).min(WHOLE)),
        };
        self.deadline = self.stream.now() + self.patience;
    }

    /// How long replies may take from now on.
    pub(crate) fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// The bytes before `end`, `most` at most; `end` is taken too.
    pub(crate) fn take_until(&mut self, end: u8, most: usize) -> Result<Vec<u8>, Error> {
        let mut seen = 0;
        loop {
            if let Some(more) = self.pending[seen..].iter().position(|byte| *byte == end) {
                let mut taken: Vec<u8> = self.pending.drain(..=seen + more).collect();
                taken.pop();
                return Ok(taken);
            }
            seen = self.pending.len();
            if seen > most {
                return Err(self.error(format!("a reply of more than {most} bytes")));
            }
            self.fill()?;
        }
    }

    /// Leaves out all before `start`, and `start` too.
    pub(crate) fn skip_until(&mut self, start: u8) -> Result<(), Error> {
        loop {
            if let Some(place) = self.pending.iter().position(|byte| *byte == start) {
                self.pending.drain(..=place);
                return Ok(());
            }
            self.pending.clear();
            self.fill()?;
        }
    }

    /// The next bytes.
    pub(crate) fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        loop {
            if let Some(taken) = self.pending.first_chunk().copied() {
                self.pending.drain(..N);
                return Ok(taken);
            }
            self.fill()?;
        }
    }

    pub(crate) fn error(&self, what: impl std::fmt::Display) -> Error {
        Error::new(format!("{}: {what}", self.name))
    }

    fn fill(&mut self) -> Result<(), Error> {
        let filled = self.try_fill();
        self.has_failed |= filled.is_err();
        filled
    }

    fn try_fill(&mut self) -> Result<(), Error> {
        let mut chunk = [0; 1 << 16];
        let begun = self.stream.now();
        if begun >= self.deadline {
            let (wait, hint) = (self.patience.as_secs(), self.hint);
            return Err(self.error(format!("no whole reply in {wait} s{hint}")));
        }
        let result = self.stream.read(&mut chunk);
        let waited = self.stream.now().saturating_duration_since(begun);
        self.left = self.left.saturating_sub(waited);
        if self.left.is_zero() {
            return Err(
                self.error(format!("replies come too slowly: {} s of waiting for all of them", WHOLE.as_secs()))
            );
        }
        match result {
            Ok(0) => Err(self.error("the connection was closed")),
            Ok(bytes) => {
                self.pending.extend_from_slice(&chunk[..bytes]);
                Ok(())
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
            {
                Ok(())
            }
            Err(error) => Err(Error::io(&self.name, &error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read, Write};

    use super::*;

    /// Sends a byte of `text` each time it is read, over and over; that takes `each`.
    struct Drip {
        text: &'static [u8],
        sent: usize,
        each: Duration,
        now: Instant,
    }

    impl Stream for Drip {
        fn now(&self) -> Instant {
            self.now
        }
    }

    impl Read for Drip {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            into[0] = self.text[self.sent % self.text.len()];
            self.sent += 1;
            self.now += self.each;
            Ok(1)
        }
    }

    impl Write for Drip {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn peer(text: &'static [u8], each: Duration) -> Peer {
        let drip = Drip { text, sent: 0, each, now: Instant::now() };
        Peer::new("peer".to_owned(), " (hint)", Box::new(drip), Duration::from_secs(10))
    }

    #[test]
    fn a_reply_that_drips_has_its_time() {
        for (each, is_good) in [(99, true), (1000, true), (3333, true), (3334, false), (5000, false), (50_000, false)] {
            let mut peer = peer(b"abc\n", Duration::from_millis(each));
            peer.begin_reply();
            let line = peer.take_until(b'\n', 100);
            match is_good {
                true => assert_eq!(line.as_deref(), Ok(&b"abc"[..]), "{each}"),
                false => {
                    let line = line.unwrap_err().to_string();
                    assert_eq!(line, "peer: no whole reply in 10 s (hint)", "{each}");
                }
            }
        }
    }

    #[test]
    fn what_comes_without_an_end_has_its_time_and_its_size() {
        let mut noise = peer(b"+", Duration::from_millis(1));
        noise.begin_reply();
        assert!(noise.skip_until(b'$').unwrap_err().to_string().contains("no whole reply"));
        assert!(noise.pending.is_empty(), "noise is not kept");
        for most in [1, 9, 10, 100] {
            let mut long = peer(b"aaaaaaaaaa\n", Duration::ZERO);
            let line = long.take_until(b'\n', most);
            assert_eq!(line.is_ok(), most >= 10, "{most}");
            assert!(long.pending.len() <= most + 1);
        }
    }

    /// Each reply within its time, all too slow; and a line that is slow, but no slower than lines are.
    #[test]
    fn all_replies_together_have_their_time() {
        for (each, most) in [(9000u64, 7), (100, 1200), (50, usize::MAX), (1, usize::MAX)] {
            let mut slow = peer(b"\n", Duration::from_millis(each));
            let mut replies = 0;
            let ended = (0..5000).find_map(|_| {
                slow.begin_reply();
                replies += 1;
                slow.take_until(b'\n', 10).err()
            });
            match most {
                usize::MAX => assert_eq!(ended, None, "{each}"),
                _ => {
                    let line = ended.expect("an end").to_string();
                    assert_eq!(line, "peer: replies come too slowly: 60 s of waiting for all of them", "{each}");
                    assert!((most - 1..=most + 2).contains(&replies), "{each}: {replies}");
                }
            }
        }
    }
}
