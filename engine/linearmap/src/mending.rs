//! Healing a slot: the engine folds upwards from it ([`pagetable::PageTable::fold_up`]), as far as all is alike.
//!
//! So a look at a slot reads a table at each level at most, whatever else the map holds, and mostly as far as to the first thing that
//! differs: who is last to become whole folds for all of them.

use pagetable::{Licence, Reserve};
use vmsa::{Granule, VirtAddr};

use crate::counters::Counted;
use crate::embedder::Embedder;
use crate::resized::{Made, Resized};
use crate::standing::Way;
use crate::state::State;

impl<G: Granule> State<G> {
    /// Looks at `budget` slots of those that are due ([`crate::healing::Healing::take`]), and folds what can. Says whether more is left. Tables that
    /// the reserve does not take go to `excess`.
    pub(crate) fn heal<E: Embedder<Granule = G>>(
        &mut self,
        embedder: &E,
        due: u64,
        budget: usize,
        excess: &mut Reserve,
    ) -> bool {
        if !self.healing.has_due(due) {
            return false;
        }
        let counted = Counted::new(embedder.platform());
        let mut table = self.table(&counted);
        let geometry = self.map.geometry;
        let (healing, within, announces) = (&mut self.healing, self.map.range.clone(), embedder.announces());
        let mut retired = None;
        let mut mend = |licence: &Licence<'_>| {
            let (mut left, mut gather) = (budget, table.gather());
            let mut resized = (announces && licence.is_in_place()).then_some(Resized::NONE);
            while left > 0
                && let Some(slots) = healing.take(due)
            {
                let mut at = slots.start;
                while at < slots.end && left > 0 {
                    left -= 1;
                    let slot_end = healing.slot_end(at);
                    at = match healing.is_fresh(at) {
                        true => slot_end,
                        false => {
                            let input = VirtAddr::new(geometry.input(at));
                            let slot = input..VirtAddr::new(geometry.input(slot_end));
                            let made = resized.is_some().then(|| Made::read(&table.view(), &slot));
                            let held = table.fold_up(input, &within, Some(licence), &mut gather);
                            let bytes = held.size_bytes(G::PAGE_SIZE);
                            let changed = made.and_then(|made| made.changed(&table.view(), slot));
                            if let (Some(leaf), Some(resized)) = (changed, &mut resized) {
                                resized.add(leaf);
                            }
                            // Behind the leaf that holds `at` now.
                            ((at & !(bytes - 1)) + bytes).max(slot_end)
                        }
                    };
                }
                if at < slots.end {
                    healing.put_back(at..slots.end);
                }
            }
            // TLBs have forgotten before a parked CPU walks again. How far a leaf grows is known once it has: the announcement
            // comes before anybody forgets.
            let mut finish = || retired = Some(gather.finish(&counted));
            match resized.as_ref().map(Resized::leaves) {
                None | Some([]) => finish(),
                Some(leaves) => embedder.announce(leaves, &mut finish),
            }
        };
        let mut is_parked = true;
        match self.standing.way() {
            (Way::InPlace, licence) => mend(&licence),
            (Way::Window, _) => embedder.in_window(&mut mend),
            (Way::Park, _) => is_parked = embedder.park(&mut mend).is_ok(),
        }
        self.counters.not_parked += u64::from(!is_parked);
        if let Some(retired) = retired {
            self.counters.folds += retired.count() as u64;
            self.recycle(&counted, retired, excess);
        }
        self.counters.add(&counted);
        // Who cannot park now is not asked again at once.
        is_parked && self.healing.has_due(due)
    }
}
