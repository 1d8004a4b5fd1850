//! The self-checks of every boot. Each does what must not be possible, or must be, and looks at what happens.

mod late;
mod leaves;
mod memory;
mod moved_page;
mod one_page;
mod protections;
mod same_map;
mod stack;

use core::fmt::{self, Write};

use kerncore::range::Bytes;
use pagetable::Change;
use vmsa::VirtAddr;

use crate::console::say;
use crate::high::facts;
use crate::times::{self, Step};
use crate::{kernel_table, layout};

/// How the checks ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Outcome {
    pub(crate) failed: usize,
    pub(crate) checks: usize,
}

/// What a check did and saw: one line of text.
struct Detail {
    bytes: [u8; 160],
    length: usize,
}

/// A check: whether it passed. What it writes to its detail is printed either way.
type Check = fn(&mut Detail) -> bool;

/// Writes to a detail, which never fails: what does not fit is cut.
macro_rules! tell {
    ($detail:expr, $($argument:tt)*) => {{
        let _ = core::fmt::Write::write_fmt($detail, format_args!($($argument)*));
    }};
}
use tell;

const CHECKS: [(&str, Check); 12] = [
    ("a write to read-only data faults", protections::write_to_read_only_data),
    ("a write to text by its linear alias faults", protections::write_to_text_alias),
    ("a write to read-only data by its linear alias faults", protections::write_to_read_only_alias),
    ("no page of text or read-only data can be written", leaves::read_only),
    ("data is not executed", protections::execute_data),
    ("nothing but text can be executed", leaves::executable),
    ("a stack that runs out is caught and named", stack::overflow),
    ("every page of memory is in the linear map", memory::read_every_page),
    ("nothing else is in the linear map", leaves::linear_map),
    ("every CPU has the same map", same_map::compare),
    ("a page that moves is found by every CPU", moved_page::follow),
    ("one page of a block is protected alone", one_page::protect),
];

/// Last of all, where CPUs were held back.
const LATE: (&str, Check) = ("a CPU that comes late has the same map", late::join);

/// Whether there is memory for the checks: a block, or the smallest contiguous group, of its own.
pub(crate) fn find_room() -> Result<(), TooLittle> {
    one_page::find_room()
}

/// Too little memory is free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TooLittle {
    free_bytes: u64,
    wanted_bytes: u64,
}

impl fmt::Display for TooLittle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (free, wanted) = (Bytes(self.free_bytes), Bytes(self.wanted_bytes));
        write!(
            f,
            "memory: too little: {free} are free, but no aligned {wanted} in one piece, as the self-checks expect; "
        )?;
        f.write_str("cannot go on")
    }
}

/// Unmaps the checks' own range, all of it, so that no empty table stays there. Whether that was possible.
fn clear_range(detail: &mut Detail) -> bool {
    let from = VirtAddr::new(layout::CHECKS.start)..VirtAddr::new(layout::CHECKS.end);
    let unmapped = kernel_table::change(&[Change::Unmap { from }], false);
    unmapped.inspect_err(|error| tell!(detail, "; it could not be unmapped: {error}")).is_ok()
}

/// Runs every check and prints its verdict.
pub(crate) fn run_all() -> Outcome {
    say!("# checks");
    let has_late = facts().options.late_cpus.is_some_and(|late| late > 0);
    let (mut failed, mut checks) = (0, 0);
    for (name, check) in CHECKS.iter().chain(has_late.then_some(&LATE)) {
        let mut detail = Detail { bytes: [0; 160], length: 0 };
        let is_ok = check(&mut detail);
        checks += 1;
        if checks == 1 {
            times::record(Step::FirstCheck);
        }
        failed += usize::from(!is_ok);
        say!("check {name}: {} ({detail})", if is_ok { "ok" } else { "FAILED" });
    }
    Outcome { failed, checks }
}

impl Write for Detail {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.len() - self.length;
        let taken = text.len().min(room);
        self.bytes[self.length..self.length + taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.length += taken;
        Ok(())
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(core::str::from_utf8(&self.bytes[..self.length]).unwrap_or("text that was cut"))
    }
}
