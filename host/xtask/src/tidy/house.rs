// data: the lists that the tidy test holds the workspace against; a change here is a change of the house.
//! Who may depend on whom, and where what may stand.

/// One crate, and the crates of the workspace that it may use, which are in layers below it, as ARCHITECTURE.md draws them.
pub(crate) struct Room {
    pub(crate) name: &'static str,
    pub(crate) may_use: &'static [&'static str],
}

const fn room(name: &'static str, may_use: &'static [&'static str]) -> Room {
    Room { name, may_use }
}

/// Every crate there is. A crate that is not listed is a finding, and so is one that is not there.
pub(crate) const ROOMS: &[Room] = &[
    // Layer 0: the architecture's words; the simulated machine, which uses nothing of the engine; what command-line programs
    // share; and the seed of a run.
    room("vellum-vmsa", &[]),
    room("seed", &[]),
    room("machine", &["seed"]),
    room("terminal", &[]),
    // Layer 1.
    room("vellum-pagetable", &["vellum-vmsa"]),
    room("a64", &["machine"]),
    // Layer 2.
    room("vellum-linearmap", &["vellum-vmsa", "vellum-pagetable"]),
    room("vellum-userspace", &["vellum-vmsa", "vellum-pagetable"]),
    room("litmus", &["a64", "machine", "terminal"]),
    room("moncore", &["vellum-vmsa", "kerncore", "seed"]),
    // Layer 3. `checks` and `code` are where the engine and the machine meet, and the only places.
    room("kerncore", &["vellum-vmsa"]),
    room("hardware", &["vellum-vmsa", "vellum-pagetable", "kerncore"]),
    room("common", &["vellum-vmsa", "vellum-pagetable", "kerncore", "hardware"]),
    room("image", &["vellum-vmsa", "vellum-pagetable", "seed"]),
    room("code", &["vellum-vmsa", "vellum-pagetable", "machine", "a64", "terminal"]),
    room(
        "checks",
        &["vellum-vmsa", "vellum-pagetable", "vellum-linearmap", "vellum-userspace", "kerncore", "machine", "terminal"],
    ),
    // Layer 4. The zoo makes historical bugs in traces, and in the engine. `vellum judge` rules on traces by the machine's rules.
    room(
        "kernel",
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
    room("monitor", &["vellum-vmsa", "vellum-pagetable", "kerncore", "moncore", "hardware", "common"]),
    room("guests", &["vellum-vmsa", "vellum-pagetable", "kerncore", "moncore", "hardware", "seed"]),
    room("module", &[]),
    room("audit", &["machine"]),
    room(
        "vellum",
        &["vellum-vmsa", "vellum-pagetable", "vellum-linearmap", "kerncore", "image", "machine", "seed", "terminal"],
    ),
    room("zoo", &["checks", "machine", "terminal"]),
    room("logic", &["seed", "terminal"]),
    room("check", &["checks", "litmus", "zoo", "code", "logic", "terminal"]),
    room("xtask", &[]),
    room("programs", &[]),
    room("bench", &["vellum-vmsa", "vellum-pagetable", "vellum-linearmap", "seed"]),
];

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

/// The file that alone reads a descriptor as the way to the table below.
pub(crate) const WAYS_DOWN: &str = "engine/pagetable/src/walk.rs";

/// Lines of a source file that is not data, and of a function with its signature.
pub(crate) const FILE_LINES: usize = 400;
pub(crate) const FUNCTION_LINES: usize = 70;
