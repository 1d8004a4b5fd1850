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
        let mut say = |what: fmt::Arguments<'_>| write!(f, "{}{what}", core::mem::replace(&mut separator, ", "));
        self.granules.map_or(Ok(()), |granules| say(format_args!("granules {granules}")))?;
        self.bbm.map_or(Ok(()), |level| say(format_args!("BBM level {level}")))?;
        self.physical_bits.map_or(Ok(()), |bits| say(format_args!("{bits} bits of physical address")))?;
        for (is_so, no, yes) in [(self.is_silent, "no voice", "a voice"), (self.is_deaf, "no ear", "an ear")] {
            is_so.map_or(Ok(()), |is_so| say(format_args!("{}", if is_so { no } else { yes })))?;
        }
        Ok(())
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
