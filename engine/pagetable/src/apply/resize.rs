//! Live leaves that change size: a leaf becomes a table, a table a leaf.

use vmsa::{Descriptor, Granule};

use super::Editor;
use crate::decide::{Edit, Part};
use crate::fill::{gather_hardware_writes, keep_hardware_writes};
use crate::invalidation::Depth;
use crate::licence::Method;
use crate::platform::Platform;
use crate::regime::{Attributes, Regime};
use crate::walk::{Next, Visit, next_table};

impl<G: Granule, R: Regime, P: Platform> Editor<'_, G, R, P> {
    /// A leaf becomes a table, of which a part is edited. The table is filled before any window opens.
    pub(super) fn resize(&mut self, visit: &Visit, part: &Part) -> Next {
        let leaf = visit.descriptor;
        if !self.is_live {
            self.link(visit, &part.pieces(self.geometry, leaf, visit.level, visit.start));
            return Next::Past(visit.end);
        }
        if self.method == Method::Break {
            let pieces = part.pieces(self.geometry, leaf, visit.level, visit.start);
            let table = self.build(visit.level, visit.start, &pieces);
            self.exchange_broken(visit, Depth::LastLevel, |editor, broken| {
                keep_hardware_writes::<G, R, P>(editor.platform, editor.geometry, visit.level, table, leaf, broken);
                editor.platform.store(visit.slot, table);
            });
            return Next::Past(visit.end);
        }
        // The table holds what the leaf held: nothing but the size may change at once (RPVTFW).
        let pieces = part.kept().pieces(self.geometry, leaf, visit.level, visit.start);
        let table = self.build(visit.level, visit.start, &pieces);
        if self.method == Method::NotCached {
            self.replace(visit.slot, leaf, |leaf| Descriptor::new(leaf.bits() | Descriptor::NT));
            self.forget_now(visit.level, visit.start, visit.end, Depth::LastLevel);
        }
        self.resize_in_place(visit, part.edit, table)
    }

    /// A leaf becomes a table that holds the same. What is to be edited is met again, as leaves of its own.
    fn resize_in_place(&mut self, visit: &Visit, edit: Edit, table: Descriptor) -> Next {
        let mut leaf = visit.descriptor;
        while let Err(actual) = self.swap(visit.slot, leaf, table) {
            keep_hardware_writes::<G, R, P>(self.platform, self.geometry, visit.level, table, leaf, actual);
            leaf = actual;
        }
        self.note_store();
        let changed = leaf.bits() ^ edit.apply(leaf).bits();
        if changed & !R::Attributes::IGNORED == 0 {
            // Nothing else would make TLBs forget the old leaf, and a level hint would miss it ever after.
            self.forget(visit.level, visit.start, visit.end);
        } else {
            // The TLBIs of the edit, by address and without a hint, forget the old leaf too.
            self.unhinted_to = visit.end;
        }
        if edit == Edit::KEEP { Next::Past(visit.end) } else { Next::Past(visit.from) }
    }

    /// A table whose leaves are alike becomes a leaf.
    pub(super) fn fold(&mut self, visit: &Visit, leaf: Descriptor) {
        let Some(table) = next_table(self.geometry, visit) else { return };
        match self.method {
            _ if !self.is_live => {
                self.platform.store(visit.slot, leaf);
                self.gather.retire(self.platform, table);
            }
            Method::Break => {
                self.exchange_broken(visit, Depth::AllLevels, |editor, _| {
                    // Walks through the broken table have ended: what hardware wrote below is final.
                    let gathered = gather_hardware_writes::<G, R, P>(editor.platform, editor.geometry, table, leaf);
                    editor.platform.store(visit.slot, gathered);
                });
                self.gather.retire(self.platform, table);
            }
            Method::NotCached => {
                let gathered = self.written_all_over(leaf);
                self.make(visit.slot, Descriptor::new(gathered.bits() | Descriptor::NT));
                self.forget_now(visit.level, visit.start, visit.end, Depth::AllLevels);
                self.make(visit.slot, gathered);
                self.forget(visit.level, visit.start, visit.end);
                self.gather.retire(self.platform, table);
            }
            Method::InPlace { .. } => {
                let gathered = self.written_all_over(leaf);
                self.make(visit.slot, gathered);
                self.gather.unlink(self.platform, table, visit.end - visit.start);
            }
        }
    }

    /// A leaf that stands for others which hardware may still be writing: it counts as accessed, and as dirty.
    fn written_all_over(&self, leaf: Descriptor) -> Descriptor {
        if !self.regime.has_hardware_updates() {
            return leaf;
        }
        let (_, clean, dirty) = R::Attributes::CLEAN;
        Descriptor::new(R::Attributes::keep_hardware_writes(leaf.bits(), clean, R::Attributes::ACCESS_FLAG | dirty))
    }
}
