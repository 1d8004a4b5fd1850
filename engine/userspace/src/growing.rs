//! What grows where it ends: the heap up, by `brk`, and stacks down, by faults.

use pagetable::Reserve;
use vmsa::Granule;

use crate::area::{Area, AreaFlags, Backing, Rights};
use crate::embedder::Embedder;
use crate::error::{Error, Short};
use crate::mapping::{Place, Wished, round_up};
use crate::state::{Editing, State};

impl<E: Embedder> State<E> {
    /// Moves the break, and says where it is then: where it was if it cannot be moved.
    pub(crate) fn set_break(
        &mut self,
        editing: &Editing<'_, E>,
        wanted: u64,
        supply: &mut Reserve,
    ) -> Result<u64, Short> {
        let (Ok(old), Ok(new)) = (round_up::<E::Granule>(self.heap.end), round_up::<E::Granule>(wanted)) else {
            return Ok(self.heap.end);
        };
        if wanted < self.heap.start {
            return Ok(self.heap.end);
        }
        let moved = if new < old {
            self.remove(editing, &(new..old), supply)
        } else if new > old {
            self.grow_heap(editing, old, new, supply)
        } else {
            Ok(())
        };
        match moved {
            Ok(()) => self.heap.end = wanted,
            Err(Short::Error(_)) => {}
            Err(tables) => return Err(tables),
        }
        Ok(self.heap.end)
    }

    fn grow_heap(&mut self, editing: &Editing<'_, E>, old: u64, new: u64, supply: &mut Reserve) -> Result<(), Short> {
        // A page stays free between.
        let starts_by = |area| crate::areas::guarded_start(area, editing.shape.guard_bytes) <= new;
        let is_near = self.areas.next(old).is_some_and(starts_by);
        // The heap's limit is of its bytes, whatever else is data.
        if is_near || new - self.heap.start > self.limits.data {
            return Err(Error::NoMemory.into());
        }
        let wished = Wished {
            place: Place::FixedNoReplace(old),
            bytes: new - old,
            rights: Rights::READ | Rights::WRITE,
            most: Rights::all(),
            flags: AreaFlags::empty(),
            file: None,
        };
        self.map(editing, &wished, supply).map(|_| ())
    }

    /// Has the stack above `page` grow to hold it, if there is one that may. Whether there is an area now.
    pub(crate) fn grow_stack(&mut self, editing: &Editing<'_, E>, page: u64) -> bool {
        // Since the fault found nothing there another has had the whole.
        if self.areas.find(page).is_some() {
            return true;
        }
        let Some(stack) = self.areas.next(page) else { return false };
        if !stack.flags.contains(AreaFlags::GROWS_DOWN) || page < editing.shape.lowest {
            return false;
        }
        let bytes = stack.end - page;
        let guard = editing.shape.guard_bytes;
        // What may not be used at all guards as well as a gap does, and so does another stack.
        let is_near = self.areas.before(page).is_some_and(|below| {
            let counts = !below.flags.contains(AreaFlags::GROWS_DOWN) && !below.rights.is_empty();
            counts && page - below.end < guard
        });
        let grown = Area {
            start: page,
            end: stack.start,
            backing: match &stack.backing {
                Backing::Anonymous { origin } => Backing::Anonymous { origin: origin.wrapping_sub(stack.start - page) },
                // A file has nothing before its start.
                Backing::File { .. } => return false,
            },
            ..stack.clone()
        };
        let is_promised = grown.flags.contains(AreaFlags::ACCOUNTED);
        let range = grown.range();
        if is_near || bytes > self.limits.stack || self.check_limits(&grown, &range).is_err() {
            return false;
        }
        // One more in the map, for the moment in which it joins.
        let pages = grown.bytes() >> E::Granule::SHIFT;
        if self.reserve_areas(editing, 1).is_err() || is_promised && !editing.embedder.commit(pages) {
            return false;
        }
        self.areas.insert(grown);
        true
    }
}
