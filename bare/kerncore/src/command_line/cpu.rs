//! What is said of one CPU on the command line, for tests.

use core::fmt;

use vmsa::{BbmLevel, PageSize};

/// What replaces a CPU's own ID registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuOverride {
    /// `granules=`: the granules that it has.
    pub granules: Option<PageSizes>,
    /// `bbm=`: its level of FEAT_BBM.
    pub bbm: Option<BbmLevel>,
    /// `pabits=`: bits of its physical addresses.
    pub physical_bits: Option<u32>,
    /// `silent=`: whether it never announces itself, though it runs with its MMU on.
    pub is_silent: Option<bool>,
    /// `deaf=`: whether it waits for a moment, in a check of the boot, without answering calls to park.
    pub is_deaf: Option<bool>,
}

/// A set of granules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageSizes([bool; 3]);

impl PageSizes {
    /// Whether `size` is among them.
    pub fn contains(&self, size: PageSize) -> bool {
        PageSize::ALL.into_iter().zip(self.0).any(|(other, is_in)| is_in && other == size)
    }

    /// With `size` among them.
    pub fn with(self, size: PageSize) -> Self {
        Self(core::array::from_fn(|index| self.0[index] || PageSize::ALL[index] == size))
    }
}

/// `granules 4K and 64K, BBM level 1, 40 bits of physical address`.
impl fmt::Display for CpuOverride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        if let Some(granules) = self.granules {
            write!(f, "granules {granules}")?;
            separator = ", ";
        }
        if let Some(level) = self.bbm {
            write!(f, "{separator}BBM level {level}")?;
            separator = ", ";
        }
        if let Some(bits) = self.physical_bits {
            write!(f, "{separator}{bits} bits of physical address")?;
            separator = ", ";
        }
        if let Some(is_silent) = self.is_silent {
            write!(f, "{separator}{} voice", if is_silent { "no" } else { "a" })?;
            separator = ", ";
        }
        match self.is_deaf {
            Some(true) => write!(f, "{separator}no ear"),
            Some(false) => write!(f, "{separator}an ear"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for PageSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for size in PageSize::ALL.into_iter().filter(|size| self.contains(*size)) {
            write!(f, "{separator}{size}")?;
            separator = " and ";
        }
        Ok(())
    }
}
