//! The result of a comparison of programs.

/// The result of a comparison of programs.
#[derive(Default)]
pub(crate) struct Compared {
    /// Runs that are as on Linux, or differ as is known.
    pub(crate) same: usize,
    /// Other runs, and checks of our kernel that failed behind them.
    pub(crate) differing: usize,
    pub(crate) text: String,
    /// The package of the other kernel, or of the tests.
    pub(crate) package: String,
}

impl Compared {
    pub(super) fn count(&mut self, is_same: bool) {
        *(if is_same { &mut self.same } else { &mut self.differing }) += 1;
    }
}
