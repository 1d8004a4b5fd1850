//! Live leaves that change size: a leaf becomes a table, a table a leaf.

use vmsa::{Descriptor, Granule};

use super::Editor;
use super::steps::Built;
use crate::decide::{Edit, Part};
use crate::fill::gather_marks;
use crate::invalidation::Depth;
use crate::licence::Method;
use crate::platform::Platform;
use crate::regime::{Attributes, Regime, marks};
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
            let built = self.build_part(visit, part, leaf);
            self.exchange_broken(visit, Depth::LastLevel, |editor, broken| {
                let table = editor.build_part_again(visit, part, built, broken);
                editor.platform.store(visit.slot, table);
            });
            return Next::Past(visit.end);
        }
        // The table holds what the leaf held: nothing but the size may change at once (RPVTFW).
        let built = self.build_part(visit, &part.kept(), leaf);
        if self.method == Method::NotCached {
            self.writer().replace(visit.slot, leaf, |leaf| Descriptor::new(leaf.bits() | Descriptor::NT));
            self.forget_now(visit.level, visit.start, visit.end, Depth::LastLevel);
        }
        self.resize_in_place(visit, part, built)
    }

    fn build_part(&mut self, visit: &Visit, part: &Part, leaf: Descriptor) -> Built {
        let pieces = part.pieces(self.geometry, leaf, visit.level, visit.start);
        Built { leaf, table: self.build(visit.level, visit.start, &pieces) }
    }

    fn build_part_again(&mut self, visit: &Visit, part: &Part, built: Built, now: Descriptor) -> Descriptor {
        let (geometry, level, start) = (self.geometry, visit.level, visit.start);
        self.build_again((level, start), built, now, |leaf| part.pieces(geometry, leaf, level, start))
    }

    /// A leaf becomes a table that holds the same. What is to be edited is met again, as leaves of its own.
    fn resize_in_place(&mut self, visit: &Visit, part: &Part, mut built: Built) -> Next {
        let mut leaf = visit.descriptor;
        while let Err(actual) = self.writer().swap(visit.slot, leaf, built.table) {
            let table = self.build_part_again(visit, &part.kept(), built, actual);
            (leaf, built) = (actual, Built { leaf: self.marked_as(built.leaf, actual), table });
        }
        self.note_store();
        let changed = leaf.bits() ^ part.edit.apply(leaf).bits();
        if changed & !R::Attributes::IGNORED & !marks::writable(self.regime, leaf.bits()) == 0 {
            // Nothing else is sure to make TLBs forget the old leaf (hardware may do what the edit would have done), and a level
            // hint would miss it ever after.
            self.forget(visit.level, visit.start, visit.end);
        } else {
            // The TLBIs of the edit, by address and without a level hint, forget the old leaf too, all of it. A block takes one
            // TLBI by any address in it, be it cached as many entries (RLGSCG, RLQLSD): the TLBI does not know what the tables
            // hold by now, and where there are no hints (no FEAT_TTL) every TLBI of a block is one like this. So from then on
            // no TLB holds a piece of the block, and later TLBIs may name the level of the pages.
            self.gather.note_resize(visit.start, visit.end);
        }
        if part.edit == Edit::KEEP { Next::Past(visit.end) } else { Next::Past(visit.from) }
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
                    let gathered = gather_marks(editor.platform, editor.geometry, editor.regime, table, leaf);
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
        Descriptor::new(marks::with(self.regime, leaf.bits(), marks::all::<R::Attributes>()))
    }
}
