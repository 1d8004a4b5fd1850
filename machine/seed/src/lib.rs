//! The seed of a run: one 64-bit number from which every random choice follows, so that a run repeats exactly.
//!
//! What a seed leads to is part of what is recorded: schedules, traces of failures, counts in documents. No library's
//! generator is promised to stay as it is, so this one is ours; a test pins it. `inline`, because simulations draw and digest
//! at every event.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "std")]
extern crate std;

#[cfg(feature = "std")]
pub mod feed;

use core::hash::Hasher;

/// What SplitMix64 adds from one number to the next (Steele, Lea and Flood, 2014).
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A small deterministic generator (SplitMix64): the same seed gives the same choices on every host.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Seed(u64);

impl Seed {
    /// A generator that starts at `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator of its own for each CPU.
    pub const fn of_cpu(seed: u64, cpu: usize) -> Self {
        Self(seed.wrapping_add((cpu as u64) << 56))
    }

    /// The next 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// Random bytes without end.
    pub fn bytes(&mut self) -> impl Iterator<Item = u8> {
        core::iter::repeat_with(|| self.bits() as u8)
    }

    /// A number below `limit`, which must not be zero.
    #[inline]
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u64
    }

    /// An index below `length`, which must not be zero.
    #[inline]
    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// True once in `n` calls, on average.
    #[inline]
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of `choices`, which must not be empty.
    #[inline]
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.index(choices.len())]
    }
}

/// The finalizer of SplitMix64: spreads every input bit over all output bits.
#[inline]
pub const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A `Hasher` without hidden state, for digests that must be the same in every run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Digest(u64);

impl Digest {
    /// The digest of nothing.
    pub const fn new() -> Self {
        Self(0x243f_6a88_85a3_08d3)
    }
}

impl Default for Digest {
    fn default() -> Self {
        Self::new()
    }
}

impl Hasher for Digest {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.0 = mix(self.0.rotate_left(5) ^ value).wrapping_add(STEP);
    }

    #[inline]
    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_for_ever() {
        let mut seed = Seed::new(0);
        assert_eq!(
            [(); 3].map(|()| seed.bits()),
            [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]
        );
        let mut seed = Seed::new(1_234_567);
        assert_eq!([(); 2].map(|()| seed.bits()), [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn words_digest_as_their_bytes() {
        let (mut words, mut bytes) = (Digest::new(), Digest::new());
        words.write_u32(7);
        words.write_usize(9);
        bytes.write(&[7, 0, 0, 0]);
        bytes.write(&[9, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(words, bytes);
    }
}
