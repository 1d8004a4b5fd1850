// data: the lists that the tidy test holds the workspace against; a change here is a change of the house.
//! Who may depend on whom, and where what may stand.

/// One crate and the crates of the workspace that it may use: layers below it, as ARCHITECTURE.md draws them.
pub(crate) struct Room {
    pub(crate) name: &'static str,
    pub(crate) may_use: &'static [&'static str],
}

const fn room(name: &'static str, may_use: &'static [&'static str]) -> Room {
    Room { name, may_use }
}

/// Every crate there is, and every one that is planned. A crate that is not listed is a finding.
pub(crate) const ROOMS: &[Room] = &[
    // Layer 0: the architecture's words; the simulated machine, which uses nothing of the engine; what command-line programs
    // share; and the seed of a run.
    room("vmsa", &[]),
    room("seed", &[]),
    room("machine", &["seed"]),
    room("terminal", &[]),
    // Layer 1.
    room("pagetable", &["vmsa"]),
    room("a64", &["machine"]),
    // Layer 2.
    room("litmus", &["a64", "machine", "terminal"]),
    room("linearmap", &["vmsa", "pagetable"]),
    room("userspace", &["vmsa", "pagetable"]),
    room("moncore", &["vmsa", "kerncore", "seed"]),
    // Layer 3. `checks` and `code` are where the engine and the machine meet, and the only places.
    room("kerncore", &["vmsa"]),
    room("hardware", &["vmsa", "pagetable"]),
    room("image", &["vmsa", "pagetable"]),
    room("capi", &["vmsa", "pagetable", "linearmap", "userspace"]),
    room("code", &["vmsa", "pagetable", "machine", "a64", "terminal"]),
    room("checks", &["vmsa", "pagetable", "linearmap", "userspace", "machine", "terminal"]),
    // Layer 4. The zoo makes historical bugs in traces, and in the engine. The monitor audits with the machine's rules, and `vellum judge` rules on traces with them.
    room("kernel", &["vmsa", "pagetable", "linearmap", "userspace", "kerncore", "hardware"]),
    room("monitor", &["vmsa", "pagetable", "kerncore", "moncore", "hardware", "machine"]),
    room("guests", &["vmsa", "pagetable", "kerncore", "moncore", "hardware", "seed"]),
    room("cli", &["vmsa", "pagetable", "image", "machine", "terminal"]),
    room("zoo", &["checks", "machine", "terminal"]),
    room("xtask", &[]),
    room("bench", &["vmsa", "pagetable", "seed"]),
];

/// What the tests of every crate may use, whatever the crate itself may.
pub(crate) const FOR_TESTS: &[&str] = &["seed"];

/// The engine's folder. Its crates are `no_std`, without statics and `unsafe`, and depend on each other and on
/// `ENGINE_DEPENDENCIES` only.
pub(crate) const ENGINE: &str = "engine/";
pub(crate) const ENGINE_DEPENDENCIES: &[&str] = &["bitflags"];

/// Where assembly may stand.
pub(crate) const ASSEMBLY: &[&str] = &["bare/hardware/"];

/// Where `unsafe` may stand. A single file may join these folders with a comment that gives its reason.
///
/// `bench/`: its arena and its peers walk tables through raw memory, as peers have no other way.
pub(crate) const UNSAFE: &[&str] = &["bare/", "host/capi/", "bench/src/memory.rs", "bench/src/peers/"];

/// The files that store descriptors (invariant 2), those of `apply` where a walker may see them and `fill.rs` where none can,
/// and the folder whose other files must not.
pub(crate) const DESCRIPTOR_STORES: (&str, [&str; 5]) = (
    "engine/pagetable/src/",
    [
        "engine/pagetable/src/apply/mod.rs",
        "engine/pagetable/src/apply/group.rs",
        "engine/pagetable/src/apply/resize.rs",
        "engine/pagetable/src/apply/steps.rs",
        "engine/pagetable/src/fill.rs",
    ],
);

/// Lines of a source file that is not data, and of a function with its signature.
pub(crate) const FILE_LINES: usize = 400;
pub(crate) const FUNCTION_LINES: usize = 70;
