//! `# conflicts`: the TLB conflict aborts that came to each CPU, as the monitor counts them.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use hardware::conflict;
use hardware::per_cpu::MAX_CPUS;

use crate::console::say;
use crate::cpus::calls;
use crate::facts::facts;

/// Of fetches, and of accesses to data, by CPU.
static COUNTS: [[AtomicU64; MAX_CPUS]; 2] = [const { [const { AtomicU64::new(0) }; MAX_CPUS] }; 2];

/// Prints the section, if any came.
pub(crate) fn print() {
    calls::on_every_cpu(&|cpu| {
        for (counts, came) in COUNTS.iter().zip(conflict::counts()) {
            counts[cpu].store(came, Ordering::Relaxed);
        }
    });
    let [fetch, data] = &COUNTS;
    let lines = [("conflicts, EL1 data", data), ("conflicts, EL1 fetch", fetch)];
    let mut lines = lines.into_iter().map(|(name, counts)| Line { name, counts }).filter(Line::is_any).peekable();
    if lines.peek().is_some() {
        say!("# conflicts");
        lines.for_each(|line| say!("{line}"));
    }
}

struct Line {
    name: &'static str,
    counts: &'static [AtomicU64; MAX_CPUS],
}

impl Line {
    fn is_any(&self) -> bool {
        self.counts.iter().any(|count| count.load(Ordering::Relaxed) > 0)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<24}", self.name)?;
        let cpus = self.counts.iter().take(facts().cpus.len());
        cpus.map(|count| count.load(Ordering::Relaxed)).try_for_each(|count| write!(f, "{count:>10}"))
    }
}
