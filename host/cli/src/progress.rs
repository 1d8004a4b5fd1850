//! Progress of work that takes more than two seconds, on a terminal alone.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How long work may take in silence.
const SILENCE: Duration = Duration::from_secs(2);
/// Looking at the clock costs more than a table, a line or an event.
const STEPS_A_LOOK: u64 = 256;

/// Counts steps, and shows them once the work is long.
pub(crate) struct Progress {
    template: &'static str,
    start: Instant,
    done: u64,
    /// 0 where nobody knows.
    all: u64,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Of work in `all` steps, as `template` words it.
    pub(crate) fn new(template: &'static str, all: u64) -> Self {
        Self { template, start: Instant::now(), done: 0, all, bar: None }
    }

    /// Of a walk of page tables.
    pub(crate) fn of_tables() -> Self {
        Self::new("{spinner} {pos} tables in {elapsed}, at {msg}", 0)
    }

    /// One more table has been read; `input` is how far the walk has come.
    pub(crate) fn table(&mut self, input: u64) {
        self.step();
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{input:#018x}"));
        }
    }

    /// One more step is done.
    pub(crate) fn step(&mut self) {
        self.done += 1;
        if self.done.is_multiple_of(STEPS_A_LOOK) {
            self.at(self.done);
        }
    }

    /// So many are done, or left.
    pub(crate) fn at(&mut self, done: u64) {
        if self.bar.is_none() && self.start.elapsed() < SILENCE {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template(self.template);
            let bar = if self.all == 0 { ProgressBar::new_spinner() } else { ProgressBar::new(self.all) };
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
