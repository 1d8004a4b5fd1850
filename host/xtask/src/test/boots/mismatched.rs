// data: boots on CPUs that are made to believe different things of themselves.
//! Mismatched CPUs, and CPUs that come late.

use super::{Boot, Expect::*, Words, other};

/// Name, options, the warnings that must come, the CPUs that run at first, and words of a line.
type Row = (&'static str, &'static str, &'static [Words], usize, Words);

/// Every boot of this file.
pub(super) fn all() -> Vec<Boot> {
    let boot = |&(name, options, warnings, cpus, says): &Row| {
        other(name, &format!("--cpus 4 {options}"), warnings, vec![Cpus(cpus), Says(says)])
    };
    ROWS.iter().map(boot).collect()
}

const SMALL: Words = &["stays off", "40 bits of physical address", "expected 44", "never on"];

const ROWS: &[Row] = &[
    (
        "cpu 1 lacks the granule",
        "--page-size 16k --append vellum.cpu1.granules=4k,64k",
        &[&["test", "cpu 1", "granules 4K and 64K"], &["cpu 1", "stays off", "no 16K granule", "MMU was never on"]],
        3,
        &["page size: 16K"],
    ),
    (
        "cpu 1 lacks another granule",
        "--page-size 64k --append vellum.cpu1.granules=4k,64k",
        &[&["test", "cpu 1"]],
        4,
        &["64K granule: 52 bits"],
    ),
    (
        "cpu 3 has small physical addresses",
        "--append vellum.cpu3.pabits=36",
        &[&["test", "cpu 3", "36 bits"], &["cpu 3", "36 bits of physical address", "expected 52", "never on"]],
        3,
        &["page size: 4K"],
    ),
    (
        "cpu 2 claims large physical addresses",
        "--cpu cortex-a53 --append vellum.cpu2.pabits=52",
        &[&["test", "cpu 2", "52 bits"]],
        4,
        &["physical addresses: 52 bits"],
    ),
    (
        "the boot CPU has 16K alone",
        "--append vellum.cpu0.granules=16k --page-size 64k",
        &[&["test", "cpu 0"], &["arm64.pagesize=64K", "no 64K granule", "16K is used"]],
        4,
        &["page size: 16K"],
    ),
    (
        "cpu 2 claims a granule",
        "--cpu cortex-a72 --append vellum.cpu2.granules=4k,16k,64k",
        &[&["test", "cpu 2"]],
        4,
        &["16K granule: 48 bits"],
    ),
    (
        "the boot CPU claims a granule",
        "--cpu cortex-a72 --page-size 16k --append vellum.cpu0.granules=4k,16k,64k",
        &[&["test", "cpu 0"], &["vellum.cpu0.granules claims 16K"], &["arm64.pagesize=16K", "4K is used"]],
        4,
        &["page size: 4K"],
    ),
    (
        "the boot CPU has small physical addresses",
        "--append vellum.cpu0.pabits=36",
        &[&["test", "cpu 0", "36 bits"]],
        4,
        &["physical addresses: 36 bits"],
    ),
    (
        "the boot CPU claims large physical addresses",
        "--cpu cortex-a53 --append vellum.cpu0.pabits=44",
        &[&["test", "cpu 0", "44 bits"], SMALL, SMALL, SMALL],
        1,
        &["physical addresses: 44 bits"],
    ),
    ("BBM differs downwards", "--append vellum.cpu2.bbm=0", &[&["test"]], 4, &["BBM level of all CPUs: 0"]),
    (
        "BBM differs upwards",
        "--cpu cortex-a72 --append vellum.cpu1.bbm=2",
        &[&["test"]],
        4,
        &["BBM level of all CPUs: 0"],
    ),
    ("late CPUs", "--append vellum.late=2", &[], 2, &["a CPU that comes late has the same map: ok", "2 of 2"]),
    (
        "all CPUs late at 16k",
        "--page-size 16k --append vellum.late=3",
        &[],
        1,
        &["a CPU that comes late has the same map: ok", "3 of 3", "4 CPUs"],
    ),
    (
        "more late CPUs than there are",
        "--append vellum.late=7",
        &[&["vellum.late=7", "3 other CPUs"]],
        1,
        &["a CPU that comes late has the same map: ok", "3 of 3"],
    ),
    (
        "a late CPU that lacks the granule",
        "--page-size 64k --append vellum.late=1 --append vellum.cpu3.granules=4k",
        &[&["test", "cpu 3"], &["cpu 3", "stays off", "no 64K granule", "never on"]],
        3,
        &["a CPU that comes late has the same map: ok", "0 of 1"],
    ),
    (
        "a CPU that says nothing",
        "--append vellum.cpu1.silent=yes",
        &[&["test", "cpu 1", "no voice"], &["cpu 1", "is given up", "passed the gate", "said nothing for 5 s"]],
        3,
        &["TLBs of all CPUs: TLBIs by range, level hints, every TLBI once"],
    ),
    (
        "a CPU that says what it is",
        "--append vellum.cpu1.silent=no",
        &[&["test", "cpu 1", "a voice"]],
        4,
        &["TLBs of all CPUs: TLBIs by range, level hints, every TLBI once"],
    ),
    (
        "a CPU that does not answer",
        "--append vellum.bbm=0 --append vellum.cpu2.deaf=yes",
        &[&["test", "cpu 2", "no ear"]],
        4,
        &["a CPU that does not answer is named, and nothing is changed: ok", "cpu 2 after 10 s"],
    ),
    (
        "a CPU that does not answer and need not",
        "--append vellum.bbm=3 --append vellum.cpu2.deaf=yes",
        &[&["test", "cpu 2", "no ear"]],
        4,
        &["is changed: ok (it need not park, and the change was made)"],
    ),
    ("no CPU late", "--append vellum.late=0", &[], 4, &["page size: 4K"]),
    ("a late that is none", "--append vellum.late=8", &[&["vellum.late=8", "from 0 to 7"]], 4, &["page size: 4K"]),
    (
        "a test of no CPU",
        "--append vellum.cpu8.bbm=0",
        &[&["vellum.cpu8.bbm", "about no CPU", "0 to 7"]],
        4,
        &["BBM level of all CPUs: 2"],
    ),
];
