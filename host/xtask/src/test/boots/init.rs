//! Boots that run programs: Debian's static busybox, by its own shell; and the project's own that counts faults.

use super::{Boot, Expect::*, Words, plain};
use crate::outcome::Status;

/// What busybox's shell is to do, what it ends with, and lines that it prints.
struct Script {
    name: &'static str,
    text: &'static str,
    ends: Status,
    prints: &'static [Words],
}

const SCRIPTS: [Script; 4] = [
    Script {
        name: "a status",
        text: "echo hello; ls /; exit 7",
        ends: Status::Program(7),
        prints: &[&["hello"], &["init: ended with status 7"]],
    },
    Script {
        name: "pipes",
        text: "seq 1 5000 | sort -rn | sed -n 2p; echo one two | wc -w; yes | head -n 3 | md5sum",
        ends: Status::Passed,
        prints: &[&["4999"], &["e020dcd70d709a6fbab402bb531f5dd0"]],
    },
    Script {
        name: "files",
        text: "dd if=/dev/zero of=/tmp/z bs=4096 count=64; gzip /tmp/z; gunzip /tmp/z.gz; md5sum /tmp/z; mkdir -p /a/b/c; \
               mv /tmp/z /a/b; find /a; rm -r /a; ls /a",
        ends: Status::Program(1),
        prints: &[&["ec87a838931d4d5d2e94a04644788a55"], &["/a/b/z"]],
    },
    Script {
        name: "children and signals",
        text: "for i in 1 2 3 4 5 6 7 8; do (sleep 0.0$i; echo child $i) & done; wait; c() { echo caught; }; trap c TERM; \
               kill $$; sleep 100 & kill -9 $!; wait $!; echo killed $?; sleep 100 & kill -11 $!; wait $!; exit $?",
        ends: Status::Program(139),
        prints: &[&["child 1"], &["child 8"], &["caught"], &["killed 137"]],
    },
];

/// What is told once every process has ended.
const NOTHING_LEAKED: Words = &["free memory is what it was, to the page"];

/// A program that waits for a writer that never comes fails; children that the first program leaves end with it.
const STUCK: (&str, &[Words]) =
    ("leaving stuck", &[&["process", "(leaving) waits for ever", "openat"], &["check every process ends: FAILED"]]);
const LEFT: (&str, &[Words]) = ("leaving", &[&["children are left: 4"], &["check every process ends: ok"]]);

/// Page sizes, CPUs, and the exception level of entry.
const SETTINGS: [(&str, usize, u8); 4] = [("4k", 4, 1), ("16k", 4, 2), ("64k", 1, 1), ("64k", 4, 2)];

/// Every script in every setting.
pub(super) fn all() -> Vec<Boot> {
    let every = SCRIPTS.iter().flat_map(|script| SETTINGS.iter().map(move |setting| (script, setting)));
    let scripts = every.map(|(script, (size, cpus, level))| boot(script, size, *cpus, *level));
    scripts
        .chain(["4k", "16k"].map(atomics))
        .chain(MASKED.into_iter().flat_map(|(program, sizes)| sizes.iter().map(move |size| masked(program, size))))
        .chain([scattered()])
        .chain([("4k", 4, 1), ("16k", 1, 2), ("64k", 4, 1)].map(pressing))
        .chain(HOSTILE.map(attacked))
        .chain(CHECKED.map(checked))
        .chain([boot(&SCRIPTS[3], "4k", 8, 1)])
        .chain(["4k", "16k"].map(on_mixed_levels))
        .chain([stuck("4k", 4), stuck("16k", 1), own(LEFT, ("4k", 4, 1)), own(LEFT, ("64k", 1, 1))])
        .chain(
            MODELLED_WITH
                .map(|with| own_with(MODELLED, with))
                .into_iter()
                .chain(FAILING_WITH.map(|with| own_with(FAILING, with)))
                .chain(
                    ["4k", "16k", "64k"].into_iter().flat_map(|size| COMPARED.map(|program| compared(program, size))),
                ),
        )
        .chain([above_the_monitor(), with_conflicts(), own(VECTORS, ("4k", 2, 1)), own(VECTORS, ("64k", 1, 2))])
        .chain([("4k", 4, 1), ("16k", 4, 2), ("64k", 2, 1)].map(|setting| own(("racing_files", &[]), setting)))
        .chain(OWN.into_iter().flat_map(|program| SETTINGS.map(|setting| own(program, setting))))
        .collect()
}

/// One of the project's own programs, and lines that it prints: what is missed while a signal waits, one that comes while every CPU
/// idles; timers of the shortest periods, beside which others go on; pages that leave the linear map, which has them again in the end; its
/// leaves, which fold while nothing runs; long calls that are killed.
const OWN: [(&str, &[Words]); 7] = [
    FAILING,
    (
        "modules",
        &[
            &["25 rounds: true"],
            &["together: true"],
            &["allocations that fail: true"],
            &["grows is refused: true"],
            &["game=: ENOEXEC"],
            &["unloaded after all: 0"],
        ],
    ),
    ("timing", &[&["the most overruns: 2147483647"], &["asleep: EINTR"]]),
    (
        "intervals",
        &[&["prof, beside: 20 barriers, killed by SIGKILL"], &["1000 timers: 1000 told"], &["sleeps of 1 ns: 6600"]],
    ),
    ("secrets", &[&["round 2: ended with 0"], &["secret pages: 0 held, 0 lost"]]),
    ("healing leaves", &[&["split: true"], &["whole again: true"]]),
    ("killing", &[&["mlockall: killed by SIGKILL"], &["its own fdinfo: pos:"]]),
];

/// Each allocation of each call fails once.
const FAILING: (&str, &[Words]) = (
    "failing",
    &[
        &["mkdir, the last: ENOSPC"],
        &["mknod, the last: ENOSPC"],
        &["symlink, the last: ENOSPC"],
        &["link, the last: ENOSPC"],
        &["getdents: done"],
        &["splice:"],
        &["mlockall: done"],
        &["fork of blocks: done"],
        &["\"/proc/self/exe\": done"],
        &["folder: done"],
    ],
);

/// Where leaves are of other sizes.
const FAILING_WITH: [(&str, &str); 3] =
    [("4k", "vellum.folio=never"), ("16k", "vellum.folio=group"), ("64k", "vellum.folio=never")];

/// Every call with boundary arguments beside programs that know what must hold: what is run, page size, CPUs, level of entry and policy of
/// folios. Of each six rounds, a seed each, one has little memory.
const HOSTILE: [(&str, &str, usize, u8, &str); 5] = [
    ("hostile 1600 14", "4k", 4, 1, "block"),
    ("hostile 1600 17", "16k", 8, 2, "group"),
    ("hostile 1600 29", "64k", 4, 1, "linux"),
    ("hostile 800 42", "4k", 1, 1, "never"),
    ("hostile 800 53", "64k", 2, 2, "block"),
];

/// Programs on the kernel that looks at the order of its locks, each on 4 CPUs.
const CHECKED: [(&str, &str, &[Words]); 9] = [
    ("4k", "crowds 300", &[&["one word: 300 ended"], &["one signal: 300 taken in order"]]),
    ("16k", "failing", &[&["fork: done"]]),
    ("16k", "locking", &[]),
    ("64k", "modelled 1 100", &[&["words that were wrong: 0"]]),
    ("4k", "racing_files", &[]),
    ("16k", "racing_names", &[]),
    ("64k", "racing_pipes", &[]),
    ("4k", "racing_processes", &[]),
    ("64k", "secrets", &[]),
];

/// A word for each page, which every call leaves where it is to be.
const MODELLED: (&str, &[Words]) = (
    "modelled 1 300",
    &[&["moves: every page"], &["cuts: every page"], &["words that were wrong: 0"], &["seed 1: 300 steps"]],
);

/// Programs after whose calls areas are compared with tables: one of each kind of what goes wrong.
const COMPARED: [(&str, &[Words]); 3] =
    [MODELLED, ("hostile 400 61 call flood fresh", &[&["operations: no fault"]]), ("extremes", &[])];

/// Where the model is beside the kernel: folios of every policy, and addresses of each width.
const MODELLED_WITH: [(&str, &str); 6] = [
    ("4k", "vellum.folio=never vellum.vabits=39"),
    ("4k", "vellum.folio=group vellum.vabits=52"),
    ("4k", "vellum.folio=linux vellum.vabits=48"),
    ("16k", "vellum.folio=never vellum.vabits=48"),
    ("16k", "vellum.folio=group vellum.vabits=36"),
    ("64k", "vellum.folio=group vellum.vabits=52"),
];

/// More threads than CPUs that have something in registers of SVE.
const VECTORS: (&str, &[Words]) = ("vectors", &[&["not kept: [0, 0, 0, 0, 0], signals came: true"]]);

/// Free memory is single pages: threads, waiters of one word and a child need no more; what needs more is refused.
fn scattered() -> Boot {
    let prints: &[Words] = &[
        &["1000 groups: 0"],
        &["1100 groups: ENOMEM"],
        &["one word: 600 ended"],
        &["one CPU: 600 ended"],
        &["one table: ended with 0"],
    ];
    smaller(own(("crowds 600 scattered", prints), ("4k", 4, 1)))
}

/// Calls that lack memory while another process has nearly all.
fn pressing(setting: (&'static str, usize, u8)) -> Boot {
    let prints: &[Words] = &[
        &["a fork beside it: killed by SIGKILL"],
        &["pipes: 0 refused"],
        &["pipes beside it: killed by SIGKILL"],
        &["a fork beside one that never ends: killed by SIGTERM"],
        &["a fork of its own: ended with 0"],
    ];
    smaller(own(("pressing", prints), setting))
}

/// With less memory, of which all is taken sooner.
fn smaller(boot: Boot) -> Boot {
    let smaller = |text: &str| text.replace("512M", "256M");
    Boot { name: smaller(&boot.name), options: smaller(&boot.options), ..boot }
}

fn checked((size, name, prints): (&'static str, &'static str, &'static [Words])) -> Boot {
    let boot = own((name, prints), (size, 4, 1));
    Boot { name: format!("{}, checked", boot.name), options: format!("--checked {}", boot.options), ..boot }
}

/// Secret pages where TLBs may conflict with what the linear map's leaves were.
fn above_the_monitor() -> Boot {
    let boot = own(OWN[4], ("4k", 4, 1));
    let more = "--monitor --machine bare/monitor/machines/all-resize.toml";
    Boot { name: format!("{}, monitor", boot.name), options: format!("{} {more}", boot.options), ..boot }
}

/// Folios whose parts change beside threads that read all of them, on CPUs to which TLB conflict aborts come meanwhile.
fn with_conflicts() -> Boot {
    let mut boot = own(("converting 1000", &[&["1000 rounds; words that were wrong: 0"]]), ("4k", 4, 1));
    boot.options += " --monitor --machine bare/monitor/machines/conflicts-in-resizes.toml";
    boot.expect.push(MonitorCounts("conflicts, EL0 data"));
    boot
}

/// One run of calls at random.
fn attacked((text, size, cpus, level, folios): (&'static str, &'static str, usize, u8, &'static str)) -> Boot {
    let mut boot = own((text, &[&["operations: no fault"]]), (size, cpus, level));
    boot.name += &format!(", folios {folios}");
    // Before the options of QEMU's own, if there are such.
    boot.options = format!("--timeout 600 --append vellum.folio={folios} {}", boot.options);
    boot
}

/// Calls at random on CPUs that tolerate differently much: none the same as another.
fn on_mixed_levels(size: &'static str) -> Boot {
    let boot = attacked(("hostile 800 7", size, 4, 1, "block"));
    let levels = "vellum.cpu0.bbm=2 vellum.cpu1.bbm=0 vellum.cpu2.bbm=3 vellum.cpu3.bbm=1";
    Boot {
        name: format!("{}, four levels of BBM", boot.name),
        options: format!("{} --append '{levels}'", boot.options),
        warnings: vec![
            &["test", "cpu 0", "BBM level 2"],
            &["test", "cpu 1", "BBM level 0"],
            &["test", "cpu 2", "BBM level 3"],
            &["test", "cpu 3", "BBM level 1"],
        ],
        ..boot
    }
}

fn compared(program: (&'static str, &'static [Words]), size: &'static str) -> Boot {
    let mut boot = own(program, (size, 4, 1));
    boot.name += ", areas compared";
    boot.options += " --append vellum.check-areas=yes";
    boot.expect.push(Says(&["check areas explain every leaf: ok"]));
    boot
}

fn own_with(program: (&'static str, &'static [Words]), (size, words): (&'static str, &str)) -> Boot {
    let boot = own(program, (size, 2, 1));
    Boot { name: format!("{}, {words}", boot.name), options: format!("{} --append '{words}'", boot.options), ..boot }
}

/// Nothing is said of memory while a process has some.
fn stuck(size: &'static str, cpus: usize) -> Boot {
    let mut boot = Boot { ends: Status::Failed, ..own(STUCK, (size, cpus, 1)) };
    boot.expect.retain(|expect| *expect != Says(NOTHING_LEAKED));
    boot
}

fn own((name, prints): (&'static str, &'static [Words]), (size, cpus, level): (&'static str, usize, u8)) -> Boot {
    let boot = boot(&Script { name, text: "", ends: Status::Passed, prints }, size, cpus, level);
    Boot { options: boot.options.replace("busybox sh -c \"\"", name), ..boot }
}

/// Programs that have as much come at once as they may, or call whatever there is, and the page sizes that they have.
const MASKED: [(&str, &[&str]); 10] = [
    ("intervals", &ALL_SIZES),
    ("chains", &ALL_SIZES),
    ("crowds 1000", &ALL_SIZES),
    ("modelled 1 300", &ALL_SIZES),
    ("hostile 400 42", &ALL_SIZES),
    ("busybox sh -c \"ls /proc; cat /proc/meminfo; seq 1 5000 | sort -rn | sed -n 2p\"", &ALL_SIZES),
    ("racing_files", &ALL_SIZES),
    ("racing_names", &["4k"]),
    ("racing_pipes", &["16k"]),
    ("racing_processes", &["64k"]),
];
const ALL_SIZES: [&str; 3] = ["4k", "16k", "64k"];

/// The most instructions with interrupts masked: some twice what is measured, so that work which grows with a program's numbers is seen,
/// and a compiler's choices are not.
const MASKED_AT_MOST: u64 = 20_000;

fn masked(program: &str, size: &'static str) -> Boot {
    let plain = plain(size, 1, 1, "1G");
    Boot {
        name: format!("{}, masked, init {program}", plain.name),
        options: format!(
            "--page-size {size} --cpus 1 --memory 1G --icount --append vellum.measure=masked --init '{program}'"
        ),
        expect: [&plain.expect[..], &[MaskedAtMost { instructions: MASKED_AT_MOST }]].concat(),
        ..plain
    }
}

/// QEMU fills TLBs for atomics as for stores, unless it counts instructions. Without one fault for each page the program fails, and
/// without an atomic that was recognised the kernel says something else.
fn atomics(size: &'static str) -> Boot {
    let plain = plain(size, 1, 1, "1G");
    Boot {
        name: format!("{}, init atomics", plain.name),
        options: format!(
            "--page-size {size} --cpus 1 --memory 1G --icount --append vellum.folio=never --init 'atomics --count 32'"
        ),
        expect: [&plain.expect[..], &[Says(NOTHING_LEAKED), Says(&["reads by atomics were faulted as writes"])]]
            .concat(),
        ..plain
    }
}

fn boot(script: &Script, size: &'static str, cpus: usize, level: u8) -> Boot {
    let plain = plain(size, cpus, level, "512M");
    let entry = if level == 2 { " -- -M virtualization=on" } else { "" };
    let text = script.text;
    Boot {
        name: format!("{}, init {}", plain.name, script.name),
        options: format!("--page-size {size} --cpus {cpus} --memory 512M --init 'busybox sh -c \"{text}\"'{entry}"),
        ends: script.ends,
        expect: [&plain.expect[..], &[Says(NOTHING_LEAKED)]]
            .concat()
            .into_iter()
            .chain(script.prints.iter().map(|words| Says(words)))
            .collect(),
        ..plain
    }
}
