//! Pages go: tables first, then TLBs, then frames.
//!
//! ```text
//!   leaves are read, their frames noted ──▶ unmapped ──▶ the gather is finished ──▶ the frames are released
//!   └───────────────────── as many at once as there is room to note ─────────────────────────────────────┘
//! ```
//! A frame that is released while a TLB still leads to it would be another's, and could be read and written through it.

use core::ops::{ControlFlow, Range};

use pagetable::{Change, Reserve};
use vmsa::{Geometry, Granule, Level, Meaning};

use crate::embedder::Embedder;
use crate::error::Short;
use crate::map::push;
use crate::shape::{Leaf, Note};
use crate::state::{Editing, State, Table, portion_of_tables};

impl<E: Embedder> State<E> {
    /// Unmaps the pages of a range. Tables that came free go into `supply`. After an error nothing has changed.
    pub(crate) fn remove_pages(
        &mut self,
        editing: &Editing<'_, E>,
        range: &Range<u64>,
        supply: &mut Reserve,
    ) -> Result<(), Short> {
        self.cut_leaves(editing, range, supply)?;
        self.peaks = self.peaks_now();
        let mut table = self.table(editing);
        let (mut at, mut portion_end) = (range.start, range.start);
        while at < range.end {
            if at == portion_end {
                portion_end = self.portion(editing, &(at..range.end))?;
            }
            let end = self.note_frames(&table, at..portion_end)?;
            unmap::<E>(&mut table, editing, at..end, supply)?;
            for (first, pages) in self.doomed.0.drain(..).zip(self.doomed.1.drain(..)) {
                editing.embedder.release_run(first, pages, E::Granule::SHIFT);
            }
            at = end;
            // All of it goes, whoever is to end: that takes no longer than the end of the space would.
            let _ = editing.embedder.goes_on();
        }
        Ok(())
    }

    /// Notes the frames that the leaves of a range refer to, as many as there is room for; up to where.
    fn note_frames(&mut self, table: &Table<'_, '_, E>, range: Range<u64>) -> Result<u64, Short> {
        let ((frames, counts), resident) = (&mut self.doomed, &mut self.resident);
        let noted = table.view().for_each_run(range.start.into()..range.end.into(), |entry, count| {
            let Meaning::Leaf(frame, _) = entry.lookup.meaning else { return ControlFlow::Continue(()) };
            let leaf = Leaf::new(frame, entry.lookup.descriptor);
            if !leaf.has(Note::COUNTED) {
                return ControlFlow::Continue(());
            }
            // Pages of one leaf lead on from each other, so that it never ends between them.
            let is_full = frames.len() == frames.capacity() || counts.len() == counts.capacity();
            let more = (count as u64) << (entry.shift - E::Granule::SHIFT);
            match (frames.last(), counts.last_mut()) {
                (Some(first), Some(pages)) if *first + (*pages << E::Granule::SHIFT) == frame => *pages += more,
                _ if is_full => return ControlFlow::Break(entry.input.into()),
                _ => {
                    push(frames, frame);
                    push(counts, more);
                }
            }
            resident.subtract_many(&leaf, more);
            ControlFlow::Continue(())
        })?;
        Ok(noted.break_value().unwrap_or(range.end))
    }

    /// Unlinks the tables that hold nothing any more since a range was unmapped and no area is there: those of which no address lies
    /// in an area.
    pub(crate) fn remove_tables(
        &mut self,
        editing: &Editing<'_, E>,
        range: &Range<u64>,
        supply: &mut Reserve,
    ) -> Result<(), Short> {
        let geometry = editing.shape.geometry;
        let low = self.areas.before(range.start + 1).map_or(0, |area| area.end);
        let high = self.areas.next(range.start).map_or(geometry.input_bytes(), |area| area.start);
        let mut table = self.table(editing);
        // What a descriptor of each level but the last leads to is a table.
        for level in Level::ALL.into_iter().rev().skip(1).filter(|&level| level >= geometry.start()) {
            let span = 1 << Geometry::<E::Granule>::shift(level);
            let outer = range.start & !(span - 1)..(range.end + span - 1) & !(span - 1);
            let start = if outer.start < low { outer.start + span } else { outer.start };
            let end = if outer.end > high { outer.end.saturating_sub(span) } else { outer.end };
            if start >= end {
                break;
            }
            let mut at = start;
            while at < end {
                let portion = portion_of_tables::<E>(&table, &(at..end))?;
                // Whole tables: a part of one is nothing that goes.
                let portion_end = portion.next_multiple_of(span).min(end);
                unmap::<E>(&mut table, editing, at..portion_end, supply)?;
                at = portion_end;
                let _ = editing.embedder.goes_on();
            }
        }
        Ok(())
    }
}

/// Unmaps a range and makes TLBs forget it.
pub(crate) fn unmap<E: Embedder>(
    table: &mut Table<'_, '_, E>,
    editing: &Editing<'_, E>,
    range: Range<u64>,
    supply: &mut Reserve,
) -> Result<(), Short> {
    let mut gather = table.gather();
    table.plan(&[Change::Unmap { from: range.start.into()..range.end.into() }], None)?.apply(supply, &mut gather)?;
    supply.refill(&editing.platform, gather.finish(&editing.platform));
    Ok(())
}
