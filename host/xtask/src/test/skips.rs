//! Which skips are allowed where nobody watches.

use crate::outcome::Failure;

/// The committed list, from the workspace's root.
pub(crate) const LIST: &str = "host/xtask/skips.txt";

/// The skips that do not fail the run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Skips {
    /// A person sees the reasons and judges.
    All,
    /// CI: these names only.
    Listed(Vec<String>),
}

impl Skips {
    pub(crate) fn allow(&self, name: &str) -> bool {
        match self {
            Skips::All => true,
            Skips::Listed(names) => names.iter().any(|listed| match listed.strip_prefix('*') {
                Some(end) => name.ends_with(end),
                None => listed == name,
            }),
        }
    }
}

/// Reads the list: `NAME: REASON` a line, `#` begins a comment; `*` before a name stands for whatever comes before.
pub(crate) fn parse(text: &str) -> Result<Skips, Failure> {
    let mut names = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match line.split_once(": ") {
            Some((name, reason)) if !reason.trim().is_empty() => names.push(name.to_string()),
            _ => return Err(Failure::failed(format!("{LIST}:{number}: expected NAME: REASON"))),
        }
    }
    Ok(Skips::Listed(names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_names_what_may_be_skipped() {
        let text = "# comment\n\na::b: needs a tool\nboot 8 GiB: memory: too little\n*, QEMU 11: not here\n";
        let skips = parse(text).expect("a list");
        assert!(skips.allow("boot 4k, max, QEMU 11") && !skips.allow("boot 4k, max, QEMU 110"));
        assert!(skips.allow("a::b") && skips.allow("boot 8 GiB") && !skips.allow("a"));
        assert!(Skips::All.allow("anything"));
    }

    #[test]
    fn a_skip_needs_a_reason() {
        for text in ["a", "a:", "a: "] {
            assert!(parse(text).is_err_and(|failure| failure.line.contains("skips.txt:1: ")), "{text}");
        }
    }

    #[test]
    fn the_committed_list_is_one() {
        let text = fs_err::read_to_string(crate::cargo::workspace().join(LIST)).expect("the list");
        assert!(parse(&text).is_ok());
    }
}
