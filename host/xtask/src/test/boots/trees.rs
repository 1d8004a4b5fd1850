// data: boots by device trees of our own.
//! Memory of every shape, and damage of every kind. The trees themselves are in `boot/tree/shapes.rs`.

use super::{Boot, Expect::*, PAGE_SIZES, Words};
use crate::outcome::Status::{self, BadInput, Passed};

/// Every boot of this file.
pub(super) fn all() -> Vec<Boot> {
    let shapes = GOOD.iter().flat_map(|&(tree, words)| {
        ["4k", "16k", "64k"].map(|size| boot(tree, &format!(" --page-size {size}"), Passed, &[], words))
    });
    let least = LEAST.iter().flat_map(|&(size, least, below)| {
        let options = format!(" --page-size {size} --cpus 4");
        let too_little: &[Words] =
            if size == "4k" { &[&["image", "not wholly in memory"]] } else { &[&["too little"]] };
        let column = PAGE_SIZES.iter().position(|column| *column == size).unwrap_or(0);
        let place = Some((LEAST_ROW.to_string(), column));
        let below = boot(below, &options, BadInput, too_little, &["bad input"]);
        [Boot { place, ..boot(least, &options, Passed, &[], &[]) }, below]
    });
    let odd = ODD.iter().map(|&(tree, options, ends, warnings, words)| boot(tree, options, ends, warnings, words));
    shapes.chain(least).chain(odd).collect()
}

fn boot(tree: &str, options: &str, ends: Status, warnings: &[Words], words: Words) -> Boot {
    Boot {
        name: format!("boot by tree {tree}{options}"),
        options: format!("--tree {tree} --cpus 2 --memory 256M{options}"),
        ends,
        warnings: warnings.to_vec(),
        expect: if words.is_empty() { vec![] } else { vec![Says(words)] },
        place: None,
    }
}

/// Trees of honest memory, and words of a line: each boots at every page size.
const GOOD: &[(&str, Words)] = &[
    ("many-banks", &["in 60 ranges"]),
    ("many-nodes", &["in 30 ranges"]),
    ("unaligned", &["in 3 ranges"]),
    ("page-hole", &["in 2 ranges"]),
    ("touching", &["256M in 1 ranges"]),
    ("above-512g", &["288M in 3 ranges"]),
    ("above-48-bits", &["256M in 3 ranges"]),
    ("reserved", &["0x0000000047800000-0x0000000047800fff", "reserved, no-map"]),
    ("no-map-first", &["255M in 1 ranges"]),
    ("initrd-low", &["0x0000000040030123-0x0000000040054566", "initrd"]),
    ("initrd-behind", &["0x0000000044004000-0x0000000045040000", "initrd"]),
    ("initrd-high", &["0x000000004fedcbaa-0x000000004fffffff", "initrd"]),
    ("initrd-above-512g", &["0x0000008100001001-0x0000008101ffffff", "initrd"]),
    ("blob-high", &["0x000000004fff0000-", "device tree"]),
    ("blob-unaligned-page", &["0x0000000044fffff8-", "device tree"]),
];

/// The row of README's table that tells of the least memory.
pub(crate) const LEAST_ROW: &str = "the least memory";

/// Page size, the tree with the least memory for it, and one with 64 KiB less.
const LEAST: &[(&str, &str, &str)] =
    &[("4k", "least-4k", "below-4k"), ("16k", "least-16k", "below-16k"), ("64k", "least-64k", "below-64k")];

/// Tree, options, how it ends, the warnings, and words of a line.
type Row = (&'static str, &'static str, Status, &'static [Words], Words);

const MISSING: &[Words] = &[&["x0 was", "expected a blob"]];
const NO_GIC: Words = &["interrupt controller", "answers", "only the boot CPU runs"];
const OFF: Words = &["stays off", "CPU_ON"];
const ONE_CPU: Words = &["1 CPUs, 12 addresses"];

const ODD: &[Row] = &[
    ("as-it-is", "", Passed, &[], &["256M in 1 ranges"]),
    ("above-512g", " -- -M virtualization=on,gic-version=2", Passed, &[], &["entered at EL2"]),
    ("above-512g", " --append vellum.vabits=39", Passed, &[&["out of reach"]], &["96M in 1 ranges"]),
    ("too-many-banks", "", Passed, &[&["more than 64 memory banks"]], &["in 64 ranges"]),
    ("no-memory", "", BadInput, &[&["no usable memory", "device_type"]], &["bad input", "no usable memory"]),
    ("memory-empty", "", BadInput, &[&["no usable memory"]], &["bad input", "no usable memory"]),
    ("memory-odd", "", Passed, &[&["memory@40000000", "reg"]], &["128M in 1 ranges"]),
    ("bank-of-nothing", "", Passed, &[&["0x0000000090000000", "size 0"]], &["256M in 1 ranges"]),
    ("overlap", "", Passed, &[&["overlaps", "taken as one"]], &["256M in 1 ranges"]),
    ("beyond-52-bits", "", Passed, &[&["beyond the address range"]], &["256M in 1 ranges"]),
    ("beyond-64-bits", "", Passed, &[&["beyond the address range"]], &["256M in 1 ranges"]),
    ("beyond-the-cpu", "", Passed, &[&["does not answer", "0x0000200000000000"]], &["out of reach"]),
    ("beyond-the-cpu", " --cpu cortex-a53", Passed, &[&["1G", "out of reach"]], &["256M in 1 ranges"]),
    ("bank-absent", "", Passed, &[&["does not answer", "0x0000200000000000"]], &["256M in 1 ranges"]),
    (
        "bank-half-absent",
        " --page-size 64k --memory 255M",
        BadInput,
        &[&["does not answer"], &["cannot be unmapped"]],
        &["bad input", "cannot be unmapped"],
    ),
    ("image-outside", "", BadInput, &[&["image", "not wholly in memory"]], &["bad input", "image"]),
    ("image-no-map", "", Passed, &[&["image", "no-map"]], &["256M in 1 ranges"]),
    ("everything-reserved", "", BadInput, &[&["nothing is free"]], &["bad input", "nothing is free"]),
    ("too-many-reservations", "", BadInput, &[&["more than 64 reservations"]], &["bad input", "64 reservations"]),
    ("reservation-odd", "", Passed, &[&["region@47000000", "reg"]], &["256M in 1 ranges"]),
    ("reservation-beyond", "", Passed, &[], &["256M in 1 ranges"]),
    ("reservation-cells", "", Passed, &[&["reserved-memory", "5 address or size cells"]], &["4K", "no-map"]),
    ("reservation-endless", "", BadInput, &[&["more than 64 reservations"]], &["bad input", "64 reservations"]),
    ("guest-nowhere", "", Passed, &[], &["2 CPUs, 12 addresses"]),
    ("initrd-beyond", "", Passed, &[&["initrd", "not wholly in memory", "ignored"]], &[]),
    ("initrd-nowhere", "", Passed, &[&["initrd", "not wholly in memory", "ignored"]], &[]),
    ("initrd-reversed", "", Passed, &[&["initrd", "end after the start", "ignored"]], &[]),
    ("initrd-on-image", "", Passed, &[&["initrd", "overlaps image", "ignored"]], &[]),
    ("none", "", BadInput, &[&["none was passed", "x0"]], &["bad input", "none was passed"]),
    ("misaligned", "", BadInput, MISSING, &["bad input", "0x44000004"]),
    ("elsewhere", "", BadInput, MISSING, &["bad input", "0x44100000"]),
    ("absent", "", BadInput, MISSING, &["bad input", "0xf000000"]),
    ("bad-magic", "", BadInput, MISSING, &["bad input", "0x44000000"]),
    ("bad-version", "", BadInput, &[&["version 99"]], &["bad input", "readable as 17"]),
    ("truncated", "", BadInput, &[&["inside the blob"]], &["bad input", "structure block"]),
    ("half-lost", "", BadInput, &[&["memory@40000000", "reg"], &["token 0x0"]], &["bad input", "token 0x0"]),
    ("huge", "", BadInput, MISSING, &["bad input", "0x44000000"]),
    ("blob-on-image", "", BadInput, MISSING, &["bad input", "0x40200000"]),
    ("phandle-cycle", "", Passed, &[&["intc@8000000", "circle"]], &["2 CPUs, 12 addresses"]),
    ("phandle-nowhere", "", Passed, &[&["0x7777", "not the GIC"]], &["2 CPUs, 12 addresses"]),
    ("controller-huge", "", Passed, &[], &["2 CPUs, 12 addresses"]),
    ("controller-absent", "", Passed, &[NO_GIC], ONE_CPU),
    ("controller-absent", " -- -M gic-version=2", Passed, &[NO_GIC], ONE_CPU),
    ("controller-in-memory", "", Passed, &[NO_GIC], ONE_CPU),
    ("controller-is-console", "", Passed, &[NO_GIC], ONE_CPU),
    ("no-controller", "", Passed, &[&["no interrupt controller"]], ONE_CPU),
    ("no-cpus", "", Passed, &[&["no CPU", "only the CPU that booted"]], ONE_CPU),
    (
        "boot-cpu-last",
        " --cpus 3",
        Passed,
        &[&["14 CPUs", "8 at most"], &["affinity 0x0", "which booted"], OFF, OFF, OFF, OFF, OFF, OFF, OFF],
        ONE_CPU,
    ),
    ("boot-cpu-absent", " --cpus 3", Passed, &[&["affinity 0x0", "which booted"]], &["3 CPUs, 12 addresses"]),
    ("no-psci", "", Passed, &[&["no usable PSCI", "only the CPU that booted"]], ONE_CPU),
    ("no-chosen", "", Passed, &[&["no stdout-path", "first PL011"]], &["end: by PSCI"]),
    ("console-path", "", Passed, &[&["/serial@1", "first PL011"]], &[]),
    ("console-gone", "", Passed, &[&["stdout-path", "no console"], &["no PL011", "0x0000000009000000 is used"]], &[]),
    ("console-absent", "", Passed, &[&["no PL011", "0x0000000009000000 is used"]], &[]),
    ("console-huge", "", Passed, &[], &["2 CPUs, 12 addresses"]),
    ("console-in-memory", "", Passed, &[&["no PL011", "0x0000000009000000 is used"]], &[]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::tree::shapes::SHAPES;

    #[test]
    fn every_tree_is_booted() {
        let boots = all();
        for shape in SHAPES {
            let words = format!("--tree {} ", shape.name);
            assert!(boots.iter().any(|boot| boot.options.starts_with(&words)), "{} is not booted", shape.name);
        }
    }
}
