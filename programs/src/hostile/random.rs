//! xorshift64*: the same numbers from the same seed.

/// Where the numbers are.
#[derive(Clone, Copy, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of a seed and of one of its users.
    pub fn new(seed: u64, user: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ user.wrapping_mul(0xbf58_476d_1ce4_e5b9) | 1);
        (0..4).for_each(|_| _ = random.draw());
        random
    }

    /// 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Less than `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        (self.draw() >> 33) % bound.max(1)
    }

    /// Once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of several.
    pub fn one<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}
