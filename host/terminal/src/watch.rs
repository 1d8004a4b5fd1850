//! Progress of long work: a bar on a terminal, elsewhere a line now and then, so that a log shows that it goes on.

use std::io::{self, IsTerminal};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How long work may take in silence.
const SILENCE: Duration = Duration::from_secs(2);
/// From one line to the next.
const PAUSE: Duration = Duration::from_secs(20);

/// Shows how far work has come, on standard error.
pub struct Watch {
    name: &'static str,
    length: u64,
    bar: ProgressBar,
    start: Instant,
    /// When the next line is due; `None` on a terminal.
    next: Option<Mutex<Duration>>,
}

impl Watch {
    /// Of work in `length` parts; `name` begins each line.
    pub fn new(name: &'static str, length: u64) -> Self {
        let is_terminal = io::stderr().is_terminal();
        let target = if is_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style = ProgressStyle::with_template("{bar:40} {percent}%  {msg}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::with_draw_target(Some(length), target).with_style(style);
        let next = (!is_terminal).then(|| Mutex::new(SILENCE));
        Self { name, length: length.max(1), bar, start: Instant::now(), next }
    }

    /// `part` is reached; `message` says what was done so far.
    pub fn at(&self, part: u64, message: String) {
        self.bar.set_position(part);
        if self.is_due(self.start.elapsed()) {
            eprintln!("{}", self.line(part, &message));
        }
        self.bar.set_message(message);
    }

    /// One part more.
    pub fn step(&self, message: String) {
        self.at(self.bar.position() + 1, message);
    }

    /// Takes the bar away while `work` prints.
    pub fn suspend<R>(&self, work: impl FnOnce() -> R) -> R {
        self.bar.suspend(work)
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn line(&self, part: u64, message: &str) -> String {
        format!("{}: {}%  {message}", self.name, part.min(self.length) * 100 / self.length)
    }

    fn is_due(&self, elapsed: Duration) -> bool {
        let Some(Ok(mut next)) = self.next.as_ref().map(Mutex::lock) else { return false };
        let is_due = elapsed >= *next;
        if is_due {
            *next = elapsed + PAUSE;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_now_and_then() {
        let mut watch = Watch::new("checks", 40);
        watch.next = Some(Mutex::new(SILENCE));
        let due: Vec<u64> = (0..60).filter(|second| watch.is_due(Duration::from_secs(*second))).collect();
        assert_eq!(due, [2, 22, 42]);
        watch.next = None;
        assert!(!watch.is_due(Duration::from_secs(100)), "a terminal has the bar");
        assert_eq!(watch.line(10, "3 alive"), "checks: 25%  3 alive");
        assert_eq!(Watch::new("zoo", 0).line(7, "x"), "zoo: 100%  x");
    }
}
