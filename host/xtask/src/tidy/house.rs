// data: the lists that the tidy test holds the workspace against; a change here is a change of the house.
//! Who may depend on whom, and where what may stand.

/// One crate: the lines of Rust and assembly that it may have, and the crates of the workspace that it may use, which are in
/// layers below it, as ARCHITECTURE.md draws them.
pub(crate) struct Room {
    pub(crate) name: &'static str,
    pub(crate) lines: usize,
    pub(crate) may_use: &'static [&'static str],
}

const fn room(name: &'static str, lines: usize, may_use: &'static [&'static str]) -> Room {
    Room { name, lines, may_use }
}

/// Every crate there is. A crate that is not listed is a finding, and so is one that is not there.
pub(crate) const ROOMS: &[Room] = &[
    // Layer 0: the architecture's words; the simulated machine, which uses nothing of the engine; what command-line programs
    // share; and the seed of a run.
    room("vellum-vmsa", 6_900, &[]),
    room("seed", 300, &[]),
    room("machine", 20_300, &["seed"]),
    room("terminal", 400, &[]),
    // Layer 1.
    room("vellum-pagetable", 19_500, &["vellum-vmsa"]),
    room("a64", 2_220, &["machine"]),
    // Layer 2.
    room("vellum-linearmap", 5_300, &["vellum-vmsa", "vellum-pagetable"]),
    room("vellum-userspace", 13_200, &["vellum-vmsa", "vellum-pagetable"]),
    room("litmus", 5_900, &["a64", "machine", "terminal"]),
    room("moncore", 2_030, &["vellum-vmsa", "kerncore", "seed"]),
    // Layer 3. `checks` and `code` are where the engine and the machine meet, and the only places.
    room("kerncore", 10_900, &["vellum-vmsa"]),
    room("hardware", 5_200, &["vellum-vmsa", "vellum-pagetable", "kerncore"]),
    room("common", 600, &["vellum-vmsa", "vellum-pagetable", "kerncore", "hardware"]),
    room("image", 6_300, &["vellum-vmsa", "vellum-pagetable", "seed"]),
    room("code", 3_300, &["vellum-vmsa", "vellum-pagetable", "machine", "a64", "terminal"]),
    room(
        "checks",
        12_700,
        &["vellum-vmsa", "vellum-pagetable", "vellum-linearmap", "vellum-userspace", "kerncore", "machine", "terminal"],
    ),
    // Layer 4. The zoo makes historical bugs in traces, and in the engine. `vellum judge` rules on traces by the machine's rules.
    room(
        "kernel",
        27_500,
        &[
            "vellum-vmsa",
            "vellum-pagetable",
            "vellum-linearmap",
            "vellum-userspace",
            "kerncore",
            "hardware",
            "common",
            "seed",
        ],
    ),
    room("monitor", 2_600, &["vellum-vmsa", "vellum-pagetable", "kerncore", "moncore", "hardware", "common"]),
    room("guests", 2_400, &["vellum-vmsa", "vellum-pagetable", "kerncore", "moncore", "hardware", "seed"]),
    room("module", 80, &[]),
    room("audit", 3_270, &["machine"]),
    room(
        "vellum",
        16_000,
        &["vellum-vmsa", "vellum-pagetable", "vellum-linearmap", "kerncore", "image", "machine", "seed", "terminal"],
    ),
    room("zoo", 1_700, &["checks", "machine", "terminal"]),
    room("logic", 2_300, &["seed", "terminal"]),
    room("check", 150, &["checks", "litmus", "zoo", "code", "logic", "terminal"]),
    room("xtask", 14_700, &[]),
    room("programs", 10_400, &[]),
    room("bench", 3_450, &["vellum-vmsa", "vellum-pagetable", "vellum-linearmap", "seed"]),
];

/// Lines of all crates together.
pub(crate) const ALL_LINES: usize = 195_100;

/// What the tests of every crate may use, whatever the crate itself may.
pub(crate) const FOR_TESTS: &[&str] = &["seed", "a64"];

/// The engine's folder. Its crates are `no_std`, without statics and `unsafe`, and depend on each other and on
/// `ENGINE_DEPENDENCIES` only.
pub(crate) const ENGINE: &str = "engine/";
pub(crate) const ENGINE_DEPENDENCIES: &[&str] = &["bitflags"];

/// Where assembly may stand.
pub(crate) const ASSEMBLY: &[&str] = &["bare/hardware/", "programs/src/vectors.rs"];

/// Where `unsafe` may stand. A single file may join these folders with a comment that gives its reason.
///
/// `bench/`: its arena and its peers walk tables through raw memory, as peers have no other way.
/// `programs`: they make calls by number, and touch memory by address, to see what the kernel makes of it.
/// `host/audit`: QEMU calls a plugin, and is called by it, through a C interface.
pub(crate) const UNSAFE: &[&str] = &[
    "bare/",
    "bench/src/memory.rs",
    "bench/src/peers/",
    "host/audit/src/interface.rs",
    "host/audit/src/plugin.rs",
    "programs/src/machine.rs",
    "programs/src/vectors.rs",
];

/// The files that store descriptors (invariant 2): `steps.rs` where a walker may see them, `fill.rs` where none can, `tables.rs` in lists of those; and the
/// folder whose other files must not.
pub(crate) const DESCRIPTOR_STORES: (&str, [&str; 3]) = (
    "engine/pagetable/src/",
    ["engine/pagetable/src/changes/steps.rs", "engine/pagetable/src/fill.rs", "engine/pagetable/src/tables.rs"],
);

/// Lines of a source file that is not data, and of a function with its signature.
pub(crate) const FILE_LINES: usize = 400;
pub(crate) const FUNCTION_LINES: usize = 70;
