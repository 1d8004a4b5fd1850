//! QEMU's memory map, as its monitor prints it with `info mtree -f`: which physical addresses are memory.

use std::ops::Range;

use crate::memory::{END, join};

/// The ranges of RAM and ROM that CPUs see; empty if the text is none.
pub(crate) fn memory(text: &str) -> Vec<Range<u64>> {
    let mut is_cpus = false;
    let mut is_first = true;
    let mut ranges = Vec::new();
    for line in text.lines() {
        if line.starts_with("FlatView") {
            is_first = ranges.is_empty();
            is_cpus = false;
        } else if line.trim_start().starts_with("AS \"memory\"") || line.trim_start().starts_with("AS \"cpu-memory") {
            is_cpus = true;
        } else if is_cpus && is_first {
            ranges.extend(range(line));
        }
    }
    join(ranges)
}

/// A line such as `  0000000040000000-00000000bfffffff (prio 0, ram): ram0`.
fn range(line: &str) -> Option<Range<u64>> {
    let (addresses, rest) = line.trim().split_once(' ')?;
    let (first, last) = addresses.split_once('-')?;
    let kind = rest.split_once(", ")?.1.split(')').next()?;
    if !matches!(kind, "ram" | "rom" | "romd" | "nv-ram") {
        return None;
    }
    let number = |digits| u64::from_str_radix(digits, 16).ok();
    let range = number(first)?..number(last)?.checked_add(1)?;
    (range.start < range.end && range.end <= END).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_what_cpus_see_of_ram_and_rom() {
        let text = "FlatView #0\n AS \"I/O\", root: io\n  0000000000000000-000000000000ffff (prio 0, ram): not-cpus\n\n\
                    FlatView #1\n AS \"memory\", root: system\n AS \"cpu-memory-0\", root: system\n\
                    \x20 0000000000000000-0000000003ffffff (prio 0, romd): virt.flash0\n\
                    \x20 0000000009000000-0000000009000fff (prio 0, i/o): pl011\n\
                    \x20 0000000040000000-00000000bfffffff (prio 0, ram): r0\n\
                    \x20 00000000c0000000-00000000ffffffff (prio 0, ram): r1\n";
        assert_eq!(memory(text), [0..0x400_0000, 0x4000_0000..0x1_0000_0000]);
        assert_eq!(memory("unknown command"), []);
        for no_range in ["zz-1 (prio 0, ram): r", "2-0 (prio 0, ram): r", "0-100000000000000 (prio 0, ram): r"] {
            assert_eq!(range(no_range), None);
        }
        assert_eq!(range("0-ffffffffffffff (prio 0, ram): r"), Some(0..END));
    }
}
