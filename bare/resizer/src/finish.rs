//! The end: what was found, and the verdict.

use core::fmt;

use hardware::{hypercall, interrupts};

use crate::console::say;

/// The name of a check that the handler of conflicts makes too.
pub(crate) const WHERE_ANNOUNCED: &str = "conflicts come only where a resize is announced";

/// A check and what it found.
pub(crate) struct Check<'t> {
    pub(crate) name: &'t str,
    pub(crate) is_passed: bool,
    pub(crate) found: fmt::Arguments<'t>,
}

/// Ends the machine with a verdict.
pub(crate) fn conclude(checks: &[Check]) -> ! {
    say!("# checks");
    for Check { name, is_passed, found } in checks {
        say!("check {name}: {} ({found})", if *is_passed { "ok" } else { "FAILED" });
    }
    let failed = checks.iter().filter(|check| !check.is_passed).count();
    say!("# verdict");
    match failed {
        0 => say!("verdict: passed ({} checks)", checks.len()),
        _ => say!("verdict: failed ({failed} of {} checks)", checks.len()),
    }
    hypercall::exit((failed != 0).into());
    loop {
        interrupts::wait();
    }
}

/// Ends the machine, from any CPU, because one check has failed.
pub(crate) fn fail(name: &str, found: fmt::Arguments) -> ! {
    conclude(&[Check { name, is_passed: false, found }])
}
