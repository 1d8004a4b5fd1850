//! Numbers that look random and are the same in every run: SplitMix64.

/// A sequence of them.
pub struct Random(u64);

impl Random {
    /// A generator of its own for each CPU.
    pub const fn new(seed: u64, cpu: usize) -> Self {
        Self(seed.wrapping_add((cpu as u64) << 56))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of `choices`, which are not none.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[(self.bits() % choices.len() as u64) as usize]
    }
}
