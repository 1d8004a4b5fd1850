// data: boots that stress the linear map, and boots that have it otherwise.
//! All CPUs change pages of the linear map at once; it heals, and is as it was.

use super::{Boot, Expect::*, PAGE_SIZES, other};

/// Operations of each stress: enough for every kind of change on each CPU.
const OPERATIONS: &str = "--append vellum.stress=800";

/// Machines whose every CPU tolerates resizing, or is alone.
const LONELY: [(&str, &str); 3] = [
    ("4k, level 0, alone", "--cpu cortex-a57 --cpus 1"),
    ("64k, level 0, alone", "--cpu cortex-a57 --cpus 1 --page-size 64k"),
    ("16k, level 0, alone", "--cpus 1 --page-size 16k --append vellum.bbm=0"),
];

/// What else the linear map may be.
const OTHERWISE: [(&str, &str, &[&str]); 5] = [
    ("rodata=noalias", "--append rodata=noalias", &["read-only, but not in the linear map"]),
    ("rodata=off", "--append rodata=off --page-size 16k", &["writable (rodata asks for it)"]),
    ("rodata=full", "--append rodata=full --page-size 64k", &["read-only, in the linear map too"]),
    ("a linear map of pages", "--append vellum.linearmap=pages --page-size 16k", &["linear map: in pages"]),
    ("every change at every moment", "--append vellum.bbm=3 --append vellum.late=1 --cpus 4", &["at 4 moments)"]),
];

pub(super) fn all() -> Vec<Boot> {
    let mut boots = Vec::new();
    for size in PAGE_SIZES {
        for cpus in [1, 4, 8] {
            let options = format!("--page-size {size} --cpus {cpus} --append vellum.bbm=3");
            boots.push(stressed(&format!("{size}, level 3, {cpus} CPUs"), &options));
        }
    }
    boots.extend(LONELY.iter().map(|(name, options)| stressed(name, options)));
    boots.push(stressed(
        "above the monitor, all CPUs resize",
        "--monitor --machine bare/monitor/machines/all-resize.toml",
    ));
    boots.extend(OTHERWISE.iter().map(|(name, options, words)| other(name, options, &[], vec![Says(words)])));
    boots
}

fn stressed(name: &str, options: &str) -> Boot {
    let options = format!("--memory 2G {options} {OPERATIONS}");
    Boot {
        options,
        ..other(
            &format!("stress, {name}"),
            "",
            &[],
            vec![Says(&["0 changes refused", "0 pages wrong"]), Says(&["as it was before, leaf for leaf"])],
        )
    }
}
