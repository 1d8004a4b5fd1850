// data: boots that stress the linear map, and boots that have it otherwise.
//! All CPUs change pages of the linear map at once; it heals, and is as it was.

use super::{Boot, Expect::*, PAGE_SIZES, Words, other};

/// Operations of each stress: enough for every kind of change on each CPU.
const OPERATIONS: &str = "--append vellum.stress=800";

/// Machines whose every CPU tolerates resizing, or is alone.
const LONELY: [(&str, &str); 3] = [
    ("4k, level 0, alone", "--cpu cortex-a57 --cpus 1"),
    ("64k, level 0, alone", "--cpu cortex-a57 --cpus 1 --page-size 64k"),
    ("16k, level 0, alone", "--cpus 1 --page-size 16k --append vellum.bbm=0"),
];

/// Machines some of whose CPUs tolerate no resize, and are parked; and a late one that is weaker.
const MIXED: [(&str, &str); 6] = [
    (
        "4k, levels 2, 0, 3 and 1",
        "--cpus 4 --append vellum.cpu0.bbm=2 --append vellum.cpu1.bbm=0 --append vellum.cpu2.bbm=3 --append vellum.cpu3.bbm=1",
    ),
    ("16k, levels 3, 0, 3 and 3", "--cpus 4 --page-size 16k --append vellum.bbm=3 --append vellum.cpu1.bbm=0"),
    ("64k, levels 0, 3, 3 and 3", "--cpus 4 --page-size 64k --append vellum.bbm=3 --append vellum.cpu0.bbm=0"),
    ("4k, level 0", "--cpu cortex-a57 --cpus 4 --append vellum.withhold=256M"),
    ("64k, level 0", "--cpu cortex-a57 --cpus 4 --page-size 64k --append vellum.withhold=256M"),
    ("16k, level 0", "--cpus 4 --page-size 16k --append vellum.bbm=0 --append vellum.withhold=256M"),
];

/// Machines whose CPUs differ: three are parked for single pages, or all change them in place beneath a monitor.
const SAMPLED: [(&str, &str); 2] = [
    (MIXED[0].0, MIXED[0].1),
    ("above cortex-x4-a720", "--monitor --cpus 4 --machine bare/monitor/machines/cortex-x4-a720.toml"),
];

/// Files of `bare/monitor/machines` with options: every machine on which our kernel can live, but realms.
const MACHINES: [&str; 12] = [
    "all-resize.toml",
    "all-resize-with-conflicts.toml",
    "boot-cpu-does-not.toml",
    "secondaries-do-not.toml",
    "cortex-x4-a720.toml",
    "cortex-x4-a720-with-conflicts.toml",
    "late-and-lesser.toml",
    "no-16k-on-secondaries.toml --page-size 16k",
    "conflicts-in-resizes.toml",
    "conflicts-once.toml",
    "conflicts-at-stage-2.toml",
    "conflict-on-a-stack.toml",
];

/// The machines of the published test of live resizing: all CPUs tolerate it, the boot CPU does not, only the boot CPU does.
const PUBLISHED: [&str; 3] = ["all-resize.toml", "boot-cpu-does-not.toml", "secondaries-do-not.toml"];

/// No CPU waits for another's change.
const IN_PLACE: &[&str] = &["with CPUs parked: 0"];
const EXHAUSTED: &[&str] = &["nothing is lost or half done: ok", "module"];

/// What else the linear map may be.
const OTHERWISE: [(&str, &str, &[&str]); 13] = [
    (
        "measured",
        "--icount --cpus 4 --memory 3G --append vellum.measure=linear --append vellum.bbm=3",
        &["ro and rw of a page that is a leaf:", "2 TLBIs, 4 DSBs"],
    ),
    (
        "secret pages measured",
        "--icount --cpus 1 --memory 512M --append vellum.measure=secret --append vellum.bbm=3",
        &["8192 secret pages, scattered over"],
    ),
    ("rodata=noalias", "--append rodata=noalias", &["areas of virtual addresses not there"]),
    ("rodata=off", "--append rodata=off --page-size 16k", &["writable (rodata asks for it)"]),
    ("rodata=full", "--append rodata=full --page-size 64k", &["read-only, in the linear map too"]),
    ("a linear map of pages", "--append vellum.linearmap=pages --page-size 16k", &["linear map: in pages"]),
    (
        "a stress of level 2, where EL1 is trusted",
        "--cpus 4 --memory 1G --append vellum.bbm=2 --append vellum.trust-el1=yes --append vellum.stress=100",
        IN_PLACE,
    ),
    (
        "a stress of level 2, entered at EL2",
        "--cpus 4 --memory 1G --append vellum.bbm=2 --append vellum.stress=100 -- -M virtualization=on",
        IN_PLACE,
    ),
    ("memory exhausted, 4k", "--append vellum.exhaust=yes --append vellum.bbm=3 --append vellum.stress=50", EXHAUSTED),
    ("memory exhausted, 16k", "--append vellum.exhaust=yes --page-size 16k --append vellum.stress=50", EXHAUSTED),
    (
        "memory exhausted, 64k",
        "--append vellum.exhaust=yes --page-size 64k --memory 1G --append vellum.stress=50",
        EXHAUSTED,
    ),
    (
        "every change at every moment, a weaker CPU late",
        "--cpus 4 --append vellum.late=1 --append vellum.bbm=3 --append vellum.cpu3.bbm=0",
        &["at 4 moments)"],
    ),
    ("every change at every moment", "--append vellum.bbm=3 --append vellum.late=1 --cpus 4", &["at 4 moments)"]),
];

/// Free pages are hidden, and no CPU is parked for any: by large leaves, or by pages, for this reason.
const HIDDEN: [(&str, &str, &[&str]); 8] = [
    ("level 3", "--append vellum.bbm=3", LARGE),
    ("a stress", "--append vellum.bbm=3 --append vellum.stress=200 --page-size 16k --memory 512M", LARGE),
    ("a stress, 4k", "--append vellum.bbm=3 --append vellum.stress=100 --memory 2G", LARGE),
    (
        "more blocks split by programs than the reserve has tables",
        "--append vellum.bbm=3 --append vellum.folio=never --cpus 1 --memory 2G --init 'busybox sh -c \"\
         dd if=/dev/zero of=/dev/null bs=192M count=1 & dd if=/dev/zero of=/dev/null bs=192M count=1 && wait $!\"'",
        LARGE,
    ),
    ("level 0, alone", "--cpu cortex-a57 --cpus 1", LARGE),
    ("where each split parks", "--page-size 64k", &["in pages, for vellum.pagealloc=debug would park"]),
    (
        "a weaker second CPU",
        "--append vellum.bbm=3 --append vellum.cpu1.bbm=0",
        &["in pages, for vellum.pagealloc=debug would park"],
    ),
    (
        "above secondaries-do-not",
        "--monitor --machine bare/monitor/machines/secondaries-do-not.toml",
        &["in pages, for vellum.pagealloc=debug may park", "not known yet"],
    ),
];
const LARGE: &[&str] = &["linear map: in the largest leaves"];

fn hidden(&(name, options, leaves): &(&str, &str, &'static [&'static str])) -> Boot {
    let mut expect =
        vec![Says(leaves), Says(IN_PLACE), Says(&["free pages are hidden; not hidden: 0 blocks, not shown: 0"])];
    if options.contains("vellum.stress") {
        expect.push(Says(&["0 changes refused", "0 pages wrong"]));
    }
    let options = format!("--append vellum.pagealloc=debug {options}");
    other(&format!("free pages hidden, {name}"), &options, &told(&options), expect)
}

pub(super) fn all() -> Vec<Boot> {
    let mut boots: Vec<_> = HIDDEN.iter().map(hidden).collect();
    for size in PAGE_SIZES {
        for cpus in [1, 4, 8] {
            let withheld = if cpus == 4 { " --append vellum.withhold=256M" } else { "" };
            let options = format!("--page-size {size} --cpus {cpus} --append vellum.bbm=3{withheld}");
            let mut boot = stressed(&format!("{size}, level 3, {cpus} CPUs"), &options);
            // The more CPUs, the longer each change: half as many tell as much.
            if cpus == 8 {
                boot.options = boot.options.replace(OPERATIONS, "--append vellum.stress=400");
            }
            boots.push(boot);
        }
    }
    for size in PAGE_SIZES {
        let options = format!("--page-size {size} --cpus 4 --append vellum.bbm=3 --append vellum.stress-kind=kfence");
        boots.push(stressed(&format!("{size}, as KFENCE does"), &options));
    }
    for size in ["4k", "64k"] {
        let options = format!("--checked --page-size {size} --cpus 4 --append vellum.bbm=3");
        boots.push(stressed(&format!("{size}, order of locks"), &options));
    }
    boots.extend(SAMPLED.iter().map(|(name, options)| {
        parked(&format!("{name}, as KFENCE does"), &format!("{options} --append vellum.stress-kind=kfence"))
    }));
    boots.extend(LONELY.iter().map(|(name, options)| stressed(name, options)));
    boots.extend(MIXED.iter().map(|(name, options)| parked(name, options)));
    boots.push(late());
    boots.extend(MACHINES.iter().map(|machine| monitored("", machine)));
    boots.extend(PUBLISHED.iter().map(|machine| monitored(", 12G", &format!("{machine} --memory 12G"))));
    for (name, options, words) in OTHERWISE {
        let mut expect = vec![Says(words)];
        if name.starts_with("every change") {
            expect.push(Says(&["refused: 0 ("]));
        }
        boots.push(other(name, options, &told(options), expect));
    }
    boots
}

/// What is told of CPUs that are to believe something else of themselves.
pub(super) fn told(options: &str) -> Vec<Words> {
    const TEST: Words = &["this is a test"];
    options.matches("vellum.cpu").map(|_| TEST).collect()
}

/// A CPU that joins while others change pages, and tolerates less than they.
fn late() -> Boot {
    let options = "--cpus 4 --append vellum.late=1 --append vellum.bbm=3 --append vellum.cpu3.bbm=0";
    let mut boot = parked("4k, a weaker CPU late", options);
    boot.expect.push(Says(&["1 of 1 late CPUs joined in mid-stress"]));
    boot
}

/// Fewer operations: each may stop all CPUs.
fn parked(name: &str, options: &str) -> Boot {
    let boot = stressed(name, options);
    let options = boot.options.replace(OPERATIONS, "--append vellum.stress=100");
    Boot { warnings: told(&options), options, ..boot }
}

fn monitored(more: &str, machine: &str) -> Boot {
    let name = machine.split(".toml").next().unwrap_or(machine);
    let options = format!("--monitor --cpus 4 --machine bare/monitor/machines/{machine}");
    let mut boot = parked(&format!("above {name}{more}"), &options);
    if machine.starts_with("late") {
        boot.warnings.push(&["cpu 3", "stays off", "denied"]);
    }
    if machine.starts_with("no-16k") {
        const LACKS: Words = &["stays off", "no 16K granule"];
        boot.warnings.extend([LACKS; 3]);
    }
    boot
}

fn stressed(name: &str, options: &str) -> Boot {
    let mut expect = vec![Says(&["0 changes refused", "0 pages wrong"]), Says(&["as it was before, leaf for leaf"])];
    // As KFENCE does, single pages alone come and go.
    if !options.contains("vellum.stress-kind") {
        expect.push(Says(&["modules loaded, called by every CPU"]));
        expect.push(Says(&["in areas of all CPUs, a third read-only, a third executable"]));
    }
    if options.contains("vellum.withhold") {
        expect.push(Says(&["withheld units came, and are withheld again"]));
    }
    let options = format!("--memory 2G {options} {OPERATIONS}");
    Boot { options, ..other(&format!("stress, {name}"), "", &[], expect) }
}
