//! QEMU's memory map, as its monitor prints it with `info mtree -f`: which physical addresses are memory.

use std::ops::Range;

use crate::memory::{END, join};
use crate::registers::Registers;
use crate::root::{Origin, Regime};

/// The ranges of RAM and ROM that CPUs see; empty if the text is none.
pub(crate) fn memory(text: &str) -> Vec<Range<u64>> {
    view(text, &["AS \"memory\"", "AS \"cpu-memory"])
}

/// A line of CPUs whose tables of EL3 lie in memory of the Secure space alone: no stub reads that, and it looks like none.
pub(crate) fn hidden(text: &str, cpus: &[Registers]) -> Option<String> {
    let (memory, secure) = (memory(text), view(text, &["AS \"cpu-secure-memory"]));
    let is_in = |ranges: &[Range<u64>], at: u64| ranges.iter().any(|range| range.contains(&at));
    let roots = cpus.iter().flat_map(|cpu| cpu.roots(&Origin::Flags).roots).filter(|root| root.regime == Regime::El3);
    let mut places = roots.map(|root| root.address.bits());
    let place = places.find(|place| is_in(&secure, *place) && !is_in(&memory, *place))?;
    Some(format!(
        "{place:#x} is memory of the Secure space alone, which QEMU does not show: what lies there seems outside memory"
    ))
}

/// The memory of the first view with one of these names.
fn view(text: &str, names: &[&str]) -> Vec<Range<u64>> {
    let mut is_named = false;
    let mut is_first = true;
    let mut ranges = Vec::new();
    for line in text.lines() {
        if line.starts_with("FlatView") {
            is_first = ranges.is_empty();
            is_named = false;
        } else if names.iter().any(|name| line.trim_start().starts_with(name)) {
            is_named = true;
        } else if is_named && is_first {
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
        let secure = "FlatView #2\n AS \"cpu-secure-memory-0\", root: secure-memory\n\
                      \x20 000000000e000000-000000000effffff (prio 0, ram): virt.secure-ram\n\
                      \x20 0000000040000000-00000000bfffffff (prio 0, ram): r0\n";
        let text = [text, secure].concat();
        assert_eq!(memory(&text), [0..0x400_0000, 0x4000_0000..0x1_0000_0000]);
        let hidden = |root: u64| {
            let mut cpu = Registers::default();
            for (name, value) in [("TCR_EL3", 0x8082_3519), ("SCTLR_EL3", 1), ("TTBR0_EL3", root)] {
                assert!(cpu.set(name, value));
            }
            hidden(&text, &[Registers::default(), cpu])
        };
        let line = "0xe040000 is memory of the Secure space alone, which QEMU does not show: what lies there seems outside memory";
        assert_eq!(hidden(0xe04_0000).as_deref(), Some(line));
        for seen in [0x4000_0000, 0xdff_f000, 0xf00_0000, 0] {
            assert_eq!(hidden(seen), None, "{seen:#x}");
        }
        assert!(hidden(0xe00_0000).is_some() && hidden(0xeff_f000).is_some());
        for no_range in ["zz-1 (prio 0, ram): r", "2-0 (prio 0, ram): r", "0-100000000000000 (prio 0, ram): r"] {
            assert_eq!(range(no_range), None);
        }
        assert_eq!(range("0-ffffffffffffff (prio 0, ram): r"), Some(0..END));
    }
}
