//! Progress of work that takes more than two seconds, on a terminal alone.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How long work may take in silence.
const SILENCE: Duration = Duration::from_secs(2);
/// Looking at the clock costs more than a table, or an event.
const TABLES_A_LOOK: u64 = 256;

/// Counts tables, and shows them once the work is long.
pub(crate) struct Progress {
    start: Instant,
    tables: u64,
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), tables: 0, bar: None }
    }

    /// One more table has been read; `input` is how far the walk has come.
    pub(crate) fn table(&mut self, input: u64) {
        self.tables += 1;
        if !self.tables.is_multiple_of(TABLES_A_LOOK) || self.start.elapsed() < SILENCE {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{spinner} {pos} tables in {elapsed}, at {msg}");
            ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
        });
        bar.set_message(format!("{input:#018x}"));
        bar.set_position(self.tables);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Shows how far a search through memory has come.
pub(crate) struct Search {
    start: Instant,
    bar: Option<ProgressBar>,
}

impl Search {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), bar: None }
    }

    /// `done` of `all` bytes are searched.
    pub(crate) fn at(&mut self, done: u64, all: u64) {
        if self.bar.is_none() && self.start.elapsed() < SILENCE {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("searching {wide_bar} {bytes}/{total_bytes}, {eta} left");
            ProgressBar::new(all).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        bar.set_position(done);
    }
}

impl Drop for Search {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Shows how far a trace has been judged.
pub(crate) struct Lines {
    start: Instant,
    done: u64,
    all: u64,
    bar: Option<ProgressBar>,
}

impl Lines {
    pub(crate) fn new(all: u64) -> Self {
        Self { start: Instant::now(), done: 0, all, bar: None }
    }

    /// One more event has been judged.
    pub(crate) fn line(&mut self) {
        self.done += 1;
        if !self.done.is_multiple_of(TABLES_A_LOOK) || self.start.elapsed() < SILENCE {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("judging {wide_bar} {pos}/{len} events, {eta} left");
            ProgressBar::new(self.all).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        bar.set_position(self.done);
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Shows how many lines are left of a trace that becomes smaller.
pub(crate) struct Left {
    start: Instant,
    bar: Option<ProgressBar>,
}

impl Left {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), bar: None }
    }

    /// So many are left.
    pub(crate) fn are(&mut self, lines: usize) {
        if self.start.elapsed() < SILENCE {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{spinner} {pos} lines are left after {elapsed}");
            ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
        });
        bar.set_position(lines as u64);
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
