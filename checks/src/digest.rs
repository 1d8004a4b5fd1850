//! A hasher without hidden state: equal histories have equal digests in every run and on every host.

use std::hash::Hasher;

/// A digest under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Digest(u64);

impl Digest {
    /// The digest of nothing.
    pub(crate) const fn new() -> Self {
        Self(0x243f_6a88_85a3_08d3)
    }
}

impl Default for Digest {
    fn default() -> Self {
        Self::new()
    }
}

const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
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

    fn write_u64(&mut self, value: u64) {
        self.0 = mix(self.0.rotate_left(5) ^ value).wrapping_add(0x9e37_79b9_7f4a_7c15);
    }
}
