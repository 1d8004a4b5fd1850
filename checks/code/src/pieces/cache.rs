//! `clean_to_poc`, which a CPU calls before it reads past its caches what a loader wrote, and `make_fetchable`, which Rust
//! calls when it has written instructions.

use machine::event::Level;

use super::{Case, Piece, Ran};
use crate::caches::{CTR, LINE};
use crate::finding::Found;
use crate::lab::{Lab, Patch};
use crate::shape::{CHOSEN, EARLY, Shape};

const DEVICE_TREE: u64 = 0x4800_0000;

pub(super) fn clean() -> Piece {
    let case = |bytes| Case::new(format!("{bytes} bytes"), move |lab, patch| clean_to_poc(lab, patch, bytes));
    Piece { name: "clean_to_poc", cases: [8, LINE, 3 * LINE].into_iter().map(case).collect() }
}

fn clean_to_poc(lab: &Lab, patch: Option<Patch>, bytes: u64) -> Result<Ran, Found> {
    let mut run = lab.run(patch);
    lab.reset(&mut run, 0, Level::El1, EARLY[0]);
    let places = || (DEVICE_TREE..DEVICE_TREE + bytes).step_by(8);
    for place in places() {
        run.store(0, place, place ^ 0xd00d_feed, true)?;
    }
    let back = lab.physical("build_identity_map");
    [(0, DEVICE_TREE), (1, DEVICE_TREE + bytes), (30, back)].into_iter().for_each(|(at, value)| run.set(0, at, value));
    run.run_to(0, lab.physical("clean_to_poc"), back, "it does not return")?;
    for place in places() {
        run.load(0, place, false)?;
    }
    Ok(Ran::of(run))
}

pub(super) fn fetchable(name: &'static str) -> Piece {
    let case = |shape: Shape| Case::new(shape.to_string(), move |lab, patch| make_fetchable(lab, patch, name, shape));
    Piece { name, cases: [CHOSEN[2], CHOSEN[6], CHOSEN[9]].into_iter().map(case).collect() }
}

fn make_fetchable(lab: &Lab, patch: Option<Patch>, name: &str, shape: Shape) -> Result<Ran, Found> {
    let mut run = lab.running(shape, patch);
    run.set_system(0, "CTR_EL0", CTR);
    let written = lab.physical("build_identity_map");
    let (code, back) = (lab.kernel.to_link(written), lab.link("handle_exception"));
    run.caches.write_code(written);
    [(0, code), (1, code + 4), (30, back)].into_iter().for_each(|(at, value)| run.set(0, at, value));
    run.run_to(0, lab.link(name), back, "it does not return")?;
    run.run(0, code, &[code])?;
    Ok(Ran::of(run))
}
