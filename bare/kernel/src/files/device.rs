//! The devices that programs find in `/dev`.

use core::sync::atomic::{AtomicU64, Ordering};

use hardware::timer;

use crate::console;

/// A device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Device {
    Null,
    Zero,
    Full,
    Random,
    /// Written to the kernel's console; there is nothing to read.
    Console,
    /// A program's own terminal, which no program has: it cannot be opened.
    Terminal,
}

impl Device {
    /// By its major and minor number, as Linux has them.
    pub(crate) fn find(number: (u32, u32)) -> Option<Self> {
        let all = [Self::Null, Self::Zero, Self::Full, Self::Random, Self::Console, Self::Terminal];
        match number {
            (1, 8 | 9) => Some(Self::Random),
            (4, _) | (204, _) => Some(Self::Console),
            number => all.into_iter().find(|device| device.number() == number),
        }
    }

    /// Its major and minor number.
    pub(crate) fn number(self) -> (u32, u32) {
        match self {
            Self::Null => (1, 3),
            Self::Zero => (1, 5),
            Self::Full => (1, 7),
            Self::Random => (1, 9),
            Self::Console => (5, 1),
            Self::Terminal => (5, 0),
        }
    }

    /// Fills `to`; how many bytes.
    pub(crate) fn read(self, to: &mut [u8]) -> usize {
        match self {
            Self::Null | Self::Console | Self::Terminal => return 0,
            Self::Zero | Self::Full => to.fill(0),
            Self::Random => fill_randomly(to),
        }
        to.len()
    }

    /// Takes `from`, of those that look at it.
    pub(crate) fn write(self, from: &[u8]) {
        if self == Self::Console {
            console::write_bytes(from);
        }
    }
}

/// Numbers that look random (SplitMix64), begun by the counter: for programs that want to differ, not for secrets.
pub(crate) fn fill_randomly(to: &mut [u8]) {
    static STATE: AtomicU64 = AtomicU64::new(0);
    for part in to.chunks_mut(8) {
        let before = STATE.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let mut word = before.wrapping_add(timer::read_counter() << 1 | 1);
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        part.copy_from_slice(&(word ^ word >> 31).to_le_bytes()[..part.len()]);
    }
}
