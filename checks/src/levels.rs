//! ID_AA64MMFR2_EL1.BBM of the CPUs of a machine, which may differ.

use machine::seed::Seed;
use vmsa::BbmLevel;

/// CPUs that there are at most.
pub const MOST_CPUS: usize = 4;

/// A level for each CPU, 0 to 3.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Levels([u8; MOST_CPUS]);

impl Levels {
    /// Every CPU has this one.
    pub const fn all(level: u8) -> Self {
        Self([level; MOST_CPUS])
    }

    /// Each CPU has its own.
    pub const fn mixed(levels: [u8; MOST_CPUS]) -> Self {
        Self(levels)
    }

    /// Levels drawn from a seed: mixed ones now and then.
    pub fn draw(seed: &mut Seed) -> Self {
        let mut draw = || seed.below(4) as u8;
        let common = draw();
        let mixed = [draw(), draw(), draw(), draw()];
        if seed.one_in(4) { Self(mixed) } else { Self::all(common) }
    }

    /// The level of a CPU.
    pub const fn of(&self, cpu: usize) -> u8 {
        self.0[cpu]
    }

    /// What is said of a CPU.
    pub const fn announced(&self, cpu: usize) -> BbmLevel {
        match self.of(cpu) {
            0 => BbmLevel::Level0,
            1 => BbmLevel::Level1,
            2 => BbmLevel::Level2,
            _ => BbmLevel::Level3,
        }
    }

    /// The level that each of the first `cpus` CPUs has at least.
    pub fn weakest(&self, cpus: usize) -> u8 {
        self.0.iter().take(cpus).copied().min().unwrap_or(0)
    }

    /// `2`, or `3+0` where the first `cpus` CPUs differ.
    pub fn describe(&self, cpus: usize) -> String {
        let levels = &self.0[..cpus];
        if levels.iter().all(|level| *level == levels[0]) {
            return levels[0].to_string();
        }
        levels.iter().map(u8::to_string).collect::<Vec<_>>().join("+")
    }
}
