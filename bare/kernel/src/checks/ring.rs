//! What is said by a ring in shared memory, more than it has room for, is printed by the monitor: each boot's test looks for the lines.

use core::fmt::Write;

use super::detail::{Detail, tell};
use crate::facts::facts;
use crate::report::ring::Ring;

/// Lines, each longer than the one before, that fill the ring twice.
const LINES: usize = 100;
/// How often a page is asked for: a host may refuse to share one.
const TRIES: usize = 64;

pub(super) fn say(detail: &mut Detail) -> bool {
    if !facts().has_monitor {
        tell!(detail, "no monitor of ours: nothing to do");
        return true;
    }
    let Some(mut ring) = (0..TRIES).find_map(|_| Ring::new()) else {
        tell!(detail, "no page is shared");
        return false;
    };
    let mut text = crate::files::text::Text::new();
    (1..=LINES).for_each(|line| _ = writeln!(text, "{line:.>line$}"));
    let mut at = 0;
    while let part @ [_, ..] = text.at(at as u64)
        && ring.say(part)
    {
        at += part.len();
    }
    let is_said = at == text.bytes();
    tell!(detail, "{} bytes", text.bytes());
    is_said
}
