//! The three kinds of address that a translation regime knows. They never mix: each is a type of its own.

use core::fmt;

/// An address of some kind, in bytes.
pub trait Address: Copy + Ord + fmt::Display + fmt::Debug + From<u64> + Into<u64> {
    /// The address as a number.
    fn bits(self) -> u64 {
        self.into()
    }
}

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(u64);

        impl $name {
            /// The address with the number `bits`.
            pub const fn new(bits: u64) -> Self {
                Self(bits)
            }

            /// The address as a number.
            pub const fn bits(self) -> u64 {
                self.0
            }

            /// Whether the address is a multiple of `size_bytes`, a power of two.
            pub const fn is_aligned(self, size_bytes: u64) -> bool {
                self.0 & (size_bytes - 1) == 0
            }

            /// The nearest multiple of `size_bytes`, a power of two, that is not above the address.
            pub const fn align_down(self, size_bytes: u64) -> Self {
                Self(self.0 & !(size_bytes - 1))
            }

            /// The nearest multiple of `size_bytes`, a power of two, that is not below the address; `None` where that
            /// would need more than 64 bits.
            pub const fn align_up(self, size_bytes: u64) -> Option<Self> {
                match self.0.checked_add(size_bytes - 1) {
                    Some(sum) => Some(Self(sum & !(size_bytes - 1))),
                    None => None,
                }
            }

            /// The address `bytes` further on, or `None` beyond 64 bits.
            pub const fn checked_add(self, bytes: u64) -> Option<Self> {
                match self.0.checked_add(bytes) {
                    Some(sum) => Some(Self(sum)),
                    None => None,
                }
            }
        }

        impl Address for $name {}

        impl From<u64> for $name {
            fn from(bits: u64) -> Self {
                Self(bits)
            }
        }

        impl From<$name> for u64 {
            fn from(address: $name) -> u64 {
                address.0
            }
        }

        impl core::ops::Add<u64> for $name {
            type Output = Self;

            /// Wraps at 2^64, as address arithmetic of the architecture does.
            fn add(self, bytes: u64) -> Self {
                Self(self.0.wrapping_add(bytes))
            }
        }

        impl core::ops::Sub for $name {
            type Output = u64;

            /// The distance in bytes; wraps at 2^64.
            fn sub(self, other: Self) -> u64 {
                self.0.wrapping_sub(other.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#018x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }
    };
}

address! {
    /// A physical address, up to 52 bits.
    PhysAddr
}
address! {
    /// A virtual address: what stage 1 translates. All 64 bits count; bit 55 selects the half (D8.2.5).
    VirtAddr
}
address! {
    /// An intermediate physical address: what stage 1 of a guest produces and stage 2 translates.
    IntermediateAddr
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alignment_rounds_as_named() {
        let address = VirtAddr::new(0x1_2345);
        assert_eq!(address.align_down(0x1000), VirtAddr::new(0x1_2000));
        assert_eq!(address.align_up(0x1000), Some(VirtAddr::new(0x1_3000)));
        assert!(!address.is_aligned(2) && VirtAddr::new(0x1_2000).is_aligned(0x1000));
        assert_eq!(VirtAddr::new(u64::MAX).align_up(0x1000), None);
        assert_eq!(VirtAddr::new(0xffff_ffff_ffff_f000).align_up(0x1000), Some(VirtAddr::new(0xffff_ffff_ffff_f000)));
    }

    #[test]
    fn addresses_print_all_their_digits() {
        extern crate std;
        assert_eq!(std::format!("{}", PhysAddr::new(0x4000_0000)), "0x0000000040000000");
        assert_eq!(std::format!("{:?}", PhysAddr::new(0x4000_0000)), "0x40000000");
    }
}
