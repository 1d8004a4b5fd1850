// data: boots of our kernel with the monitor beneath it.
//! The machines of the monitor.

use super::stressed::told;
use super::{Boot, Expect, Expect::*, PAGE_SIZES, Status, Words, other, plain};

const LACKS_16K: Words = &["stays off", "no 16K granule", "MMU was never on"];

/// Name, a file of `bare/monitor/machines` and options, the warnings that must come, the CPUs that run, words of a line.
const MIXED: &[(&str, &str, &[Words], usize, Words)] = &[
    ("all resize", "all-resize.toml", &[], 4, &["BBM level of all CPUs: 3"]),
    ("all resize with conflicts", "all-resize-with-conflicts.toml", &[], 4, &["BBM level of all CPUs: 2"]),
    ("the boot CPU does not resize", "boot-cpu-does-not.toml", &[], 4, &["BBM level of all CPUs: 0"]),
    ("the secondaries do not resize", "secondaries-do-not.toml", &[], 4, &["BBM level of all CPUs: 0"]),
    ("Cortex-X4 with Cortex-A720", "cortex-x4-a720.toml", &[], 4, &["Cortex-A720 r0p1"]),
    ("a late CPU", "late-and-lesser.toml", &[&["cpu 3", "stays off", "denied"]], 3, &["BBM level of all CPUs: 2"]),
    ("16K where there is none", "no-16k-on-secondaries.toml --page-size 16k", &[LACKS_16K; 3], 1, &["page size: 16K"]),
    ("64K where there is no 16K", "no-16k-on-secondaries.toml --page-size 64k", &[], 4, &["page size: 64K"]),
];

/// Of a stress with conflicts, which come wherever they may.
const SURVIVED: &[Expect] = &[
    Says(&["conflicts survived, 0 cells empty"]),
    Says(&["no changes refused; 0 accesses wrong"]),
    Says(&["as it was before, leaf for leaf"]),
    MonitorCounts("conflicts, EL1 data"),
    MonitorCounts("conflicts, EL1 fetch"),
    MonitorNeverCounts("conflicts, not ended"),
    SameConflicts,
];

/// A stress above the monitor, which hears of each resize: name, options, and what is expected.
const STRESSED: &[(&str, &str, &[Expect])] = &[
    ("resizes are announced", "all-resize.toml --append vellum.stress=200", &[MonitorCounts("resizes announced")]),
    (
        "nothing is resized",
        "all-resize.toml --append vellum.linearmap=pages --append vellum.stress=200",
        &[MonitorNeverCounts("resizes announced")],
    ),
    (
        "conflicts",
        "conflicts-in-resizes.toml --icount --append vellum.stress=700 --append vellum.stress-kind=conflicts",
        SURVIVED,
    ),
    (
        "conflicts that pass",
        "conflicts-once.toml --icount --append vellum.stress=700 --append vellum.stress-kind=conflicts",
        SURVIVED,
    ),
    (
        "conflicts, 16K",
        "conflicts-in-resizes.toml --icount --page-size 16k --append vellum.stress=100 --append vellum.stress-kind=conflicts",
        &[Says(&["no changes refused; 0 accesses wrong"]), SameConflicts],
    ),
    (
        "conflicts, 64K",
        "conflicts-in-resizes.toml --icount --page-size 64k --append vellum.stress=100 --append vellum.stress-kind=conflicts",
        &[Says(&["no changes refused; 0 accesses wrong"]), SameConflicts],
    ),
    (
        "conflicts where one CPU has none",
        "cortex-x4-a720-with-conflicts.toml --icount --append vellum.stress=200 --append vellum.stress-kind=conflicts",
        &[NoConflictOn(0), SameConflicts],
    ),
    (
        "conflicts anywhere, which no kernel need survive",
        "conflicts-anywhere.toml --icount --append vellum.stress=1500",
        &[Says(&["as it was before, leaf for leaf"]), MonitorCounts("conflicts, EL1 data"), SameConflicts],
    ),
    (
        "no conflict comes to who is parked",
        "conflicts-in-resizes.toml --append vellum.stress=200 --append vellum.cpu1.bbm=1 --append vellum.cpu2.bbm=1 \
         --append vellum.cpu3.bbm=1",
        &[MonitorCounts("resizes announced"), ConflictsAtMostOn(0)],
    ),
    (
        "what breaks before it makes is not announced",
        "conflicts-in-resizes.toml --append vellum.stress=200 --append vellum.bbm=1",
        &[MonitorNeverCounts("resizes announced"), MonitorNeverCounts("conflicts, EL")],
    ),
];

/// The same of the guest that is a realm, with what the monitor's report must count.
const REALMS: &[(&str, &str, Words)] = &[
    ("a realm, 1 CPU", "realm.toml --kernel realm --cpus 1", &["RSI calls", "shared, as protected"]),
    ("a realm, 4 CPUs", "realm.toml --kernel realm --cpus 4", &["private, as shared"]),
    (
        "a realm that is refused",
        "realm-that-is-refused.toml --kernel realm --cpus 4 --append realm.step=5",
        &["RSI requests refused", "RSI requests in part"],
    ),
    ("a realm with errors", "realm-with-errors.toml --kernel realm --cpus 4", &["RSI calls, errors"]),
    ("a realm of 48 bits", "realm-of-48-bits.toml --kernel realm --cpus 2", &["RSI calls"]),
    (
        "a realm that tries everything",
        "realm.toml --kernel fuzzer --cpus 4 --append fuzz.rounds=5000",
        &["RSI calls", "shared, as protected", "private, as shared"],
    ),
    ("our kernel as a realm, 4k", "realm.toml --cpus 4 --append vellum.late=1", &["RSI calls"]),
    (
        "our kernel as a realm that is refused, 16k",
        "realm-that-is-refused.toml --cpus 4 --page-size 16k",
        &["RSI requests refused", "RSI requests in part"],
    ),
    (
        "our kernel as a realm with errors, 64k",
        "realm-with-errors.toml --cpus 4 --page-size 64k",
        &["RSI calls, errors"],
    ),
    ("our kernel as a realm of 48 bits", "realm-of-48-bits.toml --cpus 1 --append vellum.bbm=3", &["RSI calls"]),
    (
        "our kernel as a realm, stressed, 16k",
        "realm.toml --page-size 16k --append vellum.stress=200 --append vellum.bbm=3",
        &["RSI calls"],
    ),
    (
        "our kernel as a realm that is refused, stressed",
        "realm-that-is-refused.toml --append vellum.stress=100",
        &["RSI requests refused", "RSI requests in part"],
    ),
    (
        "our kernel as a realm with errors, stressed, 64k",
        "realm-with-errors.toml --page-size 64k --append vellum.stress=200 --append vellum.bbm=3 --append vellum.exhaust=yes",
        &["RSI calls, errors"],
    ),
    (
        "our kernel as a realm of 48 bits, stressed",
        "realm-of-48-bits.toml --append vellum.stress=100 --append vellum.bbm=0",
        &["RSI calls"],
    ),
    (
        "our kernel as a realm in disguise, stressed",
        "realm-in-disguise.toml --append vellum.stress=100",
        &["RSI calls"],
    ),
    ("our kernel as a realm in disguise", "realm-in-disguise.toml --cpus 2", &["ID registers read"]),
];

/// Of the guest that tries every encoding of the system instructions and registers: name, options, and what must be counted.
const ENCODINGS: &[(&str, &str, &str)] = &[
    ("1 CPU", "--cpus 1", "ID registers read"),
    ("4 CPUs of 44 bits", "--cpus 4 --cpu cortex-a72", "ID registers read"),
    ("TLBIs too", "--cpus 2 --machine bare/monitor/machines/conflicts-anywhere.toml", "TLBIs"),
];

/// In QEMU 11, whose `max` has fine-grained traps, SME2, FPMR and PIE: name, options, what is expected.
const OF_11: &[(&str, &str, &[Expect])] = &[
    ("max", "--cpus 4", &[Cpus(4), MonitorCounts("ID registers read")]),
    ("neoverse-v1", "--cpu neoverse-v1 --page-size 16k", &[PageSize("16k"), MonitorCounts("ID registers read")]),
    ("neoverse-n2", "--cpu neoverse-n2 --page-size 64k", &[PageSize("64k"), MonitorCounts("ID registers read")]),
    ("cortex-a710", "--cpu cortex-a710", &[PageSize("4k"), MonitorCounts("ID registers read")]),
    ("tagged memory", "-- -M mte=on", &[Cpus(2)]),
    (
        "every encoding",
        "--kernel fuzzer --append fuzz.opcodes=all --append fuzz.rounds=5000",
        &[Says(&["131036 encodings tried"]), MonitorCounts("unknown registers"), MonitorCounts("accesses refused")],
    ),
    (
        "every encoding, neoverse-n2",
        "--kernel fuzzer --append fuzz.opcodes=all --append fuzz.rounds=5000 --cpu neoverse-n2",
        &[Says(&["131036 encodings tried"]), MonitorCounts("accesses refused")],
    ),
    (
        "every encoding, TLBIs too",
        "--kernel fuzzer --append fuzz.opcodes=all --append fuzz.rounds=0 \
         --machine bare/monitor/machines/conflicts-anywhere.toml",
        &[Says(&["131036 encodings tried"]), MonitorCounts("TLBIs")],
    ),
    (
        "a guest that resizes",
        "--kernel resizer --machine bare/monitor/machines/conflicts-in-resizes.toml --append resizer.count=100",
        MET,
    ),
    ("a realm", "--kernel realm --machine bare/monitor/machines/realm.toml", &[MonitorCounts("RSI calls")]),
];

/// Device trees that the monitor refuses: name, words of its line.
const TREES: &[(&str, Words)] = &[
    ("absent", &["monitor: device tree: x0 was 0xf000000", "the guest was not started"]),
    ("bad-magic", &["monitor: device tree: x0 was", "the guest was not started"]),
    ("guest-nowhere", &["monitor: monitor.guest=0x80000000: nothing is there", "the guest was not started"]),
    ("none", &["monitor: device tree: none was passed", "the guest was not started"]),
];

const MET: &[Expect] = &[
    MonitorCounts("conflicts, EL1 data"),
    MonitorCounts("conflicts, EL1 fetch"),
    MonitorCounts("conflicts, EL0 data"),
    MonitorCounts("conflicts, EL0 fetch"),
    MonitorNeverCounts("conflicts, not ended"),
    SameConflicts,
];

/// Of the guest that resizes: name, a file of `bare/monitor/machines` and options, and what is expected.
const RESIZING: &[(&str, &str, &[Expect])] = &[
    ("1 CPU", "conflicts-in-resizes.toml --cpus 1", MET),
    ("4 CPUs", "conflicts-in-resizes.toml --cpus 4 --append resizer.count=100", MET),
    ("another seed", "conflicts-in-resizes.toml --cpus 2 --icount --append resizer.seed=2", MET),
    (
        "and tells nobody",
        "conflicts-in-resizes.toml --cpus 2 --icount --append resizer.announces=0",
        &[MonitorCounts("TLBIs"), MonitorNeverCounts("conflicts")],
    ),
    (
        "and answers no conflict",
        "conflicts-in-resizes.toml --cpus 1 --append resizer.forgets=0",
        &[Says(&["conflict", "has aborted 100 times"]), MonitorCounts("conflicts, not ended"), SameConflicts],
    ),
    (
        "at level 3",
        "all-resize.toml --cpus 2 --icount",
        &[Says(&["200 of 200 resizes"]), MonitorNeverCounts("conflicts")],
    ),
    (
        "where one CPU never conflicts",
        "cortex-x4-a720-with-conflicts.toml --cpus 4 --icount --append resizer.count=100",
        &[NoConflictOn(0), SameConflicts],
    ),
    ("where one CPU does not", "boot-cpu-does-not.toml --cpus 2", &[Says(&["nothing is resized"])]),
    (
        "above conflicts at stage 2",
        "conflicts-at-stage-2.toml --cpus 2 --icount --append resizer.count=50",
        &[MonitorCounts("conflicts, stage 2"), MonitorNeverCounts("conflicts, EL")],
    ),
];

fn resizing(name: &str, options: &str, expect: &[Expect]) -> Boot {
    let options = format!("--monitor --kernel resizer --memory 256M --machine bare/monitor/machines/{options}");
    let name = format!("monitor, a guest that resizes, {name}");
    Boot { name, options, expect: expect.to_vec(), ..other("", "", &[], vec![]) }
}

/// Boots of our guests that are not the kernel.
fn of_other_guests() -> Vec<Boot> {
    let mut boots = Vec::new();
    boots.extend([1, 4].map(|cpus| {
        let options = format!("--monitor --kernel fuzzer --memory 256M --cpus {cpus} --append fuzz.rounds=20000");
        let counts = ["unknown firmware calls", "accesses refused"];
        Boot {
            name: format!("monitor, a guest that tries everything, {cpus} CPUs"),
            options,
            expect: counts.map(MonitorCounts).to_vec(),
            ..other("", "", &[], vec![])
        }
    }));
    boots.extend(ENCODINGS.iter().map(|&(name, options, counts)| Boot {
        name: format!("monitor, every encoding, {name}"),
        options: format!(
            "--monitor --kernel fuzzer --memory 256M --append fuzz.opcodes=all --append fuzz.rounds=0 {options}"
        ),
        expect: vec![Says(&["131036 encodings tried"]), MonitorCounts(counts)],
        ..other("", "", &[], vec![])
    }));
    boots.extend(RESIZING.iter().map(|(name, options, expect)| resizing(name, options, expect)));
    let deterministic = [MET, &[SameTwice]].concat();
    boots.push(resizing("the same twice", "conflicts-in-resizes.toml --cpus 4 --icount", &deterministic));
    boots.push(Boot {
        ends: Status::Failed,
        // Without TLBIs by range there are enough of them.
        ..resizing(
            "and nobody survives",
            "conflicts-anywhere.toml --cpus 2 --icount --cpu cortex-a72",
            &[Says(&["conflicts come only where a resize is announced: FAILED"]), MonitorCounts("conflicts, EL")],
        )
    });
    boots
}

fn monitored(name: &str, options: &str, expect: Vec<Expect>) -> Boot {
    Boot { name: format!("monitor, {name}"), ..other(name, &format!("--monitor {options}"), &[], expect) }
}

fn stressed(name: &str, options: &str, expect: &[Expect]) -> Boot {
    let options = format!("--cpus 4 --machine bare/monitor/machines/{options}");
    Boot { warnings: told(&options), ..monitored(&format!("a stress, {name}"), &options, expect.to_vec()) }
}

/// Without its handler the kernel dies of the first conflict.
fn of_conflicts_that_kill() -> [Boot; 3] {
    [
        Boot {
            ends: Status::Failed,
            ..stressed(
                "conflicts anywhere, and no handler",
                "conflicts-anywhere.toml --icount --append vellum.stress=1500 --append vellum.conflicts=report",
                &[Says(&["exception", "TLB conflict abort"]), MonitorCounts("conflicts, EL1")],
            )
        },
        Boot {
            ends: Status::Failed,
            ..stressed(
                "conflicts, and no handler",
                "conflicts-in-resizes.toml --icount --append vellum.stress=700 --append vellum.stress-kind=conflicts --append vellum.conflicts=report",
                &[Says(&["exception", "TLB conflict abort"]), MonitorCounts("conflicts, EL1")],
            )
        },
        Boot {
            ends: Status::Failed,
            ..monitored(
                "a conflict on a stack, and no handler",
                "--machine bare/monitor/machines/conflict-on-a-stack.toml --append vellum.conflicts=report",
                vec![
                    Says(&["exception", "data abort", "TLB conflict abort"]),
                    Says(&["the thread stack of cpu 0"]),
                    MonitorCounts("conflicts, EL1 data"),
                ],
            )
        },
    ]
}

/// Every boot of this file.
pub(super) fn all() -> Vec<Boot> {
    let mut boots = Vec::new();
    for size in PAGE_SIZES {
        for cpus in [1, 4, 8] {
            let bare = plain(size, cpus, 1, "512M");
            boots.push(Boot {
                name: format!("monitor {size}, {cpus} CPUs"),
                options: format!("--monitor {}", bare.options),
                expect: [bare.expect, vec![MonitorCounts("ID registers read")]].concat(),
                ..bare
            });
        }
    }
    boots.extend(MIXED.iter().map(|&(name, options, warnings, cpus, says)| Boot {
        name: format!("monitor, {name}"),
        ..other(
            name,
            &format!("--monitor --cpus 4 --machine bare/monitor/machines/{options}"),
            warnings,
            vec![Cpus(cpus), Says(says)],
        )
    }));
    boots.extend(STRESSED.iter().map(|&(name, options, expect)| stressed(name, options, expect)));
    boots.extend(REALMS.iter().map(realm));
    boots.extend(of_other_guests());
    boots.extend(OF_11.iter().map(|(name, options, expect)| {
        let name = format!("{name}, QEMU 11");
        monitored(&name, &format!("--qemu 11 {options}"), expect.to_vec())
    }));
    boots.extend(TREES.iter().map(|&(tree, says)| Boot {
        ends: Status::BadInput,
        ..monitored(&format!("by tree {tree}"), &format!("--tree {tree}"), vec![Says(says)])
    }));
    boots.extend(of_conflicts_that_kill());
    boots.extend([
        monitored(
            "a conflict on a stack",
            "--machine bare/monitor/machines/conflict-on-a-stack.toml",
            vec![Cpus(2), MonitorCounts("conflicts, EL1 data"), MonitorNeverCounts("conflicts, not ended")],
        ),
        monitored("CPUs of 40 bits", "--cpu cortex-a53", vec![Cpus(2)]),
        monitored("CPUs of 44 bits", "--cpu cortex-a72", vec![Cpus(2)]),
        monitored("CPUs of 48 bits", "--cpu neoverse-n1 --page-size 16k", vec![PageSize("16k"), Cpus(2)]),
        monitored("a GICv2", "-- -M gic-version=2", vec![Cpus(2)]),
        monitored("an initrd", "--initrd Cargo.lock", vec![Says(&["initrd"])]),
        monitored("one thread for all CPUs", "-- -accel tcg,thread=single", vec![Cpus(2)]),
        monitored("late CPUs of the kernel's", "--append vellum.late=1", vec![Says(&["comes late", "1 of 1"])]),
        monitored("the same twice", "--icount", vec![SameTwice]),
        monitored(
            "conflicts at stage 2",
            "--machine bare/monitor/machines/conflicts-at-stage-2.toml",
            vec![Cpus(2), MonitorCounts("conflicts, stage 2")],
        ),
        monitored("8 GiB", "--memory 8G", vec![Cpus(2)]),
    ]);
    boots
}

fn realm(&(name, options, counts): &(&str, &str, Words)) -> Boot {
    // A tenth of it is to be a few blocks of each page size.
    let memory = if options.contains("vellum.stress") { "1G" } else { "256M" };
    let options = format!("--monitor --memory {memory} --machine bare/monitor/machines/{options}");
    let mut expect: Vec<_> = counts.iter().map(|count| MonitorCounts(count)).collect();
    if name.starts_with("our kernel") {
        expect.push(Says(&["ring: ", "....100"]));
    }
    if options.contains("vellum.stress") {
        expect.push(Says(&["modules loaded, called by every CPU"]));
        expect.push(Says(&["as it was before, leaf for leaf"]));
        expect.push(Says(&["free memory is what it was, to the page"]));
    }
    if options.contains("vellum.late") {
        expect.push(Says(&["1 of 1 joined, while memory was hidden"]));
    }
    Boot { name: format!("monitor, {name}"), ..other(name, &options, &[], expect) }
}
