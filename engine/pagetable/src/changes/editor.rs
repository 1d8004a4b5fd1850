//! Who carries out decisions.

use vmsa::{Geometry, Granule};

use super::{Decision, Edit, Terms};
use crate::gather::Gather;
use crate::licence::{Licence, Method};
use crate::platform::Platform;
use crate::regime::Regime;
use crate::table::PageTable;
use crate::tables::Reserve;
use crate::walk::{Next, Visit};

/// Carries out decisions.
pub(crate) struct Editor<'e, G: Granule, R: Regime, P: Platform> {
    pub(crate) terms: Terms<'e, G, R, P>,
    pub(crate) platform: &'e P,
    pub(crate) geometry: Geometry<G>,
    pub(crate) regime: R,
    /// Whether hardware may walk the tables: without that no order matters.
    pub(super) is_live: bool,
    pub(super) reserve: &'e mut Reserve,
    pub(crate) gather: &'e mut Gather<G, R>,
}

impl<'e, G: Granule, R: Regime, P: Platform> Editor<'e, G, R, P> {
    /// An editor on these terms.
    #[inline(always)]
    pub(crate) fn new(terms: Terms<'e, G, R, P>, reserve: &'e mut Reserve, gather: &'e mut Gather<G, R>) -> Self {
        let PageTable { platform, geometry, regime, is_live, .. } = *terms.table;
        Self { terms, platform, geometry, regime, is_live, reserve, gather }
    }

    /// How live leaves change size.
    pub(super) fn method(&self) -> Method {
        self.terms.licence.map_or(Method::Break, Licence::method)
    }

    /// Does what was decided for `visit`, and says where to go on.
    #[inline(always)]
    pub(crate) fn carry_out(&mut self, decision: &Decision, visit: &Visit) -> Next {
        match decision {
            Decision::Enter => return Next::Enter,
            Decision::Pass | Decision::Refuse(_) => {}
            Decision::Make(leaf) => self.make(visit.slot, *leaf),
            Decision::Fill(content, end) => return self.fill(visit, content, *end),
            Decision::Link(pieces) => self.link(visit, pieces),
            // By itself, because it is the most frequent: with no more in its loop than it needs.
            Decision::Set(Edit::REMOVE, end) => return self.set(visit, Edit::REMOVE, *end),
            Decision::Set(edit, end) => return self.set(visit, *edit, *end),
            Decision::Clear => self.clear(visit),
            // Hardware has marked, since the plan, what was not to change. The mark came after the change, so that the leaf
            // stays.
            decision if self.terms.permit(decision, visit).is_err() => {}
            Decision::Unlink(new) => self.unlink(visit, *new),
            Decision::Remake(leaf) => self.remake(visit, *leaf),
            Decision::Rebuild(pieces) => self.rebuild(visit, pieces),
            Decision::Resize(part) => return self.resize(visit, part),
            Decision::Fold(leaf) => self.fold(visit, *leaf),
            Decision::Regroup(group) => return self.regroup(visit, *group),
        }
        Next::Past(visit.end)
    }
}
