//! Text that a kernel reads without a lock, to see whether a fault was an atomic's: its page goes with its table and both are used anew,
//! or the linear map hides the page, or splits the block that it is read by.

use linearmap::Wanted;
use vmsa::{LeafSize, Level};

use super::draft::Draft;
use super::linear::{EVERY_3, at};

const PAGE: LeafSize = LeafSize::PAGE;
const BLOCK: LeafSize = LeafSize::single(Level::L2);

/// What AT and the load come to: both what is found first; a fault of AT, or what is there by now; a fault of the load.
const CHOICES: [(usize, usize); 3] = [(0, 0), (1, 0), (0, 1)];

/// Pages of text, and the block of the linear map by which their frames are read.
fn regions(draft: &mut Draft) -> (usize, usize) {
    at(draft, EVERY_3);
    let (text, block) = (draft.region(&[(0..2, PAGE)]), draft.block());
    let linear = draft.region(&[]);
    let alias = draft.map_like(linear, 0..block, BLOCK, text);
    draft.begin_with(linear, alias);
    (text, linear)
}

/// Every CPU but the first recognizes what the first page begins with.
fn readers(draft: &mut Draft, (text, linear): (usize, usize)) {
    for cpu in 1..draft.parameters().cpus {
        draft.recognize(cpu, (text, 0), linear, &CHOICES);
    }
}

pub(super) fn goes(draft: &mut Draft) {
    let regions = regions(draft);
    draft.set_pool(6);
    let (text, block, other) = (regions.0, draft.block(), draft.region(&[]));
    let gone = draft.unmap(text, 0..block);
    let come = draft.map(other, 0..2, PAGE);
    for (region, change) in [(text, gone), (other, come)] {
        draft.change(0, region, vec![change]);
        draft.finish(0);
    }
    readers(draft, regions);
}

pub(super) fn is_hidden(draft: &mut Draft) {
    let regions = regions(draft);
    for wanted in [Wanted::Hidden, Wanted::Shown] {
        draft.want(0, regions.1, std::slice::from_ref(&(0..1)), wanted);
    }
    readers(draft, regions);
}

pub(super) fn is_split(draft: &mut Draft) {
    let regions = regions(draft);
    draft.want(0, regions.1, std::slice::from_ref(&(5..6)), Wanted::ReadOnly);
    readers(draft, regions);
}
