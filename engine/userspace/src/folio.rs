//! Folios: pages side by side that a write to anonymous memory fills at once, and that one leaf maps: a contiguous group, a block.
//!
//! ```text
//!  area   |····:················:····|      the largest aligned range around the page that the area has, and of holes alone
//!              |==== folio =====|           no memory for it: the page by itself
//! ```
//! What is read first, where a block may be and no table is, is one leaf too: of zeros that all share. Who writes there has a folio in its
//! place, as if nothing were there.
//!
//! Each frame of it counts its own references: whoever unmaps, copies or protects a part makes leaves smaller first, and no frame
//! need know that it was of a folio.

use core::ops::{ControlFlow, Range};

use pagetable::{Change, El1, Hole, Refusal, Reserve, Root};
use vmsa::{Granule, LeafSize, Level, PhysAddr};

use crate::area::{Area, AreaFlags, Backing, Rights};
use crate::embedder::Embedder;
use crate::error::Short;
use crate::removing::unmap;
use crate::shape::Leaf;
use crate::state::{Editing, State, Table, for_each_leaf, leaf_at};

/// What was made: `1 << order` frames side by side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Made {
    pub(crate) frame: PhysAddr,
    pub(crate) order: u32,
}

impl Made {
    /// Its frames.
    pub(crate) fn frames<E: Embedder>(self) -> impl Iterator<Item = PhysAddr> {
        (0..1_u64 << self.order).map(move |page| self.frame + (page << E::Granule::SHIFT))
    }
}

/// How placing ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Placed {
    Done,
    /// Something has changed since.
    Changed,
}

impl<E: Embedder> State<E> {
    /// Puts a folio in place, be it of zeros that are there, unless there is something else meanwhile.
    #[inline(never)]
    pub(crate) fn place_folio(
        &self,
        editing: &Editing<'_, E>,
        table: &mut Table<'_, '_, E>,
        (page, order): (u64, u32),
        (was, new): (Option<Leaf>, Leaf),
        supply: &mut Reserve,
    ) -> Result<Placed, Short> {
        let folio = around::<E>(page, order);
        if let Some(zeros) = was {
            let is_there = |(leaf, whole): &(Leaf, Range<u64>)| {
                leaf.frame == zeros.frame && whole.start <= folio.start && folio.end <= whole.end
            };
            let Some((_, whole)) = leaf_at::<E>(&table.view(), page).filter(is_there) else {
                return Ok(Placed::Changed);
            };
            // A live leaf leads elsewhere only by break-before-make (RWHZWS).
            self.cut_leaf(editing, folio.start, supply)?;
            // Where both end, what comes next may be another part's.
            if folio.end < whole.end {
                self.cut_leaf(editing, folio.end, supply)?;
            }
            unmap::<E>(table, editing, folio.clone(), supply)?;
        }
        if is_group::<E>(order) && table.map_group(folio.start.into(), new.frame, new.attributes) {
            self.note_placed(&folio, &new);
            return Ok(Placed::Done);
        }
        let from = folio.start.into()..folio.end.into();
        let map = [Change::Map { from, to: new.frame, attributes: new.attributes, largest: LeafSize::LARGEST }];
        let mut gather = table.gather();
        let mut plan = match table.plan(&map, None) {
            Err(Refusal::AlreadyMapped(_)) => return Ok(Placed::Changed),
            plan => plan?,
        };
        plan.apply(supply, &mut gather)?;
        supply.refill(&editing.platform, gather.finish(&editing.platform));
        self.note_placed(&folio, &new);
        Ok(Placed::Done)
    }

    fn note_placed(&self, folio: &Range<u64>, new: &Leaf) {
        self.parts.of::<E::Granule>(folio.start).add(new, (folio.end - folio.start) >> E::Granule::SHIFT);
        self.note_folio();
    }
}

/// The orders of the folios that an area may have, a bit each.
#[inline(always)]
pub(crate) fn orders<E: Embedder>(editing: &Editing<'_, E>, area: &Area<E::File>) -> u32 {
    if matches!(area.backing, Backing::Anonymous { .. }) { orders_of(editing, area.flags) } else { 0 }
}

/// The same, of an area without a file that has these flags: none is larger than a block.
#[inline(always)]
pub(crate) fn orders_of<E: Embedder>(editing: &Editing<'_, E>, flags: AreaFlags) -> u32 {
    if flags.contains(AreaFlags::NOT_HUGE) {
        return 0;
    }
    editing.embedder.folio_orders(flags.contains(AreaFlags::HUGE)) & ((2 << block_order::<E>()) - 2)
}

/// The order of a block.
pub(crate) const fn block_order<E: Embedder>() -> u32 {
    E::Granule::SHIFT - 3
}

/// The order of the largest folio that may be made around a page of anonymous memory: its area has all of it, and it is of holes.
pub(crate) fn order<E: Embedder>(
    root: &Root<E::Granule, El1>,
    editing: &Editing<'_, E>,
    area: &Area<E::File>,
    page: u64,
) -> Result<u32, Refusal> {
    let mut orders = orders(editing, area);
    while let Some(order) = orders.checked_ilog2() {
        let folio = around::<E>(page, order);
        let is_inside = area.start <= folio.start && folio.end <= area.end;
        if is_inside && is_empty::<E>(&root.on(&editing.platform), &folio, order)? {
            return Ok(order);
        }
        orders &= !(1 << order);
    }
    Ok(0)
}

/// The same, of an area that may have folios of these orders, where a table of pages has a hole for the page; `None` where a folio may
/// come that is no contiguous group of that table's.
#[inline(never)]
pub(crate) fn order_at<E: Embedder>(
    table: &Table<'_, '_, E>,
    area: &Area<E::File>,
    (address, hole): (u64, Hole),
    mut orders: u32,
) -> Option<u32> {
    while let Some(order) = orders.checked_ilog2() {
        let folio = around::<E>(address, order);
        if area.start <= folio.start && folio.end <= area.end {
            if !is_group::<E>(order) {
                return None;
            }
            if table.is_hole_of_group(hole) {
                return Some(order);
            }
        }
        orders &= !(1 << order);
    }
    Some(0)
}

/// The order of the zeros around a page that is read where no table is: a block's, where a write may fill one, as none is larger. Text is made fetchable page
/// by page, and has zeros so.
#[inline(never)]
pub(crate) fn order_of_zeros<E: Embedder>(editing: &Editing<'_, E>, area: &Area<E::File>, page: u64) -> u32 {
    let order = block_order::<E>();
    let block = around::<E>(page, order);
    let is_inside = area.start <= block.start && block.end <= area.end && !area.rights.contains(Rights::EXECUTE);
    if is_inside && orders(editing, area) >> order == 1 { order } else { 0 }
}

/// The order of the largest folio that may take the place of zeros of which a leaf has these: they are as good as holes.
pub(crate) fn order_within<E: Embedder>(editing: &Editing<'_, E>, area: &Area<E::File>, zeros: &Range<u64>) -> u32 {
    let pages = ((zeros.end - zeros.start) >> E::Granule::SHIFT) as u32;
    // Leaves are aligned to their size, and none is of two areas.
    orders(editing, area).checked_rem(2 * pages).and_then(u32::checked_ilog2).unwrap_or(0)
}

/// Whether nothing is mapped where a folio is to be.
#[inline(never)]
fn is_empty<E: Embedder>(table: &Table<'_, '_, E>, folio: &Range<u64>, order: u32) -> Result<bool, Refusal> {
    if is_group::<E>(order) {
        return Ok(table.is_group_empty(folio.start.into()));
    }
    Ok(for_each_leaf::<E, ()>(table, folio, |_, _| ControlFlow::Break(()))?.is_none())
}

/// Whether folios of an order are contiguous groups of pages.
fn is_group<E: Embedder>(order: u32) -> bool {
    order == group_order::<E>()
}

/// The order of a contiguous group of pages, which pages of every size have.
pub(crate) const fn group_order<E: Embedder>() -> u32 {
    match E::Granule::PAGE_SIZE.contiguous_shift(Level::L3) {
        Some(order) => order,
        None => 0,
    }
}

/// The folio of an order that a page lies in.
pub(crate) const fn around<E: Embedder>(page: u64, order: u32) -> Range<u64> {
    let bytes = E::Granule::SIZE_BYTES << order;
    let start = page & !(bytes - 1);
    start..start + bytes
}

/// Zeros to be read, which are nobody's.
pub(crate) fn shared_zeros<E: Embedder>(embedder: &E, order: u32) -> Made {
    let zeros = if order > 0 { embedder.zeros(order) } else { None };
    zeros.map_or_else(|| Made { frame: embedder.zero_frame(), order: 0 }, |frame| Made { frame, order })
}

/// A folio of zeros; a contiguous group or a page where there is none.
pub(crate) fn zeros<E: Embedder>(embedder: &E, order: u32) -> Option<Made> {
    let group = Some(group_order::<E>()).filter(|&group| group < order);
    let take = |order| embedder.take_folio(order).map(|frame| Made { frame, order });
    let folio = take(order).or_else(|| take(group?));
    let made = folio.or_else(|| Some(Made { frame: embedder.take()?, order: 0 }))?;
    embedder.zero_folio(made.frame, made.order);
    Some(made)
}
