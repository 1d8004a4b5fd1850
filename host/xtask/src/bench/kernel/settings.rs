//! What `cargo xtask bench kernel` boots both kernels with, what the program is asked for, and what of its lines is told.

/// A line of the program's, how the table calls it, and what is to be reached with pages of 4K and 16K.
pub(super) struct Row {
    pub(super) key: &'static str,
    pub(super) name: &'static str,
    pub(super) goals: [Option<u64>; 2],
}

const fn row(key: &'static str, name: &'static str, goals: [Option<u64>; 2]) -> Row {
    Row { key, name, goals }
}

/// How both kernels are booted, and what is told of them then.
pub(super) struct Setting {
    /// What the table is called beside the page size.
    pub(super) name: &'static str,
    /// What the program is asked for.
    pub(super) word: &'static str,
    /// Further words of Linux's command line, and of ours.
    pub(super) theirs: &'static str,
    pub(super) ours: &'static str,
    /// Both are above the monitor, by [`MACHINE`].
    pub(super) is_monitored: bool,
    /// Page sizes.
    pub(super) sizes: &'static [&'static str],
    pub(super) rows: &'static [Row],
}

pub(super) const SIZES: [&str; 2] = ["4k", "16k"];

/// CPUs of which each tolerates that live leaves change size.
pub(super) const MACHINE: &str = "bare/monitor/machines/all-resize.toml";

/// What pages cost: without huge pages, and beside a kernel for pages of 4K alone.
pub(super) const PAGES: [Row; 3] = [
    row("touch", "first touch by a store, a page", [Some(700), Some(1_200)]),
    row("fork", "fork, a page", [Some(60), Some(60)]),
    row("munmap", "munmap, a page", [Some(120), Some(150)]),
];

/// First touches by loads.
const READS: [Row; 3] = [
    row("read", "first touch by a load, a page", [None; 2]),
    row("file", "the same of a file", [None; 2]),
    row("text", "the same by text that may only be executed", [None; 2]),
];

const ATOMICS: [Row; 2] = [
    row("faults", "first touch by an atomic, faults", [Some(65_600), Some(16_450)]),
    row("atomic", "the same, a page", [Some(800), Some(1_300)]),
];

const WHOLE: [Row; 3] = [
    row("mprotect", "mprotect of half, the call", [Some(1_200_000), Some(300_000)]),
    row("boot", "boot, to the program", [Some(60_000_000), None]),
    row("used", "memory in use then, KiB", [Some(8 << 10), None]),
];

pub(super) static SETTINGS: [Setting; 4] = [
    Setting {
        name: "pages alone",
        word: "",
        theirs: "transparent_hugepage=never",
        ours: "vellum.folio=never",
        is_monitored: false,
        sizes: &SIZES,
        rows: &{
            let [touch, fork, munmap] = PAGES;
            let ([faults, atomic], [read, file, text], [mprotect, boot, used]) = (ATOMICS, READS, WHOLE);
            [touch, fork, munmap, mprotect, faults, atomic, read, file, text, boot, used]
        },
    },
    Setting {
        name: "MADV_HUGEPAGE",
        word: "huge",
        theirs: "transparent_hugepage=madvise",
        ours: "vellum.folio=advised",
        is_monitored: false,
        sizes: &SIZES,
        rows: &[
            row("touch", "first touch by a store, a page", [None; 2]),
            row("faults", "first touch by an atomic, faults", [Some(140), Some(140)]),
            row("atomic", "the same, a page", [Some(150), Some(600)]),
            row("fork", "fork, a page", [Some(1), Some(1)]),
            row("munmap", "munmap, a page", [Some(10), Some(10)]),
        ],
    },
    Setting {
        name: "folios of 64 KiB",
        word: "groups",
        theirs: "transparent_hugepage=never thp_anon=64K:always",
        ours: "vellum.folio=group",
        is_monitored: false,
        sizes: &["4k"],
        rows: &[
            row("touch", "first touch by a store, a page", [Some(230), None]),
            row("faults", "first touch by an atomic, faults", [Some(4_200), None]),
            row("atomic", "the same, a page", [Some(250), None]),
            row("fork", "fork, a page", [Some(12), None]),
            row("munmap", "munmap, a page", [Some(20), None]),
        ],
    },
    Setting {
        name: "above the monitor, level 3",
        word: "secret",
        theirs: "secretmem.enable=1",
        ours: "",
        is_monitored: true,
        sizes: &SIZES,
        rows: &[
            row("secret", "memfd_secret, a page touched", [Some(2_500), None]),
            row("released", "the same, a page released", [Some(1_500), None]),
        ],
    },
];
