//! `mprotect`: area by area, as far as it goes.

use core::ops::{ControlFlow, Range};

use pagetable::{Change, Reserve};
use vmsa::Granule;

use crate::area::{AreaFlags, Rights};
use crate::embedder::Embedder;
use crate::error::{Error, Short};
use crate::state::{Editing, State, for_each_leaf};

impl<E: Embedder> State<E> {
    /// Gives the areas of a range these rights, up to the first hole or the first that may not have them: what came before has
    /// them then, as on Linux.
    pub(crate) fn protect(
        &mut self,
        editing: &Editing<'_, E>,
        range: &Range<u64>,
        rights: Rights,
        supply: &mut Reserve,
    ) -> Result<(), Short> {
        let mut at = range.start;
        while at < range.end {
            let Some(area) = self.areas.find(at) else { return Err(Error::NoMemory.into()) };
            if !area.most.contains(rights) {
                return Err(Error::Denied.into());
            }
            let end = area.end.min(range.end);
            if area.rights != rights {
                self.protect_part(editing, &(at..end), rights, supply)?;
            }
            at = end;
            if !editing.embedder.goes_on() {
                return Err(Error::Interrupted.into());
            }
        }
        Ok(())
    }

    /// The same of a part of one area.
    fn protect_part(
        &mut self,
        editing: &Editing<'_, E>,
        part: &Range<u64>,
        rights: Rights,
        supply: &mut Reserve,
    ) -> Result<(), Short> {
        self.check_room(editing, part, 0)?;
        let Some(area) = self.areas.find(part.start) else { return Err(Error::NoMemory.into()) };
        let becomes_data = rights.contains(Rights::WRITE) && !area.is_data() && !area.is_shared();
        if becomes_data {
            let becomes = crate::Area { rights, ..area.part(part.start, part.end) };
            self.check_limits(&becomes, part)?;
        }
        let is_promised = becomes_data && !area.flags.intersects(AreaFlags::ACCOUNTED | AreaFlags::NO_RESERVE);
        let is_stricter =
            !rights.contains(area.rights) || editing.shape.change(rights) != editing.shape.change(area.rights);
        let pages = (part.end - part.start) >> E::Granule::SHIFT;
        self.cut_leaves(editing, part, supply)?;
        if is_promised && !editing.embedder.commit(pages) {
            return Err(Error::NoMemory.into());
        }
        if is_stricter {
            let (set, clear) = editing.shape.change(rights);
            let mut table = self.table(editing);
            if rights.contains(Rights::EXECUTE) && !area.rights.contains(Rights::EXECUTE) {
                // What the program has written is code from now on, as it is where Linux makes a page executable.
                for_each_leaf::<E, ()>(&table, part, |_, leaf| {
                    // All of it: rights and leaves change as one.
                    let _ = editing.embedder.goes_on();
                    editing.embedder.make_fetchable(leaf.frame);
                    ControlFlow::Continue(())
                })?;
            }
            let licence = editing.licence();
            let mut at = part.start;
            while at < part.end {
                let end = self.portion(editing, &(at..part.end))?;
                let change = [Change::ProtectSparse { from: at.into()..end.into(), set, clear }];
                let mut gather = table.gather();
                let changed = table.plan(&change, Some(&licence)).and_then(|mut plan| plan.apply(supply, &mut gather));
                supply.refill(&editing.platform, gather.finish(&editing.platform));
                // Nothing lacks: no leaf is cut any more.
                changed?;
                at = end;
                let _ = editing.embedder.goes_on();
            }
        }
        self.version += 1;
        self.areas.update(part, |area| {
            area.rights = rights;
            area.flags.set(AreaFlags::ACCOUNTED, is_promised || area.flags.contains(AreaFlags::ACCOUNTED));
        });
        self.fold_ends(editing, part, supply);
        Ok(())
    }
}
