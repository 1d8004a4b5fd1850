//! What an address space has, for who asks.

use vmsa::Granule;

use crate::area::{AreaFlags, Rights};
use crate::embedder::Embedder;
use crate::limits::Usage;
use crate::state::State;

impl<E: Embedder> State<E> {
    /// The most bytes that were in areas by now, and the most pages that were in tables.
    pub(crate) fn peaks_now(&self) -> [u64; 2] {
        let resident = self.resident();
        [self.peaks[0].max(self.areas.bytes()), self.peaks[1].max(resident.own + resident.file)]
    }

    /// All that it has, beside so many tables.
    pub(crate) fn usage(&self, tables: u64) -> Usage {
        let is_stack = |area: &crate::Area<E::File>| area.flags.contains(AreaFlags::GROWS_DOWN);
        let resident = self.resident();
        Usage {
            mapped: self.areas.bytes() >> E::Granule::SHIFT,
            peak_mapped: self.peaks_now()[0] >> E::Granule::SHIFT,
            peak_resident: self.peaks_now()[1],
            data: self.pages(|area| area.is_data() && !is_stack(area)),
            stack: self.pages(is_stack),
            text: self.pages(|area| {
                area.rights.contains(Rights::EXECUTE) && !area.rights.contains(Rights::WRITE) && !is_stack(area)
            }),
            locked: self.pages(|area| area.flags.contains(AreaFlags::LOCKED)),
            anonymous: resident.own,
            file: resident.file,
            tables,
            committed: self.pages(|area| area.flags.contains(AreaFlags::ACCOUNTED)),
        }
    }
}
