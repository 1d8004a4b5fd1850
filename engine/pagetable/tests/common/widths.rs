//! The widths of addresses at which tests run: their own, and 36, 48 and 52 bits. A process runs all tests at one of these, because they
//! all make their page tables alike.

use std::env;
use std::process::{Child, Command, Stdio};

use vellum_vmsa::{AddressHalf, Geometry, Granule, Layout, PageSize};

/// Names the width in the environment of such a process.
const WIDTH: &str = "VELLUM_TEST_WIDTH";

/// The width that was asked for.
pub(crate) fn asked() -> Option<u32> {
    env::var(WIDTH).ok().map(|bits| bits.parse().expect("a number of bits"))
}

/// The shape of so many bits, or of the width that was asked for.
pub(crate) fn shape<G: Granule>(bits: u32, half: AddressHalf) -> Geometry<G> {
    let bits = asked().unwrap_or(bits);
    Geometry::new(bits, layout::<G>(bits), half).unwrap()
}

/// The least layout that has so many bits.
pub(crate) const fn layout<G: Granule>(bits: u32) -> Layout {
    match G::PAGE_SIZE {
        _ if bits <= 48 => Layout::Bits48,
        PageSize::Size64K => Layout::Lpa,
        PageSize::Size4K | PageSize::Size16K => Layout::Lpa2,
    }
}

/// Runs all tests at each width, but those whose names have one of `own` in them: they are about widths of their own.
pub(crate) fn run_all(own: &[&str]) {
    let skips: Vec<&str> = own.iter().flat_map(|name| ["--skip", name]).collect();
    let run = |bits| {
        let mut tests = Command::new(env::current_exe().expect("a path"));
        tests.env(WIDTH, bits).args(&skips).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a process")
    };
    let ran: Vec<(&str, Child)> = ["36", "48", "52"].map(|bits| (bits, run(bits))).into();
    for (bits, child) in ran {
        let ran = child.wait_with_output().expect("a process");
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success() && !said.contains("running 0 tests"), "{bits} bits:\n{said}");
    }
}
