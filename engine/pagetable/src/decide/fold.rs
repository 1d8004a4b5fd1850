//! Where neighbours can become one larger leaf.

use vmsa::{Descriptor, Geometry, Granule, TableAttributes};

use super::edit::content;
use super::{Decision, Edit, Regroup, State, state};
use crate::pieces::Content;
use crate::platform::{Platform, Slot};
use crate::regime::{Regime, marks};
use crate::walk::{Table, Visit, next_table};

/// What a table holds, all through.
#[derive(Clone, Copy)]
pub(super) enum Uniform {
    Nothing,
    Content(Content),
    Mixed,
}

/// A table that `visit` leads to, which the range covers whole: it goes if it is empty, and becomes a leaf if it holds what
/// one leaf could hold.
pub(super) fn decide_table<G: Granule, R: Regime, P: Platform>(
    platform: &P,
    geometry: Geometry<G>,
    regime: R,
    visit: &Visit,
) -> Decision {
    let Some(table) = next_table(geometry, visit) else { return Decision::Pass };
    match uniform::<G, R, P>(platform, geometry, regime, table) {
        Uniform::Nothing => Decision::Unlink,
        Uniform::Content(content) if content.fits::<G>(geometry.layout(), visit.level) && !is_limited(visit) => {
            match content.leaf(geometry.layout(), visit.level, visit.start) {
                Descriptor::INVALID => Decision::Enter,
                leaf if content.is_kept => Decision::Replace(leaf),
                leaf => Decision::Fold(leaf),
            }
        }
        _ => Decision::Enter,
    }
}

/// Whether all leaves below the table that `visit` leads to hold this content, but for what hardware writes.
pub(super) fn holds<G: Granule, R: Regime, P: Platform>(
    platform: &P,
    geometry: Geometry<G>,
    regime: R,
    visit: &Visit,
    content: &Content,
) -> bool {
    let Some(table) = next_table(geometry, visit).filter(|_| !is_limited(visit)) else { return false };
    match uniform::<G, R, P>(platform, geometry, regime, table) {
        Uniform::Content(held) => {
            let marks = marks::writable(regime, content.attributes);
            (held.delta, held.attributes & !marks, held.is_kept)
                == (content.delta, content.attributes & !marks, content.is_kept)
        }
        _ => false,
    }
}

/// A leaf that begins a group: it and its neighbours become one if they are alike.
pub(super) fn decide_group<G: Granule, R: Regime, P: Platform>(
    platform: &P,
    geometry: Geometry<G>,
    regime: R,
    to: u64,
    visit: &Visit,
) -> Decision {
    let first = content(geometry, visit.descriptor, visit.level, visit.start);
    let Some(bytes) = first.group_bytes::<G>(visit.level) else { return Decision::Pass };
    let is_candidate = !visit.descriptor.is_contiguous() && visit.start & (bytes - 1) == 0 && visit.start + bytes <= to;
    if !is_candidate {
        return Decision::Pass;
    }
    let shift = Geometry::<G>::shift(visit.level);
    let members = (bytes >> shift) as usize;
    let hardware = marks::writable(regime, first.attributes);
    let is_uniform = (1..members).all(|number| {
        let member = platform.load(visit.slot.after(number));
        let expected = first.leaf(geometry.layout(), visit.level, visit.start + ((number as u64) << shift));
        (member.bits() ^ expected.bits()) & !hardware == 0
    });
    if !is_uniform {
        return Decision::Pass;
    }
    let (start, end) = (visit.start, visit.start + bytes);
    Decision::Regroup(Regroup {
        first: visit.slot,
        members,
        present: !0,
        start,
        end,
        from: start,
        to: end,
        met_from: start,
        edit: Edit::KEEP,
        becomes_group: true,
        is_met_again: false,
        is_valid: true,
    })
}

fn uniform<G: Granule, R: Regime, P: Platform>(
    platform: &P,
    geometry: Geometry<G>,
    regime: R,
    table: Table,
) -> Uniform {
    let (layout, shift) = (geometry.layout(), Geometry::<G>::shift(table.level));
    let (mut all, entries, mut index) = (None, geometry.entries(table.level), 0);
    while index < entries {
        let start = table.start + ((index as u64) << shift);
        let slot = Slot::new(table.address, index);
        let descriptor = platform.load(slot);
        let visit = Visit { slot, level: table.level, descriptor, start, end: start + (1 << shift), from: 0, to: 0 };
        let one = uniform_slot::<G, R, P>(platform, geometry, regime, &visit);
        index += 1;
        all = Some(match all {
            None => one,
            Some(all) => join::<R>(regime, all, one),
        });
        match &mut all {
            Some(Uniform::Mixed) => return Uniform::Mixed,
            Some(Uniform::Content(content)) if !descriptor.is_table(table.level) => {
                let last = table.start + ((entries as u64 - 1) << shift);
                if content.is_linear(layout, start, last) {
                    index += gather_run(platform, regime, &visit, entries - index, content);
                }
            }
            _ => {}
        }
    }
    all.unwrap_or(Uniform::Nothing)
}

/// How many of the `most` slots after `visit` hold more of what it holds, but for marks, which `content` gets. Output addresses
/// go up by one leaf from slot to slot.
fn gather_run<R: Regime, P: Platform>(
    platform: &P,
    regime: R,
    visit: &Visit,
    most: usize,
    content: &mut Content,
) -> usize {
    /// As many as are looked at before it is asked whether they are alike: half the instructions for each.
    const TURNS: usize = 8;
    let ignored = marks::writable(regime, content.attributes) | Descriptor::CONTIGUOUS;
    let (first, bytes) = (visit.descriptor.bits(), visit.end - visit.start);
    let differs =
        |number: usize| platform.load(visit.slot.after(number)).bits() ^ first.wrapping_add(number as u64 * bytes);
    let (mut all, mut count) = (0, 0);
    while count < most {
        let turns = if most - count < TURNS { 1 } else { TURNS };
        let some = match turns {
            1 => differs(count + 1),
            _ => (1..=TURNS).fold(0, |some, number| some | differs(count + number)),
        };
        if some & !ignored != 0 {
            break;
        }
        (all, count) = (all | some, count + turns);
    }
    // A mark in which some differ from the first is one that any of them has.
    content.attributes = marks::with(regime, content.attributes, all & marks::all::<R::Attributes>());
    count
}

/// Whether the table that `visit` leads to has limits of its own, which others made: what it holds means less there than as a
/// leaf in its place.
const fn is_limited(visit: &Visit) -> bool {
    visit.descriptor.bits() & TableAttributes::LIMITS.bits() != 0
}

/// What one slot holds, be it a table.
fn uniform_slot<G: Granule, R: Regime, P: Platform>(
    platform: &P,
    geometry: Geometry<G>,
    regime: R,
    visit: &Visit,
) -> Uniform {
    match state(geometry, visit.level, visit.descriptor) {
        State::Hole => Uniform::Nothing,
        State::Leaf | State::Kept => Uniform::Content(content(geometry, visit.descriptor, visit.level, visit.start)),
        State::Table => {
            match next_table(geometry, visit).map(|next| uniform::<G, R, P>(platform, geometry, regime, next)) {
                Some(Uniform::Content(_)) if is_limited(visit) => Uniform::Mixed,
                Some(uniform) => uniform,
                None => Uniform::Mixed,
            }
        }
        State::Foreign => Uniform::Mixed,
    }
}

/// What two neighbours hold together. Of bits that hardware writes the larger truth is kept: accessed, dirty.
fn join<R: Regime>(regime: R, all: Uniform, one: Uniform) -> Uniform {
    match (all, one) {
        (Uniform::Nothing, Uniform::Nothing) => Uniform::Nothing,
        (Uniform::Content(all), Uniform::Content(one)) => {
            let hardware = marks::writable(regime, all.attributes);
            let is_alike = all.delta == one.delta
                && all.is_kept == one.is_kept
                && (all.attributes ^ one.attributes) & !hardware == 0;
            let attributes = marks::with(regime, all.attributes, marks::of::<R::Attributes>(one.attributes));
            if is_alike { Uniform::Content(Content { attributes, ..all }) } else { Uniform::Mixed }
        }
        _ => Uniform::Mixed,
    }
}
