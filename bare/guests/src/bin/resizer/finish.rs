//! The end: what was found, and the verdict.

use core::fmt;

use guests::{machine, say};

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
    machine::end(checks.len(), failed)
}

/// Ends the machine, from any CPU, because one check has failed.
pub(crate) fn fail(name: &str, found: fmt::Arguments) -> ! {
    conclude(&[Check { name, is_passed: false, found }])
}
