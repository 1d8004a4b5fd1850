//! Which words more than one CPU uses: found out as runs go by. A load of any other word concerns nobody else.

use std::collections::{BTreeMap, BTreeSet};

/// Who uses which words.
#[derive(Clone, Debug, Default)]
pub struct Sharing {
    /// CPUs that read, and that write.
    users: BTreeMap<u64, (u8, u8)>,
    shared: BTreeSet<u64>,
    has_grown: bool,
}

impl Sharing {
    /// `cpu` uses `word`.
    pub(crate) fn note(&mut self, cpu: u8, word: u64, is_store: bool) {
        let (readers, writers) = self.users.entry(word).or_default();
        *if is_store { &mut *writers } else { &mut *readers } |= 1 << cpu;
        let is_shared = *writers != 0 && (*readers | *writers).count_ones() > 1;
        if is_shared && self.shared.insert(word) {
            self.has_grown = true;
        }
    }

    /// Whether the order of uses of `word` matters.
    pub(crate) fn is_shared(&self, word: u64) -> bool {
        self.shared.contains(&word)
    }

    /// Whether a word turned out to be shared since the last call: then what was explored so far is not all there is.
    pub(crate) fn take_growth(&mut self) -> bool {
        std::mem::take(&mut self.has_grown)
    }
}
