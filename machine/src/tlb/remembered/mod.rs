//! What was answered before, while it still holds: the one place where answers are kept. `May` asks here first and computes
//! what is not known; whatever changes says so here. `Remembered::nothing` knows nothing ever, and every answer is computed
//! afresh, from what is written and what is stale: `tests/afresh.rs` shows that the verdicts are the same.
//!
//! ```text
//! question ──▶ known? ──no──▶ computed ──learn──▶ known ◀──forget── a word, who walks, who holds
//! ```

mod answers;
mod outputs;

use alloc::sync::Arc;

pub(crate) use answers::{Answer, FaultBeneath, Leaf, Way};
pub(crate) use outputs::Outputs;

use answers::{Answers, Key};

/// All of it. A clone knows nothing, so that snapshots stay small.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    is_off: bool,
    answers: Answers,
    outputs: Outputs,
}

impl Clone for Remembered {
    fn clone(&self) -> Self {
        Self { is_off: self.is_off, ..Self::default() }
    }
}

impl Remembered {
    /// Nothing, from now on.
    pub(crate) fn nothing() -> Self {
        Self { is_off: true, ..Self::default() }
    }

    /// True when every answer is to be computed, by the plainest question.
    pub(crate) const fn is_off(&self) -> bool {
        self.is_off
    }

    /// Stage 2's answer for VMID and pages `key`.
    pub(crate) fn answer(&self, key: Key, ask: impl Fn() -> Answer) -> Arc<Answer> {
        if let Some(known) = self.answers.get(key) {
            return known;
        }
        let answer = Arc::new(ask());
        if !self.is_off {
            self.answers.learn(key, &answer);
        }
        answer
    }

    /// Where words lead, if that is known.
    pub(crate) fn outputs(&mut self) -> &mut Outputs {
        &mut self.outputs
    }

    /// Somebody asks where words lead: true when every word is to be noted first.
    pub(crate) fn begin_outputs(&mut self) -> bool {
        if self.is_off {
            self.outputs = Outputs::default();
        }
        self.outputs.begin()
    }

    /// Stage 2 of `vmid` may answer differently for `first..=last`.
    pub(crate) fn forget_beneath(&mut self, vmid: u16, first: u64, last: u64) {
        self.answers.forget(vmid, first >> 12, last >> 12);
    }

    /// Nobody walks any more.
    pub(crate) fn forget_answers(&mut self) {
        self.answers = Answers::default();
    }
}
